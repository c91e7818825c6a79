"""The functions of libraries that are replaced during a trace, by the modules of layers, with reasons."""

import builtins
import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from onnxfn.specs.algebra.compose import named
from onnxfn.specs.algebra.spec import Call
from onnxfn.specs.plan.text_cases import is_scaled
from onnxfn.specs.records import Patch

MODELS = ("transformers.models.", "diffusers.models.", "timm.models.")
"""The packages whose modules define the layers of models."""

TEXT = """
branches on the length
    sound.relative_positional_encoding FastSpeech2ConformerRelPositionalEncoding.forward
    sound.block_attention GraniteSpeech5EncoderAttention.forward
    sound.conformer_attention GraniteSpeechConformerAttention.forward GraniteSpeechPlusConformerAttention.forward
    longformer.led_unpadded_inputs LEDEncoder._pad_to_window_size
    longformer.unpadded_inputs LongformerModel._pad_to_window_size
    text.global_block_ids longt5:_make_global_fixed_block_ids
    recurrent.conv_state transformers.cache_utils:LinearAttentionLayer.update_conv_state
branches on the size of an image
    image_padding.padded_as_tensorflow mobilenet_v1:apply_tf_padding mobilenet_v2:apply_tf_padding
    image_padding.padded_to_even SwinPatchMerging.maybe_pad MaskFormerSwinPatchMerging.maybe_pad
    image_padding.padded_to_layer_windows SwinLayer.maybe_pad MaskFormerSwinLayer.maybe_pad
    image_padding.padded_to_patches SwinPatchEmbeddings.maybe_pad MaskFormerSwinPatchEmbeddings.maybe_pad
        FocalNetPatchEmbeddings.maybe_pad
    image_sizes.interpolated_bicubic Dinov2Embeddings.interpolate_pos_encoding
branches on values
    text.encoder_layer_output BartEncoderLayer.forward BlenderbotSmallEncoderLayer.forward MarianEncoderLayer.forward
        PLBartEncoderLayer.forward
    attention.padding_mask make_padding_mask
    longformer.attention LongformerSelfAttention.forward LEDEncoderSelfAttention.forward
    depth.metric_depth ZoeDepthMultipleMetricDepthEstimationHeads.forward
branches on the largest position
    attention.phimoe_angles PhimoeRotaryEmbedding.forward
branches on whether the batch size is 64 or more
    image_padding.upsampled_features diffusers.models.upsampling:Upsample2D.forward
computes the inverse error function, which ONNX does not have
    text.gaussian_topk Gemma3nTextMLP._gaussian_topk
computes with sizes in Python, or in tensors
    depth.depth_estimation_output DPTForDepthEstimation.forward
    depth.semantic_segmentation_output DPTForSemanticSegmentation.forward
    keypoints.aggregated_attention EfficientLoFTRAggregatedAttention.forward
    keypoints.keypoint_matching_output EfficientLoFTRForKeypointMatching.forward
    image_sizes.channel_attention Florence2VisionChannelAttention.forward
    attention.position_embeds FunnelAttentionStructure.get_position_embeds
    image_padding.windowed_block timm.models.hieradet_sam2:MultiScaleBlock.forward
    image_sizes.symbolic_int torch_int
    sound.feature_lengths MoonshinePreTrainedModel._get_feat_extract_output_lengths
    sound.conv1d_output MimiConv1d.forward PocketTTSAudioTokenizerConv1d.forward WavTokenizerConv1d.forward
        EncodecConv1d.forward
    packed_vision.averaged_tokens Gemma4VisionPooler._avg_pool_by_positions
    image_sizes.flat_features Sam3DetrEncoder._prepare_multilevel_features
        Sam3LiteTextDetrEncoder._prepare_multilevel_features
    depth.reassembled_features ZoeDepthReassembleStage.forward
converts its weights in each call
    experts.router_outputs SwitchTransformersTop1Router.forward
draws the patches of padding, and an order of patches, at random
    image_sizes.visual_embeddings ViltEmbeddings.visual_embed
has no block to attend to in a text that is shorter than a block
    text.side_bias LongT5TransientGlobalAttention.compute_side_bias
leaves tiles of padding out first
    tiles.smolvlm_features ModernVBertModel.get_image_features SmolVLMModel.get_image_features
        UltraVBertModel.get_image_features
loops over the codebooks, so that the trace fixes their number
    sound.codebook_embedding_sum EncodecResidualVectorQuantizer.decode
loops over the experts that the tokens choose
    experts.dbrx_outputs DbrxExperts.forward
    experts.longcat_outputs LongcatFlashExperts.forward
    experts.step3p7_outputs Step3p7Experts.forward
    experts.batched_mm_forward transformers.integrations.moe:ExpertsInterface.get_interface
    experts.expert_outputs SwitchTransformersExperts.forward
loops over the images
    grid_convolutions.hunyuan_vl_features HunYuanVLVisionTransformer.forward
    grid_convolutions.hy_v4_vl_features HYV4VLVisionModel.forward
    grid_convolutions.lfm3_vl_convolution Lfm3VlVisionShortConv.forward
    grid_convolutions.lfm3_vl_states Lfm3VlVisionModel.forward
    tiles.pixtral_states PixtralVisionModel.forward
    tiles.whole_image_features Step3p7Model.get_image_features DeepseekOcr2Model.get_image_features
    grid_convolutions.lfm2_vl_features Lfm2VlModel.get_image_features
    grid_convolutions.minicpm_features MiniCPMOcrMerger.forward MiniCPMV4_6Merger.forward MiniCPMV4_7Merger.forward
    grid_convolutions.paddleocr_features PaddleOCRProjector.forward
    packed_vision.antialiased_positions Cosmos3EdgeVisionEmbeddings.resize_positional_embeddings
    packed_vision.frame_index get_vision_frame_index
    packed_vision.merged_frames Kimi_K25VisionModel.temporal_merge
    packed_vision.merged_order get_vision_pixel_shuffle_index
    packed_vision.merged_patches VideoLlama3VisionModel.pixel_unshuffle
    packed_vision.nearest_position_ids get_vision_nearest_position_ids
    packed_vision.position_ids get_vision_position_ids
    packed_vision.temporal_merge_index get_vision_temporal_merge_index
    packed_vision.whole_windows MiniCPMOcrViTWindowAttentionMerger.get_window_index
        MiniCPMV4_6ViTWindowAttentionMerger.get_window_index MiniCPMV4_7ViTWindowAttentionMerger.get_window_index
    packed_vision.window_index get_vision_window_index
    packed_vision.resized_positional_embeddings Siglip2VisionEmbeddings.resize_positional_embeddings
    keypoints.lightglue_output LightGlueForKeypointMatching.forward
    keypoints.superglue_output SuperGlueForKeypointMatching.forward
    keypoints.keypoint_detection_output SuperPointForKeypointDetection.forward
    tiles.tiled_features LlavaNextModel.get_image_features LlavaNextVideoModel.get_image_features
        LlavaOnevisionModel.get_image_features
loops over the patches, 512 by default, to compute their statistics one after the other
    timesfm.forward TimesFm2_5Model.forward
loops over the sounds, or over chunks of them
    feature_splits.UNSPLIT qwen3_omni_moe:Qwen3OmniMoeAudioEncoder.conv_chunksize
    packed_sound.apertus_tokens Apertus1p5Model.get_audio_tokens
    packed_sound.chunks chunk_and_pad_features
    packed_sound.omni_features Qwen2_5OmniThinkerModel.get_audio_features
    packed_sound.pairs get_pool_indices
    packed_sound.segment_ends qwen3_asr:get_audio_cu_seqlens qwen3_omni_moe:get_audio_cu_seqlens
    sound.xvector_output Wav2Vec2BertForXVector.forward
loops over the texts
    sound.length_regulated_states fastspeech2_conformer:length_regulator
    attention.selected_by_blocks Qwen4ExpTextQSAIndexer.forward
    attention.axial_positions AxialPositionEmbeddings.forward
    text.joined_embeddings combine_image_text_embeddings
loops over the tokens of a text, or over chunks of them
    attention.canine_attention CanineAttention.forward
    attention.attention_mask CpmAntModel._prepare_attention_mask
    recurrent.delta_rule chunk_kimi_delta_attention torch_chunk_gated_delta_rule
    recurrent.lightning_attention MiniMaxLightningAttention.forward
    recurrent.rglru_scan RecurrentGemmaRglru._rnn_scan
    recurrent.linear_attention rwkv_linear_attention
    recurrent.matrix_memory xLSTMBackend.forward
loops over the tokens, and ignores the past state if there are several new tokens
    recurrent.mixer MambaMixer.forward FalconMambaMixer.forward JambaMambaMixer.forward
    recurrent.multihead_mixer ZambaMambaMixer.forward
masks with minus infinity, so that the softmax of a fully masked frame is NaN in ONNX
    sound.nemotron_attention NemotronAsrStreamingEncoderAttention.forward
reads the end of the mask, which is behind the new tokens in a static cache
    recurrent.mask_of_new_tokens create_recurrent_attention_mask
multiplies in bfloat16, which ONNX Runtime does not support on every device
    attention.alibi_bias falcon:build_alibi_tensor
pads the text to full chunks
    recurrent.mamba2_scan mamba2_chunk_scan
selects by a mask, so that the number of rows depends on values
    sound.patch_embeddings ClapAudioPatchEmbed.forward
upsampling must have the size of the skip connection, as sides may be no multiple of the scale
    image_padding.NUM_UPSAMPLERS diffusers.models.unets.unet_2d_condition:UNet2DConditionModel.num_upsamplers
uses a Fourier transform, which is inexact in ONNX Runtime
    text.fourier_transform FNetBasicFourierTransform.forward
uses complex numbers, in which no rotation is found that one operator computes
    attention.cos_sin DeepseekV2RotaryEmbedding.forward Llama4TextRotaryEmbedding.forward
    attention.rotated_heads_first deepseek_v2:apply_rotary_emb
    attention.rotated_length_first llama4:apply_rotary_emb
writes into a tensor
    sound.delay_pattern_mask MusicgenForCausalLM.build_delay_pattern_mask
"""
"""The reasons for patches; below each reason, the patches and the functions that they replace.

`Class.method` or `function`: in every module of transformers' models that has one.
`falcon:function`: only in the module of that model, because other models have another function of that name;
`rt_detr:len` is the function of Python in that module.
`package.module:function`: in that module; outside of the packages of models, for every model that has loaded it.
"""

OPERATOR_TEXT = """
is one operator from opset 27 on
    operators.conv_state transformers.cache_utils:LinearAttentionLayer.update_conv_state
    operators.causal_convolution causal_conv1d_fn onnxfn.architectures.patches.recurrent:causal_convolution
    operators.delta_recurrence onnxfn.architectures.patches.recurrent:delta_recurrence
    operators.linear_recurrence onnxfn.architectures.patches.recurrent:linear_recurrence
    operators.experts_forward transformers.integrations.moe:ExpertsInterface.get_interface
splits each group of heads and joins the parts
    operators.heads_in_order Qwen3NextGatedDeltaNet.fix_query_key_value_ordering
"""
"""The patches of graphs that have the operators of opset 27; some replace functions of other patches."""

OPERATOR_OPSET = 27
"""The first opset with the standard operators that define those of OPERATOR_TEXT for other runtimes."""

PACKED = (
    "get_vision_attention_seqlens",
    "get_vision_cu_seqlens",
    "get_vision_window_index",
    "Inkling2VisionAttention",
    "get_audio_cu_seqlens",
)
"""The functions and classes of a module whose tower attends within segments of a row of patches or frames."""


def table(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    r"""The targets of patches in a text, each with its patch and the reason.

    >>> list(table("loops\n    attention.padding_mask make_padding_mask\n        Model.mask"))
    [('make_padding_mask', ('attention.padding_mask', 'loops')), ('Model.mask', ('attention.padding_mask', 'loops'))]
    """
    why = by = ""
    for line in text.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            why = line
            continue
        if not line.startswith(" " * 8):
            by, *words = words
        yield from ((target, (by, why)) for target in words)


PATCHES: Mapping[str, tuple[str, str]] = MappingProxyType(dict(table(TEXT)))
OPERATORS: Mapping[str, tuple[str, str]] = MappingProxyType(dict(table(OPERATOR_TEXT)))
"""The replaced function -> the patch and the reason."""


def patches_of(model: Any, call: Call, opset: int = 0) -> tuple[Patch, ...]:
    """The patches of a model: those of its modules and those of its spec. A patch of the spec wins."""
    return (*named(known_patches(model, opset), call.patches),)


def known_patches(model: Any, opset: int = 0) -> tuple[Patch, ...]:
    """The patches of the modules that define the layers of a model, for a graph of an opset."""
    classes = {class_ for module in model.modules() for class_ in type(module).__mro__}
    modules = sorted({class_.__module__ for class_ in classes if class_.__module__.startswith(MODELS)})
    rows = {**PATCHES, **OPERATORS} if opset >= OPERATOR_OPSET else PATCHES
    everywhere = (name for name in rows if ":" in name and "." in name and not name.startswith(MODELS))
    loaded = (name for name in everywhere if name.partition(":")[0] in sys.modules or name in OPERATORS)
    return (
        *(Patch(name, *rows[name]) for name in loaded if modules),
        *(patch for name in modules for patch in module_patches(import_module(name), rows)),
        *rotary_patches(model),
    )


def rotary_patches(model: Any) -> tuple[Patch, ...]:
    """The patches for the rotary embeddings of a model that have other frequencies for long texts."""
    # The call is patched: the patch calls their own forward. A forward of the table has its own patch.
    rotaries = [module for module in model.modules() if any(map(is_scaled, _rope_types(module)))]
    classes = dict.fromkeys(type(module) for module in rotaries if type(module).__module__.startswith(MODELS))
    own = [class_ for class_ in classes if f"{class_.__name__}.forward" not in PATCHES]
    why = "branches on the largest position, or writes frequencies into a buffer"
    return tuple(Patch(f"{each.__module__}:{each.__name__}.__call__", "attention.scaled_angles", why) for each in own)


def _rope_types(module: Any) -> tuple[Any, ...]:
    """The types of scaling of a rotary embedding: one, or one for each type of layer."""
    types = getattr(module, "rope_type", None)
    return (*types.values(),) if isinstance(types, Mapping) else (types,)


def module_patches(module: Any, rows: Mapping[str, tuple[str, str]] = PATCHES) -> tuple[Patch, ...]:
    """The patches for the functions of a module that defines layers."""
    names = ((name, _name_in(module.__name__, name)) for name in rows)
    functions = (Patch(f"{module.__name__}:{own}", *rows[name]) for name, own in names if own and _has(module, own))
    if not any(hasattr(module, name) for name in PACKED):
        return tuple(functions)
    # such a tower attends to all patches in one call, with a mask, and not to each segment
    question, interface = "is_flash_attention_requested", "transformers.modeling_utils:AttentionInterface.get_interface"
    return (
        *functions,
        Patch(f"{module.__name__}:{question}", "packed_vision.is_packed", "loops over the segments"),
        Patch(interface, "packed_vision.attention_interface", "only flash attention takes the ends of segments"),
    )


def _name_in(module: str, name: str) -> str:
    """The name of a target inside a module; the empty string if it belongs to another module."""
    owner, _, function = name.rpartition(":")
    path = owner if "." in owner else f"transformers.models.{owner}.modeling_{owner}"
    own = module.startswith(MODELS[0]) if not owner else path == module
    return function if own else ""


def _has(module: Any, function: str) -> bool:
    """Whether a module has a function, or a class with a method or a new attribute, or reads a function of Python."""
    owner, _, name = function.rpartition(".")
    within = getattr(module, owner, None) if owner else module
    code = getattr(inspect.unwrap(getattr(within, "__init__", len)), "__code__", None)
    return hasattr(within, name) or hasattr(builtins, function) or name in getattr(code, "co_names", ())
