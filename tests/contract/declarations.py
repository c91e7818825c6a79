"""What Optimum declares: `optimum.json.xz`, and the tasks and files of its exports."""

import json
import lzma
from functools import cache
from pathlib import Path


@cache
def contract():
    """The content of `optimum.json.xz`, {model type: ...}; the README of this folder says what it holds."""
    return json.loads(lzma.decompress((Path(__file__).parent / "optimum.json.xz").read_bytes()))


def single_file(task):
    """The one file of a component of a pipeline, as `{variant: [(file, case)]}`."""
    (case,) = task["cases"]
    return {"default": [("model.onnx", case)]}


@cache
def exports(model_type, preset):
    """What Optimum exports: {our name of the task: (its name in Optimum, [(file, case), ...])}.

    A task with variants, with past and without, is two tasks here. A variant that is not Optimum's default is
    `task@variant`.
    """
    tasks = {}
    for name, task in contract()[model_type]["configs"][preset]["tasks"].items():
        for variant_text, files in (task["export"] if "export" in task else single_file(task)).items():
            if variant_text.startswith("default") and "error" not in files:
                variant = task["cases"][files[0][1]]["state"].get("variant", "")
                past = "-with-past" if variant.endswith("with-past") else ""
                suffix = "" if past or variant == "without-past" else variant_suffix(variant_text)
                tasks[f"{name}{past}{suffix}"] = name, files
    return tasks


def variant_suffix(text):
    """`@split` for "default, variant split", and nothing for Optimum's default variant."""
    variant = text.partition("variant ")[2]
    return f"@{variant}" if variant and not variant.endswith("(the default)") else ""
