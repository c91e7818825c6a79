"""Models of the default configuration of a type, with random weights: real sizes."""

from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

from norm_statistics import measured_statistics
from sizes import DEFAULTS

SEEDS: Mapping[str, int] = {"depth_anything": 2, "pp_doclayout_v3": 1}
"""Seeds of random weights, if not 0. With 0 all depths are below 0 and become 0, or all boxes of masks are empty."""

NOT_MEASURED = frozenset({"align", "levit"})
"""Types whose norms have the statistics of a new model: with measured ones random weights amplify rounding."""


def model(model_type: str, loader: str) -> Any:
    import torch
    import transformers

    torch.manual_seed(SEEDS.get(model_type, 0))
    overrides = deepcopy(DEFAULTS.get(model_type, {}))  # transformers changes nested values
    config = transformers.AutoConfig.for_model(model_type, **overrides)
    kind = getattr(transformers, loader)
    built = getattr(kind, "from_config", kind)(config).eval()
    if model_type == "speecht5":
        built.vocoder = transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig()).eval()
    return built


def outputs_with_statistics(model: Any, spec: Any) -> dict[str, Any]:
    """The outputs of a model for its dummy inputs, by name; norms over batches take the statistics of these inputs."""
    import torch

    import onnxfn
    from onnxfn.export.run.runnable_images import with_runnable_images
    from onnxfn.models.forward import flat_forward, tensors_for
    from onnxfn.specs.algebra.dummies import dummies

    outputs: dict[str, Any] = {}
    statistics = nullcontext if model.config.model_type in NOT_MEASURED else measured_statistics
    for part in with_runnable_images(model, onnxfn.plan(spec, model.config)).parts:
        tensors = tensors_for(model, part.spec, dummies(part.spec, {}))
        with torch.no_grad(), statistics(model):
            outputs |= zip(part.outputs, flat_forward(model, part.spec)(tensors), strict=True)
    return {name: tensor for name, tensor in outputs.items() if not name.startswith("present")}


def least_variation(outputs: Mapping[str, Any]) -> float:
    """The smallest variation of the outputs that are real numbers, to two digits; 1 if there are none."""
    floats = (tensor for tensor in outputs.values() if tensor.is_floating_point())
    return float(f"{min(map(variation, floats), default=1.0):.1e}")


def variation(output: Any) -> float:
    """The standard deviation of a tensor, divided by its largest element; 0 if its elements vanish."""
    elements = output.detach().double().flatten()
    largest = float(elements.abs().max())
    return float(elements.std(correction=0)) / largest if largest > 1e-10 else 0.0
