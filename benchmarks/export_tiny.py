"""What does the export of a tiny model cost in a warm process, beside transformers.exporters with the same axes?

    python benchmarks/export_tiny.py [--runs 5] [--json FILE]

Both export in turn in one process; each ONNX file must agree with PyTorch before a time is printed. onnxfn's time is
that of `export` with its check, writing included; the peer's that of `OnnxExporter().export`, which writes and checks
nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import onnxruntime
import torch
from figures import RESULTS, Required, median, published, ratio
from transformers import BertConfig, BertModel, DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

import onnxfn

DYNAMIC = torch.export.Dim.DYNAMIC
TINY = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 99}


def bert() -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
    ids = torch.randint(0, 99, (2, 16))
    sample = {"input_ids": ids, "attention_mask": mask(ids), "token_type_ids": torch.zeros_like(ids)}
    moving = {name: {0: DYNAMIC, 1: DYNAMIC} for name in sample}
    return BertModel(BertConfig(**TINY)).eval(), "feature-extraction", sample, moving


def llama(**sizes: int) -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
    """A Llama of two layers, or of other sizes, and 16 tokens after 16 others."""
    config = LlamaConfig(**{**TINY, "num_key_value_heads": 2, **sizes})
    model = LlamaForCausalLM(config).eval()
    ids = torch.randint(0, 99, (2, 16))
    shape = (2, 2, 16, config.head_dim)
    cache = DynamicCache([(torch.randn(shape), torch.randn(shape)) for _ in range(config.num_hidden_layers)])
    whole = mask(torch.zeros(2, 32))
    sample = {
        "input_ids": ids,
        "attention_mask": whole,
        "position_ids": torch.arange(16, 32).repeat(2, 1),
        "past_key_values": cache,
    }
    moving = {name: {0: DYNAMIC, 1: DYNAMIC} for name in ("input_ids", "attention_mask", "position_ids")}
    return (
        model,
        "text-generation-with-past",
        sample,
        {**moving, "past_key_values": [{0: DYNAMIC, 2: DYNAMIC}] * len(states(sample))},
    )


def mask(like: Any) -> Any:
    """A mask with padding in it: without, the peer drops the input."""
    made = torch.ones(like.shape, dtype=torch.int64)
    made[1, :3] = 0
    return made


def by_onnxfn(model: Any, task: str) -> float:
    start = time.perf_counter()
    checked(model, task)
    return time.perf_counter() - start


def checked(model: Any, task: str) -> dict[str, float]:
    """Seconds of each stage of an export that has passed its check."""
    with tempfile.TemporaryDirectory() as folder:
        result = onnxfn.export(onnxfn.spec_for(model.config.model_type, task), model, Path(folder) / "model.onnx")
    assert result.report is not None
    assert result.report.passed
    return dict(result.seconds)


def by_peer(model: Any, sample: dict[str, Any], axes: dict[str, Any]) -> float:
    start = time.perf_counter()
    exported = OnnxExporter().export(model, sample, OnnxConfig(dynamic_shapes=axes, opset_version=18))
    spent = time.perf_counter() - start
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(exported.program).SerializeToString())
    flat = [*(one for one in sample.values() if isinstance(one, torch.Tensor)), *states(sample)]
    fed = {one.name: tensor.numpy() for one, tensor in zip(session.get_inputs(), flat, strict=True)}
    with torch.no_grad():
        wanted = model(**sample)[0].numpy()  # grows the cache of the sample
    assert np.abs(session.run(None, fed)[0] - wanted).max() < 1e-3
    return spent


def states(sample: dict[str, Any]) -> list[Any]:
    cache = sample.get("past_key_values")
    return [] if cache is None else [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def measured(made: Callable[[], tuple[Any, str, dict[str, Any], dict[str, Any]]], runs: int) -> dict[str, Any]:
    """Medians, and the median of the ratios pair by pair, after one run of each that is not counted."""
    pairs = []
    for _ in range(runs + 1):
        model, task, sample, axes = made()
        pairs.append((by_onnxfn(model, task), by_peer(model, sample, axes)))
    ours, theirs = zip(*pairs[1:], strict=True)
    return {
        "model": made.__name__,
        "onnxfn s": median(ours),
        "transformers.exporters s": median(theirs),
        "ratio": ratio(ours, theirs),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--json", type=Path, default=RESULTS / "export_tiny.json")
    asked = arguments.parse_args()
    warnings.simplefilter("ignore")
    rows = [measured(made, asked.runs) for made in (bert, llama)]
    required = [
        limit
        for row, seconds in zip(rows, (3.0, 4.0), strict=True)
        for limit in (
            Required(f"{row['model']}: seconds", row["onnxfn s"], seconds),
            Required(f"{row['model']}: time of onnxfn / transformers.exporters", row["ratio"], 0.45),
        )
    ]
    published("export_tiny", rows, required, asked.json, runs=asked.runs)


if __name__ == "__main__":
    main()
