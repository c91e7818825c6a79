"""The folder of an adapter is read as PEFT reads it; what is not known is refused in a sentence."""

import json
import re
import shutil
from time import perf_counter

import peft_adapters
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from safetensors.torch import load_file, save_file

from onnxfn.specs.errors import InvalidSpec, LoadFailed, ModelNotFound
from onnxfn.weights.adapters import CONFIG, WEIGHTS, is_match, read_adapter

PATTERNS = peft_adapters.FOLDER / "patterns"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(PATTERNS, tmp_path / "adapter")


def change(folder, **values):
    (folder / CONFIG).write_text(json.dumps(json.loads((folder / CONFIG).read_text()) | values))
    return folder


def test_ranks_and_scales_follow_the_patterns():
    layers = read_adapter(PATTERNS).layers
    assert {name.split("layers.")[1]: (len(layer.a), round(layer.scale, 6)) for name, layer in layers.items()} == {
        "0.self_attn.q_proj": (3, round(7 / 3, 6)),
        "1.self_attn.q_proj": (3, round(5 / 3, 6)),
        "0.mlp.down_proj": (2, 2.5),
        "1.mlp.down_proj": (2, 2.5),
    }


def test_rslora_divides_by_the_root_of_the_rank():
    assert {layer.scale for layer in read_adapter(peft_adapters.FOLDER / "rslora").layers.values()} == {8 / 2}


def test_tensors_of_the_model_itself_keep_their_names(folder):
    tensors = load_file(folder / WEIGHTS)
    names = ["a.base_layer.weight", "b.modules_to_save.weight", "c.bias"]
    save_file(tensors | {f"base_model.model.{name}": torch.ones(2) for name in names}, folder / WEIGHTS)
    assert read_adapter(folder).tensors.keys() == {"a.weight", "b.weight", "c.bias"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"peft_type": "IA3"}, "is of the type 'IA3', not LORA"),
        ({"init_lora_weights": "pissa"}, "has init_lora_weights='pissa'"),
        ({"lora_bias": True}, "has lora_bias=True"),
        ({"target_parameters": ["experts.gate_up_proj"]}, "has target_parameters=\\['experts.gate_up_proj'\\]"),
        ({"trainable_token_indices": [3]}, "has trainable_token_indices=\\[3\\]"),
        ({"layer_replication": [[0, 2]]}, "has layer_replication="),
        ({"a_feature_of_next_year": "on"}, "has a_feature_of_next_year='on'"),
    ],
)
def test_an_unknown_feature_is_named(folder, values, message):
    with pytest.raises(InvalidSpec, match=message) as error:
        read_adapter(change(folder, **values))
    assert "merge it with PEFT (merge_and_unload)" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_an_adapter_is_named(folder):
    assert "no folder" in refusal(ModelNotFound, read_adapter, folder / "absent")
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    assert "save it again with safe_serialization=True" in refusal(ModelNotFound, read_adapter, folder)
    (folder / CONFIG).unlink()
    assert "no adapter_config.json" in refusal(ModelNotFound, read_adapter, folder)


def test_a_damaged_adapter_is_refused(folder):
    tensors = load_file(folder / WEIGHTS)
    save_file({name: tensor for name, tensor in tensors.items() if "lora_B" not in name}, folder / WEIGHTS)
    assert "has no A or no B for" in refusal(LoadFailed, read_adapter, folder)
    (folder / WEIGHTS).write_bytes(b"12")
    assert "cannot be read" in refusal(LoadFailed, read_adapter, folder)
    (folder / CONFIG).write_text("[]")
    assert "cannot be read" in refusal(LoadFailed, read_adapter, folder)


@pytest.mark.parametrize("pattern", ["[", "a{3}b", "[z-a]"])
def test_a_pattern_that_cannot_be_read_is_named(folder, pattern):
    message = refusal(LoadFailed, read_adapter, change(folder, alpha_pattern={pattern: 3}))
    assert f"{folder} cannot be read: a value of {CONFIG} is wrong: " in message


def test_a_link_out_of_the_folder_of_an_adapter_is_not_followed(folder, tmp_path):
    (folder / WEIGHTS).rename(tmp_path / "private")
    (folder / WEIGHTS).symlink_to(tmp_path / "private")
    assert f"'{WEIGHTS}' is a link out of its folder" in refusal(LoadFailed, read_adapter, folder)


# Patterns of layers, as PEFT's regular expressions fit them; those that Python's `re` cannot end are quick

atoms = st.sampled_from(["a", "b", ".", r"\.", r"\d", "[ab]", "1", "_"])
groups = st.lists(st.lists(atoms, max_size=2).map("".join), min_size=1, max_size=3).map(
    lambda forms: f"({'|'.join(forms)})"
)
units = st.tuples(atoms | groups, st.sampled_from(["", "", "*", "+", "?"])).map("".join)
patterns = st.builds("{}{}{}".format, st.sampled_from(["", "^"]), st.lists(units, max_size=4).map("".join), st.just(""))
names = st.text("ab1._", max_size=8)


@given(patterns, names)
def test_a_pattern_fits_the_names_that_peft_fits(pattern, name):
    assert is_match(pattern, name) == (re.match(rf"(.*\.)?({pattern})$", name) is not None)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("q_proj", True),
        ("proj", False),
        ("self_attn.q_proj", True),
        (r"^model\.layers\.\d+\.self_attn\.q_proj$", True),
        ("^layers.10.self_attn.q_proj", False),
        (".*(q|k)_proj", True),
        ("k_proj|q_proj", True),
        ("k_proj|v_proj", False),
    ],
)
def test_what_people_write_fits(pattern, fits):
    assert is_match(pattern, "model.layers.10.self_attn.q_proj") is fits


@pytest.mark.parametrize(("pattern", "name"), [("(a|aa)+c", "a" * 2000), ("a*" * 400, "a" * 500)])
def test_a_pattern_that_backtracks_for_hours_is_refused_within_a_second(pattern, name):
    start = perf_counter()
    assert "timed out" in refusal(InvalidSpec, is_match, pattern, f"{name}!")
    assert perf_counter() - start < 5


@pytest.mark.parametrize("pattern", ["[", "((a{999}){999}){999}", "(?=a)", "(?R)", "a**", "a" * 1001, "(" * 400])
def test_a_pattern_of_another_kind_is_refused(pattern):
    assert "the pattern " in refusal(InvalidSpec, is_match, pattern, "layers.0.q_proj")
