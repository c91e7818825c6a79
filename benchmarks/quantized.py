"""Agreement and KL divergence of quantized files of SmolLM2, by onnxfn, ONNX Runtime and the genai builder.

    python benchmarks/quantized.py

Every file is measured against PyTorch in float32 on the same tokens of onnxfn's own text. ONNX Runtime's quantizers
read onnxfn's file in float32, which must agree with PyTorch. A file below onnxfn's floors ends the benchmark. The table
says what each file stores, as read from its nodes: `onnxfn q4` also has its tied output layer in 4 bits, which ONNX
Runtime's quantizers leave in float32. Two files are compared where onnxfn's stores the same matrices in the same bits
and blocks as the peer's, or more of them. The weights of this checkpoint come from a GGUF file: the matrices had 4 bits
with zero points before, the embedding, which is also the output layer, 8 bits.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from answers import feeds, session, token_arrays
from export_whole import graph_bytes
from figures import Required, print_and_save
from models import Checkpoint, checkpoint_folder
from options import parsed_options
from peers import EXPORTERS, peer_versions, run_exporter
from stored_bits import stored_bits
from toolz import compose_left

import onnxfn
from onnxfn.check.variants.measures import MEASURES
from onnxfn.check.variants.text_references import text_tokens

ROWS, ROW_TOKENS = 5, 100
"""The rows of the text, and the tokens of each."""

BLOCK = 32
MEGABYTE = 1e6

EXACT_KL = 1e-6
"""The largest KL divergence of a file in float32 that agrees with PyTorch."""

WORST_KL, LEAST_AGREEMENT = 1.0, 0.4
"""The floors of onnxfn for dynamic 8 bits. A file whose layers are wrong is far from them."""

EQUAL = 1.02
"""The ratio of KL divergences up to which two files are equal: scales in float16 or in float32 change it that much."""

SMALL = 0.30
"""The most bytes of a file in 4 bits, relative to float16."""

HALF, SAME, MIXED_KL, MIXED = 0.5, 1.0, 0.05, 0.45
"""Calibrated 4 bits: the most KL divergence and bytes, relative to a file with the nearest codes; and with 8 bits for
some weights: the most KL divergence, and bytes relative to float16."""

CHOSEN_KL = 0.1
"""The most KL divergence of a file whose bits were chosen within 0.1, on a text that is not that of the choice."""


def of_body(**options: Any) -> Any:
    """An edit for the matrices without the tied output layer, which ONNX Runtime's quantizers leave as it is."""
    tables = onnxfn.quantize(read_by=["Gather"], kind="as is")
    return compose_left(onnxfn.quantize(read_by=["MatMul"], **options), tables)


def with_8_bits(*names: str) -> Any:
    """An edit for calibrated 4 bits, and calibrated 8 bits for weights of these names."""
    wider = (onnxfn.quantize(bits=8, where=name, calibrated=True) for name in names)
    return compose_left(onnxfn.with_dtypes(float="q4c"), *wider)


EDITS: Mapping[str, Any] = MappingProxyType(
    {
        "onnxfn float32": onnxfn.with_dtypes(float="float32"),
        "onnxfn float16": onnxfn.with_dtypes(float="float16"),
        "onnxfn q8": onnxfn.with_dtypes(float="q8"),
        "onnxfn q4": onnxfn.with_dtypes(float="q4"),
        "onnxfn q4f16": onnxfn.with_dtypes(float="q4f16"),
        "onnxfn q4c": onnxfn.with_dtypes(float="q4c"),
        "onnxfn q4c, zero points": onnxfn.quantize(symmetric=False, calibrated=True),
        "onnxfn q4c, 8 bits in a third": with_8_bits("*down_proj*", "*v_proj*", "*o_proj*", "*embed_tokens*"),
        "onnxfn q4m": onnxfn.with_dtypes(float="q4m"),
        "onnxfn within 110 MB": onnxfn.quantize(within="110 MB"),
        "onnxfn within KL 0.1": onnxfn.quantize(within="kl=0.1"),
        "onnxfn bnb4": onnxfn.with_dtypes(float="bnb4"),
        "onnxfn 4 bits": of_body(),
        "onnxfn 4 bits, zero points": of_body(symmetric=False),
        "onnxfn 4 bits everywhere, level 4": onnxfn.quantize(accuracy_level=4),
        "onnxfn 4 bits everywhere, zero points": onnxfn.quantize(symmetric=False),
        "onnxfn 8 bits": of_body(bits=8),
        "onnxfn dynamic": of_body(bits=8, kind="dynamic"),
    }
)
"""From a row of onnxfn to the edit of its specification."""

PAIRS = (
    ("onnxfn 4 bits", "ONNX Runtime 4 bits"),
    ("onnxfn 4 bits, zero points", "ONNX Runtime 4 bits, zero points"),
    ("onnxfn 8 bits", "ONNX Runtime 8 bits"),
    ("onnxfn dynamic", "ONNX Runtime dynamic"),
    ("onnxfn q8", "genai builder int8"),
    ("onnxfn q4", "genai builder int4"),
    ("onnxfn 4 bits everywhere, level 4", "genai builder int4"),
)
"""Rows of onnxfn and of peers whose KL divergences are compared."""

Write = Callable[[Path], Any]
"""Writes `model.onnx` to a folder."""


def own_files(checkpoint: Path, task: str) -> dict[str, Write]:
    """From a row of onnxfn to what writes its file, unchecked: this benchmark is the check."""
    model = onnxfn.model_for(str(checkpoint), task)
    spec = onnxfn.spec_for(model, task)
    export = partial(onnxfn.export, model=model, checkpoint=checkpoint, check=False)
    return {name: lambda out, edit=edit: export(edit(spec), path=out) for name, edit in EDITS.items()}


def stock_files(source: Path) -> dict[str, Write]:
    """From a row of ONNX Runtime's quantizers to what writes a file, from a file in float32."""
    return {
        "ONNX Runtime 4 bits": partial(write_blocks, source, bits=4),
        "ONNX Runtime 4 bits, zero points": partial(write_blocks, source, bits=4, symmetric=False),
        "ONNX Runtime 8 bits": partial(write_blocks, source, bits=8),
        "ONNX Runtime dynamic": partial(write_dynamic, source, per_channel=True),
        "ONNX Runtime dynamic, one scale": partial(write_dynamic, source, per_channel=False),
    }


def write_blocks(source: Path, out: Path, *, bits: int, symmetric: bool = True) -> None:
    """Writes a file with its matrices in blocks, by ONNX Runtime's quantizer."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(source), bits=bits, block_size=BLOCK, is_symmetric=symmetric)
    quantizer.process()
    out.mkdir()
    onnx.save(quantizer.model.model, out / "model.onnx")


def write_dynamic(source: Path, out: Path, *, per_channel: bool) -> None:
    """Writes a file whose matrices are int8, by ONNX Runtime's quantizer, as transformers.js' script did."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(source)
    del model.graph.value_info[:]
    out.mkdir()
    quantize_dynamic(
        model,
        str(out / "model.onnx"),
        op_types_to_quantize=["MatMul"],
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
        extra_options={"MatMulConstBOnly": True},
    )


def built_files(checkpoint: Checkpoint, cache: Path) -> dict[str, Write]:
    """From a row of the genai builder to what writes its file."""

    def build(name: str, out: Path) -> None:
        run = run_exporter(EXPORTERS[name], checkpoint, out, cache)
        assert run.code == 0, run.error_line

    return {name: partial(build, name) for name in ("genai builder int4", "genai builder int8")}


def text_arrays(checkpoint: Path) -> dict[str, Any]:
    """The text of onnxfn as the inputs of a decoder, by role."""
    tokens = text_tokens(None, checkpoint)
    assert tokens is not None
    assert len(tokens.ids) >= ROWS * ROW_TOKENS
    config = json.loads((checkpoint / "config.json").read_text())
    return {**token_arrays(tokens.rows((ROWS, ROW_TOKENS)), ROW_TOKENS), "head_dim": config["head_dim"]}


def torch_logits(checkpoint: Path, ids: Any) -> Any:
    """PyTorch's logits in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.from_numpy(ids)).logits.numpy()


def row(name: str, folder: Path, arrays: Mapping[str, Any], expected: Any) -> dict[str, Any]:
    """The row of a file. AssertionError if it does not reach the floors."""
    file = folder / "model.onnx"
    graph = session(file)
    (logits,) = graph.run(["logits"], feeds(graph, arrays))
    outputs = {"logits": logits.astype(np.float32)}, {"logits": expected}
    kl, agreement = (MEASURES[name].whole(MEASURES[name].values("logits", *outputs)) for name in ("kl", "agreement"))
    assert kl <= (EXACT_KL if name == "onnxfn float32" else WORST_KL), f"{name}: the KL divergence is {kl}"
    assert agreement >= LEAST_AGREEMENT, f"{name}: the agreement is {agreement}"
    print(f"{name}: {kl:.4f}, {agreement:.3f}", file=sys.stderr)
    facts = {"file": name, **stored_bits(file), "agreement": f"{agreement:.3f}", "KL": f"{kl:.4f}"}
    return {**facts, "kl": kl, "same": agreement, "MB": graph_bytes(folder) / MEGABYTE}


def measured_rows(checkpoint: Checkpoint, cache: Path) -> list[dict[str, Any]]:
    """The rows of all files. Each file is deleted after its measurement, but for the one in float32."""
    source = checkpoint_folder(checkpoint, cache)
    arrays = text_arrays(source)
    expected = torch_logits(source, arrays["input_ids"])
    rows = []
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        exact = Path(temporary) / "onnxfn float32"
        files = own_files(source, checkpoint.task) | stock_files(exact / "model.onnx") | built_files(checkpoint, cache)
        for name, write in files.items():
            folder = Path(temporary) / name
            write(folder)
            rows.append(row(name, folder, arrays, expected))
            if folder != exact:
                shutil.rmtree(folder)
    half = next(each["MB"] for each in rows if each["file"] == "onnxfn float16")
    return [{**each, "MB / float16": each["MB"] / half} for each in rows]


def required(rows: list[dict[str, Any]]) -> list[Required]:
    """The requirements: no KL divergence above that of a peer, and the size of a file in 4 bits."""
    by_name = {each["file"]: each for each in rows}
    ratios = [Required(f"KL of {own} / {peer}", by_name[own]["kl"] / by_name[peer]["kl"], EQUAL) for own, peer in PAIRS]
    calibrated, mixed = by_name["onnxfn q4c"], by_name["onnxfn q4c, 8 bits in a third"]
    chosen, nearest = by_name["onnxfn within 110 MB"], ("onnxfn q4", "genai builder int4")
    return [
        *ratios,
        *(Required(f"KL of onnxfn q4c / {name}", calibrated["kl"] / by_name[name]["kl"], HALF) for name in nearest),
        *(Required(f"bytes of onnxfn q4c / {name}", calibrated["MB"] / by_name[name]["MB"], SAME) for name in nearest),
        Required("KL of onnxfn q4c, 8 bits in a third", mixed["kl"], MIXED_KL),
        Required("bytes of onnxfn q4c, 8 bits in a third / float16", mixed["MB / float16"], MIXED),
        Required("KL of onnxfn within 110 MB / 8 bits in a third", chosen["kl"] / mixed["kl"], SAME),
        Required("bytes of onnxfn within 110 MB / 8 bits in a third", chosen["MB"] / mixed["MB"], EQUAL),
        Required("KL of onnxfn within KL 0.1", by_name["onnxfn within KL 0.1"]["kl"], CHOSEN_KL),
        Required("bytes of onnxfn q4 / float16", by_name["onnxfn q4"]["MB / float16"], SMALL),
    ]


def main() -> None:
    logging.disable(logging.WARNING)  # the quantizers log a line for each node
    options = parsed_options(__doc__.splitlines()[0], "quantized", "smollm2")
    (checkpoint,) = options.checkpoints
    rows = measured_rows(checkpoint, options.cache)
    peers = peer_versions([EXPORTERS["genai builder int4"]])
    print_and_save("quantized", rows, required(rows), options.json, runs=1, peers=peers)


if __name__ == "__main__":
    main()
