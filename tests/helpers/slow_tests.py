"""Tests that run in the sweep and not by default: they are slow, and a faster test of the same thing is left."""

from __future__ import annotations

from collections.abc import Mapping

REPEATED = "test_a_graph_of_repeated_layers_is_that_of_all_layers"

SLOW = (
    "architectures/test_seq2seq.py::test_a_merged_decoder_in_half_precision_computes_an_empty_past[bart]",
    "architectures/test_seq2seq.py::test_marian_generates_the_tokens_of_transformers[separate]",
    "architectures/test_wrappers.py::test_pop2piano_generates_as_transformers_for_each_composer",
    "architectures/test_wrappers.py::test_speecht5_speaks_as_transformers",
    "check/test_bisect.py::test_the_module_with_the_fault_is_named[backbone.layers.1.mixer.in_proj-swap]",
    "check/test_half_precision.py::test_a_checkpoint_in_bfloat16_is_exported_in_float32[t5]",
    "check/test_half_precision.py::test_a_model_in_float16_is_exported_as_it_is[t5]",
    "check/test_random_mutants.py::test_some_random_mutants_are_found[clip]",
    "export/test_cli.py::test_a_model_of_several_parts_is_exported_for_the_task_that_is_found[t5]",
    "export/test_cli.py::test_a_model_of_several_parts_is_exported_for_the_task_that_is_found[t5 both]",
    "export/test_model_states.py::test_a_model_in_this_state_agrees_with_pytorch[compiled]",
    "export/test_model_states.py::test_a_model_in_this_state_agrees_with_pytorch[frozen]",
    "export/test_model_states.py::test_a_model_in_this_state_agrees_with_pytorch[spectral norm]",
    "export/test_model_states.py::test_a_model_in_this_state_agrees_with_pytorch[transposed weights]",
    "export/test_model_states.py::test_a_model_in_this_state_agrees_with_pytorch[weight norm by a hook]",
    "export/test_model_states.py::test_settings_of_torch_change_nothing[autocast]",
    "export/test_model_states.py::test_settings_of_torch_change_nothing[deterministic]",
    "export/test_model_states.py::test_settings_of_torch_change_nothing[device]",
    "export/test_model_states.py::test_settings_of_torch_change_nothing[no gradients]",
    f"graphs/passes/test_repeat_layers.py::{REPEATED}[gemma2-text-generation-with-past]",
    "graphs/test_fingerprints.py::test_another_process_computes_the_same_fingerprints",
    "specs/test_extra_outputs.py::test_extra_outputs_agree_with_pytorch[t5-text2text-generation-with-past-names4]",
    "weights/test_placement.py::test_a_weight_of_four_files_is_stored_once",
    "weights/test_placement.py::test_the_check_disables_prepacking_if_files_have_external_data[copy-False]",
    "weights/test_placement.py::test_transformers_js_gets_files_that_share_no_weights",
)

KEPT: Mapping[str, tuple[str, ...]] = {
    "architectures/test_rows.py::test_a_model_agrees_with_pytorch": (
        "albert-text-classification",
        "canine-feature-extraction",
        "clip-zero-shot-image-classification",
        "convnext-feature-extraction",
        "depth_anything-depth-estimation",
        "patchtsmixer-time-series-forecasting",
        "vit-image-classification",
        "wav2vec2-automatic-speech-recognition",
        "yolos-object-detection",
    ),
    "architectures/test_decoders.py::test_a_decoder_agrees_with_pytorch": (
        "deepseek_v3-text-generation-with-past",
        "gemma2-feature-extraction-with-past",
        "gpt2-token-classification",
        "lfm2-text-generation-with-past",
        "llama-text-generation-with-past",
        "mamba2-text-generation-with-past",
    ),
    "architectures/test_every_head.py::test_a_head_that_no_row_names_agrees_with_pytorch": (
        "bert-next-sentence-prediction",
        "kyutai_speech_to_text-feature-extraction",
        "patchtst-time-series-regression",
        "prophetnet-text-generation",
        "swinv2-backbone",
        "t5-text-classification",
    ),
    "architectures/test_every_part.py::test_each_part_agrees_with_pytorch": (
        "llava-image-text-to-text-with-past",
        "qwen3_vl-image-text-to-text-with-past",
        "voxtral-audio-text-to-text-with-past",
    ),
}
"""From a test of a sample to the parameters that the default run keeps: a few of each kind. The sweep has all pairs."""


def is_slow(test: str) -> bool:
    """Whether a test, by its name below `tests`, runs in the sweep and not by default."""
    name, _, parameters = test.partition("[")
    return test in SLOW or (name in KEPT and parameters.removesuffix("]") not in KEPT[name])
