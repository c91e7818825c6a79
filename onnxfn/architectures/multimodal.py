"""Models for text with images, videos or audio. Rows that Optimum also has take its inputs and tasks."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from onnxfn.architectures.families.multimodal import (
    AUDIO_MODEL,
    TEXT_AXES,
    TEXT_MODEL,
    VIDEO_MODEL,
    VISION_MODEL,
    audio_tower,
    contrastive_tasks,
    embedding_output,
    feature_outputs,
    layer_states,
    pooler_output,
    similarity_outputs,
    text_and_vision,
    text_batch_cases,
    text_batch_inputs,
    text_model,
    text_model_inputs,
    text_tower,
    text_with_end,
    text_with_image,
    two_towers,
    video_tower,
    vision_model,
    vision_tower,
)
from onnxfn.architectures.families.rows import rows, sized_in
from onnxfn.architectures.families.text import box_inputs, text_dummies, text_inputs, texts
from onnxfn.architectures.families.vision import image_features, image_inputs, image_reads, video_inputs
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import TOKENS, always, gives, loads, runs, serves, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.behaviors import extra_file, model_part
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.records import NestedDummy
from onnxfn.specs.tasks.tasks import tasked

clip: ExportSpec = compose(text_and_vision, text_with_end, tasked("image-classification", image_inputs()))

# SigLIP's texts are padded to one length, and it has no mask. The batch axis of images has a symbol of its own.
IMAGE_BATCH = "image_batch_size"
unmasked_text_inputs: ExportSpec = takes("input_ids", TEXT_AXES, "token_ids")


def siglip_towers(images: Callable[[str], ExportSpec], *dummies: ExportSpec) -> ExportSpec:
    """A spec of SigLIP, whose images are inputs with a symbol for the batch axis."""
    of_images, of_texts = (embedding_output("pooler_output", batch) for batch in ("batch_size", "text_batch_size"))
    return compose(
        two_towers,
        *dummies,
        sized_in("one right-padded left-padded", image_batch_size=(2, 1, 3, 4)),
        model_part(VISION_MODEL, images("batch_size"), vision_tower, of_images),
        model_part(TEXT_MODEL, unmasked_text_inputs, text_tower, of_texts),
        contrastive_tasks(unmasked_text_inputs, images(IMAGE_BATCH), batch=IMAGE_BATCH),
        tasked("image-classification", images("batch_size")),
    )


# SigLIP 2 takes patches of images of any shape. `spatial_shapes` is the grid of each image: height times width is the
# number of patches in the mask.
def patch_inputs(batch: str) -> ExportSpec:
    """A spec of the inputs of SigLIP 2: the patches of images, their mask, and the shape of each grid."""
    return compose(
        takes("pixel_values", f"{batch} max_num_patches patch_values=", "normal", kind="float"),
        takes("pixel_attention_mask", f"{batch} max_num_patches", "patch_mask"),
        takes("spatial_shapes", f"{batch} 2", "shapes"),
        generates("shapes", "grids", mask=NestedDummy("patch_mask", f"{batch} max_num_patches")),
    )


def patch_dummies(at: str = "vision_config.") -> ExportSpec:
    """A spec of the dummy inputs of `patch_inputs`, for a configuration, or the section with this prefix."""
    return compose(
        reads(patch_values=f"{at}num_channels * {at}patch_size ** 2"),
        generates("patch_mask", "mask", padding="right"),
        sized(max_num_patches=16),
    )


patch_sizes: ExportSpec = sized_in("one right-padded left-padded", max_num_patches=(16, 12, 21, 35))

# The text models and vision models of these, as models of their own.
text_layer_states: ExportSpec = layer_states(f"{TOKENS} _")
siglip_text_model: ExportSpec = compose(text_model, pooler_output(loader="SiglipTextModel"), text_layer_states)
clip_vision_model: ExportSpec = compose(vision_model, pooler_output())

groupvit: ExportSpec = only_tasks(compose(text_and_vision, text_with_end), "feature-extraction")

# A page: its tokens, the box of each token, and the image. The outputs have a row per token, and then a row per patch.
TOKENS_AND_PATCHES = f"{TOKENS}+num_patches"
layoutlmv3: ExportSpec = compose(
    texts,
    reads(image_height="input_size", image_width="input_size", num_patches="(input_size // patch_size) ** 2 + 1"),
    text_inputs,
    box_inputs,
    image_inputs(),
    tasked("feature-extraction", gives("last_hidden_state", f"{TOKENS_AND_PATCHES} _")),
    *(
        tasked(task, gives("start_logits", TOKENS_AND_PATCHES), gives("end_logits", TOKENS_AND_PATCHES))
        for task in ("question-answering", "document-question-answering")
    ),
    tasked("text-classification"),
    tasked("token-classification"),
)

# Features of image regions, from another model, follow the tokens.
REGION_AXES = "batch_size visual_seq_length"
text_with_regions: ExportSpec = compose(
    texts, sized_in("one right-padded left-padded", visual_seq_length=(16, 5, 20, 9)), text_inputs
)
visual_bert: ExportSpec = compose(
    text_with_regions,
    takes("visual_embeds", f"{REGION_AXES} visual_embedding_dim=", "normal", kind="float"),
    takes("visual_attention_mask", REGION_AXES, "padding_mask"),
    takes("visual_token_type_ids", REGION_AXES, "segment_ids"),
    tasked("feature-extraction", gives("last_hidden_state", f"{TOKENS}+visual_seq_length _")),
    # The answer is read at the last token but one, so a text has two tokens.
    tasked(
        "visual-question-answering",
        loads("VisualBertForQuestionAnswering"),
        generates("padding_mask", "mask", shortest=2),
    ),
)

# Audio in place of images. CLAP reshapes a mel spectrogram to an image, which limits the number of frames.
AUDIO_BATCH = "audio_batch_size"
MAX_FRAMES = "audio_config.spec_size * (audio_config.spec_size // num_mel_bins)"
audio_inputs: ExportSpec = compose(
    takes("input_features", f"{AUDIO_BATCH} num_sounds= num_frames num_mel_bins=", "normal", kind="float"),
    takes("is_longer", f"{AUDIO_BATCH} 1", "is_longer", kind="bool", when="audio_config.enable_fusion"),
)
clap: ExportSpec = compose(
    text_dummies,
    text_batch_cases,
    reads(
        vocab_size="text_config.vocab_size",
        num_mel_bins="audio_config.num_mel_bins",
        num_sounds="4 if audio_config.enable_fusion else 1",
    ),
    generates("is_longer", "integers", high=2),
    sized_in(
        "one right-padded left-padded",
        audio_batch_size=(2, 1, 3, 4),
        num_frames=[from_config(f"{MAX_FRAMES} - {fewer}") for fewer in (23, 40, 2, 13)],
    ),
    always(return_dict=True),
    model_part(AUDIO_MODEL, audio_inputs, audio_tower),
    model_part(TEXT_MODEL, text_batch_inputs, text_tower),
    feature_outputs(audio_inputs, text_batch_inputs, similarity_outputs("audio", AUDIO_BATCH)),
)


def longer_texts(by: str) -> ExportSpec:
    """A spec of the lengths of texts that begin with this number of placeholder tokens."""
    lengths = [from_config(f"{by} + {length}") for length in (16, 7, 11, 24)]
    return sized_in("one right-padded left-padded", sequence_length=lengths)


vector_per_token: ExportSpec = compose(runs("prefixes.prefix_attention_model"), gives("embeddings", f"{TOKENS} _"))

# Pages and questions become one vector per token. The first tokens of a page stand for the patches of its image.
colpali: ExportSpec = compose(
    texts,
    image_reads("vlm_config.vision_config."),
    reads(
        vocab_size="vlm_config.text_config.vocab_size",
        num_image_tokens="(image_height // vlm_config.vision_config.patch_size) ** 2",
    ),
    always(return_dict=True),
    model_part(TEXT_MODEL, text_inputs, vector_per_token),
    model_part(
        VISION_MODEL,
        text_inputs,
        image_inputs(),
        vector_per_token,
        generates(
            "token_ids",
            "ids_with_image",
            high=from_config("vocab_size"),
            image=from_config("vlm_config.image_token_id"),
            count=from_config("num_image_tokens"),
        ),
        longer_texts("num_image_tokens"),
    ),
    feature_outputs(loads("ColPaliForRetrieval"), extra_file("model", VISION_MODEL)),
)

segment_inputs: ExportSpec = takes("token_type_ids", TEXT_AXES, "segment_ids")
text_and_vision_with_segments: ExportSpec = compose(
    text_and_vision,
    reads(type_vocab_size="text_config.type_vocab_size"),
    model_part(TEXT_MODEL, segment_inputs),
    contrastive_tasks(image_inputs(), text_batch_inputs, segment_inputs),
)
RETRIEVAL = "image-text-retrieval"
"""The task of image-text matching: two logits for each pair, whether the text describes the image."""
blip: ExportSpec = compose(
    text_and_vision,
    tasked(
        RETRIEVAL, loads("BlipForImageTextRetrieval"), text_inputs, image_inputs(), gives("itm_score", "batch_size _")
    ),
)

# Videos in place of images.
FRAME_AXES = "batch_size num_frames= num_channels= image_height= image_width="
videos: ExportSpec = takes("pixel_values_videos", FRAME_AXES, "normal", kind="float")

# One text for each image, in one encoder.
flava: ExportSpec = compose(
    text_with_image,
    image_reads("image_config."),
    reads(
        vocab_size="text_config.vocab_size",
        type_vocab_size="text_config.type_vocab_size",
        num_joined="(image_height // image_config.patch_size) ** 2 + 1 + (1 if multimodal_config.use_cls_token else 0)",
    ),
    takes("token_type_ids", TOKENS, "segment_ids"),
    feature_outputs(
        gives("image_embeddings", "batch_size _ _"),
        gives("text_embeddings", f"{TOKENS} _"),
        gives("multimodal_embeddings", f"{TOKENS}+num_joined _"),
    ),
)
bridgetower: ExportSpec = compose(
    text_with_image,
    image_reads(),
    reads(vocab_size="text_config.vocab_size"),
    feature_outputs(
        gives("text_features", f"{TOKENS} _"),
        gives("image_features", "batch_size _ _"),
        gives("pooler_output", "batch_size _"),
    ),
    tasked("fill-mask", loads("BridgeTowerForMaskedLM")),
    tasked(RETRIEVAL, loads("BridgeTowerForImageAndTextRetrieval"), gives("logits", "batch_size _")),
)

text_model_with_mask: ExportSpec = compose(text_model, text_inputs)
text_model_with_end: ExportSpec = compose(text_model_with_mask, text_with_end)
text_model_with_segments: ExportSpec = compose(text_model_with_mask, takes("token_type_ids", TOKENS, "segment_ids"))

# Text and vision models of others, as models of their own. No auto class loads them.
TOWERS: Mapping[str, tuple[ExportSpec, str]] = MappingProxyType(
    {
        "align_text_model": (text_model_with_segments, "AlignTextModel"),
        "altclip_text_model": (text_model_with_mask, "AltCLIPTextModel"),
        "altclip_vision_model": (vision_model, "AltCLIPVisionModel"),
        "blip_2_vision_model": (vision_model, "Blip2VisionModel"),
        "blip_text_model": (compose(text_model_with_mask, always(is_decoder=False)), "BlipTextModel"),
        "blip_vision_model": (vision_model, "BlipVisionModel"),
        "chinese_clip_text_model": (text_model_with_mask, "ChineseCLIPTextModel"),
        "clap_text_model": (text_model_with_mask, "ClapTextModel"),
        "clipseg_text_model": (text_model_with_end, "CLIPSegTextModel"),
        "clipseg_vision_model": (vision_model, "CLIPSegVisionModel"),
        "flava_image_model": (vision_model, "FlavaImageModel"),
        "flava_text_model": (text_model_with_mask, "FlavaTextModel"),
        "groupvit_text_model": (text_model_with_end, "GroupViTTextModel"),
        "groupvit_vision_model": (vision_model, "GroupViTVisionModel"),
        "instructblip_vision_model": (vision_model, "InstructBlipVisionModel"),
        "instructblipvideo_vision_model": (vision_model, "InstructBlipVideoVisionModel"),
        "janus_vision_model": (vision_model, "JanusVisionModel"),
        "metaclip_2_text_model": (text_model_with_end, "MetaClip2TextModel"),
        "metaclip_2_vision_model": (vision_model, "MetaClip2VisionModel"),
        "owlv2_text_model": (text_model_with_mask, "Owlv2TextModel"),
        "owlv2_vision_model": (vision_model, "Owlv2VisionModel"),
        "owlvit_text_model": (text_model_with_mask, "OwlViTTextModel"),
        "owlvit_vision_model": (vision_model, "OwlViTVisionModel"),
        "siglip2_text_model": (text_model_with_mask, "Siglip2TextModel"),
        "xclip_text_model": (text_model_with_end, "XCLIPTextModel"),
    }
)
ROWS: Mapping[str, ExportSpec] = rows(
    {
        **{name: compose(row, pooler_output(loader=loader)) for name, (row, loader) in TOWERS.items()},
        "git_vision_model": compose(vision_model, serves("feature-extraction", loads("GitVisionModel"))),
        "chinese_clip_vision_model clip_vision_model mlcd_vision_model tipsv2_vision_model": clip_vision_model,
        "videoprism_text_model": compose(
            text_model_with_mask,
            pooler_output(loader="VideoPrismTextModel"),
            # the model appends a token to the text
            feature_outputs(loads("VideoPrismTextModel"), gives("last_hidden_state", f"{TOKENS}+1 _")),
        ),
        "videoprism_vision_model": compose(video_inputs("pixel_values_videos"), image_features("batch_size _ _")),
        "aimv2_vision_model": compose(vision_model, pooler_output(when="not use_head == False")),
        "align": text_and_vision_with_segments,
        "altclip": text_and_vision,
        "blip": blip,
        # A text begins with placeholder tokens for the image, which the model removes.
        "blip-2": compose(
            two_towers,
            reads(vocab_size="qformer_config.vocab_size"),
            longer_texts("num_query_tokens"),
            tasked(
                "zero-shot-image-classification",
                image_inputs(),
                text_batch_inputs,
                similarity_outputs("image"),
                gives("image_embeds", "batch_size _ _"),
            ),
        ),
        "bridgetower": bridgetower,
        "chinese_clip": compose(text_and_vision, reads(type_vocab_size="text_config.type_vocab_size")),
        "clap": clap,
        "clip metaclip_2": clip,
        "clip_text_model": compose(text_model, text_with_end, pooler_output(), text_layer_states),
        "clipseg": compose(
            text_and_vision,
            text_with_end,
            tasked(
                "image-segmentation",
                loads("CLIPSegForImageSegmentation"),
                text_inputs,
                image_inputs(),
                gives("logits", "batch_size _ _"),
            ),
        ),
        "colpali": colpali,
        "flava": flava,
        "groupvit": groupvit,
        "layoutlmv3": layoutlmv3,
        # The tokens, and the features and positions of image regions, from another model.
        "lxmert": compose(
            text_with_regions,
            generates("box_coordinates", "uniform", low=0.0, high=1.0),
            takes("visual_feats", f"{REGION_AXES} visual_feat_dim=", "normal", kind="float"),
            takes("visual_pos", f"{REGION_AXES} visual_pos_dim=", "box_coordinates", kind="float"),
            takes("visual_attention_mask", REGION_AXES, "padding_mask"),
            takes("token_type_ids", TOKENS, "segment_ids"),
            feature_outputs(
                gives("language_output", f"{TOKENS} _"),
                gives("vision_output", f"{REGION_AXES} _"),
                gives("pooled_output", "batch_size _"),
            ),
            tasked(
                "visual-question-answering",
                loads("LxmertForQuestionAnswering"),
                gives("logits", "batch_size _", path=("question_answering_score",)),
            ),
        ),
        # Each image has the same number of texts. The outputs are boxes per image, and logits per box and text.
        "owlv2 owlvit": compose(
            groupvit,
            sized(text_batch_size=4),
            tasked(
                "zero-shot-object-detection",
                image_inputs(),
                text_batch_inputs,
                gives("logits", "batch_size _ num_queries"),
                gives("pred_boxes", "batch_size _ _"),
                gives("text_embeds", "batch_size max_text_queries _"),
                gives("image_embeds", "batch_size _ _ _"),
                sized_in("one right-padded left-padded", text_batch_size=(4, 3, 3, 6)),
            ),
        ),
        "siglip": siglip_towers(image_inputs),
        "siglip2": siglip_towers(patch_inputs, patch_dummies(), patch_sizes),
        "siglip2_vision_model": compose(
            patch_dummies(""),
            sized(batch_size=2),
            always(return_dict=True),
            patch_inputs("batch_size"),
            tasked("feature-extraction", gives("last_hidden_state", "batch_size max_num_patches _")),
            pooler_output(when="not vision_use_head == False"),
        ),
        "siglip-text siglip_text_model": siglip_text_model,
        "siglip-text-with-projection": compose(
            text_model_inputs,
            text_layer_states,
            feature_outputs(
                loads("SiglipTextModel"),
                embedding_output("text_embeds", "batch_size"),
                gives("last_hidden_state", f"{TOKENS} _"),
            ),
        ),
        "siglip_vision_model": compose(vision_model, pooler_output(when="not vision_use_head == False")),
        "tipsv2": text_and_vision,
        "tipsv2_text_model": compose(text_model_with_mask, pooler_output()),
        "videoprism": compose(
            two_towers,
            reads(num_frames="vision_config.num_frames"),
            model_part(VIDEO_MODEL, videos, video_tower),
            model_part(TEXT_MODEL, text_batch_inputs, text_tower),
            contrastive_tasks(videos, text_batch_inputs, other="video"),
        ),
        "vision-text-dual-encoder": only_tasks(text_and_vision_with_segments, "feature-extraction"),
        "visual_bert": visual_bert,
        "xclip": compose(
            two_towers,
            text_with_end,
            reads(num_frames="vision_config.num_frames"),
            feature_outputs(
                takes("pixel_values", FRAME_AXES, "normal", kind="float"),
                text_batch_inputs,
                gives("logits_per_video", "batch_size text_batch_size"),
                gives("logits_per_text", "text_batch_size batch_size"),
                gives("text_embeds", "batch_size text_batch_size _"),
                gives("video_embeds", "batch_size _"),
            ),
        ),
    }
)
