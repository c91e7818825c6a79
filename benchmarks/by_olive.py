"""Writes a decoder's file in 4 bits with Olive: its GPTQ on the CPU, then the builder of onnxruntime-genai.

    python by_olive.py CHECKPOINT OUT

GPTQ reads the text that onnxfn calibrates with: the beginnings of the topics of Python's own help.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

TOPIC, TOKENS, RUNS = 400, 512, 8
"""Characters of a topic, tokens of a run, and runs: as onnxfn has them."""


def workflow(checkpoint: str, text: Path, out: str) -> dict[str, Any]:
    """The configuration of Olive's workflow. Blocks and symmetry are those of onnxfn's `q4c`."""
    rows = {
        "model_name": checkpoint,
        "task": "text-generation",
        "strategy": "join",
        "max_seq_len": TOKENS,
        "max_samples": RUNS,
        "add_special_tokens": False,
    }
    calibration = {
        "name": "calibration",
        "type": "HuggingfaceContainer",
        "load_dataset_config": {"data_name": "text", "data_files": str(text), "split": "train"},
        "pre_process_data_config": {"text_cols": ["text"], **rows},
        "dataloader_config": {"batch_size": 1},
    }
    cpu = {"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}
    gptq = {"type": "Gptq", "bits": 4, "group_size": 32, "sym": True, "lm_head": True, "data_config": calibration}
    return {
        "input_model": {"type": "HfModel", "model_path": checkpoint, "task": "text-generation"},
        "systems": {"here": {"type": "LocalSystem", "accelerators": [cpu]}},
        "host": "here",
        "target": "here",
        "passes": {"gptq": gptq, "builder": {"type": "ModelBuilder", "precision": "int4", "int4_block_size": 32}},
        "output_dir": out,
        "cache_dir": str(text.parent / "cache"),
        "log_severity_level": 3,
    }


if __name__ == "__main__":
    import olive

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text(" ".join(" ".join(topic[:TOPIC].split()) for topic in topics.values()))
        olive.run(workflow(sys.argv[1], text, sys.argv[2]))
    files = sorted(Path(sys.argv[2]).rglob("*.onnx*"))
    assert files, "Olive wrote no file"
    for file in files:
        file.rename(Path(sys.argv[2], file.name))
