"""The parts of a program of several modules: by the rows of its components, or as the program calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.export.derive.watched import Watched, components, watched
from onnxfn.export.find.lookup import derived, spec_for
from onnxfn.export.find.other_libraries import COMPONENT_ROWS, argument_names
from onnxfn.export.report.report_file import with_remark
from onnxfn.export.run.export import export
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec, UnknownName, first_line, listed, raise_no_memory
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.stored.reports import CheckFailed, Exported

LEFT_OUT = ("image_encoder", "safety_checker")
"""Components that a pipeline of rows leaves out, as in Optimum."""


@frozen
class PipelinePart:
    """One part of a pipeline: the name of its folder, its spec, the component, and its configuration with additions."""

    name: str
    spec: ExportSpec
    model: Any
    config: Mapping[str, Any]


def pipeline_parts(pipeline: Any, *runs: Callable[[], Any]) -> tuple[PipelinePart, ...]:
    """The parts of a pipeline of diffusers, in the order of its components, or of any other program.

    An autoencoder is two parts, an encoder and a decoder. Components without weights are not parts. A component without
    a row is watched while the program runs: its parts are the methods that are called, see `watched`.

    Args:
        pipeline: A `diffusers.DiffusionPipeline`, an object with the same `components` and `config`, a dict of modules
            by their names, or a module with children.
        *runs: Functions without arguments that run the program, at several sizes. Without them a pipeline with a
            component that no row knows runs at its smallest sizes.

    Returns:
        The name, spec, model and configuration of each part.

    Raises:
        InvalidSpec: `pipeline` has no components, no spec can be derived for one, or one works in tiles.
        UnknownName: No spec is known for the class of a component, and the program cannot be run without `runs`.

    >>> from types import SimpleNamespace
    >>> CLIPTextModel = type("CLIPTextModel", (), {"forward": None, "state_dict": None, "config": {"vocab_size": 99}})
    >>> pipeline = SimpleNamespace(components={"text_encoder": CLIPTextModel(), "tokenizer": object()}, config={})
    >>> [part.name for part in pipeline_parts(pipeline)]
    ['text_encoder']
    """
    runs = needed_runs(pipeline, *runs)
    models = {name: model for name, model in components(pipeline).items() if runs or name not in LEFT_OUT}
    for name, model in models.items():
        if getattr(model, "use_tiling", False):
            whole = f"a graph has whole pictures; call {name}.disable_tiling()"
            raise InvalidSpec(f"{name} ({_class(model)}) works in tiles, as many as a picture needs; {whole}")
    # Under Optimum's names. Stable Diffusion XL and 3 read hidden states before the last of their text encoders.
    config = getattr(pipeline, "config", {})
    config = config if isinstance(config, Mapping) else {}
    facts: dict[str, Any] = {"requires_aesthetics_score": bool(config.get("requires_aesthetics_score"))}
    if encoder := next((each for each in models.values() if _class(each) == "CLIPTextModelWithProjection"), None):
        facts |= {"output_hidden_states": True, "text_encoder_projection_dim": encoder.config.projection_dim}
    of_rows = {
        f"{name}{suffix}": PipelinePart(f"{name}{suffix}", spec_for(row), model, {**snapshot(model), **facts})
        for name, model in models.items()
        for suffix, row in COMPONENT_ROWS.get(_class(model), ())
    }
    seen = watched(pipeline, *runs) if runs else {}
    fitting = {name: part for name, part in of_rows.items() if name not in seen or _takes(part, seen[name])}
    derived_parts = {
        name: PipelinePart(name, derived(each.model, sample=each.sample, axes=each.axes), each.model, {})
        for name, each in seen.items()
        if name not in fitting
    }
    parts = fitting | derived_parts
    return tuple(parts[name] for name in dict.fromkeys((*of_rows, *seen)))


def needed_runs(pipeline: Any, *runs: Callable[[], Any]) -> tuple[Callable[[], Any], ...]:
    """The runs of a program; if it has none and a component without a row, default ones. UnknownName if it has none."""
    models = {name: model for name, model in components(pipeline).items() if name not in LEFT_OUT}
    unknown = [f"{name} ({_class(model)})" for name, model in models.items() if _class(model) not in COMPONENT_ROWS]
    runs = runs or (default_runs(pipeline) if unknown else ())
    if unknown and not runs:
        raise UnknownName(
            f"no spec for {', '.join(unknown)} of {type(pipeline).__name__}; pass run=, a function that runs it; known "
            f"classes: {listed(COMPONENT_ROWS)}"
        )
    return runs


def default_runs(pipeline: Any) -> tuple[Callable[[], Any], ...]:
    """Two runs of a pipeline at its smallest sizes, with those of some known arguments that it takes; else none."""
    parameters = inspect.signature(type(pipeline).__call__).parameters if callable(pipeline) else {}
    if not {"prompt", "image", "num_inference_steps"} & {*parameters}:
        return ()
    short, longer = "a cat", "a red cat on the moon"
    first = {"prompt": short, "batch_size": 1, **_sizes(pipeline, 8, 8)}
    larger = {**first, **_sizes(pipeline, 12, 16), "prompt": longer}
    others = [{**larger, "prompt": [longer, short], "batch_size": 2}, larger, {**first, "prompt": longer}]
    taken = [[{name: each[name] for name in each if name in parameters} for each in run] for run in ([first], others)]
    return tuple(partial(_called, pipeline, attempts) for attempts in taken)


def _called(pipeline: Any, attempts: Sequence[Mapping[str, Any]]) -> Any:
    """The result of a pipeline for the first of some arguments that it takes."""
    for number, arguments in enumerate(attempts, 1):
        try:
            return pipeline(**arguments)
        except Exception as error:
            raise_no_memory(error)
            if number == len(attempts):
                shown = ", ".join(f"{name}={value!r:.20}" for name, value in arguments.items())
                problem = f"{type(pipeline).__name__} does not run with {shown}: {type(error).__name__}"
                raise InvalidSpec(f"{problem}: {first_line(error)}; pass run=, a function that runs it") from error
    return None


def _sizes(pipeline: Any, rows: int, columns: int) -> dict[str, Any]:
    """Pictures with latents of these sizes, under the names that pipelines have for them, and few steps."""
    import torch

    scales = (getattr(pipeline, name, None) for name in ("vae_scale_factor", "vae_scale_factor_spatial"))
    scale = next(filter(None, scales), 8)
    height, width = rows * scale, columns * scale
    picture = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(0))
    pictures = dict.fromkeys(("image", "control_image", "conditioning_image"), picture)
    sizes = {"height": height, "width": width, "num_frames": rows + 1, "mask_image": picture[:, :1].round()}
    return {**sizes, **pictures, "num_inference_steps": 4, "output_type": "pt"}


WIDER: Mapping[str, str] = MappingProxyType({"float16": "float32", "q4f16": "q4"})
"""A dtype in which a part may overflow -> the dtype that it then has."""


def exported_part(part: PipelinePart, path: Path, dtypes: tuple[str, ...], **known: Any) -> Exported:
    """The export of a part in these dtypes; in wider ones if it overflows in them, with a remark."""
    try:
        return export(part.spec, part.model, path, dtypes=dtypes, **known)
    except CheckFailed as error:
        wider = tuple(dict.fromkeys(WIDER.get(dtype, dtype) for dtype in dtypes))
        if wider == dtypes or all(isfinite(each.max_abs) for each in error.report.differences):
            raise
    remark = f"{part.name} overflows in float16; its dtypes are {', '.join(wider)}"
    return with_remark(export(part.spec, part.model, path, dtypes=wider, **known), path, remark)


def _takes(part: PipelinePart, seen: Watched) -> bool:
    """Whether a program calls the component of a part, unchanged, with the tensors of its row, and gets as many."""
    if getattr(seen.model, "__self__", seen.model) is not part.model:
        return False
    gives = len(resolved(part.spec, part.config).outputs) == seen.results
    return gives and {*argument_names(part.spec, part.config)} == {*seen.axes}


def _class(model: Any) -> str:
    return type(model).__name__
