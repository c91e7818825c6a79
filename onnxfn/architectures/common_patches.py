"""Patches that several model types need. Rows use them, and so do specs that are derived from a model."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.architectures.functions import FUNCTIONS
from onnxfn.architectures.signatures import missing_arguments, replaced_parameters, returns_several
from onnxfn.specs.compose import compose
from onnxfn.specs.errors import unknown
from onnxfn.specs.facts import patched
from onnxfn.specs.functions import resolve
from onnxfn.specs.spec import Call, ExportSpec

# A trace of the loop would contain only the experts that the traced tokens choose.
batched_experts: ExportSpec = patched(
    "transformers.integrations.moe:ExpertsInterface.get_interface",
    by="moe.batched_mm_forward",
    why="loops over the experts that the tokens choose",
)
"""The patch for mixtures of experts: every expert is in the graph."""

_LINEAR_ATTENTION_LAYER = "transformers.cache_utils:LinearAttentionLayer"
linear_attention_cache: ExportSpec = compose(
    patched(
        f"{_LINEAR_ATTENTION_LAYER}.update_conv_state", by="recurrent.conv_state", why="branches on the sequence length"
    ),
    patched(
        f"{_LINEAR_ATTENTION_LAYER}.update_recurrent_state",
        by="recurrent.recurrent_state",
        why="writes into its input",
    ),
)
"""The patches for a cache with recurrent layers."""

sliding_window_cache: ExportSpec = patched(
    "transformers.cache_utils:DynamicSlidingWindowLayer.update",
    by="sliding_window.updated_states",
    why="branches on the length of the text",
)
"""The patch for a cache that a model makes itself, with layers that have a sliding window."""

FUNCTION_PATCHES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "AxialPositionEmbeddings.forward": ("reformer.axial_positions", "loops over the texts"),
        "BartEncoderLayer.forward": (
            "bart.encoder_layer_output",
            "branches on whether a float16 tensor has infinities",
        ),
        "Cosmos3EdgeVisionEmbeddings.resize_positional_embeddings": (
            "packed_vision.antialiased_positions",
            "loops over the images",
        ),
        "CpmAntModel._prepare_attention_mask": ("cpmant.attention_mask", "makes a list of the positions"),
        "DbrxExperts.forward": ("experts.dbrx_outputs", "loops over the experts that the tokens choose"),
        "Gemma4VisionPooler._avg_pool_by_positions": (
            "packed_vision.averaged_tokens",
            "takes the number of classes of one_hot from a size",
        ),
        "Florence2VisionChannelAttention.forward": (
            "florence2.channel_attention",
            "scales by a number of Python that depends on the number of tokens",
        ),
        "Gemma3nTextMLP._gaussian_topk": (
            "gemma3n.gaussian_topk",
            "computes the inverse error function, which ONNX does not have",
        ),
        "GraniteSpeechConformerAttention.forward": ("granite.conformer_attention", "pads to whole blocks by branches"),
        "GraniteSpeechPlusConformerAttention.forward": (
            "granite.conformer_attention",
            "pads to whole blocks by branches",
        ),
        "HYV4VLVisionModel.forward": ("grid_convolutions.hy_v4_vl_features", "loops over the images"),
        "HunYuanVLVisionTransformer.forward": ("grid_convolutions.hunyuan_vl_features", "loops over the images"),
        "Idefics2Model.get_image_features": ("tiles.idefics2_features", "leaves tiles of padding out first"),
        "Idefics3Model.get_image_features": ("tiles.idefics3_features", "leaves tiles of padding out first"),
        "Siglip2VisionEmbeddings.resize_positional_embeddings": (
            "siglip2.resized_positional_embeddings",
            "loops over the images, and reads the shape of each from a tensor",
        ),
        **{
            f"{model}.get_image_features": ("tiles.smolvlm_features", "leaves tiles of padding out first")
            for model in ("ModernVBertModel", "SmolVLMModel", "UltraVBertModel")
        },
        "Kimi_K25VisionModel.temporal_merge": ("packed_vision.merged_frames", "reads the numbers of patches"),
        "Lfm3VlVisionModel.forward": ("grid_convolutions.lfm3_vl_states", "makes a list of the grids"),
        "Lfm3VlVisionShortConv.forward": ("grid_convolutions.lfm3_vl_convolution", "loops over the images"),
        "Lfm2VlModel.get_image_features": ("merged_blocks.lfm2_vl_features", "loops over the images"),
        "PaddleOCRProjector.forward": ("merged_blocks.paddleocr_features", "loops over the images"),
        **{
            f"{model}.get_image_features": (
                "unpadded_tiles.tiled_features",
                "loops over the images, and reads their sizes",
            )
            for model in ("LlavaNextModel", "LlavaNextVideoModel", "LlavaOnevisionModel")
        },
        "LongcatFlashExperts.forward": ("experts.longcat_outputs", "loops over the experts that the tokens choose"),
        **{
            f"MiniCPM{version}Merger.forward": ("merged_blocks.minicpm_features", "loops over the images")
            for version in ("Ocr", "V4_6", "V4_7")
        },
        **{
            f"{model}Conv1d.forward": ("musicgen.conv1d_output", "computes the padding in tensors")
            for model in ("Mimi", "PocketTTSAudioTokenizer", "WavTokenizer")
        },
        "PixtralVisionModel.forward": ("image_rows.pixtral_states", "loops over the images"),
        "Qwen4ExpTextQSAIndexer.forward": (
            "indexers.selected_by_blocks",
            "loops over the texts and their tokens, and branches on how many are visible",
        ),
        "Sam3DetrEncoder._prepare_multilevel_features": ("sam3.flat_features", "puts sizes into a tensor"),
        "Sam3LiteTextDetrEncoder._prepare_multilevel_features": ("sam3.flat_features", "puts sizes into a tensor"),
        "Step3p7Experts.forward": ("experts.step3p7_outputs", "loops over the experts that the tokens choose"),
        "Step3p7Model.get_image_features": ("image_rows.step3p7_features", "loops over the images"),
        "VideoLlama3VisionModel.pixel_unshuffle": ("packed_vision.merged_patches", "loops over the images"),
        "build_alibi_tensor": (
            "falcon.alibi_bias",
            "multiplies in bfloat16, which ONNX Runtime does not support on every device",
        ),
        "chunk_kimi_delta_attention": ("recurrent.delta_rule", "loops over chunks of the sequence"),
        "mamba2_chunk_scan": ("recurrent.mamba2_scan", "pads the text to full chunks"),
        "combine_image_text_embeddings": ("udop.joined_embeddings", "loops over the tokens, then over the rows"),
        "make_padding_mask": ("fsmt.padding_mask", "branches on whether a text has padding"),
        "rwkv_linear_attention": ("rwkv.linear_attention", "loops over the tokens"),
        "shift_tokens_right": ("shift_tokens.shift_tokens_right", "removes the batch axis when its size is 1"),
        "Qwen2_5OmniThinkerModel.get_audio_features": (
            "packed_sound.omni_features",
            "branches on the number of rows that it computes",
        ),
        "chunk_and_pad_features": ("packed_sound.chunks", "splits the sounds into a list of chunks"),
        "get_pool_indices": ("packed_sound.pairs", "repeats the number of each sound as often as it has rows"),
        "get_audio_cu_seqlens": ("packed_sound.segment_ends", "loops over the sounds"),
        **{
            f"get_vision_{name}": (f"packed_vision.{by}", "loops over the images")
            for name, by in (
                ("cu_seqlens", "segment_ends"),
                ("attention_seqlens", "segment_ends_and_length"),
                ("position_ids", "position_ids"),
                ("window_index", "window_index"),
                ("pixel_shuffle_index", "merged_order"),
                ("frame_index", "frame_index"),
                ("nearest_position_ids", "nearest_position_ids"),
                ("temporal_merge_index", "temporal_merge_index"),
                ("interpolation_indices_and_weights", "interpolation_indices_and_weights"),
            )
        },
        **{
            f"{model}._deepstack_process": ("deepstack.added_features", "selects the tokens of images by a mask")
            for model in (
                "Qwen3VLTextModel",
                "Qwen3VLMoeTextModel",
                "Qwen3OmniMoeThinkerTextModel",
                "CohereCompassTextModel",
            )
        },
        "xLSTMBackend.forward": ("xlstm.matrix_memory", "loops over chunks of the text, then over its last tokens"),
        "torch_chunk_gated_delta_rule": ("recurrent.delta_rule", "loops over chunks of the sequence"),
    }
)
"""A function of transformers' modules -> the patch that replaces it, and why. Several modules repeat most of them.

A function of the same name may mean something else: `module_patches` replaces those whose arguments the patch takes.
"""

MEANT_IN: Mapping[str, str] = MappingProxyType({"build_alibi_tensor": "transformers.models.falcon.modeling_falcon"})
"""A function of FUNCTION_PATCHES -> its module, where another one with its name and arguments means something else.

Bloom multiplies in float32 what Falcon multiplies in bfloat16.
"""

CAUSAL = re.compile(r"is_causal(: bool)? ?= ?True|[\"']is_causal[\"']|self\.is_causal = is_causal")
"""How a module of transformers says that some of its attention is causal, whatever the configuration says."""

PACKED = (
    "get_vision_attention_seqlens",
    "get_vision_cu_seqlens",
    "get_vision_window_index",
    "Inkling2VisionAttention",
    "get_audio_cu_seqlens",
)
"""The functions and classes of a module whose tower attends within segments of a row of patches or frames."""


def packed_attention(module: str) -> ExportSpec:
    """The patches for such a tower: it attends to all patches in one call, with a mask, and not to each segment."""
    return compose(
        patched(f"{module}:is_flash_attention_requested", by="packed_vision.is_packed", why="loops over the segments"),
        patched(
            "transformers.modeling_utils:AttentionInterface.get_interface",
            by="packed_vision.attention_interface",
            why="flash attention takes the ends of segments, other attention a mask",
        ),
    )


def function_patch(module: str, function: str) -> ExportSpec:
    """The patch for one function of FUNCTION_PATCHES in the module of one model.

    >>> function_patch("transformers.models.mbart.modeling_mbart", "shift_tokens_right").call.patches[0].by
    'shift_tokens.shift_tokens_right'
    """
    if function not in FUNCTION_PATCHES:
        raise unknown("function", function, FUNCTION_PATCHES, of="FUNCTION_PATCHES")
    by, why = FUNCTION_PATCHES[function]
    return patched(f"{module}:{function}", by=by, why=why)


def module_patches(module: Any) -> ExportSpec:
    """The patches for the functions that a module of transformers has, with the arguments that the patches take.

    >>> from transformers.models.bart import modeling_bart
    >>> from transformers.models.mbart import modeling_mbart
    >>> [patch.by for patch in module_patches(modeling_mbart).call.patches]
    ['shift_tokens.shift_tokens_right']
    >>> [patch.by for patch in module_patches(modeling_bart).call.patches]  # its shift has a third argument
    ['bart.encoder_layer_output']
    """
    functions = (function_patch(module.__name__, name) for name in FUNCTION_PATCHES if _is_known(module, name))
    is_packed = any(hasattr(module, name) for name in PACKED)
    return compose(*functions, packed_attention(module.__name__) if is_packed else ExportSpec())


def _is_known(module: Any, name: str) -> bool:
    """Whether a module has a function of FUNCTION_PATCHES with that meaning, whose arguments its patch takes.

    In another version it may return several tensors in place of one.
    """
    if not _has(module, name) or MEANT_IN.get(name, module.__name__) != module.__name__:
        return False
    owner, _, method = name.rpartition(".")
    replacement = resolve(FUNCTION_PATCHES[name][0], FUNCTIONS, kind="patch")
    holder = getattr(module, owner) if owner else module
    results = {returns_several(getattr(holder, method)), returns_several(replacement)}
    return not (results == {True, False} or missing_arguments(*replaced_parameters(holder, method, replacement)))


def masked_by_eager(model: Any) -> ExportSpec:
    """The attention `eager` for a model whose causal masks are for an attention that is not causal itself.

    With sdpa, transformers leaves a causal mask out when no text has padding, and relies on the attention. So such a
    model is causal only if a text of the batch has padding, and no graph can be that. With eager it is always causal.

    >>> from transformers import AutoConfig, AutoModel
    >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
    >>> config = AutoConfig.for_model("aimv2", text_config=sizes, vision_config=sizes)
    >>> masked_by_eager(AutoModel.from_config(config)).call.attention
    'eager'
    """
    is_causal: dict[str, set[bool]] = {}
    for module in model.modules():
        if isinstance(getattr(module, "is_causal", None), bool):
            is_causal.setdefault(type(module).__module__, set()).add(module.is_causal)
    texts = [inspect.getsource(sys.modules[name]) for name, values in is_causal.items() if values == {False}]
    is_masked = any("create_causal_mask(" in text and not CAUSAL.search(text) for text in texts)
    return ExportSpec(call=Call(attention="eager")) if is_masked else ExportSpec()


def _has(module: Any, name: str) -> bool:
    """Whether a module has a function, or a class with a method: `function`, `Class.method`."""
    owner, _, method = name.rpartition(".")
    return hasattr(getattr(module, owner, None) if owner else module, method)


def position_ids_patch(model: str) -> ExportSpec:
    """The patch for a sinusoidal position embedding that computes position ids from token ids.

    Args:
        model: The module of the model and the prefix of its classes: `transformers.models.x.modeling_x:X`.

    >>> position_ids_patch("transformers.models.m2m_100.modeling_m2m_100:M2M100").call.patches[0].by
    'position_ids.position_ids_from_input_ids'
    """
    return patched(
        f"{model}SinusoidalPositionalEmbedding.create_position_ids_from_input_ids",
        by="position_ids.position_ids_from_input_ids",
        why="adds an int64 length to int32 positions",
    )
