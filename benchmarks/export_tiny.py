"""Seconds of the export of a tiny model in a warm process, onnxfn and transformers.exporters with the same axes.

    python benchmarks/export_tiny.py [--runs 5] [--growth]

Both take turns in one process. Each ONNX file must agree with PyTorch before a time is printed. onnxfn's time is that
of `export`, with writing and the check. The peer's time is that of `OnnxExporter().export`, which does neither.

`--growth` measures Llamas of many layers, or wide: "graph" is the time of the capture and the passes, "whole" adds
writing and the check.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import onnxruntime
import torch
from figures import RESULTS, Required, median, print_and_save, ratio
from transformers import BertConfig, BertModel, DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

import onnxfn

DYNAMIC = torch.export.Dim.DYNAMIC
TINY = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 99}


GRAPH_STAGES = ("template", "capture", "passes")
NARROW, SHALLOW = 64, 4
SHAPES = tuple(dict.fromkeys([*((depth, NARROW) for depth in (4, 8, 16, 32, 64)), (SHALLOW, 256), (SHALLOW, 1024)]))
"""Numbers of layers and widths."""

DEPTH_LIMIT = (8, 64, 1.3)
"""Two numbers of layers, and the largest ratio of the times of their graphs."""


def bert() -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
    ids = torch.randint(0, 99, (2, 16))
    sample = {"input_ids": ids, "attention_mask": mask(ids), "token_type_ids": torch.zeros_like(ids)}
    dynamic = {name: {0: DYNAMIC, 1: DYNAMIC} for name in sample}
    return BertModel(BertConfig(**TINY)).eval(), "feature-extraction", sample, dynamic


def llama(**sizes: int) -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
    """A Llama of two layers, or of other sizes, and 16 tokens after 16 others."""
    config = LlamaConfig(**{**TINY, "num_key_value_heads": 2, **sizes})
    model = LlamaForCausalLM(config).eval()
    ids = torch.randint(0, 99, (2, 16))
    shape = (2, 2, 16, config.head_dim)
    cache = DynamicCache([(torch.randn(shape), torch.randn(shape)) for _ in range(config.num_hidden_layers)])
    sample = {
        "input_ids": ids,
        "attention_mask": mask(torch.zeros(2, 32)),
        "position_ids": torch.arange(16, 32).repeat(2, 1),
        "past_key_values": cache,
    }
    dynamic = {name: {0: DYNAMIC, 1: DYNAMIC} for name in ("input_ids", "attention_mask", "position_ids")}
    return (
        model,
        "text-generation-with-past",
        sample,
        {**dynamic, "past_key_values": [{0: DYNAMIC, 2: DYNAMIC}] * len(states(sample))},
    )


def mask(like: Any) -> Any:
    """A mask with padding. Without padding the peer drops the input."""
    ones = torch.ones(like.shape, dtype=torch.int64)
    ones[1, :3] = 0
    return ones


def onnxfn_seconds(model: Any, task: str) -> float:
    start = time.perf_counter()
    checked_stages(model, task)
    return time.perf_counter() - start


def checked_stages(model: Any, task: str) -> dict[str, float]:
    """The seconds of each stage of an export that passed its check."""
    with tempfile.TemporaryDirectory() as folder:
        result = onnxfn.export(onnxfn.spec_for(model.config.model_type, task), model, Path(folder) / "model.onnx")
    assert result.report is not None
    assert result.report.passed
    return dict(result.seconds)


def peer_seconds(model: Any, sample: dict[str, Any], axes: dict[str, Any]) -> float:
    start = time.perf_counter()
    exported = OnnxExporter().export(model, sample, OnnxConfig(dynamic_shapes=axes, opset_version=18))
    seconds = time.perf_counter() - start
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(exported.program).SerializeToString())
    tensors = [*(value for value in sample.values() if isinstance(value, torch.Tensor)), *states(sample)]
    feeds = {input_.name: tensor.numpy() for input_, tensor in zip(session.get_inputs(), tensors, strict=True)}
    with torch.no_grad():
        expected = model(**sample)[0].numpy()  # appends to the cache of the sample
    assert np.abs(session.run(None, feeds)[0] - expected).max() < 1e-3
    return seconds


def states(sample: dict[str, Any]) -> list[Any]:
    cache = sample.get("past_key_values")
    return [] if cache is None else [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def measure(make: Callable[[], tuple[Any, str, dict[str, Any], dict[str, Any]]], runs: int) -> dict[str, Any]:
    """The medians of the seconds, and the median of the ratios of pairs, after one warm-up of both."""
    pairs = []
    for _ in range(runs + 1):
        model, task, sample, axes = make()
        pairs.append((onnxfn_seconds(model, task), peer_seconds(model, sample, axes)))
    ours, theirs = zip(*pairs[1:], strict=True)
    return {
        "model": make.__name__,
        "onnxfn s": median(ours),
        "transformers.exporters s": median(theirs),
        "ratio": ratio(ours, theirs),
    }


def growth(runs: int) -> list[dict[str, Any]]:
    """A row for each number of layers and each width of a tiny Llama with past.

    In each round every size is exported once, by onnxfn first, since the peer leaves much memory behind.
    """
    figures: dict[tuple[int, int], dict[str, list[float]]] = {shape: {} for shape in SHAPES}
    for peer in (False, True):
        shape_seconds({}, peer=peer)  # loads what both need
    for _ in range(runs):
        for peer in (False, True):
            for (layers, width), of_shape in figures.items():
                sizes = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 2 * width}
                for name, seconds in shape_seconds(sizes, peer=peer).items():
                    of_shape.setdefault(name, []).append(seconds)
                print(f"{layers} layers of {width}: {of_shape}", file=sys.stderr)
    return [
        {
            "layers": layers,
            "width": width,
            **{name: median(seconds) for name, seconds in of_shape.items()},
            "whole / peer": ratio(of_shape["whole s"], of_shape["transformers.exporters s"]),
        }
        for (layers, width), of_shape in figures.items()
    ]


def shape_seconds(sizes: dict[str, int], *, peer: bool) -> dict[str, float]:
    """The seconds of an export of these sizes: of the graph and of all, or the peer's, which are of the graph alone."""
    model, task, sample, axes = llama(**sizes)
    gc.collect()  # else the objects of the last export are collected during this one
    if peer:
        return {"transformers.exporters s": peer_seconds(model, sample, axes)}
    start = time.perf_counter()
    stages = checked_stages(model, task)
    return {"graph s": sum(stages.get(name, 0.0) for name in GRAPH_STAGES), "whole s": time.perf_counter() - start}


def tiny_requirements(rows: Sequence[dict[str, Any]]) -> list[Required]:
    """The requirements on the seconds of the tiny models, and on the ratios to the peer's."""
    return [
        limit
        for row, seconds in zip(rows, (3.0, 4.0), strict=True)
        for limit in (
            Required(f"{row['model']}: seconds", row["onnxfn s"], seconds),
            Required(f"{row['model']}: time of onnxfn / transformers.exporters", row["ratio"], 0.45),
        )
    ]


def growth_requirement(rows: Sequence[dict[str, Any]]) -> Required:
    """The requirement on the growth of the time of the graph with the number of layers."""
    low, high, limit = DEPTH_LIMIT
    graphs = {row["layers"]: row["graph s"] for row in rows if row["width"] == NARROW}
    return Required(f"time of the graph at {high} layers / at {low}", graphs[high] / graphs[low], limit)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--growth", action="store_true", help="Measure the growth with layers and width instead.")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    if options.growth:
        rows = growth(options.runs)
        print_and_save("growth", rows, [growth_requirement(rows)], RESULTS / "growth.json", runs=options.runs)
    else:
        rows = [measure(make, options.runs) for make in (bert, llama)]
        print_and_save("export_tiny", rows, tiny_requirements(rows), RESULTS / "export_tiny.json", runs=options.runs)


if __name__ == "__main__":
    main()
