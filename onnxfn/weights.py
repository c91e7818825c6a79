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

from onnxfn.checkpoints import Entry
from onnxfn.errors import CaptureFailed, InvalidSpec
from onnxfn.linking import found
from onnxfn.messages import write_model
from onnxfn.streaming import chunks, memory

SIDECAR = ".onnx_data"
LARGEST_MESSAGE = (1 << 31) - (1 << 26)
"""Bytes of weights that a single ONNX file may hold: protobuf's 2 GiB less room for the graph."""

SMALL = 1024
"""Bytes below which a weight always stands in the ONNX file, where it is looked at while a graph is loaded."""

PAGE, LINE = 4096, 64
"""What the places of large and of other weights in a sidecar are multiples of, to be used where they lie."""

LARGE = 1 << 20


@frozen
class Place:
    """Where the bytes of a weight lie: in a file beside the ONNX file, which `source` is linked to, or inside it."""

    file: str | None
    offset: int
    length: int
    source: Path | None = None


Common = Mapping[Any, tuple[Place, Any]]
"""Weights that several graphs read: the memory that they look at -> where they lie, and the tensor."""

NOTHING: Common = MappingProxyType({})


@contextmanager
def workshop(beside: Path) -> Iterator[Path]:
    """A fresh folder beside the place that is written to, on its file system; gone on leaving, whatever happens."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{beside.name}.", dir=beside.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def layout(
    model: Any,
    stem: str,
    *,
    threshold: int = LARGEST_MESSAGE,
    sidecar: str = SIDECAR,
    entries: Sequence[Entry] = (),
    common: Common = NOTHING,
) -> dict[str, Place]:
    """Where each weight that is not small goes: into a file of the checkpoint that holds it, or with all the others.

    What is `common` to several graphs has its place already. The others stand in the ONNX file if all weights are at
    most `threshold` bytes, else in one file, named stem + `sidecar`, a tensor once. The places depend on nothing but
    the sizes of the weights and on which of them are one.
    """
    if f"{stem}{sidecar}" in {one.file.name for one in entries}:
        raise InvalidSpec(f"{stem}{sidecar} is a file of the checkpoint; name the sidecar otherwise than {sidecar!r}")
    large = _large(model)
    linked = {
        name: Place(one.file.name, one.offset, one.length, one.file) for name, one in found(large, entries).items()
    }
    placed = {name: common[key][0] for name, tensor in large.items() if (key := memory(tensor)) in common}
    linked |= {name: one for name, one in placed.items() if name not in linked}
    rest = {name: tensor for name, tensor in large.items() if name not in linked}
    inside = weight_bytes(model) <= min(threshold, LARGEST_MESSAGE)
    return linked | (_inside(rest) if inside else _in_sidecar(rest, f"{stem}{sidecar}"))


def write(model: Any, path: Path, places: Mapping[str, Place]) -> Path:
    """Write a graph, with the weights that stand in it and pointers to the others.

    The graph passes `onnx.checker`, which sees no bytes of weights; CaptureFailed when it does not.
    """
    proto = _pointing(model, places)
    _valid(proto, path)
    large = _large(model)
    inside = {name: (one.length, chunks(large[name])) for name, one in places.items() if one.file is None}
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        write_model(proto, file, inside)
    return path


def common(models: Sequence[Any], file: str) -> Common:
    """The large weights that several graphs read, and their places in one file, by the memory that they look at."""
    tensors = [{memory(tensor): tensor for tensor in _large(model).values() if _is_large(tensor)} for model in models]
    often = Counter(key for one in tensors for key in one if key is not None)
    several = {key: tensor for one in tensors for key, tensor in one.items() if often[key] > 1}
    places = _in_sidecar({str(index): tensor for index, tensor in enumerate(several.values())}, file)
    return {key: (places[str(index)], tensor) for index, (key, tensor) in enumerate(several.items())}


def store_common(shared: Common, folder: Path) -> tuple[Path, ...]:
    """Write the file of what several graphs read, if they do."""
    named = {str(index): found for index, found in enumerate(shared.values())}
    tensors = {name: tensor for name, (_, tensor) in named.items()}
    return _stored(tensors, folder, {name: place for name, (place, _) in named.items()})


def store(model: Any, folder: Path, places: Mapping[str, Place], shared: Common = NOTHING) -> tuple[Path, ...]:
    """Write the sidecar that a layout speaks of, if it does; what is common to several graphs is written apart."""
    apart = {place.file for place, _ in shared.values()}
    return _stored(_large(model), folder, {name: one for name, one in places.items() if one.file not in apart})


def _is_large(tensor: Any) -> bool:
    return bool(tensor.nbytes >= LARGE)


def _stored(large: Mapping[str, Any], folder: Path, places: Mapping[str, Place]) -> tuple[Path, ...]:
    stored = {(one.file, one.offset): name for name, one in places.items() if one.file and one.source is None}
    files = tuple(folder / file for file in dict.fromkeys(file for file, _ in stored))
    for path in files:
        path.unlink(missing_ok=True)  # never into a file that is linked to
        with path.open("wb") as file:
            for (where, offset), name in stored.items():
                if where != path.name:
                    continue
                file.seek(offset)
                file.writelines(chunks(large[name]))
    return files


def weight_bytes(model: Any) -> int:
    """Bytes of all weights of a graph."""
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def moved(files: tuple[Path, ...], folder: Path) -> tuple[Path, ...]:
    """Put finished files in their place, each by one rename; the new places."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        file.replace(folder / file.name)
    return tuple(folder / file.name for file in files)


def _large(model: Any) -> dict[str, Any]:
    tensors = {name: value.const_value for name, value in model.graph.initializers.items()}
    return {name: one for name, one in tensors.items() if one is not None and one.nbytes >= SMALL and _numeric(one)}


def _numeric(tensor: Any) -> bool:
    return bool(tensor.dtype.name != "STRING")


def _inside(tensors: Mapping[str, Any]) -> dict[str, Place]:
    return {name: Place(None, 0, tensor.nbytes) for name, tensor in tensors.items()}


def _in_sidecar(tensors: Mapping[str, Any], file: str) -> dict[str, Place]:
    first: dict[Any, Place] = {}
    places: dict[str, Place] = {}
    end = 0
    for name, tensor in tensors.items():
        key = memory(tensor) or name
        if key not in first:
            multiple = PAGE if tensor.nbytes >= LARGE else LINE
            offset = -(-end // multiple) * multiple
            first[key] = Place(file, offset, tensor.nbytes)
            end = offset + tensor.nbytes
        places[name] = first[key]
    return places


def _pointing(model: Any, places: Mapping[str, Place]) -> Any:
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


def _valid(proto: Any, path: Path) -> None:
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
            raise CaptureFailed(f"{path.name} is no valid ONNX: {str(problem).splitlines()[0]}") from problem
