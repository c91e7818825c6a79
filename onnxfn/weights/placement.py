"""The place of each weight of a graph; writes a graph and its external data."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.specs.errors import CaptureFailed, first_line, root_cause
from onnxfn.specs.stored.reports import Tick, no_tick
from onnxfn.weights.checkpoint_links import TensorEntry, entries_by_bytes
from onnxfn.weights.chunks import chunks, counted, memory_key
from onnxfn.weights.digests import DIGESTS_KEY, write_with_digest
from onnxfn.weights.onnx_files import hashed_file, write_model

PROTOBUF_LIMIT = (1 << 31) - (1 << 26)
"""Bytes of weights that one ONNX file may hold: protobuf's 2 GiB less 64 MiB for the rest of the graph."""

MIN_EXTERNAL_BYTES = 1024
"""Smaller weights are always stored in the ONNX file. ONNX Runtime reads some of them while it loads the graph."""

PAGE_BYTES, CACHE_LINE_BYTES = 4096, 64
"""Alignment in a file of external data of weights of a page or more, to be used memory-mapped, and of smaller ones."""

MIN_SHARED_BYTES = 1 << 16
"""Weights of at least this size are stored once if several graphs use them."""


@frozen
class Placement:
    """The place of a weight's bytes: external data `file`, or None; `source`: the checkpoint's file of the link."""

    file: str | None
    offset: int
    length: int
    source: Path | None = None


SharedPlacements = Mapping[Any, Placement]
"""From the `memory_key` of each weight that several graphs use to its placement."""


def weight_placements(
    model: Any,
    data_file: str,
    *,
    threshold: int = PROTOBUF_LIMIT,
    entries: Sequence[TensorEntry] = (),
    shared: SharedPlacements = MappingProxyType({}),
    tick: Tick = no_tick,
) -> dict[str, Placement]:
    """From the name of each weight of at least `MIN_EXTERNAL_BYTES` to its placement; equal weights share one."""
    # It is that of `shared`, an equal entry of the checkpoint, or by `threshold` the ONNX file or `data_file`.
    large = _large_weights(model)
    linked = {
        name: Placement(entry.file.name, entry.offset, entry.length, entry.file)
        for name, entry in entries_by_bytes(large, entries, tick).items()
    }
    with_others = {name: shared[key] for name, tensor in large.items() if (key := memory_key(tensor)) in shared}
    elsewhere = {**with_others, **linked}
    own = {name: tensor for name, tensor in large.items() if name not in elsewhere}
    if weight_bytes(model) <= min(threshold, PROTOBUF_LIMIT):
        return elsewhere | {name: Placement(None, 0, tensor.nbytes) for name, tensor in own.items()}
    ends = (placement.offset + placement.length for placement in shared.values() if placement.file == data_file)
    return elsewhere | _external_placements(own, data_file, max(ends, default=0))


def shared_placements(models: Sequence[Any], data_files: Sequence[str]) -> SharedPlacements:
    """Placements of the weights of at least `MIN_SHARED_BYTES` that several graphs use: in the file of the first."""
    weights = [
        {memory_key(tensor): tensor for tensor in _large_weights(model).values() if tensor.nbytes >= MIN_SHARED_BYTES}
        for model in models
    ]
    users = Counter(key for tensors in weights for key in tensors if key is not None)
    shared: dict[Any, Placement] = {}
    for tensors, file in zip(weights, data_files, strict=True):
        first_used = {key: tensor for key, tensor in tensors.items() if users[key] > 1 and key not in shared}
        shared |= _external_placements(first_used, file)
    return shared


def write_graph(
    model: Any,
    path: Path,
    placements: Mapping[str, Placement],
    digests: Mapping[str, str] = MappingProxyType({}),
    tick: Tick = no_tick,
) -> str:
    """Writes an ONNX file and references to external data; returns its SHA-256. CaptureFailed if onnx refuses it."""
    proto = _proto_with_external_data(model, placements)
    files = {placement.file for placement in placements.values()}
    stated = {file: digest for file, digest in digests.items() if file in files}
    if stated:
        proto.metadata_props.add(key=DIGESTS_KEY, value=json.dumps(stated, sort_keys=True))
    tick()
    _check_graph(proto, path.name)
    large = _large_weights(model)
    names = [name for name, placement in placements.items() if placement.file is None]
    ends = [0, *accumulate(placements[name].length for name in names)]
    inside = {
        name: (placements[name].length, counted(chunks(large[name]), tick, before, ends[-1]))
        for name, before in zip(names, ends, strict=False)
    }
    with hashed_file(path) as file:
        write_model(proto, file, inside)
        return file.sha256()


def write_external_data(
    model: Any, path: Path, placements: Mapping[str, Placement], tick: Tick = no_tick
) -> tuple[str, str] | None:
    """Writes the external data file at `path`; returns what `write_with_digest` does. None if it has no weight."""
    large = _large_weights(model)
    own = {name: each.offset for name, each in placements.items() if each.file == path.name and each.source is None}
    if not own:
        return None
    tensors = {own[name]: large[name] for name in sorted(own, key=own.__getitem__)}
    total = max(offset + tensor.nbytes for offset, tensor in tensors.items())
    with hashed_file(path) as file:
        return write_with_digest(file, counted(_padded(tensors), tick, 0, total))


def _padded(tensors: Mapping[int, Any]) -> Iterator[Any]:
    """The bytes of tensors in chunks, with zeros up to the offset of each tensor."""
    end = 0
    for offset, tensor in tensors.items():
        yield bytes(offset - end)
        yield from chunks(tensor)
        end = offset + tensor.nbytes


def weight_bytes(model: Any) -> int:
    """Bytes of all weights of a graph."""
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def _large_weights(model: Any) -> dict[str, Any]:
    """The numeric initializers of at least `MIN_EXTERNAL_BYTES`."""
    tensors = {name: value.const_value for name, value in model.graph.initializers.items()}
    return {
        name: tensor
        for name, tensor in tensors.items()
        if tensor is not None and tensor.nbytes >= MIN_EXTERNAL_BYTES and tensor.dtype.name != "STRING"
    }


def _external_placements(tensors: Mapping[Any, Any], file: str, end: int = 0) -> dict[Any, Placement]:
    """Placements in an external data file from `end`, of weights of a page or more first; the same memory once."""
    by_memory: dict[Any, Placement] = {}
    placements: dict[Any, Placement] = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].nbytes < PAGE_BYTES):
        key = memory_key(tensor) or name
        if key not in by_memory:
            alignment = PAGE_BYTES if tensor.nbytes >= PAGE_BYTES else CACHE_LINE_BYTES
            offset = -(-end // alignment) * alignment
            by_memory[key] = Placement(file, offset, tensor.nbytes)
            end = offset + tensor.nbytes
        placements[name] = by_memory[key]
    return placements


def _proto_with_external_data(model: Any, placements: Mapping[str, Placement]) -> Any:
    """The ModelProto of a graph, with references to external data for the weights in `placements`."""
    import onnx_ir

    values = {name: model.graph.initializers[name] for name in placements}
    tensors = {name: value.const_value for name, value in values.items()}
    try:
        for name, placement in placements.items():
            where, tensor = (placement.file or "", placement.offset, placement.length), tensors[name]
            values[name].const_value = onnx_ir.ExternalTensor(*where, tensor.dtype, shape=tensor.shape, name=name)
        proto = onnx_ir.to_proto(model)
    except onnx_ir.serde.SerdeError as error:  # small weights are read here: the cause may be an error of onnxfn
        raise root_cause(error) from None
    finally:
        for name, value in values.items():
            value.const_value = tensors[name]
    stored = {tensor.name for tensor in proto.graph.initializer}  # their types are said there
    del proto.graph.value_info[: sum(each.name in stored for each in proto.graph.value_info)]
    return proto


def _check_graph(proto: Any, name: str) -> None:
    """Runs `onnx.checker` on a copy whose external data are inputs, since it needs files and refuses hard links."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    ports = {port.name for port in copy.graph.input}
    del copy.graph.initializer[:]
    for tensor in proto.graph.initializer:
        if not tensor.external_data:
            copy.graph.initializer.append(tensor)
        elif tensor.name not in ports:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    try:
        onnx.checker.check_model(copy)
    except onnx.checker.ValidationError as error:
        raise CaptureFailed(f"{name} is not a valid ONNX file: {first_line(error)}") from error
