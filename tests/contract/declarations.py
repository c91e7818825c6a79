"""What Optimum declares: `optimum.json.xz`, and the tasks and files of its exports."""

import json
import lzma
from functools import cache
from pathlib import Path


@cache
def contract():
    """The content of `optimum.json.xz`, {model type: ...}; the README of this folder says what it holds."""
    return json.loads(lzma.decompress((Path(__file__).parent / "optimum.json.xz").read_bytes()))


@cache
def exports(model_type, preset):
    """What Optimum exports: {our name of the task: (its name in Optimum, [(file, case), ...])}, or `task@variant`."""
    tasks = {}
    for name, task in contract()[model_type]["configs"][preset]["tasks"].items():
        component = {"default": [("model.onnx", case) for case in task["cases"]]}  # of a pipeline: one case
        for text, files in task.get("export", component).items():
            if text.startswith("default") and "error" not in files:
                variant = task["cases"][files[0][1]]["state"].get("variant", "")
                past = "-with-past" if variant.endswith("with-past") else ""
                chosen = "" if text.endswith("(the default)") else text.partition("variant ")[2]
                suffix = f"@{chosen}" if chosen and not past and variant != "without-past" else ""
                tasks[f"{name}{past}{suffix}"] = name, files
    return tasks
