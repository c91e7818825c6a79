"""Write: a graph and its weights -> files, which appear whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.specs.errors import CaptureFailed, InvalidSpec, first_line
from onnxfn.weights.checkpoint_links import entries_by_bytes
from onnxfn.weights.chunks import chunks, memory_key
from onnxfn.weights.protobuf import write_model
from onnxfn.weights.safetensors import TensorEntry

EXTERNAL_DATA_SUFFIX = ".onnx_data"
PROTOBUF_LIMIT = (1 << 31) - (1 << 26)
"""Bytes of weights that a single ONNX file may hold: protobuf's 2 GiB less room for the graph."""

MIN_EXTERNAL_BYTES = 1024
"""Bytes below which a weight always stands in the ONNX file, where it is looked at while a graph is loaded."""

PAGE_BYTES, CACHE_LINE_BYTES = 4096, 64
"""What the places of large and of other weights in a sidecar are multiples of, to be used where they lie."""

MIN_PAGE_ALIGNED_BYTES = 1 << 20

MIN_SHARED_BYTES = 1 << 16
"""Bytes from which a weight that several files read lies beside them once."""


@frozen
class Placement:
    """Where the bytes of a weight lie: in a file beside the ONNX file, which `source` is linked to, or inside it."""

    file: str | None
    offset: int
    length: int
    source: Path | None = None


SharedPlacements = Mapping[Any, Placement]
"""Weights that several graphs read: the memory that they look at -> where they lie."""

NO_SHARED_PLACEMENTS: SharedPlacements = MappingProxyType({})


@contextmanager
def staging_folder(beside: Path) -> Iterator[Path]:
    """A fresh folder beside the place that is written to, on its file system; gone on leaving, whatever happens."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{beside.name}.", dir=beside.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def placements(
    model: Any,
    stem: str,
    *,
    threshold: int = PROTOBUF_LIMIT,
    suffix: str = EXTERNAL_DATA_SUFFIX,
    entries: Sequence[TensorEntry] = (),
    shared: SharedPlacements = NO_SHARED_PLACEMENTS,
) -> dict[str, Placement]:
    """Where each weight that is not small goes: into a file of the checkpoint that holds it, or with all the others.

    What is `common` to several graphs has its place already. The others stand in the ONNX file if all weights are at
    most `threshold` bytes, else in one file, named stem + `sidecar`, a tensor once. The places depend on nothing but
    the sizes of the weights and on which of them are one.
    """
    own = f"{stem}{suffix}"
    if own in {one.file.name for one in entries}:
        raise InvalidSpec(f"{own} is a file of the checkpoint; name the sidecar otherwise than {suffix!r}")
    large = _external_tensors(model)
    linked = {
        name: Placement(one.file.name, one.offset, one.length, one.file)
        for name, one in entries_by_bytes(large, entries).items()
    }
    several = {name: shared[key] for name, tensor in large.items() if (key := memory_key(tensor)) in shared}
    elsewhere = {**several, **linked}
    rest = {name: tensor for name, tensor in large.items() if name not in elsewhere}
    inside = weight_bytes(model) <= min(threshold, PROTOBUF_LIMIT)
    end = max((one.offset + one.length for one in shared.values() if one.file == own), default=0)
    return elsewhere | (_inside_placements(rest) if inside else _external_placements(rest, own, end))


def write_graph(model: Any, path: Path, places: Mapping[str, Placement]) -> Path:
    """Write a graph, with the weights that stand in it and pointers to the others.

    The graph passes `onnx.checker`, which sees no bytes of weights; CaptureFailed when it does not.
    """
    proto = _proto_with_external_data(model, places)
    _check_onnx(proto, path)
    large = _external_tensors(model)
    inside = {name: (one.length, chunks(large[name])) for name, one in places.items() if one.file is None}
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        write_model(proto, file, inside)
    return path


def shared_placements(models: Sequence[Any], sidecars: Sequence[str]) -> SharedPlacements:
    """The weights that several graphs read, unless they are small: each lies in the sidecar of the first of them."""
    tensors = [
        {
            memory_key(tensor): tensor
            for tensor in _external_tensors(model).values()
            if tensor.nbytes >= MIN_SHARED_BYTES
        }
        for model in models
    ]
    often = Counter(key for one in tensors for key in one if key is not None)
    places: dict[Any, Placement] = {}
    for its, file in zip(tensors, sidecars, strict=True):
        first = {key: tensor for key, tensor in its.items() if often[key] > 1 and key not in places}
        places |= _external_placements(first, file)
    return places


def write_external_data(model: Any, path: Path, places: Mapping[str, Placement]) -> tuple[Path, ...]:
    """Write the sidecar that is at `path`, if places are in it."""
    large = _external_tensors(model)
    stored = {one.offset: name for name, one in places.items() if one.file == path.name and one.source is None}
    if not stored:
        return ()
    path.unlink(missing_ok=True)  # never into a file that is linked to
    with path.open("wb") as file:
        for offset, name in stored.items():
            file.seek(offset)
            file.writelines(chunks(large[name]))
    return (path,)


def weight_bytes(model: Any) -> int:
    """Bytes of all weights of a graph."""
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def publish(files: tuple[Path, ...], bench: Path, folder: Path) -> tuple[Path, ...]:
    """Put finished files where they are to be, as they lie in `bench`, each by one rename; the new places."""
    there = tuple(folder / file.relative_to(bench) for file in files)
    for file, place in zip(files, there, strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)
    return there


def _external_tensors(model: Any) -> dict[str, Any]:
    tensors = {name: value.const_value for name, value in model.graph.initializers.items()}
    return {
        name: one
        for name, one in tensors.items()
        if one is not None and one.nbytes >= MIN_EXTERNAL_BYTES and _is_numeric(one)
    }


def _is_numeric(tensor: Any) -> bool:
    return bool(tensor.dtype.name != "STRING")


def _inside_placements(tensors: Mapping[str, Any]) -> dict[str, Placement]:
    return {name: Placement(None, 0, tensor.nbytes) for name, tensor in tensors.items()}


def _external_placements(tensors: Mapping[Any, Any], file: str, end: int = 0) -> dict[Any, Placement]:
    first: dict[Any, Placement] = {}
    places: dict[Any, Placement] = {}
    for name, tensor in tensors.items():
        key = memory_key(tensor) or name
        if key not in first:
            multiple = PAGE_BYTES if tensor.nbytes >= MIN_PAGE_ALIGNED_BYTES else CACHE_LINE_BYTES
            offset = -(-end // multiple) * multiple
            first[key] = Placement(file, offset, tensor.nbytes)
            end = offset + tensor.nbytes
        places[name] = first[key]
    return places


def _proto_with_external_data(model: Any, places: Mapping[str, Placement]) -> Any:
    """The ModelProto of a graph whose weights are in their places; the graph is left as it was."""
    import onnx_ir

    values = {name: model.graph.initializers[name] for name in places}
    tensors = {name: value.const_value for name, value in values.items()}
    try:
        for name, one in places.items():
            values[name].const_value = onnx_ir.ExternalTensor(
                one.file or "", one.offset, one.length, tensors[name].dtype, shape=tensors[name].shape, name=name
            )
        return onnx_ir.to_proto(model)
    finally:
        for name, value in values.items():
            value.const_value = tensors[name]


def _check_onnx(proto: Any, path: Path) -> None:
    """Ask `onnx.checker`, of a copy whose weights all seem to lie in one empty file beside it.

    It looks at no weight that is in another file; of one that is a hard link it would not hear.
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        stand_in = Path(folder, "weights")
        stand_in.touch()
        for tensor in copy.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = stand_in.name
        graph = Path(folder, path.name)
        graph.write_bytes(copy.SerializeToString())
        try:
            onnx.checker.check_model(str(graph))
        except onnx.checker.ValidationError as problem:
            raise CaptureFailed(f"{path.name} is no valid ONNX: {first_line(problem)}") from problem
