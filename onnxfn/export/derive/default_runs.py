"""Runs of a pipeline of diffusers that the user gave none for: a few words, small pictures, few steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from onnxfn.specs.errors import InvalidSpec, first_line, raise_no_memory

PROMPT, LONGER = "a cat", "a red cat on the moon"


def default_runs(pipeline: Any) -> tuple[Callable[[], Any], ...]:
    """Two runs of a pipeline at its smallest sizes, with those of some known arguments that it takes.

    The second has two longer prompts and a larger picture, as far as the pipeline takes these. No runs for what takes
    neither text nor pictures.

    InvalidSpec if the pipeline does not run so.
    """
    parameters = inspect.signature(type(pipeline).__call__).parameters if callable(pipeline) else {}
    if not {"prompt", "image", "num_inference_steps"} & {*parameters}:
        return ()
    small, large = _sizes(pipeline, 8, 8), _sizes(pipeline, 12, 16)
    first = {"prompt": PROMPT, "batch_size": 1, **small}
    others = [{**first, **large, "prompt": [LONGER, PROMPT], "batch_size": 2}, {**first, **large, "prompt": LONGER}]
    others.append({**first, "prompt": LONGER})

    def run(*attempts: Mapping[str, Any]) -> Callable[[], Any]:
        taken = [{name: each[name] for name in each if name in parameters} for each in attempts]
        return partial(_called, pipeline, taken)

    return run(first), run(*others)


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
