"""Tiny random models of every architecture: small enough to export in seconds, uneven enough to show faults."""

from collections.abc import Callable, Mapping
from typing import Any

from norm_statistics import batch_norms, measured_statistics
from sizes import NORMED, SIZES, SPECIAL

CALLED: Mapping[str, str] = {"siglip-text": "siglip_text_model", "siglip-text-with-projection": "siglip_text_model"}
"""What Optimum calls otherwise than transformers."""

BIASED: Mapping[str, float] = {"mobilenet_v1": 1.0, "mobilenet_v2": 1.5}
"""Deep nets of units that clip make ten times more of rounding when half of the units are off (1e-4 of float64)."""

QUIET = frozenset({"dac", "pe_audio_encoder"})
"""transformers begins their convolutions with 0.02, whatever their size, and a sound that dies away proves nothing."""

MATCHERS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "lightglue": {"final_projection.weight": (15, 0), "matchability.bias": (1, 3)},
    "superglue": {"final_proj.weight": (0.5, 0)},
    "sam": {"shared_image_embedding.positional_embedding": (1 / 16, 0)},
}
"""The end of the name of weights -> their factor, and what is added.

LightGlue: all keypoints look alike, and none is worth a match: these look further apart, and are worth it. SuperGlue:
scores are so far apart that PyTorch's own rounding shows in a match as 1e-5: a quarter as far. SAM: angles are so
large that PyTorch's own rounding shows in their sines as 1e-5: a sixteenth, as in SAM 2.
"""

FAR = ("depth_pro",)
LOUD = ("tipsv2_dpt",)
"""Where weights are drawn for layers without sums, and each is added to what came before it."""

# Models that another one speaks with.
BESIDE: Mapping[str, Mapping[str, tuple[str, str]]] = {"speecht5": {"vocoder": ("speecht5_hifigan", "SpeechT5HifiGan")}}


def config(model_type: str, **overrides: Any) -> Any:
    from transformers import AutoConfig

    default = AutoConfig.for_model(CALLED.get(model_type, model_type))
    told = default.to_dict()
    sizes = {name: value for name, value in SIZES.items() if name in told or name in default.attribute_map}
    chosen = {**sizes, **_layer_types(told), **SPECIAL.get(model_type, {}), **overrides}
    return type(default)(**{**_tokens(told, chosen.get("vocab_size")), **chosen})


def model(
    model_type: str, loader: str = "AutoModel", change: Callable[[Any], Any] = lambda config: config, **overrides: Any
) -> Any:
    import torch
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind = getattr(transformers, loader)
        found = getattr(kind, "from_config", kind)(change(config(model_type, **overrides))).eval()
        for name, (other, kind) in BESIDE.get(model_type, {}).items():
            setattr(found, name, getattr(transformers, kind)(config(other)).eval())
        if model_type in NORMED:
            _norm(found, NORMED[model_type], BIASED.get(model_type, 0.0))
        disturb(found)
        if model_type in QUIET:
            _louden(found)
        if model_type in MATCHERS:
            _moderate(found, MATCHERS[model_type])
        if model_type in FAR:
            _bring_near(found)
        if model_type in LOUD:
            _hush(found)
    return found


def spec_and_model(model_type: str, task: str, **overrides: Any) -> tuple[Any, Any]:
    import onnxfn

    spec = onnxfn.spec_for(model_type, task)
    return spec, model(model_type, spec.call.loader, **overrides)


def _tokens(told: Mapping[str, Any], vocabulary: int | None) -> dict[str, int]:
    """Special tokens that the small vocabulary lacks, moved to 1."""
    ids = {name: value for name, value in told.items() if name.endswith("_token_id") and isinstance(value, int)}
    moved = {name: 1 for name, value in ids.items() if vocabulary is not None and value >= vocabulary}
    return {"pad_token_id": 0, **moved} if told.get("pad_token_id") is None else moved


def _layer_types(told: Mapping[str, Any]) -> dict[str, list[str]]:
    """Two layers of the kinds that the architecture has, one of each."""
    kinds = list(dict.fromkeys(told.get("layer_types") or ()))
    return {"layer_types": (kinds * 2)[:2]} if kinds else {}


def _norm(model: Any, shape: list[int], bias: float) -> None:
    """Norms over batches get this bias, and the statistics of noise of this shape."""
    import torch

    for norm in batch_norms(model) if bias else ():
        norm.bias.data += bias
    with torch.no_grad(), measured_statistics(model):
        model(torch.randn(shape))


def disturb(model: Any) -> None:
    """Norms of all ones, biases and codes of all zeros and fresh statistics hide a fault: each becomes uneven."""
    import torch

    with torch.no_grad():
        for weights in model.parameters():
            if weights.is_floating_point() and weights.numel() > 1 and bool((weights == weights.flatten()[0]).all()):
                weights.add_(torch.randn_like(weights) * 0.1)
        for name, statistics in model.named_buffers():
            if name.endswith(("running_mean", "running_var")) and bool((statistics == statistics.flatten()[0]).all()):
                statistics.add_(torch.rand_like(statistics) * 0.5)
            if name.endswith("codebook.embed"):
                statistics.add_(torch.randn_like(statistics))


def _louden(model: Any) -> None:
    """Convolutions whose weights are so small that a sound dies away in them: each gives half of what it took."""
    import torch

    convolutions = (torch.nn.Conv1d, torch.nn.ConvTranspose1d)
    with torch.no_grad():
        for layer in (one for one in model.modules() if isinstance(one, convolutions)):
            layer.weight.mul_(0.5 / (layer.weight.std() * (layer.weight[0].numel() or 1) ** 0.5))


def _moderate(model: Any, changes: Mapping[str, tuple[float, float]]) -> None:
    for name, weights in model.named_parameters():
        for end, (factor, more) in changes.items():
            if name.endswith(end):
                weights.data.mul_(factor).add_(more)


def _bring_near(model: Any) -> None:
    """Depths of hundreds, and of nothing at most places, as some that are all about one."""
    for layer in _planar(model):
        if layer.out_channels == 1:
            layer.weight.data *= 0.02
            layer.bias.data += 4


def _hush(model: Any) -> None:
    """Convolutions drawn so wide that sums of their sums pass a hundred: each weighs half."""
    for layer in _planar(model):
        layer.weight.data *= 0.5


def _planar(model: Any) -> list[Any]:
    import torch

    return [one for one in model.modules() if isinstance(one, torch.nn.Conv2d)]
