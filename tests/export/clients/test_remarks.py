"""What clients cannot load, said before anything is traced. The cases were seen in the clients."""

import json

import pytest
import tiny
from every_part import tiny_model

import onnxfn
from onnxfn.export.clients.folder import Folder
from onnxfn.export.clients.side_files import alias_of, with_remarks, with_side_files
from onnxfn.weights.layouts import LAYOUTS, with_alias

WITH_PAST, SEES = "text-generation-with-past", "image-text-to-text-with-past"


def remarks_of(spec, config, layout="hub", **options):
    return with_remarks(onnxfn.plan(spec, config, **options), config, LAYOUTS[layout]).remarks


def remarks(model_type, task=WITH_PAST, layout="hub", decoders="merged", **changes):
    config = tiny.config(model_type, **changes)
    return remarks_of(onnxfn.spec_for(config, task), config, layout, decoders=decoders)


def own_config_remarks(model_type, task, config):
    """The remarks on a plan of a tiny model for a configuration of other values."""
    plan = onnxfn.plan(onnxfn.spec_for(tiny.config(model_type), task), tiny.config(model_type))
    return with_remarks(plan, config, LAYOUTS["hub"]).remarks


@pytest.mark.parametrize(
    ("model_type", "task"),
    [
        ("llama", WITH_PAST),
        ("qwen2", WITH_PAST),
        ("gpt2", WITH_PAST),
        ("gemma", WITH_PAST),
        ("falcon", WITH_PAST),
        ("bert", "fill-mask"),
        ("bert", "feature-extraction"),
        ("t5", "text2text-generation-with-past"),
        ("vit", "image-classification"),
        ("wav2vec2", "automatic-speech-recognition"),
        ("clip", "zero-shot-image-classification"),
        ("vits", "text-to-audio"),
        ("speecht5", "text-to-audio-with-past"),
        ("musicgen", "text-to-audio-with-past"),
    ],
)
def test_there_is_no_remark_on_what_all_clients_load(model_type, task):
    assert remarks(model_type, task) == ()


BIGCODE = (
    "ORTModel starts gpt_bigcode with a cache of 4 x 8 for heads and width, not 1 x 8; "
    "it loads the folder of --layout optimum"
)


@pytest.mark.parametrize(
    ("model_type", "lines"),
    [
        (
            "minicpm3",
            (
                "transformers.js has no session for minicpm3 (text-generation)",
                "onnxruntime-genai cannot have keys and values of unlike width (minicpm3)",
                "ORTModel does not know minicpm3: it needs transformers 4.57",
            ),
        ),
        (
            "mamba",
            (
                "transformers.js has no session for mamba (text-generation)",
                "onnxruntime-genai cannot have a cache without keys and values (mamba)",
                "ORTModel has no cache but keys and values, and mamba has past_conv.0",
            ),
        ),
        (
            "olmo_hybrid",
            (
                "onnxruntime-genai cannot have a cache such as past_conv.0.query (olmo_hybrid)",
                "ORTModel does not know olmo_hybrid: it needs transformers 4.57",
            ),
        ),
        ("qwen3_5_text", ("ORTModel does not know qwen3_5_text: it needs transformers 4.57",)),
        ("gpt_bigcode", (BIGCODE,)),
        ("phi3", ("ORTModel starts phi3 with a cache of 4 x 8 for heads and width, not 2 x 8",)),
    ],
)
def test_a_remark_names_the_client_and_what_it_cannot_load(model_type, lines):
    assert remarks(model_type) == lines


def test_the_heads_of_the_cache_of_ort_model_depend_on_the_type():
    """Grouped heads for llama; a width of its own for gemma, and not for llama."""
    line = "ORTModel starts llama with a cache of 2 x 8 for heads and width, not 2 x 16"
    assert remarks("llama", head_dim=16) == (line,)
    assert remarks("gemma", head_dim=16) == ()


def test_ort_model_starts_an_encoder_decoder_with_the_heads_of_the_encoder():
    line = "ORTModel starts bart with a cache of 4 heads, those of the encoder, not 2"
    assert line in remarks("bart", "text2text-generation-with-past")
    assert line not in remarks("bart", "text2text-generation")
    assert remarks("bart", "text2text-generation-with-past", decoder_attention_heads=4) == ()


def test_a_file_that_transformers_js_loads_and_the_plan_lacks_is_named():
    (line, *_) = remarks("t5", "text2text-generation-with-past", decoders="separate")
    assert line == "transformers.js loads decoder_model_merged.onnx for t5, which this plan does not write"
    config = {**tiny.config("llama").to_dict(), "model_type": "gemma3", "architectures": ["AForConditionalGeneration"]}
    assert "loads embed_tokens.onnx for gemma3, " in own_config_remarks("llama", WITH_PAST, config)[0]


def test_the_decoder_of_gemma_3_alone_needs_no_part_of_the_whole_model():
    assert remarks("gemma3", architectures=["Gemma3ForConditionalGeneration"]) == ()


def test_positions_of_another_rank_are_named():
    config = {**tiny.config("llama").to_dict(), "model_type": "qwen3_5_text"}
    (line, *_) = own_config_remarks("llama", WITH_PAST, config)
    known = "transformers.js computes position_ids of rank 3 for qwen3_5_text, and"
    assert line == f"{known} the graph takes rank 2: with_mrope(spec)"
    own = tiny.config("qwen3_5_text")
    assert remarks_of(onnxfn.with_mrope(onnxfn.spec_for(own, WITH_PAST)), own, "transformers.js") == ()


def test_a_cache_without_a_name_is_named():
    config = {**tiny.config("qwen3_next").to_dict(), "model_type": "olmo_hybrid"}
    assert "no name for the cache past_conv.0 of olmo_hybrid" in own_config_remarks("qwen3_next", WITH_PAST, config)[0]


@pytest.mark.parametrize("model_type", ["moonshine", "cohere_asr"])
def test_an_input_that_transformers_js_drops_is_named(model_type):
    """Its class gives the encoder the sound alone. So it ends with: Missing the following inputs: attention_mask."""
    task, names = "automatic-speech-recognition-with-past", ("attention_mask", "encoder_attention_mask")
    flags = " ".join(f"--without {name}" for name in names)
    line = f"transformers.js gives {model_type} no attention_mask, which encoder_model.onnx takes"
    assert f"{line}; it loads the files of {flags}" in remarks(model_type, task)
    without = onnxfn.without(onnxfn.spec_for(model_type, task), *names)
    assert remarks_of(without, tiny.config(model_type), "transformers.js") == ()


def test_sizes_of_images_that_transformers_js_drops_are_named_without_a_flag():
    """Its class gives the tower pixels alone, and the tower cannot do without the sizes."""
    model = tiny_model("llava_onevision", SEES)
    plan = onnxfn.plan(onnxfn.spec_for(model, SEES), model)
    line = "transformers.js gives llava_onevision no image_sizes, which vision_encoder.onnx takes"
    assert with_remarks(plan, model.config, LAYOUTS["transformers.js"]).remarks == (line,)


def test_one_client_does_not_give_the_number_of_logits():
    spec = onnxfn.with_input(onnxfn.spec_for("llama", WITH_PAST), "num_logits_to_keep")
    assert remarks_of(spec, tiny.config("llama")) == ("ORTModel gives no num_logits_to_keep, which the graph takes",)


def test_a_layout_of_no_client_has_no_remarks_and_that_of_a_single_one_those_of_it():
    assert remarks("minicpm3", layout="optimum") == ()
    (line,) = remarks("minicpm3", layout="transformers.js")
    assert line.startswith("transformers.js has no session for minicpm3")


def test_remarks_are_printed_with_the_plan():
    config = tiny.config("minicpm3")
    plan = with_remarks(onnxfn.plan(onnxfn.spec_for(config, WITH_PAST), config), config, LAYOUTS["hub"])
    assert all(line in str(plan) for line in plan.remarks)
    assert "remarks" in str(plan)


def test_an_alias_is_stated_on_request_and_named():
    config = tiny.config("phi3")
    plan = onnxfn.plan(onnxfn.spec_for(config, WITH_PAST), config)
    aliased = {"model_type": "gemma", "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 8}
    line = "as requested, config.json says model_type gemma, head_dim 8; the real type is phi3"
    assert with_remarks(plan, config, with_alias(LAYOUTS["hub"])).remarks == (line,)
    folder = Folder(plan, {"config.json": config.to_json_string(), "tokenizer_config.json": "{}"}, {"tokenizer.json"})
    texts = with_side_files(folder, with_alias(LAYOUTS["hub"]).side_files).texts
    assert json.loads(texts["config.json"]).items() >= aliased.items()
    assert json.loads(texts["tokenizer_config.json"]) == {"tokenizer_class": "PreTrainedTokenizerFast"}
    assert json.loads(texts["genai_config.json"])["model"]["type"] == "phi3"


@pytest.mark.parametrize("model_type", ["llama", "mamba", "minicpm3"])
def test_there_is_no_alias_where_none_is_needed_or_none_helps(model_type):
    config = tiny.config(model_type)
    assert alias_of(onnxfn.plan(onnxfn.spec_for(config, WITH_PAST), config), config.to_dict()) == {}


def test_transformers_js_loads_a_model_that_sees_from_its_parts():
    model = tiny_model("llava", SEES)
    plan = onnxfn.plan(onnxfn.spec_for(model, SEES), model)
    assert with_remarks(plan, model.config, LAYOUTS["transformers.js"]).remarks == ()
    (line,) = with_remarks(plan, {"model_type": "kosmos-2"}, LAYOUTS["transformers.js"]).remarks
    assert line == "transformers.js has no session for kosmos-2 (image-text-to-text)"
