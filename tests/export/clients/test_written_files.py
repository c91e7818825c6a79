"""Side files: what clients read, from what transformers 5 writes. The values were tried with the clients themselves."""

import json

import pytest
import tiny

import onnxfn
from onnxfn.export.clients.folder import Folder
from onnxfn.export.clients.side_files import SIDE_FILES, with_side_files
from onnxfn.weights.layouts import LAYOUTS, with_alias

HUB = LAYOUTS["hub"].side_files


def planned(model_type, task="text-generation-with-past", dtypes=()):
    config = tiny.config(model_type)
    plan = onnxfn.plan(onnxfn.spec_for(config, task), config)
    parts = [onnxfn.Part(f"{part.name}_{dtype}", part.spec, dtype=dtype) for part in plan for dtype in dtypes]
    return config, onnxfn.Plan(parts or plan.parts)


def folder_of(model_type, *names, config=None, **options):
    own, plan = planned(model_type, **options)
    texts = {"config.json": config or own.to_json_string()}
    return with_side_files(Folder(plan, texts, subfolder="onnx"), names)


def after(name, texts, *, present=(), side_file):
    """A file after a side file was computed from texts."""
    texts = {path: json.dumps(text) if isinstance(text, (dict, list)) else text for path, text in texts.items()}
    folder = Folder(planned("llama")[1], texts, frozenset({*texts, *present}), subfolder="onnx")
    new = with_side_files(folder, side_file if isinstance(side_file, tuple) else (side_file,)).texts.get(name)
    return json.loads(new) if name.endswith(".json") and new else new


def test_each_layout_names_functions_that_exist():
    named = {name for layout in LAYOUTS.values() for name in with_alias(layout).side_files}
    assert named == set(SIDE_FILES)


@pytest.mark.parametrize("model_type", ["llama", "granitemoehybrid", "bert"])
def test_side_files_are_computed_once(model_type):
    """A second time nothing changes."""
    task = "fill-mask" if model_type == "bert" else "text-generation-with-past"
    folder = folder_of(model_type, *HUB, task=task)
    assert with_side_files(folder, HUB) == folder


def genai_of(model_type, **changes):
    """The section `model` of the file for a tiny model whose configuration has other values."""
    config = json.dumps({**tiny.config(model_type).to_dict(), **changes})
    return json.loads(folder_of(model_type, "genai_config", config=config).texts["genai_config.json"])["model"]


def test_genai_config_of_a_decoder():
    config, content = tiny.config("llama"), json.loads(folder_of("llama", "genai_config").texts["genai_config.json"])
    model, decoder = content["model"], content["model"]["decoder"]
    assert (model["type"], decoder["filename"], decoder["head_size"]) == ("llama", "onnx/model.onnx", 8)
    for name in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id"):
        assert model[name] == getattr(config, name)
    for name in ("hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers"):
        assert decoder[name] == getattr(config, name)
    names = ("input_ids", "attention_mask", "position_ids")
    past = {f"past_{kind}_names": f"past_key_values.%d.{kind}" for kind in ("key", "value")}
    present = {f"present_{kind}_names": f"present.%d.{kind}" for kind in ("key", "value")}
    assert decoder["inputs"] == {**dict(zip(names, names, strict=True)), **past}
    assert decoder["outputs"] == {"logits": "logits", **present}
    length = model["context_length"]
    assert length == config.max_position_embeddings
    assert content["search"] == {"max_length": length, "past_present_share_buffer": False}


def test_genai_config_has_no_tokens_outside_the_vocabulary():
    """The runtime refuses a model with such a token, and configurations have `pad_token_id: -1`."""
    model = genai_of("llama", eos_token_id=[2, 128], pad_token_id=-1)
    assert model["eos_token_id"] == [2]
    assert "pad_token_id" not in model


def test_genai_config_without_an_end_names_no_padding():
    """The runtime would end a text at the first token for padding."""
    assert genai_of("llama", eos_token_id=None, pad_token_id=5).keys().isdisjoint({"eos_token_id", "pad_token_id"})


def test_the_decoder_of_a_model_of_texts_and_images_has_its_own_class():
    config = json.dumps({**tiny.config("gemma3").to_dict(), "architectures": ["Gemma3ForConditionalGeneration"]})
    folder = folder_of("gemma3", "text_architecture", config=config)
    assert json.loads(folder.texts["config.json"])["architectures"] == ["Gemma3ForCausalLM"]


@pytest.mark.parametrize(
    ("model_type", "second", "layers"), [("nemotron_h", "ssm", 4), ("qwen3_5_text", "recurrent", 2)]
)
def test_genai_config_names_the_states_of_hybrids(model_type, second, layers):
    model = genai_of(model_type)
    decoder = model["decoder"]
    assert (model["type"], decoder["num_hidden_layers"]) == ("decoder", layers)
    for when, ports in (("past", decoder["inputs"]), ("present", decoder["outputs"])):
        assert ports[f"{when}_conv_names"] == f"{when}_conv.%d"
        assert ports[f"{when}_recurrent_names"] == f"{when}_{second}.%d"


def test_genai_config_has_the_kinds_of_layers_of_lfm2():
    config = tiny.config("lfm2", layer_types=["conv", "full_attention"])
    plan = onnxfn.plan(onnxfn.spec_for(config, "text-generation-with-past"), config)
    texts = with_side_files(Folder(plan, {"config.json": config.to_json_string()}), ("genai_config",)).texts
    decoder = json.loads(texts["genai_config.json"])["model"]["decoder"]
    assert decoder["layer_types"] == ["conv", "full_attention"]
    assert decoder["inputs"]["past_conv_names"] == "past_conv.%d"
    assert decoder["filename"] == "model.onnx"


def test_genai_loads_layers_of_several_widths_if_keys_and_values_are_alike():
    assert "genai_config.json" in folder_of("gemma4_text", "genai_config").texts


@pytest.mark.parametrize(
    ("model_type", "task"),
    [
        *((model_type, "text-generation-with-past") for model_type in ("minicpm3", "mamba", "minimax")),
        *(("bert", "fill-mask"), ("t5", "text2text-generation-with-past"), ("llama", "text-generation")),
    ],
)
def test_there_is_no_genai_config_without_a_decoder_that_can_be_loaded_with_its_cache(model_type, task):
    assert "genai_config.json" not in folder_of(model_type, "genai_config", task=task).texts


@pytest.mark.parametrize(
    ("dtypes", "first"), [(("q4", "float32"), "float32"), (("q8", "q4f16", "float16"), "float16"), (("q8", "q4"), "q4")]
)
def test_genai_loads_the_first_choice_of_the_dtypes(dtypes, first):
    texts = folder_of("llama", "genai_config", dtypes=dtypes).texts
    assert json.loads(texts["genai_config.json"])["model"]["decoder"]["filename"] == f"onnx/model_{first}.onnx"


def test_genai_takes_tokens_and_sampling_from_the_generation_configuration():
    sampling = {"temperature": 0.6, "do_sample": True}
    config = {"model_type": "llama", "vocab_size": 99, "eos_token_id": 5}
    generation = {**sampling, "eos_token_id": [5, 7], "top_p": None, "max_length": 4096}
    texts = {"config.json": config, "generation_config.json": generation}
    content = after("genai_config.json", texts, side_file="genai_config")
    assert content["model"]["eos_token_id"] == [5, 7]
    assert content["search"] == {**sampling, "max_length": 2048, "past_present_share_buffer": False}


def test_a_tokenizer_of_transformers_5_is_one_that_older_versions_and_transformers_js_know():
    kept = {"model_max_length": 8192, "eos_token": "</s>"}
    gone = {"backend": "tokenizers", "is_local": True, "local_files_only": False}
    old = {**kept, **gone, "tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<a>", "<b>"]}
    texts = {"tokenizer_config.json": old, "chat_template.jinja": "{{ messages }} é"}
    assert after("tokenizer_config.json", texts, side_file="tokenizer_config") == {
        **kept,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "additional_special_tokens": ["<a>", "<b>"],
        "chat_template": "{{ messages }} é",
    }


def test_a_tokenizer_of_transformers_4_keeps_its_words_and_gets_a_file_for_its_template():
    old = {"tokenizer_class": "GPT2Tokenizer", "extra_special_tokens": {"image": "<i>"}, "chat_template": "{{ x }}"}
    both = ("tokenizer_config", "chat_template")
    assert after("tokenizer_config.json", {"tokenizer_config.json": old}, side_file=both) == old
    assert after("chat_template.jinja", {"tokenizer_config.json": old}, side_file=both) == "{{ x }}"
    assert after("tokenizer_config.json", {}, present=("tokenizer.json",), side_file="tokenizer_config") == {}
    texts = {"sentence_bert_config.json": {"max_seq_length": 256}}
    new = after("tokenizer_config.json", texts, present=("tokenizer.json",), side_file="tokenizer_config")
    assert new == {"model_max_length": 256}


@pytest.mark.parametrize("text", ["{", "[]", '"text"', ""])
def test_a_file_that_is_no_object_stays_as_it_is(text):
    names = ("config.json", "tokenizer_config.json", "modules.json", "processor_config.json", "1_Pooling/config.json")
    folder = Folder(planned("llama")[1], dict.fromkeys(names, text), frozenset(names))
    assert with_side_files(folder, HUB) == folder


@pytest.mark.parametrize(
    ("dtypes", "default"),
    [((), "fp32"), (("float16",), "fp16"), (("float32", "q4"), "fp32"), (("bfloat16",), None), (("q4", "q8"), "q8")],
)
def test_transformers_js_is_pointed_to_a_dtype_that_exists(dtypes, default):
    config = json.loads(folder_of("bert", "default_dtype", task="fill-mask", dtypes=dtypes).texts["config.json"])
    assert config.get("transformers.js_config", {}).get("dtype") == default


def test_the_section_of_transformers_js_describes_the_graphs_and_keeps_other_keys():
    old = {"transformers.js_config": {"dtype": "q4", "device": "webgpu", "use_external_data_format": {"old.onnx": 2}}}
    folder = Folder(planned("llama")[1], {"config.json": json.dumps(old)}, sidecars=("model.onnx",))
    new = json.loads(with_side_files(folder, ("external_data", "default_dtype")).texts["config.json"])
    section = {"device": "webgpu", "use_external_data_format": {"model.onnx": 1}, "dtype": "fp32"}
    assert new == {"transformers.js_config": section}


@pytest.mark.parametrize(
    ("model_type", "changed"),
    [
        ("granitemoehybrid", {"layer_types": ["mamba", "attention"]}),
        ("nemotron_h", {"layers_block_type": ["mamba", "moe", "attention", "mlp"]}),
        ("falcon", {"multi_query": False, "num_kv_heads": 1}),
        ("gpt_bigcode", {"multi_query": False}),
        ("qwen3_next", {}),
        ("llama", {}),
    ],
)
def test_kinds_of_layers_and_heads_are_in_words_that_clients_know(model_type, changed):
    before = json.loads(tiny.config(model_type).to_json_string())
    texts = folder_of(model_type, "layer_words", "separate_heads", config=json.dumps(before)).texts
    assert json.loads(texts["config.json"]) == before | changed


def test_the_dtype_of_a_configuration_is_that_of_the_graphs():
    old = {"dtype": "bfloat16", "torch_dtype": "bfloat16"}
    assert after("config.json", {"config.json": old}, side_file="graph_dtype") == dict.fromkeys(old, "float32")
    assert after("config.json", {"config.json": {"a": 1}}, side_file="graph_dtype") == {"a": 1}


def test_modules_of_sentence_transformers_6_have_names_that_5_knows():
    new = [
        {"idx": 0, "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {"idx": 1, "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"},
        {"idx": 2, "type": "sentence_transformers.base.modules.normalize.Normalize"},
        {"idx": 3, "type": "my.module.Head"},
    ]
    types = [entry["type"] for entry in after("modules.json", {"modules.json": new}, side_file="modules")]
    models = "sentence_transformers.models."
    assert types == [f"{models}Transformer", f"{models}Pooling", f"{models}Normalize", "my.module.Head"]


def test_the_pooling_of_sentence_transformers_6_is_in_words_that_all_versions_know():
    name, new = "1_Pooling/config.json", {"embedding_dimension": 384, "pooling_mode": "mean", "include_prompt": True}
    flags = after(name, {name: new}, side_file="pooling")
    assert flags.pop("pooling_mode_mean_tokens") is True
    chosen = {key: value for key, value in flags.items() if value}
    assert chosen == {"word_embedding_dimension": 384, "include_prompt": True}
    own = {**new, "pooling_mode": "own"}
    assert after(name, {name: own}, side_file="pooling") == own


def test_sentence_transformers_reads_the_pooling_that_is_written():
    models = pytest.importorskip("sentence_transformers.models")
    name = "1_Pooling/config.json"
    new = {"embedding_dimension": 384, "pooling_mode": "lasttoken", "include_prompt": True}
    pooling = models.Pooling(**after(name, {name: new}, side_file="pooling"))
    assert pooling.get_config_dict() == models.Pooling(384, pooling_mode="lasttoken").get_config_dict()


def test_a_processor_of_transformers_5_gets_the_flat_file_of_older_versions():
    processor = {
        "processor_class": "CLIPProcessor",
        "image_processor": {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 30}},
    }
    flat = after("preprocessor_config.json", {"processor_config.json": processor}, side_file="preprocessor_config")
    assert flat == {**processor["image_processor"], "processor_class": "CLIPProcessor"}
    texts = {"processor_config.json": processor, "preprocessor_config.json": {"mine": 1}}
    assert after("preprocessor_config.json", texts, side_file="preprocessor_config") == {"mine": 1}


@pytest.mark.parametrize(
    ("model_type", "stated", "added"),
    [("sam3_tracker", {}, {"num_feature_levels": 3}), ("sam3_tracker", {"num_feature_levels": 3}, {}), ("sam", {}, {})],
)
def test_segment_anything_states_its_levels_if_it_has_some(model_type, stated, added):
    """transformers.js asks the first graph for so many features: without the number for none."""
    config = {"model_type": model_type, "vision_config": {"fpn_hidden_size": 32, **stated}}
    folder = folder_of(model_type, "feature_levels", config=json.dumps(config), task="feature-extraction")
    assert json.loads(folder.texts["config.json"])["vision_config"] == {**config["vision_config"], **added}


def test_the_sizes_of_a_language_model_are_where_transformers_js_looks_for_them():
    config = {"model_type": "qwen2_vl", "hidden_size": 7, "text_config": {"hidden_size": 8, "num_hidden_layers": 2}}
    folder = folder_of("llama", "text_sizes", config=json.dumps(config))
    assert json.loads(folder.texts["config.json"]) == {**config, "num_hidden_layers": 2}
    other = json.dumps({**config, "model_type": "qwen2_5_vl"})
    assert folder_of("llama", "text_sizes", config=other).texts["config.json"] == other
