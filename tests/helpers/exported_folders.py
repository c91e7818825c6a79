"""Folders of small ONNX files, as an export and as other programs write them. Needs no torch."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxfn.weights.digests import DIGESTS_KEY, write_with_digest
from onnxfn.weights.onnx_files import hashed_file, write_model

WEIGHT = np.arange(6, dtype=np.float32)


def model(producer: str = "onnxfn", weight: np.ndarray = WEIGHT) -> ModelProto:
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, weight.shape)
    node = helper.make_node("Identity", ["weight"], ["y"])
    graph = helper.make_graph([node], "main", [], [value], [numpy_helper.from_array(weight, "weight")])
    return helper.make_model(graph, producer_name=producer, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def with_external_data(proto: ModelProto, name: str) -> ModelProto:
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=name)
    return proto


def write(path: Path, data: str = "", weight: np.ndarray = WEIGHT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    proto = model(weight=weight)
    if data:
        with hashed_file(path.parent / data) as file:
            digest, _ = write_with_digest(file, [weight.tobytes()])
        proto = with_external_data(proto, data)
        proto.graph.initializer[0].external_data.add(key="length", value=str(weight.nbytes))
        proto.metadata_props.add(key=DIGESTS_KEY, value=json.dumps({data: digest}))
    with path.open("wb") as file:
        write_model(proto, file, {})


def write_other(path: Path, data: str = "", producer: str = "pytorch") -> None:
    path.write_bytes((with_external_data(model(producer), data) if data else model(producer)).SerializeToString())


def staged(staging: Path, *names: str) -> list[Path]:
    files = [staging / name for name in names]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("new")
    return files


def write_set(folder: Path, names: Iterable[str], number: float) -> list[Path]:
    """Writes a set of files as an export does: ONNX files with external data, and other files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in names:
        file = folder / name
        if file.suffix == ".onnx":
            write(file, f"{file.name}_data", WEIGHT + np.float32(number))
            files.append(file.parent / f"{file.name}_data")
        else:
            file.write_text(f"{name} {number}")
        files.append(file)
    return files


def content(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def paths(folder: Path) -> list[str]:
    return sorted(content(folder))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
