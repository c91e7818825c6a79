"""onnxruntime-genai and models that see: `embedding.onnx`, and the blocks of `genai_config.json`.

The runtime runs `embedding.onnx` at each step: it looks up tokens and puts features of images in their places.
transformers.js merges by itself and loads `embed_tokens.onnx`. The former graph has the nodes of the latter, and its
external data, so both files share one table of weights.

`vision_processor.json` defines the inputs of a tower: the runtime reads steps of onnxruntime-extensions, not the file
of transformers. That file is named `processor_config.json`, the default name of the runtime, so `genai_config.json`
names `vision_processor.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxfn.architectures.placeholders import IMAGE_FEATURES, placeholders
from onnxfn.export.clients.folder import CONFIG, Folder, changed, first_parts, json_object
from onnxfn.export.clients.tokenizer import PREPROCESSOR, PROCESSOR
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, EMBEDS, IDS
from onnxfn.weights.layouts import dtype_suffix

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
    sees = sees_in_genai(folder.plan, json_object(folder, CONFIG) or {})
    stated = _image_processor(folder) if sees else None
    steps = stated and {"processor": {"name": "image_processor", "transforms": [*_steps(stated)]}}
    return changed(folder, VISION_PROCESSOR, steps)


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


EMBEDDING = "embedding"
"""The stem of the file, as onnxruntime-genai calls the part."""

VISION = "vision_encoder"

DECODER = "decoder_model_merged"

TOKENS = ("image_token_id", "video_token_id", "vision_start_token_id")
SIZES = ("spatial_merge_size", "patch_size")
"""Keys of the configuration, and of its section for images, that the runtime reads in `model` and in `model.vision`."""

TYPES = ("qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe", "mistral3")
"""The values of `model.type` for which the runtime passes the inputs of the files: model types."""


def sees_in_genai(plan: Plan, config: Mapping[str, Any]) -> bool:
    """Whether onnxruntime-genai has a runtime for a plan with images."""
    return {VISION, EMBEDDING_FILE, DECODER} <= {*parts_by_stem(plan)} and config.get("model_type") in TYPES


def image_limits(plan: Plan, config: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for a vision model without known files for the runtime."""
    if sees_in_genai(plan, config) or not {VISION, EMBEDDING_FILE} <= {*parts_by_stem(plan)}:
        return ()
    return (f"onnxruntime-genai gets no genai_config.json for {config.get('model_type')} with images",)


def decoder_with_images(plan: Plan) -> Part:
    """The decoder part, which takes embeddings, of a plan that the runtime can load."""
    return parts_by_stem(plan)[DECODER]


def image_blocks(plan: Plan, config: Mapping[str, Any], folder: str, processor: str | None) -> dict[str, Any]:
    """The type, the tokens, and the blocks of the files that read images and tokens, in `model`.

    `processor` is the file with the steps from pictures to the inputs of the tower, if there is one.
    """
    vision = parts_by_stem(plan)[VISION]
    sizes = {**config, **(config.get("vision_config") or {})}
    return {
        "type": config["model_type"],
        **{key: config[key] for key in TOKENS if key in config},
        "embedding": {
            "filename": f"{folder}/{EMBEDDING}.onnx".removeprefix("/"),
            "inputs": {IDS: IDS, IMAGE_FEATURES: IMAGE_FEATURES},
            "outputs": {EMBEDS: EMBEDS},
        },
        "vision": {
            "filename": f"{folder}/{vision.name}.onnx".removeprefix("/"),
            **({} if processor is None else {"config_filename": processor}),
            **{key: sizes[key] for key in SIZES if key in sizes},
            "inputs": {name: name for name in vision.inputs},
            "outputs": {IMAGE_FEATURES: IMAGE_FEATURES},
        },
    }


def parts_by_stem(plan: Plan) -> dict[str, Part]:
    """The parts of the first dtype of a plan, by the stem of their files without the suffix of the dtype."""
    return {part.name.removesuffix(dtype_suffix(part.dtype)): part for part in first_parts(plan)}


def write_embedding(folder: Path, plan: Plan, config: Mapping[str, Any]) -> tuple[Path, ...]:
    """Writes `embedding.onnx` next to `embed_tokens.onnx`; nothing for plans that the runtime cannot use."""
    if not sees_in_genai(plan, config):
        return ()
    import onnx

    table = onnx.load(folder / f"{parts_by_stem(plan)[EMBEDDING_FILE].name}.onnx", load_external_data=False)
    path = folder / f"{EMBEDDING}.onnx"
    path.write_bytes(merging_graph(table, placeholders(config).tokens[IMAGE_FEATURES]).SerializeToString())
    return (path,)


def merging_graph(table: Any, placeholder: int) -> Any:
    """The graph of a table of embeddings that also takes `image_features`, `[rows, width]`, in place of a token.

    A placeholder token without a row keeps its own embedding: the runtime gives no rows after the prompt,
    and the model may write the token. Without placeholders in the texts there are no rows at all. Both graphs are an
    `onnx.ModelProto`, and refer to the same external data.
    """
    from onnx import TensorProto, helper, numpy_helper

    merging = type(table)()
    merging.CopyFrom(table)
    graph, node = merging.graph, helper.make_node
    for each in graph.node:
        each.output[:] = ["token_embeddings" if name == EMBEDS else name for name in each.output]
    width = graph.output[0].type.tensor_type.shape.dim[2].dim_value
    constants = {
        "placeholder": np.int64(placeholder),
        "one_axis": np.array([-1]),
        "last_axis": np.array([-1]),
        "first_axis": np.int64(0),
        "no_features": np.zeros((1, width), np.float32),
    }
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    graph.node.extend(
        [
            node("Equal", [IDS, "placeholder"], ["is_placeholder"]),
            node("Cast", ["is_placeholder"], ["ones"], to=TensorProto.INT64),
            node("Reshape", ["ones", "one_axis"], ["ones_in_a_row"]),
            node("CumSum", ["ones_in_a_row", "first_axis"], ["counts"]),
            node("Shape", [IDS], ["shape"]),
            node("Reshape", ["counts", "shape"], ["numbers"]),
            node("Shape", [IMAGE_FEATURES], ["row_count"], start=0, end=1),
            node("LessOrEqual", ["numbers", "row_count"], ["has_row"]),
            node("And", ["is_placeholder", "has_row"], ["is_row"]),
            node("Where", ["is_row", "numbers", "first_axis"], ["row_numbers"]),
            node("Concat", ["no_features", IMAGE_FEATURES], ["rows"], axis=0),
            node("Gather", ["rows", "row_numbers"], ["features"], axis=0),
            node("Unsqueeze", ["is_row", "last_axis"], ["is_feature"]),
            node("Where", ["is_feature", "features", "token_embeddings"], [EMBEDS]),
        ]
    )
    rows = helper.make_tensor_value_info(IMAGE_FEATURES, TensorProto.FLOAT, ["num_image_tokens", width])
    graph.input.append(rows)
    return merging
