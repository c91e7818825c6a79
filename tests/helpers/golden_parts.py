"""The files, inputs and outputs of the models that clients ask for most, as planned today and as clients state them.

`tests/architectures/golden_parts.json` holds {model type: {file: {"inputs" | "outputs": {name: type and axes}}}}.
`python tests/tools/golden_parts.py` plans each model of `TASKS` and writes it; a new row is a line of `TASKS`.
`tests/architectures/client_parts.json` is written by hand: what transformers.js and onnxruntime-genai read and give.
"""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from every_part import OF_TIMM, tiny_model

import onnxfn
from onnxfn.specs.results.printing import spec_sections

FOLDER = Path(__file__).parents[1] / "architectures"
GOLDEN, CLIENTS = FOLDER / "golden_parts.json", FOLDER / "client_parts.json"

SEES, HEARS, BOTH = (f"{each}-with-past" for each in ("image-text-to-text", "audio-text-to-text", "any-to-any"))

TASKS: Mapping[str, str] = {
    **dict.fromkeys(("llava", "gemma3", "idefics3", "smolvlm", "mistral3", "lfm2_vl", "internvl"), SEES),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm_ocr", "glm4v"), SEES),
    **dict.fromkeys(("llava_next", "llava_onevision", "paligemma", "florence2", "blip-2", "kosmos-2"), SEES),
    **dict.fromkeys(("voxtral", "granite_speech", "qwen2_audio"), HEARS),
    **dict.fromkeys(("gemma3n", "gemma4"), BOTH),
}
"""Model type -> the task of its plan."""

Row = dict[str, dict[str, dict[str, str]]]


def planned(model_type: str) -> Row:
    """The types and axes of the tensors of each file of a tiny model; those that differ in the layer alone are one."""
    task = TASKS[model_type]
    model = tiny_model(model_type, task)
    plan = onnxfn.plan(onnxfn.spec_for(model, task), model)
    sections = {part.name: dict(spec_sections(part.spec)) for part in plan}
    return {
        name: {kind: {tensor[0]: tensor[1] for tensor in each[kind]} for kind in ("inputs", "outputs")}
        for name, each in sections.items()
    }


def golden() -> dict[str, Row]:
    return dict(json.loads(GOLDEN.read_text()))


def write() -> None:
    """Writes a row for each model type of `TASKS`; without timm, those of models that need it stay as they are."""
    left = OF_TIMM if find_spec("timm") is None else ()
    rows = {name: golden()[name] if name in left else planned(name) for name in sorted(TASKS)}
    GOLDEN.write_text(json.dumps(rows, indent=1) + "\n")
