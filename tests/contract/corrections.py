"""Where a plan differs from Optimum's on purpose: model type -> (what, Optimum's, ours, why)."""

from __future__ import annotations

from corrected import audio, detection, libraries, multimodal, series, vision
from corrected.records import Added, Correction, Excess, Moved, NeverMade, Resized

FAMILIES = (vision, detection, multimodal, audio, series, libraries)

PRESETS_LEFT = libraries.PRESETS_LEFT

FOUR = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")

CORRECTIONS = (
    *(one for family in FAMILIES for one in family.CORRECTIONS),
    Correction(
        model_type="markuplm",
        tensors=("xpath_subs_seq", "xpath_tags_seq"),
        axis=2,
        optimum="max_depth",
        ours=None,
        why="the model reads exactly config.max_depth steps of each path, so the axis cannot move",
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("encoder_attention_mask",),
            axis=1,
            optimum="encoder_sequence_length",
            ours="audio_sequence_length",
            why="the mask is over what was heard, which the encoder makes shorter states of",
        )
        for model_type in ("moonshine", "speech_to_text")
    ),
    Correction(
        model_type="speech_to_text",
        tensors=("last_hidden_state", "encoder_last_hidden_state"),
        axis=1,
        optimum="( encoder_sequence_length + 6 - 1 ) // 6",
        ours="( encoder_sequence_length + 8 - 1 ) // 8",
        why="each of three convolutions halves the length, so it is divided by 8",
    ),
    Correction(
        model_type="speecht5",
        tensors=tuple(
            f"{start}.{layer}.{kind}" for start in ("past_key_values", "present") for layer in range(2) for kind in FOUR
        ),
        axis=0,
        optimum="batch_size",
        ours=None,
        why="one text is spoken at a time, and all other tensors say so",
    ),
    Correction(
        model_type="speecht5",
        tensors=tuple(f"present.{layer}.decoder.{kind}" for layer in range(2) for kind in ("key", "value")),
        axis=2,
        optimum="past_decoder_sequence_length + decoder_sequence_length",
        ours="decoder_sequence_length",
        why="output_sequence is of all frames so far, and the cache holds as many",
    ),
    Correction(
        model_type="speecht5",
        tensors=("spectrogram",),
        axis=0,
        optimum="n_spectrums x reduction_factor",
        ours="n_spectrums_x_reduction_factor",
        why="a symbol is a name; the vocoder reads any number of frames",
    ),
    *(
        Correction(
            model_type="musicgen",
            tensors=("input_ids", "logits", "input_ids_edited", "delay_pattern_mask"),
            axis=0,
            optimum=optimum,
            ours="batch_size * 4",
            why="there is a row for each codebook of each text, the decoder's logits too",
        )
        for optimum in ("total_batch_size_x_num_codebooks", "batch_size_x_num_codebooks")
    ),
    Correction(
        model_type="musicgen",
        tensors=("logits",),
        axis=0,
        optimum="batch_size",
        ours="batch_size * 4",
        why="there is a row for each codebook of each text, the decoder's logits too",
    ),
    Correction(
        model_type="musicgen",
        tensors=("input_ids", "input_ids_edited"),
        axis=1,
        optimum=None,
        ours="decoder_sequence_length",
        why="the codes that are given may be of any length, in the decoder and in the rule",
    ),
    Correction(
        model_type="musicgen",
        tensors=("encoder_hidden_states",),
        axis=0,
        optimum="total_batch_size",
        ours="batch_size",
        why="it is the batch of the mask and of the cache beside it",
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=tuple(f"{start}.{layer}.{kind}" for layer in range(2) for kind in ("key", "value")),
            axis=2,
            optimum=optimum,
            ours=ours,
            why="the decoder's lengths go by one name in all its tensors, whatever the decoder is",
        )
        for model_type in ("encoder-decoder", "vision-encoder-decoder")
        for start, optimum, ours in (
            ("past_key_values", "past_sequence_length", "past_decoder_sequence_length"),
            (
                "present",
                "past_sequence_length + sequence_length",
                "past_decoder_sequence_length + decoder_sequence_length",
            ),
        )
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("pixel_values",),
            axis=axis,
            optimum=optimum,
            ours=None,
            why="the encoder has places for the patches of one size of image, and weights for its channels",
        )
        for model_type in ("vision-encoder-decoder", "vit")
        for axis, optimum in ((1, "num_channels"), (2, "height"), (3, "width"))
    ),
    Correction(
        model_type="pix2struct",
        tensors=(
            "flattened_patches",
            "attention_mask",
            "last_hidden_state",
            "encoder_hidden_states",
            "encoder_attention_mask",
        ),
        axis=1,
        optimum=None,
        ours="encoder_sequence_length",
        why="an image has as many patches as its processor makes of it, 2048 only by default",
    ),
)


NEVER_MADE = (
    *(one for family in FAMILIES for one in family.NEVER_MADE),
    NeverMade(
        model_type="trocr",
        tasks=("feature-extraction", "feature-extraction-with-past"),
        why="what is declared reads a text with an encoder; TrOCR is a decoder alone, for text-generation here",
    ),
)


VARIANTS = multimodal.VARIANTS

# Optimum declares SAM whole as one of its halves, and MetaCLIP 2 for classification as two that its class has not.
NEVER_ASKED = {("sam", "feature-extraction@monolith"), ("metaclip_2", "image-classification@split")}


ONE_TOKEN = Moved(
    optimum="1",
    ours="decoder_sequence_length",
    size=16,
    why="a decoder that takes a past reads any number of next tokens, so a draft can be verified in one call",
)


INPUTS_ADDED = (
    *(one for family in FAMILIES for one in family.INPUTS_ADDED),
    Added(
        name="position_ids",
        model_types=("gemma", "gemma2", "gemma3", "gemma3_text", "gpt_oss", "nemotron"),
        tasks=(
            "feature-extraction",
            "feature-extraction-with-past",
            "text-generation",
            "text-generation-with-past",
        ),
        axes=("batch_size", "sequence_length"),
        why="forward takes position_ids, and without them a left-padded batch is numbered from its padding",
    ),
)


TENSORS_DROPPED = (
    *(one for family in FAMILIES for one in family.TENSORS_DROPPED),
    Excess(
        model_type="moonshine",
        preset="asymmetric",
        starts=("past_key_values.2.", "present.2."),
        why="the decoder has 2 layers; the third is one of the encoder's",
    ),
)


BOTH = (".key", ".value")
LATENT = "transformers 5 keeps the latent that keys and values are made of, and the rotated part that all heads share"

OF_THE_DECODER = (".encoder.key", ".encoder.value", ".0.key", ".0.value", ".1.key", ".1.value")
HEADS = "the decoder's cross-attention, and a decoder alone, has the decoder's heads and not the encoder's"

SIZES_CORRECTED = (
    *(one for family in FAMILIES for one in family.SIZES_CORRECTED),
    Resized("deepseek_v3", "default", BOTH, axis=1, optimum=128, ours=1, why=LATENT),
    Resized("deepseek_v3", "default", (".key",), axis=3, optimum=192, ours=512, why=LATENT),
    Resized("deepseek_v3", "default", (".value",), axis=3, optimum=128, ours=64, why=LATENT),
    *(
        Resized("speech_to_text", preset, *one)
        for preset in ("default", "conv3")
        for one in (
            (("input_features",), 1, 16000, 16, "features and their mask are of one length"),
            (("encoder_attention_mask",), 1, 16, 64, "the mask is over what was heard, 4 frames a state"),
        )
    ),
    *(
        Resized("pix2struct", "default", (name,), 1, 2048, 16, "the number of patches moves")
        for name in ("flattened_patches", "attention_mask", "encoder_hidden_states", "encoder_attention_mask")
    ),
    Resized("pix2struct", "default", (".encoder.key", ".encoder.value"), 2, 2048, 16, "the number of patches moves"),
    Resized("pix2struct", "default", ("attention_mask",), 1, 17, 32, "a next text is longer than a token: ONE_TOKEN"),
    *(
        Resized("longt5", "default", (name,), axis, 16, 57, "several global blocks are traced, and no whole local one")
        for name, axis in (
            ("input_ids", 1),
            ("attention_mask", 1),
            ("encoder_hidden_states", 1),
            (".encoder.key", 2),
            (".encoder.value", 2),
        )
    ),
    Resized("speecht5", "default", (".decoder.key", ".decoder.value"), 2, 16, 12, "the past is of some of the frames"),
    Resized("bart", "asymmetric", OF_THE_DECODER, axis=1, optimum=8, ours=4, why=HEADS),
    Resized("bart", "asymmetric", OF_THE_DECODER, axis=3, optimum=128, ours=256, why=HEADS),
    Resized(
        model_type="falcon",
        preset="new_decoder_architecture",
        endings=BOTH,
        axis=1,
        optimum=8,
        ours=71,
        why="FalconAttention.forward repeats keys and values for each query before it keeps them",
    ),
)
