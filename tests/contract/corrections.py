"""Where a plan differs from Optimum's on purpose, with the reason of each difference."""

from __future__ import annotations

from corrected import audio, detection, libraries, multimodal, series, vision
from corrected.records import AbsentTensors, AddedInput, CorrectedSize, Correction, DynamicAxis, WithoutModel

FAMILIES = (vision, detection, multimodal, audio, series, libraries)

REPEATED_PRESETS = libraries.REPEATED_PRESETS

FOUR = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")

CORRECTIONS = (
    *(record for family in FAMILIES for record in family.CORRECTIONS),
    Correction(
        model_type="markuplm",
        tensors=("xpath_subs_seq", "xpath_tags_seq"),
        axis=2,
        optimum="max_depth",
        ours=None,
        why="the model reads exactly config.max_depth steps of each path, so the axis is static",
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("encoder_attention_mask",),
            axis=1,
            optimum="encoder_sequence_length",
            ours="audio_sequence_length",
            why="the mask is over the audio frames; the encoder has fewer states",
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
        why="the model speaks one text at a time, and all other tensors have a batch of 1",
    ),
    Correction(
        model_type="speecht5",
        tensors=tuple(f"present.{layer}.decoder.{kind}" for layer in range(2) for kind in ("key", "value")),
        axis=2,
        optimum="past_decoder_sequence_length + decoder_sequence_length",
        ours="decoder_sequence_length",
        why="output_sequence holds all frames so far, and the cache has the same length",
    ),
    Correction(
        model_type="speecht5",
        tensors=("spectrogram",),
        axis=0,
        optimum="n_spectrums x reduction_factor",
        ours="n_spectrums_x_reduction_factor",
        why="a symbol is an identifier; the vocoder reads any number of frames",
    ),
    *(
        Correction(
            model_type="musicgen",
            tensors=("input_ids", "logits", "input_ids_edited", "delay_pattern_mask"),
            axis=0,
            optimum=optimum,
            ours="batch_size * 4",
            why="there is a row per codebook of each text, in the logits of the decoder too",
        )
        for optimum in ("total_batch_size_x_num_codebooks", "batch_size_x_num_codebooks")
    ),
    Correction(
        model_type="musicgen",
        tensors=("logits",),
        axis=0,
        optimum="batch_size",
        ours="batch_size * 4",
        why="there is a row per codebook of each text, in the logits of the decoder too",
    ),
    Correction(
        model_type="musicgen",
        tensors=("input_ids", "input_ids_edited"),
        axis=1,
        optimum=None,
        ours="decoder_sequence_length",
        why="the codes may have any length, in the decoder and in the delay pattern",
    ),
    Correction(
        model_type="musicgen",
        tensors=("encoder_hidden_states",),
        axis=0,
        optimum="total_batch_size",
        ours="batch_size",
        why="the mask and the cache have this batch axis too",
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=tuple(f"{start}.{layer}.{kind}" for layer in range(2) for kind in ("key", "value")),
            axis=2,
            optimum=optimum,
            ours=ours,
            why="all tensors of a decoder share the symbols of its lengths, whatever its model type",
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
            why="the position embeddings are for images of one size, and the weights fix the number of channels",
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
        why="the processor decides the number of patches; 2048 is a default",
    ),
)


WITHOUT_MODEL = (
    *(record for family in FAMILIES for record in family.WITHOUT_MODEL),
    WithoutModel(
        model_type="trocr",
        tasks=("feature-extraction", "feature-extraction-with-past"),
        why="Optimum declares an encoder that reads text; TrOCR is a decoder only, with the task text-generation",
    ),
)


VARIANTS = multimodal.VARIANTS

# Optimum declares the whole SAM as one of its parts, and a split MetaCLIP 2 for a task whose class has no parts.
EXCLUDED = {("sam", "feature-extraction@monolith"), ("metaclip_2", "image-classification@split")}


NEXT_TOKENS = DynamicAxis(
    optimum="1",
    ours="decoder_sequence_length",
    size=16,
    why="a decoder with a past reads any number of new tokens, so that a draft can be verified in one call",
)


ADDED_INPUTS = (
    *(record for family in FAMILIES for record in family.ADDED_INPUTS),
    AddedInput(
        name="position_ids",
        model_types=("gemma", "gemma2", "gemma3", "gemma3_text", "gpt_oss", "nemotron"),
        tasks=(
            "feature-extraction",
            "feature-extraction-with-past",
            "text-generation",
            "text-generation-with-past",
        ),
        axes=("batch_size", "sequence_length"),
        why="forward takes position_ids; without them, positions in a left-padded batch start at the padding",
    ),
)


ABSENT_TENSORS = (
    *(record for family in FAMILIES for record in family.ABSENT_TENSORS),
    AbsentTensors(
        model_type="moonshine",
        preset="asymmetric",
        starts=("past_key_values.2.", "present.2."),
        why="the decoder has 2 layers; the third is a layer of the encoder",
    ),
)


BOTH = (".key", ".value")
LATENT = "transformers 5 caches the latent of keys and values, and the rotated part that all heads share"

OF_THE_DECODER = (".encoder.key", ".encoder.value", ".0.key", ".0.value", ".1.key", ".1.value")
HEADS = "the cross-attention of a decoder has the heads of the decoder"

CORRECTED_SIZES = (
    *(record for family in FAMILIES for record in family.CORRECTED_SIZES),
    CorrectedSize("deepseek_v3", "default", BOTH, axis=1, optimum=128, ours=1, why=LATENT),
    CorrectedSize("deepseek_v3", "default", (".key",), axis=3, optimum=192, ours=512, why=LATENT),
    CorrectedSize("deepseek_v3", "default", (".value",), axis=3, optimum=128, ours=64, why=LATENT),
    *(
        CorrectedSize("speech_to_text", preset, endings, 1, optimum, ours, why)
        for preset in ("default", "conv3")
        for endings, optimum, ours, why in (
            (("input_features",), 16000, 16, "features and their mask have one length"),
            (("encoder_attention_mask",), 16, 64, "the mask is over audio frames, 4 per state"),
        )
    ),
    *(
        CorrectedSize("pix2struct", "default", (name,), 1, 2048, 16, "the number of patches is dynamic")
        for name in ("flattened_patches", "attention_mask", "encoder_hidden_states", "encoder_attention_mask")
    ),
    CorrectedSize(
        "pix2struct", "default", (".encoder.key", ".encoder.value"), 2, 2048, 16, "the number of patches is dynamic"
    ),
    CorrectedSize("pix2struct", "default", ("attention_mask",), 1, 17, 32, "there are several new tokens: NEXT_TOKENS"),
    *(
        CorrectedSize(
            "longt5", "default", (name,), axis, 16, 57, "the dummies have several global blocks and no full local one"
        )
        for name, axis in (
            ("input_ids", 1),
            ("attention_mask", 1),
            ("encoder_hidden_states", 1),
            (".encoder.key", 2),
            (".encoder.value", 2),
        )
    ),
    CorrectedSize(
        "speecht5", "default", (".decoder.key", ".decoder.value"), 2, 16, 12, "the past holds some of the frames"
    ),
    CorrectedSize("bart", "asymmetric", OF_THE_DECODER, axis=1, optimum=8, ours=4, why=HEADS),
    CorrectedSize("bart", "asymmetric", OF_THE_DECODER, axis=3, optimum=128, ours=256, why=HEADS),
    CorrectedSize(
        model_type="falcon",
        preset="new_decoder_architecture",
        endings=BOTH,
        axis=1,
        optimum=8,
        ours=71,
        why="FalconAttention.forward repeats keys and values for each query before it caches them",
    ),
)
