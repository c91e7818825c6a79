"""A ModelProto as bytes, with raw data that is never in memory whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

Raw = tuple[int, Iterable[Any]]
"""How many bytes, and the chunks that they come in."""

LENGTH_DELIMITED = 2
"""Protobuf's wire type of bytes, and of messages in messages."""

SEVEN_BITS = 0x7F


def write_model(proto: Any, file: BinaryIO, raw: Mapping[str, Raw]) -> None:
    """Write a ModelProto; the initializers named in `raw` get that raw data, whatever they held. Uses the model up.

    The fields of a protobuf message may come in any order: here the graph is the model's last, its initializers are
    the graph's last, and the raw data is theirs.
    """
    from onnx import ModelProto

    initializers = [_initializer(one, raw.get(one.name)) for one in proto.graph.initializer]
    del proto.graph.initializer[:]
    graph = proto.graph.SerializeToString(deterministic=True)
    proto.ClearField("graph")
    whole = len(graph) + sum(len(head) + length for head, (length, _) in initializers)
    file.write(proto.SerializeToString(deterministic=True))
    file.write(field_header(ModelProto.GRAPH_FIELD_NUMBER, whole) + graph)
    for head, (_, chunks) in initializers:
        file.write(head)
        file.writelines(chunks)


def field_header(number: int, length: int) -> bytes:
    r"""What stands before the bytes of a field: its number, that it has a length, and the length.

    >>> field(7, 300)
    b':\xac\x02'
    """
    return varint(number << 3 | LENGTH_DELIMITED) + varint(length)


def varint(number: int) -> bytes:
    r"""A number as protobuf writes it: seven bits a byte, the least first, and the eighth bit says that more follow.

    >>> varint(300)
    b'\xac\x02'
    """
    made = bytearray()
    while number > SEVEN_BITS:
        made.append(number & SEVEN_BITS | ~SEVEN_BITS & 0xFF)
        number >>= 7
    return bytes((*made, number))


def _initializer(tensor: Any, raw: Raw | None) -> tuple[bytes, Raw]:
    """The bytes of an initializer up to its raw data, which is that of the message itself where none is given."""
    from onnx import GraphProto, TensorProto

    if raw is not None:
        for taken in ("data_location", "external_data", "raw_data"):
            tensor.ClearField(taken)
    head = tensor.SerializeToString(deterministic=True)
    if raw is not None:
        head += field_header(TensorProto.RAW_DATA_FIELD_NUMBER, raw[0])
    length, chunks = raw or (0, ())
    return field_header(GraphProto.INITIALIZER_FIELD_NUMBER, len(head) + length) + head, (length, chunks)
