"""Writes a ModelProto whose raw data comes in chunks, and computes the SHA-256 of the file meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from attrs import field, frozen


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
    """A context with a new file at a path, in place of any that was there, which may be a hard link."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file, ThreadPoolExecutor(1) as pool:
        yield HashedFile(file, pool)


RawData = tuple[int, Iterable[Any]]
"""The number of bytes, and the chunks that they come in."""

LENGTH_DELIMITED = 2
"""Protobuf's wire type of bytes and of nested messages."""

SEVEN_BITS = 0x7F


def write_model(proto: Any, file: BinaryIO | HashedFile, raw_data: Mapping[str, RawData]) -> None:
    """Writes a ModelProto to a file; `raw_data` replaces the data of the initializers that it names.

    Clears `proto`. The fields of a protobuf message may come in any order. Here the graph is the last field of the
    model, the initializers are the last fields of the graph, and raw data is the last field of an initializer.
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
    r"""The bytes before the content of a length-delimited field: its number, its wire type and its length.

    >>> field_header(7, 300)
    b':\xac\x02'
    """
    return varint(number << 3 | LENGTH_DELIMITED) + varint(length)


def varint(number: int) -> bytes:
    r"""A number as a protobuf varint: seven bits in each byte, the lowest first; the eighth bit is set if more follow.

    >>> varint(300)
    b'\xac\x02'
    """
    encoded = bytearray()
    while number > SEVEN_BITS:
        encoded.append(number & SEVEN_BITS | ~SEVEN_BITS & 0xFF)
        number >>= 7
    return bytes((*encoded, number))


def _initializer(tensor: Any, raw_data: RawData | None) -> tuple[bytes, RawData]:
    """The bytes of an initializer field before its raw data, and the raw data.

    Without `raw_data` these bytes are the whole field.
    """
    from onnx import GraphProto, TensorProto

    if raw_data is not None:
        for name in ("data_location", "external_data", "raw_data"):
            tensor.ClearField(name)
    head = tensor.SerializeToString(deterministic=True)
    if raw_data is not None:
        head += field_header(TensorProto.RAW_DATA_FIELD_NUMBER, raw_data[0])
    length, chunks = raw_data or (0, ())
    return field_header(GraphProto.INITIALIZER_FIELD_NUMBER, len(head) + length) + head, (length, chunks)
