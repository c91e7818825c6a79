from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from onnx import parser

from onnxfn.graphs.fusions.fusing import fuse_operators

TEXTS = Path(__file__).parents[1] / "graphs" / "passes" / "graphs.txt"


def graph_text(name):
    """A graph of `graphs.txt`, by the line above it."""
    return f"\n{TEXTS.read_text()}".partition(f"\n# {name}\n")[2].partition("\n\n")[0]


def graph_from_text(text, opset=23, unknown_shapes=()):
    """The graph of a text, with inferred shapes; those of the values named in `unknown_shapes` are removed."""
    proto = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{text}')
    model = onnx_ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    values = [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]
    for value in values:
        if value.name in unknown_shapes:
            value.shape = None
    return model


def run_unoptimized(model, **feeds):
    """The outputs of a graph; ONNX Runtime's own fusions are off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = onnx_ir.serde.serialize_model(model).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def fused_graph(text, opset=23, unknown_shapes=(), *, for_cpu=False, **feeds):
    """The fused graph of a text, which computes the same outputs as before; all values have the shapes it declares."""
    expected = run_unoptimized(graph_from_text(text, opset), **feeds)
    model = fuse_operators(graph_from_text(text, opset, unknown_shapes), for_cpu=for_cpu)
    for output, expected_output in zip(run_unoptimized(model, **feeds), expected, strict=True):
        np.testing.assert_allclose(output, expected_output, rtol=1e-5, atol=1e-6)
    graph, sizes = model.clone(), {}
    graph.graph.outputs[:] = values = [value for node in graph.graph for value in node.outputs if value.shape]
    for value, result in zip(values, run_unoptimized(graph, **feeds), strict=True):
        for size, actual in zip(value.shape, result.shape, strict=True):
            known = size if isinstance(size, int) else sizes.setdefault(size.value or object(), actual)
            assert known == actual, value
    return model


def operators(model):
    return [node.op_type for node in model.graph]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
