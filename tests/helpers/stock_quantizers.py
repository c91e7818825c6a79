import logging
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper


def quantized_in_blocks(file: Path, target: Path, *, bits: int = 4, symmetric: bool = True) -> Path:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer, QuantFormat

    quantizer = MatMulNBitsQuantizer(
        onnx.load(file),
        bits=bits,
        block_size=32,
        is_symmetric=symmetric,
        quant_format=QuantFormat.QOperator,
        op_types_to_quantize=("MatMul",),
    )
    with quiet():
        quantizer.process()
    return _saved(quantizer.model.model, target)


def quantized_as_nf4(file: Path, target: Path) -> Path:
    from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer

    quantizer = MatMulBnb4Quantizer(onnx.load(file), MatMulBnb4Quantizer.NF4, 64)
    with quiet():
        quantizer.process()
    return _saved(quantizer.model.model, target)


def quantized_dynamically(file: Path, target: Path, *, signed: bool = True, per_channel: bool = False) -> Path:
    """The file with its matrices as 8-bit integers, and activations that are quantized while it runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(file)
    del model.graph.value_info[:]
    target.parent.mkdir(exist_ok=True, parents=True)
    with quiet():
        quantize_dynamic(
            model,
            str(target),
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8 if signed else QuantType.QUInt8,
            per_channel=per_channel,
            extra_options={"MatMulConstBOnly": True},
        )
    return target


class quiet:  # noqa: N801 - a context
    def __enter__(self):
        logging.disable(logging.ERROR)

    def __exit__(self, *_):
        logging.disable(logging.NOTSET)


def _saved(model, target):
    target.parent.mkdir(exist_ok=True, parents=True)
    onnx.save(model, target)
    return target


def with_changed(file: Path, target: Path, changes) -> Path:
    """The file with other arrays of initializers: `changes` goes from parts of their names to functions of arrays."""
    model = onnx.load(file)
    arrays = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, change in changes.items():
        tensor = arrays[name]
        old = numpy_helper.to_array(tensor)
        new = np.asarray(change(old, lambda other: numpy_helper.to_array(arrays[other])))
        assert new.shape == old.shape
        assert not np.array_equal(new, old), f"{name} is as it was"
        tensor.CopyFrom(numpy_helper.from_array(new.astype(old.dtype), name))
    return _saved(model, target)


def initializers(file: Path) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(file).graph.initializer}


FORMATS = {
    "4 bits": quantized_in_blocks,
    "4 bits with zero points": partial(quantized_in_blocks, symmetric=False),
    "8 bits": partial(quantized_in_blocks, bits=8),
    "int8": quantized_dynamically,
    "int8 by columns": partial(quantized_dynamically, per_channel=True),
    "uint8": partial(quantized_dynamically, signed=False),
    "uint8 by columns": partial(quantized_dynamically, signed=False, per_channel=True),
    "nf4": quantized_as_nf4,
}
"""The name of a format -> a function of a file and its target in that format."""
