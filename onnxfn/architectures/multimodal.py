"""Models that read and see: rows. Inputs and tasks are those of Optimum's table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.behaviors import apart, beside
from onnxfn.edits import TOKENS, always, case, gives, takes
from onnxfn.families.multimodal import (
    AUDIO_MODEL,
    TEXT_MODEL,
    TEXTS,
    VISION_MODEL,
    audio_part,
    compared,
    ended,
    featured,
    hidden_states,
    image_reads,
    images,
    pooled,
    read,
    reading,
    seen,
    several_texts,
    similarities,
    text_and_vision,
    text_part,
    texts,
    two_models,
    vector,
    vision_part,
)
from onnxfn.families.text import text_cases, text_dummies, text_inputs
from onnxfn.generators import generates, sized
from onnxfn.normalizers import (
    constant,
    difference,
    equals,
    from_config,
    negated,
    power,
    product,
    quotient,
    reads,
    total,
    whether,
)
from onnxfn.records import ExportSpec
from onnxfn.tasks import loaded, tasked

clip = compose(text_and_vision, ended, tasked("image-classification", spec=images()))
chinese_clip = text_and_vision

# SigLIP reads texts that are padded to one length and has no use for a mask; it calls the axis of images their own.
OF_IMAGES = "image_batch_size"
unmasked = takes("input_ids", TEXTS, "token_ids")
siglip = compose(
    two_models,
    sized(image_batch_size=2),
    case("one", sized(image_batch_size=1)),
    case("right-padded", sized(image_batch_size=3)),
    case("left-padded", sized(image_batch_size=4)),
    apart(VISION_MODEL, images(), vision_part, vector("pooler_output", "batch_size")),
    apart(TEXT_MODEL, unmasked, text_part, vector("pooler_output", "text_batch_size")),
    compared(unmasked, images(OF_IMAGES), batch=OF_IMAGES),
)

# The parts as models of their own.
hidden_texts = hidden_states(f"{TOKENS} _")
clip_text_model = compose(read, ended, pooled(), hidden_texts)
siglip_text_model = compose(read, pooled(loader="SiglipTextModel"), hidden_texts)
siglip_text_with_projection = compose(
    reading,
    hidden_texts,
    featured(loaded("SiglipTextModel"), vector("text_embeds", "batch_size"), gives("last_hidden_state", f"{TOKENS} _")),
)
clip_vision_model = compose(seen, pooled())
siglip_vision_model = compose(seen, pooled(when=negated(equals("vision_use_head", value=False))))

groupvit = compose(
    two_models,
    ended,
    apart(VISION_MODEL, images(), vision_part),
    apart(TEXT_MODEL, texts, text_part),
    featured(images(), texts, similarities("image")),
)

# As many texts for each image, and the boxes of each image for each of its texts.
QUERIES = "transformers.models.owlvit.modeling_owlvit"
owlvit = compose(
    groupvit,
    sized(text_batch_size=4),
    tasked(
        "zero-shot-object-detection",
        spec=compose(
            images(),
            texts,
            gives("logits", "batch_size _ num_queries"),
            gives("pred_boxes", "batch_size _ _"),
            gives("text_embeds", "batch_size max_text_queries _"),
            gives("image_embeds", "batch_size _ _ _"),
            case("one", sized(text_batch_size=3)),
            case("right-padded", sized(text_batch_size=3)),
            case("left-padded", sized(text_batch_size=6)),
        ),
    ),
)

# Texts on a page: where each word stands, and how the page looks. What comes out is of the words, then of the patches.
boxed = compose(
    takes("bbox", f"{TOKENS} 4", "boxes"), generates("boxes", "boxes", high=from_config("max_2d_position_embeddings"))
)
PATCHES = f"{TOKENS}+num_patches"
layoutlmv3 = compose(
    text_dummies,
    text_cases,
    reads(
        vocab_size="vocab_size",
        num_channels="num_channels",
        image_height="input_size",
        image_width="input_size",
        num_patches=total(power(quotient("input_size", "patch_size"), constant(2)), constant(1)),
    ),
    generates("pixels", "normal"),
    always(return_dict=True),
    text_inputs,
    boxed,
    images(),
    tasked("feature-extraction", spec=gives("last_hidden_state", f"{PATCHES} _")),
    tasked("question-answering", spec=compose(gives("start_logits", PATCHES), gives("end_logits", PATCHES))),
    tasked("document-question-answering", spec=compose(gives("start_logits", PATCHES), gives("end_logits", PATCHES))),
    tasked("text-classification"),
    tasked("token-classification"),
)

# Regions of an image, as another model saw them, stand after the words.
REGIONS = "batch_size visual_seq_length"
visual_bert = compose(
    text_dummies,
    text_cases,
    reads(vocab_size="vocab_size", type_vocab_size="type_vocab_size", visual_embedding_dim="visual_embedding_dim"),
    generates("regions", "normal"),
    sized(visual_seq_length=16),
    case("one", sized(visual_seq_length=5)),
    case("right-padded", sized(visual_seq_length=20)),
    case("left-padded", sized(visual_seq_length=9)),
    always(return_dict=True),
    text_inputs,
    takes("visual_embeds", f"{REGIONS} visual_embedding_dim=", "regions", kind="float"),
    takes("visual_attention_mask", REGIONS, "padding_mask"),
    takes("visual_token_type_ids", REGIONS, "segment_ids"),
    tasked("feature-extraction", spec=gives("last_hidden_state", f"{TOKENS}+visual_seq_length _")),
)

# Sounds in place of images: frames of filter banks, as many as CLAP makes an image of at most.
SOUNDS = "audio_batch_size"
most_frames = product("audio_config.spec_size", quotient("audio_config.spec_size", "num_mel_bins"))
heard = compose(
    takes("input_features", f"{SOUNDS} num_sounds= num_frames num_mel_bins=", "mel", kind="float"),
    takes("is_longer", f"{SOUNDS} 1", "longer", kind="bool", when="audio_config.enable_fusion"),
)
clap = compose(
    text_dummies,
    several_texts,
    reads(
        vocab_size="text_config.vocab_size",
        num_mel_bins="audio_config.num_mel_bins",
        num_sounds=whether("audio_config.enable_fusion", constant(4), constant(1)),
    ),
    generates("mel", "normal"),
    generates("longer", "integers", high=2),
    sized(audio_batch_size=2, num_frames=difference(most_frames, constant(23))),
    case("one", sized(audio_batch_size=1, num_frames=difference(most_frames, constant(40)))),
    case("right-padded", sized(audio_batch_size=3, num_frames=difference(most_frames, constant(2)))),
    case("left-padded", sized(audio_batch_size=4, num_frames=difference(most_frames, constant(13)))),
    always(return_dict=True),
    apart(AUDIO_MODEL, heard, audio_part),
    apart(TEXT_MODEL, texts, text_part),
    featured(heard, texts, similarities("audio", SOUNDS)),
)

# Pages and questions as many vectors each. Of a page, the first tokens stand for the patches of its image.
patches_seen = "vlm_config.vision_config.num_image_tokens"
colpali = compose(
    text_dummies,
    text_cases,
    image_reads("vlm_config.vision_config."),
    reads(
        vocab_size="vlm_config.text_config.vocab_size",
        num_image_tokens=power(quotient("image_height", "vlm_config.vision_config.patch_size"), constant(2)),
    ),
    generates("pixels", "normal"),
    always(return_dict=True),
    apart(
        TEXT_MODEL,
        text_inputs,
        ExportSpec(runs="onnxfn.parts.towers:itself"),
        gives("embeddings", f"{TOKENS} _"),
    ),
    apart(
        VISION_MODEL,
        text_inputs,
        images(),
        ExportSpec(runs="onnxfn.parts.towers:itself"),
        gives("embeddings", f"{TOKENS} _"),
        generates(
            "token_ids",
            "illustrated",
            high=from_config("vocab_size"),
            image=from_config("vlm_config.image_token_id"),
            count=from_config("num_image_tokens"),
        ),
        sized(sequence_length=total("num_image_tokens", constant(16))),
        case("one", sized(sequence_length=total("num_image_tokens", constant(7)))),
        case("right-padded", sized(sequence_length=total("num_image_tokens", constant(11)))),
        case("left-padded", sized(sequence_length=total("num_image_tokens", constant(24)))),
    ),
    featured(loaded("ColPaliForRetrieval"), beside("model", VISION_MODEL)),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "chinese_clip": chinese_clip,
        "clap": clap,
        "clip": clip,
        "clip_text_model": clip_text_model,
        "clip_vision_model": clip_vision_model,
        "colpali": colpali,
        "groupvit": groupvit,
        "layoutlmv3": layoutlmv3,
        "metaclip_2": clip,
        "owlv2": owlvit,
        "owlvit": owlvit,
        "siglip": siglip,
        "siglip-text": siglip_text_model,
        "siglip-text-with-projection": siglip_text_with_projection,
        "siglip_text_model": siglip_text_model,
        "siglip_vision_model": siglip_vision_model,
        "visual_bert": visual_bert,
    }
)
