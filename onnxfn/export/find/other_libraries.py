"""The rows of models of timm, sentence-transformers and diffusers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import UnknownName, listed
from onnxfn.specs.plan.planning import resolved

COMPONENT_ROWS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "AutoencoderDC": (("_encoder", "diffusers.dcae-encoder"), ("_decoder", "diffusers.dcae-decoder")),
        "AutoencoderKL": (("_encoder", "diffusers.vae-encoder"), ("_decoder", "diffusers.vae-decoder")),
        "CLIPTextModel": (("", "diffusers.clip-text"),),
        "CLIPTextModelWithProjection": (("", "diffusers.clip-text-with-projection"),),
        "FluxTransformer2DModel": (("", "diffusers.flux-transformer-2d"),),
        "Gemma2Model": (("", "diffusers.gemma2-text-encoder"),),
        "SD3Transformer2DModel": (("", "diffusers.sd3-transformer-2d"),),
        "SanaTransformer2DModel": (("", "diffusers.sana-transformer"),),
        "T5EncoderModel": (("", "diffusers.t5-encoder"),),
        "UNet2DConditionModel": (("", "diffusers.unet-2d-condition"),),
    }
)
"""Class of a pipeline's component -> for each part of it, the suffix of the part's name, and the row."""


def row_name(model: Any) -> str | None:
    """The row of a model of timm, sentence-transformers or diffusers, else None. UnknownName if there are two."""
    match type(model).__module__.partition(".")[0]:
        case "timm":
            return "timm.default-timm-config"
        case "sentence_transformers":
            is_clip = getattr(model.config, "model_type", None) == "clip"
            return f"sentence_transformers.{'clip' if is_clip else 'transformer'}"
        case "diffusers":
            rows = [row for _, row in COMPONENT_ROWS.get(type(model).__name__, ())]
            if len(rows) > 1:
                raise UnknownName(f"{type(model).__name__} has several parts; pass the name of one row: {listed(rows)}")
            return next(iter(rows), None)
    return None


def argument_names(spec: ExportSpec, config: Mapping[str, Any]) -> dict[str, str]:
    """From the place of each tensor in the arguments, with dots, to the name of its input in ONNX."""
    return {".".join(map(str, input_.forward_path)): input_.name for input_ in resolved(spec, config).inputs}
