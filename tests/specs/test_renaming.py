"""Other names for the tensors of a cache. Those of single inputs and outputs: test_tensor_edits.py."""

from onnxfn import (
    case,
    compose,
    for_task,
    from_json,
    gives,
    plan,
    renamed,
    spec_for,
    takes,
    to_json,
)

LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 9}
NAMES = {
    f"{old}.{{layer}}.{kind}": f"{new}_{kind}_{{layer}}"
    for old, new in (("past_key_values", "past"), ("present", "present"))
    for kind in ("key", "value")
}


def test_each_layer_of_a_cache_has_the_new_name_and_the_old_place():
    spec = renamed(spec_for("llama", "text-generation-with-past"), **NAMES)
    part = plan(spec, LLAMA).parts[0]
    assert [name for name in part.inputs if "past" in name] == [
        *("past_key_0", "past_value_0", "past_key_1", "past_value_1")
    ]
    assert list(part.outputs)[1:] == ["present_key_0", "present_value_0", "present_key_1", "present_value_1"]
    assert part.spec.inputs["past_key_1"].forward_path == ("past_key_values", "1", "keys")
    assert {(each.input, each.output) for each in part.spec.feedback} == {
        (f"past_{kind}_{layer}", f"present_{kind}_{layer}") for kind in ("key", "value") for layer in range(2)
    }
    assert from_json(to_json(spec)) == spec


def test_a_name_reaches_the_cache_of_every_task_and_part():
    spec = renamed(spec_for("t5"), **{"past_key_values.{layer}.encoder.key": "past_cross_{layer}"})
    chosen = for_task(spec, "text2text-generation-with-past")
    config = {"num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 4, "d_model": 8, "vocab_size": 9}
    assert "past_cross_0" in plan(chosen, config)["decoder_model_merged"].inputs


def test_an_input_of_a_case_has_the_new_name():
    spec = compose(takes("a", "n", "normal"), gives("y", "n"), case("short", takes("a", "n", "constant")))
    assert [tensor.name for tensor in renamed(spec, a="b").cases["short"].spec.inputs] == ["b"]
