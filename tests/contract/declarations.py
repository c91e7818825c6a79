"""What Optimum declares: `optimum.json`, and what of it is exported."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path


@cache
def contract():
    return json.loads((Path(__file__).parent / "optimum.json").read_text())


def alone(told):
    """The one file of a part of a pipeline, for whose folder Optimum names it."""
    (case,) = told["cases"]
    return {"default": [("model.onnx", case)]}


@cache
def exports(model_type, preset):
    """What Optimum exports: our name of the task -> (its own, the files that it writes, as (file, case)).

    A task that it has in variants, with past and without, is two tasks here; another variant than its own choice, which
    must be asked for, is `task@variant`.
    """
    made = {}
    for task, told in contract()[model_type]["configs"][preset]["tasks"].items():
        for plan_name, written in (told["export"] if "export" in told else alone(told)).items():
            if plan_name.startswith("default") and "error" not in written:
                variant = told["cases"][written[0][1]]["state"].get("variant", "")
                past = "-with-past" if variant.endswith("with-past") else ""
                asked = "" if past or variant == "without-past" else asked_variant(plan_name)
                made[f"{task}{past}{asked}"] = task, written
    return made


def asked_variant(plan_name):
    """`@split` of "default, variant split", and nothing of the variant that is Optimum's own choice."""
    variant = plan_name.partition("variant ")[2]
    return f"@{variant}" if variant and not variant.endswith("(the default)") else ""
