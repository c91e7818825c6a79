"""onnxruntime-genai and pictures: `vision_processor.json`, by which the runtime makes the inputs of a tower.

The runtime reads steps of onnxruntime-extensions, not what transformers writes. transformers calls its own file
`processor_config.json`, which is the runtime's default name, so `genai_config.json` states this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.folder import CONFIG, Folder, changed, json_object
from onnxfn.export.clients.genai_images import sees_in_genai
from onnxfn.export.clients.tokenizer import PREPROCESSOR, PROCESSOR

VISION_PROCESSOR = "vision_processor.json"

PIXEL_KEYS = (("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels"))
"""The keys of `size` with the fewest and the most pixels of an image, and the older keys of the same numbers."""

NUMBERS = ("patch_size", "temporal_patch_size", "merge_size", "rescale_factor", "image_mean", "image_std")
"""The other keys of an image processor that the steps follow from."""

STEPS = ("do_convert_rgb", "do_resize", "do_rescale", "do_normalize")
"""The keys by which an image processor leaves out a step; the runtime has all of them."""

BICUBIC = 3
INTERPOLATIONS: Mapping[int, str] = MappingProxyType({0: "NEAREST", 1: "LANCZOS", 2: "LINEAR", BICUBIC: "CUBIC"})
"""The number of a resampling filter in `resample`, and its name in the runtime."""


def vision_processor(folder: Folder) -> dict[str, str]:
    """`vision_processor.json` for a model with images that the runtime can load; nothing for others.

    Nor is there one without an image processor, or for one that leaves out a step.
    """
    if not sees_in_genai(folder.plan, json_object(folder, CONFIG) or {}):
        return {}
    stated = _image_processor(folder)
    if stated is None:
        return {}
    return changed(
        folder, VISION_PROCESSOR, {"processor": {"name": "image_processor", "transforms": [*_steps(stated)]}}
    )


def _image_processor(folder: Folder) -> dict[str, Any] | None:
    """The keys of an image processor that makes patches in a row; None if the folder has none."""
    inner = (json_object(folder, PROCESSOR) or {}).get("image_processor")
    stated: Mapping[str, Any] = inner if isinstance(inner, Mapping) else json_object(folder, PREPROCESSOR) or {}
    size = stated.get("size")
    sizes: Mapping[str, Any] = size if isinstance(size, Mapping) else {}
    known = {
        **{name: stated.get(name) for name in NUMBERS},
        **{old: stated.get(old) or sizes.get(new) for new, old in PIXEL_KEYS},
        "interpolation": INTERPOLATIONS.get(stated.get("resample", BICUBIC)),
    }
    has_all = None not in known.values() and all(stated.get(step, True) for step in STEPS)
    return known if has_all else None


def _steps(stated: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps from the bytes of a picture to its patches."""
    yield _step("DecodeImage", color_space="RGB")
    yield _step("ConvertRGB")
    sizes = {name: stated[name] for name in ("min_pixels", "max_pixels", "patch_size", "merge_size", "interpolation")}
    # A smart size follows from that of the picture; the runtime wants others all the same.
    side = stated["patch_size"] * stated["merge_size"]
    yield _step("Resize", height=side, width=side, smart_resize=1, **sizes)
    yield _step("Rescale", rescale_factor=stated["rescale_factor"])
    # The word is that of the values in a row, for all types of this kind.
    yield _step("Normalize", mean=stated["image_mean"], std=stated["image_std"], qwen2_5_vl=1)
    yield _step("PatchImage", **{name: stated[name] for name in ("patch_size", "temporal_patch_size", "merge_size")})


def _step(kind: str, **attributes: Any) -> dict[str, Any]:
    """A step of a kind.

    >>> _step("Rescale", rescale_factor=0.5)
    {'operation': {'name': 'rescale', 'type': 'Rescale', 'attrs': {'rescale_factor': 0.5}}}
    >>> _step("ConvertRGB")
    {'operation': {'name': 'convertrgb', 'type': 'ConvertRGB'}}
    """
    attrs = {"attrs": attributes} if attributes else {}
    return {"operation": {"name": kind.lower(), "type": kind, **attrs}}
