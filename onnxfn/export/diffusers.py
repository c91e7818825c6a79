"""Pipelines of diffusers: each part an export of its own, in a folder of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from onnxfn.export.lookup.lookup import spec_for
from onnxfn.export.lookup.other_libraries import COMPONENT_ROWS
from onnxfn.export.pipeline import export, target
from onnxfn.specs.config_values import snapshot
from onnxfn.specs.errors import UnknownName, listed
from onnxfn.specs.reports import Exported
from onnxfn.specs.spec import ExportSpec
from onnxfn.weights.placement import staging_folder

LEFT = ("image_encoder", "safety_checker")
"""Components with weights that Optimum, too, leaves out."""

PROJECTS = "CLIPTextModelWithProjection"
"""What only pipelines have that read the states of a text before the last (Stable Diffusion XL and 3)."""


@frozen
class PipelinePart:
    """One part of a pipeline: the folder it goes to, its spec, the model, what is known of its configuration."""

    name: str
    spec: ExportSpec
    model: Any
    config: Mapping[str, Any]


def pipeline_parts(pipeline: Any) -> tuple[PipelinePart, ...]:
    """The parts of a pipeline in the order of its components; UnknownName for a component that no row is of.

    An autoencoder is two parts. What the place in the pipeline says of a part is in the part's configuration.
    """
    models = {name: one for name, one in pipeline.components.items() if _has_weights(one) and name not in LEFT}
    strange = [
        f"{name} ({type(one).__name__})" for name, one in models.items() if type(one).__name__ not in COMPONENT_ROWS
    ]
    if strange:
        raise UnknownName(
            f"no row is of {', '.join(strange)} of {type(pipeline).__name__}; known: {listed(COMPONENT_ROWS)}"
        )
    placed = _placed(pipeline, models)
    return tuple(
        PipelinePart(f"{name}{ending}", spec_for(row), one, {**snapshot(one), **placed})
        for name, one in models.items()
        for ending, row in COMPONENT_ROWS[type(one).__name__]
    )


def export_pipeline(pipeline: Any, path: str | Path, *, overwrite: bool = False, **told: Any) -> dict[str, Exported]:
    """Write each part of a pipeline as `<part>/model.onnx` and prove it; what was written, by part.

    `told` is what `export` is told of each. Schedulers, tokenizers and `model_index.json` go beside them, as the
    pipeline saves them. Nothing appears unless all parts agree with PyTorch; raises what `export` raises.
    """
    place = target(Path(path), overwrite=overwrite)
    parts = pipeline_parts(pipeline)
    with staging_folder(place) as bench:
        made = {one.name: export(one.spec, one.model, bench / one.name, config=one.config, **told) for one in parts}
        _saved(pipeline, bench)
        for file in [file for file in sorted(bench.rglob("*")) if file.is_file()]:
            there = place / file.relative_to(bench)
            there.parent.mkdir(parents=True, exist_ok=True)
            file.replace(there)
    return {name: _moved(one, bench, place) for name, one in made.items()}


def _has_weights(component: Any) -> bool:
    return hasattr(component, "forward") and hasattr(component, "state_dict")


def _placed(pipeline: Any, models: Mapping[str, Any]) -> dict[str, Any]:
    """What the place in a pipeline says of its parts, in the words of Optimum."""
    widths = [one.config.projection_dim for one in models.values() if type(one).__name__ == PROJECTS]
    asked = {"requires_aesthetics_score": bool(pipeline.config.get("requires_aesthetics_score"))}
    return asked | ({"output_hidden_states": True, "text_encoder_projection_dim": widths[0]} if widths else {})


def _saved(pipeline: Any, folder: Path) -> None:
    """What of a pipeline has no weights, in folders beside the parts."""
    (folder / "model_index.json").write_text(pipeline.to_json_string())
    for name, one in pipeline.components.items():
        if not _has_weights(one) and hasattr(one, "save_pretrained"):
            one.save_pretrained(folder / name)


def _moved(made: Exported, old: Path, new: Path) -> Exported:
    """What was written, where it is now."""
    files = (str(new / Path(file).relative_to(old)) for file in made.files)
    return evolve(made, path=str(new / Path(made.path).relative_to(old)), files=files)
