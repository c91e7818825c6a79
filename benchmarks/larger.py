"""Time and memory of the export of models whose weights are larger than the memory of the machine, with linked weights.

    python benchmarks/larger.py [--models "llama-21b-bf16,llama-21b-f16,llama-70b-bf16,two llama-8b-bf16"]

The layers are those of Llama 3 70B, 22 or 80 of them. The checkpoint is sparse: each weight has random numbers at its
start and in its middle, and zeros elsewhere, which take no disk. So what is measured is reading at the speed of memory.
The weights are read twice: to find each one in the checkpoint, and for the digests of `report.json`. The last row has
two models of the sizes of Llama 3 8B, each of which fits into the memory, in one batch of two workers.

Figures are printed only if the files are right. Each weight of the graph must lie where the checkpoint has the tensor
of its name, and safetensors must read the same numbers there. ONNX must infer the shapes of the outputs. A narrow twin
with as many layers, exported in the same way, must have the same operators and compute what PyTorch computes: in
float16 by the check of the export, in bfloat16, for which ONNX Runtime has no kernels on a CPU, by the reference
evaluator of onnx. The figures of models that are not run stay in the file of results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from eight_billion import shards, write_shard
from figures import RESULTS, Required, print_and_save
from models import CACHE
from processes import Process, run_process

from onnxfn import BatchEvent, BuildOptions, ExportJob, WriteOptions, export_many
from onnxfn.export.batch.memory import memory_need, stored_weights
from onnxfn.weights.checkpoint_links import names_match
from onnxfn.weights.safetensors import TensorEntry, entries

GB, MB = 1e9, 1e6
MARK_BYTES = 4096
STAGE = re.compile(r"^(\w+)\b.*  ([\d.]+) s\b", re.MULTILINE)
ANONYMOUS_GB, WRITTEN_MB = 1.5, 20.0
"""GB of anonymous memory, imports included, and MB of new files, that an export may take."""

BF16_ERROR = 0.03
"""How far the twin may be from PyTorch in float32, as a part of the largest logit: 8 bits a product, many layers."""

NARROW = {"hidden_size": 512, "intermediate_size": 512, "vocab_size": 500}
"""The sizes of the twin that differ."""

EIGHT = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32}
"""The sizes of Llama 3 8B that differ."""

PAIR, MEMORY_GB = "two llama-8b-bf16", 24
"""The row of two models in one batch, and the memory that the batch may use."""

TASK = "text-generation-with-past"


@frozen
class Larger:
    """A checkpoint: its name, its number of layers, and its dtype in torch and in safetensors."""

    name: str
    layers: int
    dtype: str
    code: str


MODELS = {
    larger.name: larger
    for larger in (
        Larger("llama-21b-bf16", 22, "bfloat16", "BF16"),
        Larger("llama-21b-f16", 22, "float16", "F16"),
        Larger("llama-70b-bf16", 80, "bfloat16", "BF16"),
    )
}


def config(larger: Larger, **sizes: int) -> Any:
    """The configuration of a model, with other sizes for a twin."""
    from transformers import LlamaConfig

    wide = {"hidden_size": 8192, "intermediate_size": 28672, "vocab_size": 128256, "num_attention_heads": 64}
    return LlamaConfig(
        **{**wide, **sizes},
        num_hidden_layers=larger.layers,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        dtype=larger.dtype,
        architectures=["LlamaForCausalLM"],
    )


def write_sparse(larger: Larger, folder: Path, **sizes: int) -> None:
    """Writes the checkpoint to a folder."""
    known = config(larger, **sizes)
    known.save_pretrained(folder)
    parts, weight_map = shards(known), {}
    random = np.random.default_rng(0)
    for number, shapes in enumerate(parts, start=1):
        file = folder / f"model-{number:05}-of-{len(parts):05}.safetensors"
        write_shard(file, shapes, None, larger.code)
        weight_map |= dict.fromkeys(shapes, file.name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    for entry in entries(folder):
        with entry.file.open("r+b") as stream:
            for place in mark_places(entry):
                stream.seek(place)
                stream.write(random.integers(0, 2**14, min(MARK_BYTES, entry.length // 2) // 2, np.uint16).tobytes())


def mark_places(entry: TensorEntry) -> tuple[int, int]:
    """The offsets at which a weight has random numbers: its start and its middle, at even offsets."""
    return entry.offset, entry.offset + entry.length // 4 * 2


def export(larger: Larger, folder: Path, out: Path, *options: str) -> Process:
    """Runs the command line with linked weights. SystemExit if it fails."""
    words = ["-m", "onnxfn", "export", folder, out, "--dtype", larger.dtype, "--weights", "link", "--verbose"]
    task = ["--task", TASK, "--no-template-cache", *options]
    process = run_process([sys.executable, *map(str, words), *task])
    if process.code:
        raise SystemExit(f"{larger.name}: {process.error_line}")
    return process


def graph_file(out: Path) -> Path:
    (file,) = (out / "onnx").glob("*.onnx")
    return file


def check_links(folder: Path, out: Path) -> None:
    """SystemExit if a weight of the graph is not linked to the tensor of the checkpoint that has its name."""
    import onnx
    from safetensors import safe_open

    stored = {(entry.file.name, entry.offset, entry.length): entry for entry in entries(folder)}
    graph = onnx.load(graph_file(out), load_external_data=False).graph
    places = {tensor.name: {item.key: item.value for item in tensor.external_data} for tensor in graph.initializer}
    linked = {
        name: stored.get((place["location"], int(place["offset"]), int(place["length"])))
        for name, place in places.items()
        if place.get("location", "").endswith(".safetensors")
    }
    wrong = [name for name, entry in linked.items() if entry is None or not names_match(entry.name, name)]
    unused = {entry.name for entry in stored.values()} - {entry.name for entry in linked.values() if entry}
    if wrong or unused:
        raise SystemExit(f"weights at wrong places: {wrong[:3]}; tensors that no weight is linked to: {[*unused][:3]}")
    for entry in filter(None, linked.values()):
        file = out / "onnx" / entry.file.name
        if not file.samefile(entry.file):
            raise SystemExit(f"{file} is no link to {entry.file}")
        with file.open("rb") as stream, safe_open(entry.file, "pt") as tensors:
            stream.seek(entry.offset)
            first = tensors.get_slice(entry.name)[:1].contiguous().flatten()[: MARK_BYTES // 2]
            if stream.read(first.nbytes) != first.view(dtype=_int16()).numpy().tobytes():
                raise SystemExit(f"{entry.name} has other bytes in the export than in the checkpoint")


def _int16() -> Any:
    import torch

    return torch.int16


def check_shapes(out: Path, vocabulary: int) -> None:
    """SystemExit if ONNX does not infer that the logits have the size of the vocabulary."""
    import onnx

    model = onnx.load(graph_file(out), load_external_data=False)
    del model.graph.output[0].type.tensor_type.shape.dim[2]
    model.graph.output[0].type.tensor_type.shape.dim.add()
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    size = inferred.graph.output[0].type.tensor_type.shape.dim[2].dim_value
    if (inferred.graph.output[0].name, size) != ("logits", vocabulary):
        raise SystemExit(f"the inferred size of the logits is {size}, not {vocabulary}")


def operators(out: Path) -> list[str]:
    """The operators of a graph, in the order of its nodes."""
    import onnx

    return [node.op_type for node in onnx.load(graph_file(out), load_external_data=False).graph.node]


def check_twin(larger: Larger, out: Path, folder: Path) -> None:
    """SystemExit if a narrow twin has other operators, or computes something else than PyTorch."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(config(larger, **NARROW)).to(getattr(torch, larger.dtype)).eval()
    model.save_pretrained(folder / "twin")
    has_kernels = larger.dtype == "float16"
    floors = ("--floor", "agreement=0") if has_kernels else ("--no-check",)
    export(larger, folder / "twin", folder / "twin-out", *floors)
    if operators(folder / "twin-out") != operators(out):
        raise SystemExit(f"{larger.name}: the twin has other operators")
    error = reference_error(folder / "twin-out", model.float())
    if not error < BF16_ERROR:
        raise SystemExit(f"{larger.name}: the twin is {error:.3g} of the largest logit away from PyTorch")


def reference_error(out: Path, model: Any) -> float:
    """How far the reference evaluator of onnx is from PyTorch, as a part of the largest logit."""
    import onnx
    import torch
    from onnx.reference import ReferenceEvaluator

    for link in (out / "onnx").glob("*.safetensors"):  # onnx does not read hard links
        content = link.read_bytes()
        link.unlink()
        link.write_bytes(content)
    proto = onnx.load(graph_file(out))
    ids = torch.randint(0, NARROW["vocab_size"], (2, 7))
    with torch.no_grad():
        expected = model(ids).logits.numpy()
    feeds = {value.name: _feed(value, ids.numpy()) for value in proto.graph.input}
    (logits,) = ReferenceEvaluator(proto).run(["logits"], feeds)
    return float(np.abs(logits.astype(np.float32) - expected).max() / np.abs(expected).max())


def _feed(value: Any, ids: Any) -> Any:
    """What an input of the twin is fed with: the tokens, a mask of ones, their positions, or an empty cache."""
    import onnx

    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if value.name.startswith("past_key_values"):
        heads, size = (value.type.tensor_type.shape.dim[axis].dim_value for axis in (1, 3))
        return np.zeros((len(ids), heads, 0, size), dtype)
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(ids.shape[1])[None]}
    return np.broadcast_to(known[value.name], ids.shape)


def measured(larger: Larger, folder: Path) -> dict[str, Any]:
    """The row of a model."""
    checkpoint, out = folder / "checkpoint", folder / "out"
    checkpoint.mkdir()
    write_sparse(larger, checkpoint)
    process = export(larger, checkpoint, out, "--no-check")
    check_links(checkpoint, out)
    check_shapes(out, config(larger).vocab_size)
    check_twin(larger, out, folder)
    stages = [(name, float(seconds)) for name, seconds in STAGE.findall(process.output)]
    new = [file for file in out.rglob("*") if file.is_file() and file.stat().st_nlink == 1]
    return {
        "model": larger.name,
        "weights GB": sum(entry.length for entry in entries(checkpoint)) / GB,
        "machine GB": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GB,
        "seconds": process.seconds,
        "graph s": sum(seconds for name, seconds in stages if name in ("capture", "passes")),
        "links s": sum(seconds for name, seconds in stages if name == "write"),
        "digests s": sum(seconds for name, seconds in stages if name == "complete"),
        "anonymous GB": process.anonymous / GB,
        "written MB": sum(file.stat().st_size for file in new) / MB,
    }


def measured_pair(folder: Path) -> dict[str, Any]:
    """The row of two models in one batch. Each traces its graphs itself, so that only memory keeps them apart."""
    larger = Larger("llama-8b-bf16", 32, "bfloat16", "BF16")
    write, build = WriteOptions(layout="hub", weight_storage="link"), BuildOptions()
    jobs = []
    for number in range(2):
        checkpoint = folder / f"checkpoint-{number}"
        checkpoint.mkdir()
        write_sparse(larger, checkpoint, **EIGHT)
        edits, dtypes = {"task": TASK}, (larger.dtype,)
        out = folder / f"out-{number}"
        jobs.append(ExportJob(checkpoint, out, edits=edits, dtypes=dtypes, check="none", write=write, build=build))
    running, most = 0, 0

    def count(event: BatchEvent) -> None:
        nonlocal running, most
        print(f"{event.seconds:.1f} s: {event.status} {Path(event.path).name}", file=sys.stderr)
        running += {"start": 1, "retry": 0}.get(event.status, -1)
        most = max(most, running)

    result = export_many(jobs, workers=2, memory=int(MEMORY_GB * GB), on_event=count)
    if result.failed:
        raise SystemExit(str(result))
    for number in range(2):
        check_links(folder / f"checkpoint-{number}", folder / f"out-{number}")
    weights = sum(entry.length for number in range(2) for entry in entries(folder / f"checkpoint-{number}"))
    needs = [memory_need(stored_weights(Path(job.checkpoint)), job.check) for job in jobs]
    return {
        "model": PAIR,
        "weights GB": weights / GB,
        "machine GB": float(MEMORY_GB),
        "seconds": result.seconds,
        "anonymous GB": max(job.memory_bytes for job in result.jobs) / GB,
        "needs GB": max(needs) / GB,
        "at a time": most,
    }


def rows_of_before(file: Path, measured: set[str]) -> list[dict[str, Any]]:
    """The rows in a file of results whose models were not run again."""
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"] if file.is_file() else []
    return [row for row in rows if row["model"] not in measured]


def required(row: dict[str, Any]) -> list[Required]:
    """The requirements on the figures of a row."""
    name, memory = row["model"], row["anonymous GB"]
    if name == PAIR:
        return [Required(f"{name} in {MEMORY_GB} GB: exports at a time", row["at a time"], 1)]
    return [
        Required(f"{name}, linked: GB of memory", memory, ANONYMOUS_GB),
        Required(f"{name}, linked: MB written", row["written MB"], WRITTEN_MB),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--models", default=",".join((*MODELS, PAIR)))
    arguments.add_argument("--cache", type=Path, default=CACHE)
    arguments.add_argument("--json", type=Path, default=RESULTS / "larger.json")
    options = arguments.parse_args()
    rows = []
    for name in options.models.split(","):
        folder = Path(tempfile.mkdtemp(dir=options.cache))
        try:
            rows.append(measured_pair(folder) if name == PAIR else measured(MODELS[name], folder))
            print(rows[-1], file=sys.stderr)
        finally:
            shutil.rmtree(folder)
    rows = [*rows_of_before(options.json, {row["model"] for row in rows}), *rows]
    requirements = [requirement for row in rows for requirement in required(row)]
    print_and_save("larger", rows, requirements, options.json, runs=1)


if __name__ == "__main__":
    main()
