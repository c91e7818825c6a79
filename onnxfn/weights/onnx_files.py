"""ONNX files: written in chunks, and what is read from them."""

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from attrs import field, frozen

from onnxfn.specs.errors import first_line, shortened
from onnxfn.weights.checkpoint_links import TensorEntry
from onnxfn.weights.names import name_fault


@frozen(eq=False)
class HashedFile:
    """A file that is written. Another thread computes the SHA-256 of a chunk while this one writes it."""

    file: BinaryIO
    pool: ThreadPoolExecutor
    digest: Any = field(factory=sha256)

    def write(self, chunk: Any) -> None:
        """Writes a chunk: bytes, or an array."""
        hashed = self.pool.submit(self.digest.update, chunk)
        self.file.write(chunk)
        hashed.result()

    def sha256(self) -> str:
        """The SHA-256 of what was written, in hexadecimal digits."""
        return str(self.digest.hexdigest())


@contextmanager
def hashed_file(path: Path) -> Iterator[HashedFile]:
    """A context with a new file at a path. An existing file there, which may be a hard link, is removed first."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file, ThreadPoolExecutor(1) as pool:
        yield HashedFile(file, pool)


RawData = tuple[int, Iterable[Any]]
"""The number of bytes, and the chunks that they come in."""

VARINT, LENGTH_DELIMITED = 0, 2
"""Protobuf's wire types of numbers, and of bytes and nested messages ("Protocol Buffers, Encoding")."""

SEVEN_BITS, VARINT_BYTES = 0x7F, 10
"""The bits of a number in each byte of a varint, and the most bytes of one."""


def write_model(proto: Any, file: BinaryIO | HashedFile, raw_data: Mapping[str, RawData]) -> None:
    """Writes a ModelProto to a file and clears it; `raw_data` replaces the data of the initializers that it names.

    Fields of a message may come in any order: graph, initializers and their raw data are the last of their messages.
    """
    from onnx import ModelProto

    initializers = [_initializer(tensor, raw_data.get(tensor.name)) for tensor in proto.graph.initializer]
    del proto.graph.initializer[:]
    graph = proto.graph.SerializeToString(deterministic=True)
    proto.ClearField("graph")
    graph_bytes = len(graph) + sum(len(head) + length for head, (length, _) in initializers)
    file.write(proto.SerializeToString(deterministic=True))
    file.write(field_header(ModelProto.GRAPH_FIELD_NUMBER, graph_bytes) + graph)
    for head, (_, chunks) in initializers:
        file.write(head)
        for chunk in chunks:
            file.write(chunk)


def field_header(number: int, length: int) -> bytes:
    """The bytes before the content of a length-delimited field: its number, its wire type and its length."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(length)


def varint(number: int) -> bytes:
    """A number as a protobuf varint: seven bits a byte, the lowest first; the eighth bit is set if more follow."""
    lowest, rest = number & SEVEN_BITS, number >> 7
    return bytes([lowest | ~SEVEN_BITS & 0xFF]) + varint(rest) if rest else bytes([lowest])


def _initializer(tensor: Any, raw_data: RawData | None) -> tuple[bytes, RawData]:
    """The bytes of an initializer field before its raw data, and the raw data; without any, the whole field."""
    from onnx import GraphProto, TensorProto

    if raw_data is not None:
        for name in ("data_location", "external_data", "raw_data"):
            tensor.ClearField(name)
    head = tensor.SerializeToString(deterministic=True)
    if raw_data is not None:
        head += field_header(TensorProto.RAW_DATA_FIELD_NUMBER, raw_data[0])
    length, chunks = raw_data or (0, ())
    return field_header(GraphProto.INITIALIZER_FIELD_NUMBER, len(head) + length) + head, (length, chunks)


FIXED_SIZES = MappingProxyType({1: 8, 5: 4})
"""The bytes of a field of the wire types of 64 and of 32 bits."""

Span = tuple[int, int]
"""The start and the end of a field, or of its content, in a file."""


def written_by_onnxfn(file: Path) -> bool:
    """Whether an ONNX file is as `write_model` wrote it: another program would write the graph before the opset."""
    from onnx import ModelProto

    with suppress(OSError, ValueError), _content(file) as data:
        fields = {number: content for number, _, content in _fields(data, (0, len(data)))}
        producer = fields.get(ModelProto.PRODUCER_NAME_FIELD_NUMBER, (0, 0))
        return data[slice(*producer)] == b"onnxfn" and list(fields)[-1] == ModelProto.GRAPH_FIELD_NUMBER
    return False


LAYERS = "onnxfn.layers"
"""The domain of the functions that stand for layers."""


def parsed_model(content: Any) -> Any:
    """The `onnx.ModelProto` of an ONNX file, with the nodes of its layers in place of calls."""
    from onnx import ModelProto, inliner

    model = ModelProto.FromString(content)
    calls = [(each.domain, each.name) for each in model.functions if each.domain == LAYERS]
    return inliner.inline_selected_functions(model, calls) if calls else model


def onnx_model(file: Path) -> Any:
    """The `onnx.ModelProto` of an ONNX file, whose raw data is external data of the file; ValueError if it is none."""
    from google.protobuf.message import DecodeError

    try:
        return parsed_model(with_weights_in_place(file, least=0))
    except DecodeError as error:
        raise ValueError(first_line(error)) from error


def metadata(file: Path) -> dict[str, str]:
    """The metadata of an ONNX file; empty if it is not an ONNX file."""
    with suppress(OSError, ValueError):
        return {entry.key: entry.value for entry in onnx_model(file).metadata_props}
    return {}


def stored_tensors(file: Path) -> tuple[TensorEntry, ...]:
    """The initializers of an ONNX file with bytes in the file or in external data; ValueError for another file.

    An initializer with a list of numbers, such as `float_data`, is left out. ValueError also for external data that
    is not to be opened.
    """
    from onnx import TensorProto

    tensors = [tensor for tensor in onnx_model(file).graph.initializer if tensor.external_data]
    stored = [{entry.key: entry.value for entry in tensor.external_data} for tensor in tensors]
    if fault := _name_fault(file, {entries.get("location", "") for entries in stored}):
        raise ValueError(fault)
    return tuple(
        TensorEntry(
            tensor.name,
            TensorProto.DataType.Name(tensor.data_type),
            file.parent / entries["location"],
            int(entries.get("offset", 0)),
            int(entries.get("length", 0)),
            tuple(tensor.dims),
        )
        for tensor, entries in zip(tensors, stored, strict=True)
    )


def numbered_tensors(file: Path) -> dict[str, Any]:
    """The arrays of the initializers that have their numbers one by one, as `float_data`, by name."""
    from onnx import numpy_helper

    tensors = (tensor for tensor in onnx_model(file).graph.initializer if not tensor.external_data)
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


def external_data_names(file: Path) -> frozenset[str]:
    """The names of the other files that hold initializers of an ONNX file; none if it is not an ONNX file."""
    try:
        tensors = onnx_model(file).graph.initializer
    except (OSError, ValueError):
        return frozenset()
    names = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    return frozenset(names - {file.name})


def data_fault(file: Path) -> str | None:
    """Why the external data of an ONNX file is not opened: a name of it leads out of the folder; None if it is."""
    return _name_fault(file, external_data_names(file))


def _name_fault(file: Path, names: Iterable[str]) -> str | None:
    faults = ((name, name_fault(name, file.parent)) for name in sorted(names))
    return next((f"it has external data {shortened(name)}, which {fault}" for name, fault in faults if fault), None)


def graph_nodes(file: Path) -> tuple[Any, ...]:
    """The nodes of an ONNX file, each an `onnx.NodeProto`, also those in branches; ValueError for another file."""
    return tuple(node for graph in with_inner_graphs(onnx_model(file).graph) for node in graph.node)


def with_inner_graphs(graph: Any) -> Iterator[Any]:
    """A graph, and those inside its nodes, each after the one that it is in: branches of an If, bodies of loops."""
    yield graph
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield from with_inner_graphs(inner)


def mentions(file: Path, text: str) -> bool:
    """Whether a text occurs anywhere in a file."""
    with suppress(OSError, ValueError), _content(file) as data:
        return data.find(text.encode()) >= 0
    return False


def with_weights_in_place(file: Path, least: int) -> bytes:
    """An ONNX file with weights of at least `least` bytes as external data: their bytes in the file itself.

    A program that maps external data into memory then copies none of them.
    """
    from onnx import GraphProto, ModelProto

    path = (ModelProto.GRAPH_FIELD_NUMBER, GraphProto.INITIALIZER_FIELD_NUMBER)
    with _content(file) as data:
        return b"".join(_replaced(data, (0, len(data)), path, partial(_in_place, data, file.name, least)))


def _in_place(data: mmap.mmap, name: str, least: int, span: Span) -> bytes:
    """The TensorProto in a span of a file. Raw data of at least `least` bytes becomes external data in that file."""
    from onnx import TensorProto

    fields = list(_fields(data, span))
    raw = next((content for number, _, content in fields if number == TensorProto.RAW_DATA_FIELD_NUMBER), None)
    if raw is None or raw[1] - raw[0] < least:
        return data[slice(*span)]
    others = (data[slice(*whole)] for number, whole, _ in fields if number != TensorProto.RAW_DATA_FIELD_NUMBER)
    tensor = TensorProto.FromString(b"".join(others))
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", name), ("offset", raw[0]), ("length", raw[1] - raw[0])):
        tensor.external_data.add(key=key, value=str(value))
    content: bytes = tensor.SerializeToString()
    return content


def _replaced(data: mmap.mmap, span: Span, path: Sequence[int], content: Callable[[Span], bytes]) -> Iterator[bytes]:
    """The fields of a message; those that a path of field numbers leads to have other content."""
    number, *rest = path
    for key, whole, inner in _fields(data, span):
        if key == number:
            new = b"".join(_replaced(data, inner, rest, content)) if rest else content(inner)
            yield field_header(number, len(new)) + new
        else:
            yield data[slice(*whole)]


@contextmanager
def _content(file: Path) -> Iterator[mmap.mmap]:
    if file.exists() and not file.is_file():
        raise ValueError("it is not a regular file")
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _fields(data: mmap.mmap, span: Span) -> Iterator[tuple[int, Span, Span]]:
    """The number, the span and the content of each field of a message; ValueError if it is not a message."""
    position, end = span
    while position < end:
        tag, start = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            stop = _varint(data, start)[1]
        elif wire_type == LENGTH_DELIMITED:
            length, start = _varint(data, start)
            stop = start + length
        elif wire_type in FIXED_SIZES:
            stop = start + FIXED_SIZES[wire_type]
        else:
            raise ValueError(f"no wire type {wire_type}")
        if stop > end:
            raise ValueError(f"field {number} ends at {stop}, after its message")
        yield number, (position, stop), (start, stop)
        position = stop


def _varint(data: mmap.mmap, start: int) -> tuple[int, int]:
    """A number in the seven low bits of each byte, the least significant first; and where it ends."""
    number = 0
    for index, byte in enumerate(data[start : start + VARINT_BYTES]):
        number |= (byte & SEVEN_BITS) << 7 * index
        if byte <= SEVEN_BITS:
            return number, start + index + 1
    raise ValueError(f"no number at {start}")
