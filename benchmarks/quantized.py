"""Quality, bytes, times and memory of quantized decoders, by onnxfn, ONNX Runtime, the genai builder and Olive.

    python benchmarks/quantized.py [--models smollm2,qwen2-trained] [--rows "onnxfn q4*,genai*"] [--rounds 2]

Every file is measured against PyTorch in float32 on the same tokens of onnxfn's own text. ONNX Runtime's quantizers
read onnxfn's file in float32, which must agree with PyTorch. A file below the floors has no figures. Only files that
have agreed are timed, each in a process of its own, in turns. The table
says what each file stores, as read from its nodes: `onnxfn q4` also has its tied output layer in 4 bits, which ONNX
Runtime's quantizers leave in float32. Two files are compared where onnxfn's stores the same matrices in the same bits
and blocks as the peer's, or more of them. SmolLM2's weights come from a GGUF file: the matrices had 4 bits with zero
points before, the embedding, which is also the output layer, 8 bits. `trained_decoder.py` trains the second model.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from answers import feeds, session, token_arrays
from export_whole import graph_bytes
from figures import Required, print_and_save
from models import Checkpoint, checkpoint_folder, parameter_bytes
from options import parsed_options
from peers import EXPORTERS, peer_versions, run_exporter
from stored_bits import stored_bits
from timed_file import timed_files
from toolz import compose_left

import onnxfn
from onnxfn.check.variants.measures import MEASURES
from onnxfn.check.variants.text_references import text_tokens
from onnxfn.specs.errors import first_line

ROWS, ROW_TOKENS = 5, 100
"""The rows of the text, and the tokens of each."""

BLOCK = 32
MEGABYTE = 1e6
ROUNDS = 2
"""How often each file is timed, by default."""

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

OF_SIZE = 1.05
"""The bytes, relative to those of calibrated 4 bits, up to which a peer's file is one of the same size."""

CHOSEN = 0.4095
"""The limit of bytes of the weights, relative to float16: as 8 bits in a third of them have."""

CHOSEN_KL = 0.1
"""The most KL divergence of a file whose bits were chosen within 0.1, on a text that is not that of the choice."""


def of_body(**options: Any) -> Any:
    """An edit for the matrices without the tied output layer, which ONNX Runtime's quantizers leave as it is."""
    tables = onnxfn.quantize(read_by=["Gather"], kind="as is")
    return compose_left(onnxfn.quantize(read_by=["MatMul"], **options), tables)


def with_8_bits(*names: str) -> Any:
    """An edit for calibrated 4 bits, and for calibrated 8 bits of weights of these names, as q4m multiplies them."""
    wider = (onnxfn.quantize(bits=8, accuracy_level=4, where=name, calibrated=True) for name in names)
    return compose_left(onnxfn.with_dtypes(float="q4c"), *wider)


EDITS: Mapping[str, Any] = MappingProxyType(
    {
        "onnxfn float32": onnxfn.with_dtypes(float="float32"),
        "onnxfn float16": onnxfn.with_dtypes(float="float16"),
        "onnxfn q8": onnxfn.with_dtypes(float="q8"),
        "onnxfn int8": onnxfn.with_dtypes(float="int8"),
        "onnxfn uint8": onnxfn.with_dtypes(float="uint8"),
        "onnxfn q4": onnxfn.with_dtypes(float="q4"),
        "onnxfn q4f16": onnxfn.with_dtypes(float="q4f16"),
        "onnxfn q4c": onnxfn.with_dtypes(float="q4c"),
        "onnxfn q4c, zero points": onnxfn.quantize(symmetric=False, calibrated=True),
        "onnxfn q4c, 8 bits in a third": with_8_bits("*down_proj*", "*v_proj*", "*o_proj*", "*embed_tokens*"),
        "onnxfn q4m": onnxfn.with_dtypes(float="q4m"),
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

EXACT, WITHIN = "onnxfn float32", "onnxfn within 0.41 of float16"
PEERS = ("genai builder int4", "genai builder k_quant_mixed", "genai builder int8", "olive int4")

Write = Callable[[Path], Any]
"""Writes `model.onnx` to a folder."""


def own_files(checkpoint: Path, task: str) -> dict[str, Write]:
    """From a row of onnxfn to what writes its file, unchecked: this benchmark is the check."""
    model = onnxfn.model_for(str(checkpoint), task)
    spec = onnxfn.spec_for(model, task)
    export = partial(onnxfn.export, model=model, checkpoint=checkpoint, check=False)
    limit = f"{CHOSEN * parameter_bytes(checkpoint) / 2 / 1000:.0f} kB"
    edits = {**EDITS, WITHIN: onnxfn.quantize(within=limit)}
    return {name: lambda out, edit=edit: export(edit(spec), path=out) for name, edit in edits.items()}


def stock_files(source: Path) -> dict[str, Write]:
    """From a row of ONNX Runtime's quantizers to what writes a file, from a file in float32."""
    return {
        "ONNX Runtime 4 bits": partial(write_blocks, source, bits=4),
        "ONNX Runtime 4 bits, zero points": partial(write_blocks, source, bits=4, symmetric=False),
        "ONNX Runtime HQQ": partial(write_blocks, source, algorithm="HQQ"),
        "ONNX Runtime k_quant": partial(write_blocks, source, algorithm="KQuant"),
        "ONNX Runtime 8 bits": partial(write_blocks, source, bits=8),
        "ONNX Runtime dynamic": partial(write_dynamic, source, per_channel=True),
        "ONNX Runtime dynamic, one scale": partial(write_dynamic, source, per_channel=False),
    }


def write_blocks(
    source: Path, out: Path, *, bits: int = 4, symmetric: bool = True, algorithm: str | None = None
) -> None:
    """Writes a file with its matrices in blocks, by an algorithm of ONNX Runtime's quantizer."""
    import onnx
    from onnxruntime.quantization import matmul_nbits_quantizer

    own = {"block_size": BLOCK} if algorithm == "HQQ" else {}
    config = algorithm and getattr(matmul_nbits_quantizer, f"{algorithm}WeightOnlyQuantConfig")(**own)
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(
        onnx.load(source), bits=bits, block_size=BLOCK, is_symmetric=symmetric, algo_config=config
    )
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
    """From a row of the genai builder or of Olive to what writes its file."""

    def build(name: str, out: Path) -> None:
        run = run_exporter(EXPORTERS[name], checkpoint, out, cache)
        if run.code:
            raise RuntimeError(run.error_line)

    return {name: partial(build, name) for name in PEERS}


def text_arrays(checkpoint: Path) -> dict[str, Any]:
    """The text of onnxfn as the inputs of a decoder, by role."""
    tokens = text_tokens(None, checkpoint)
    assert tokens is not None
    assert len(tokens.ids) >= ROWS * ROW_TOKENS
    config = json.loads((checkpoint / "config.json").read_text())
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return {**token_arrays(tokens.rows((ROWS, ROW_TOKENS)), ROW_TOKENS), "head_dim": head_dim}


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
    assert kl <= (EXACT_KL if name == EXACT else WORST_KL), f"the KL divergence is {kl}"
    assert agreement >= LEAST_AGREEMENT, f"the agreement is {agreement}"
    print(f"{name}: {kl:.3g}, {agreement:.3f}", file=sys.stderr)
    facts = {**stored_bits(file, logits.shape[-1]), "agreement": f"{agreement:.3f}", "KL": f"{kl:.3g}"}
    return {**facts, "kl": kl, "same": agreement, "MB": graph_bytes(folder) / MEGABYTE}


def measured_rows(checkpoint: Checkpoint, cache: Path, patterns: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """The rows of the files of a model whose names match a pattern, and of onnxfn's file in float32."""
    source = checkpoint_folder(checkpoint, cache)
    arrays = text_arrays(source)
    expected = torch_logits(source, arrays["input_ids"])
    rows, right = dict[str, dict[str, Any]](), dict[str, Path]()
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        exact = Path(temporary) / EXACT / "model.onnx"
        every = own_files(source, checkpoint.task) | stock_files(exact) | built_files(checkpoint, cache)
        for name, write in every.items():
            if name != EXACT and not any(fnmatchcase(name, pattern) for pattern in patterns):
                continue
            folder = Path(temporary) / name
            try:
                write(folder)
                rows[name] = row(name, folder, arrays, expected)
                right[name] = folder / "model.onnx"
            except Exception as error:  # noqa: BLE001 - a quantizer may raise anything
                word = "wrong" if isinstance(error, AssertionError) else "cannot"
                rows[name] = {"problem": f"{word}: {first_line(error)}"}
                print(f"{name}: {rows[name]['problem']}", file=sys.stderr)
        times = timed_files(right, arrays["head_dim"], rounds)
    whole = parameter_bytes(source) / 2 / MEGABYTE
    sizes = {name: {"MB / float16": each["MB"] / whole} for name, each in rows.items() if "MB" in each}
    return [
        {"model": checkpoint.name, "file": name, **each, **sizes.get(name, {}), **times.get(name, {})}
        for name, each in rows.items()
    ]


def required(model: str, rows: list[dict[str, Any]]) -> list[Required]:
    """The requirements: no KL divergence above that of a peer, and the size of a file in 4 bits."""
    by_name = {each["file"]: each for each in rows if "problem" not in each}

    def limit(what: str, name: str, most: float, peer: str | None = None) -> Required:
        own, other = by_name.get(name, {}).get(what), by_name.get(peer or "", {}).get(what)
        figure = own if peer is None or own is None else other and own / other
        words = {"kl": "KL", "MB": "bytes", "MB / float16": "bytes / float16"}[what]
        return Required(f"{model}: {words} of {name}{f' / {peer}' if peer else ''}", figure, most)

    calibrated, third, chosen = "onnxfn q4c", "onnxfn q4c, 8 bits in a third", "onnxfn within KL 0.1"
    size = OF_SIZE * by_name.get(calibrated, {}).get("MB", 0.0)
    small = [each for each in by_name.values() if not each["file"].startswith("onnxfn") and each["MB"] <= size]
    best = [min(small, key=lambda each: each["kl"])["file"]] if small else []
    nearest = dict.fromkeys(("onnxfn q4", "genai builder int4", *best))
    failed = sum("problem" in each and each["file"].startswith("onnxfn") for each in rows)
    return [
        Required(f"{model}: files of onnxfn without figures", failed, 0),
        *(limit("kl", own, EQUAL, peer) for own, peer in PAIRS),
        *(limit("kl", calibrated, HALF, name) for name in nearest),
        *(limit("MB", calibrated, OF_SIZE if name in best else SAME, name) for name in nearest),
        *(limit("kl", name, MIXED_KL) for name in (third, WITHIN, "onnxfn q4m")),
        *(limit("MB / float16", name, MIXED) for name in (third, WITHIN, "onnxfn q4m")),
        limit("kl", WITHIN, SAME, third),
        limit("MB", WITHIN, EQUAL, third),
        limit("kl", chosen, CHOSEN_KL),
        limit("MB / float16", "onnxfn q4", SMALL),
    ]


def main() -> None:
    logging.disable(logging.WARNING)  # the quantizers log a line for each node
    models = "smollm2,qwen2-trained"
    options = parsed_options(__doc__.splitlines()[0], "quantized", models, rows=str, rounds=int)
    patterns, rounds = (options.rows or "*").split(","), options.rounds or ROUNDS
    rows, limits = [], []
    for checkpoint in options.checkpoints:
        own = measured_rows(checkpoint, options.cache, patterns, rounds)
        rows.extend(own)
        limits.extend(required(checkpoint.name, own))
    peers = peer_versions([EXPORTERS[name] for name in PEERS])
    print_and_save("quantized", rows, limits, options.json, runs=rounds, peers=peers)


if __name__ == "__main__":
    main()
