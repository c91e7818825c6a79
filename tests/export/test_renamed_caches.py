"""Caches under the names of another client, against PyTorch; `genai_config.json` has the names as data."""

import json

import numpy as np
import pytest
import tiny
from agreement import assert_agreement
from command_line import exported_checkpoint

import onnxfn
from onnxfn import renamed, with_input, with_shared_cache

TASK = "text-generation-with-past"
PAST = {f"past_key_values.{{layer}}.{kind}": f"past.{{layer}}.{kind}" for kind in ("key", "value")}
OTHER = {"past_key_values.{layer}.key": "cache_k_{layer}", "present.{layer}.key": "new_k_{layer}"}


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (renamed(**PAST), "past.1.value"),
        (with_input("num_logits_to_keep"), "num_logits_to_keep"),
        (with_shared_cache, "past_key_values.1.value"),
    ],
)
def test_a_decoder_with_another_cache_or_number_of_logits_writes_the_same_text(edit, name, tmp_path):
    spec, model = tiny.spec_and_model("llama", TASK)
    plain = onnxfn.export(spec, model, tmp_path / "plain", check=False)
    result = assert_agreement(onnxfn.export(edit(spec), model, tmp_path / "out"))
    assert name in result.inputs
    ids = np.array([[5, 7, 9], [4, 4, 8]])
    assert (onnxfn.generate(result, ids) == onnxfn.generate(plain, ids)).all()


def test_names_that_do_not_show_the_cache_are_checked_token_by_token(tmp_path):
    spec, model = tiny.spec_and_model("llama", TASK)
    result = onnxfn.export(renamed(spec, **OTHER), model, tmp_path / "out")
    assert any(output.output == "greedy tokens" for output in result.report.differences)
    with pytest.raises(onnxfn.InvalidSpec, match="generate has no value for the inputs cache_k_0"):
        onnxfn.generate(result, [[3, 4]])


def test_the_command_line_names_the_cache_and_the_side_file_of_a_client(tmp_path):
    names = [word for pair in OTHER.items() for word in ("--rename", "=".join(pair))]
    words = ("--task", TASK, "--no-check", *names, "--no-template-cache")
    exported_checkpoint(tiny.model("llama", "AutoModelForCausalLM"), tmp_path, *words)
    decoder = json.loads((tmp_path / "out" / "genai_config.json").read_text())["model"]["decoder"]
    assert decoder["inputs"]["past_key_names"] == "cache_k_%d"
    assert decoder["inputs"]["past_value_names"] == "past_key_values.%d.value"
    assert decoder["outputs"]["present_key_names"] == "new_k_%d"
