"""Decoders with other inputs, against PyTorch at sizes that were not traced: logits of the last tokens, positions."""

import numpy as np
import onnx
import pytest
import tiny
import torch
from agreement import assert_agreement

import onnxfn
from onnxfn import CaptureFailed, InvalidSpec, spec_for, with_constants, with_input, with_mrope, with_opset, without
from onnxfn.specs.edits.logits_to_keep import NUM_LOGITS_TO_KEEP as NAME

TASK = "text-generation-with-past"


def exported(model_type, folder, edit=lambda spec: spec):
    model = tiny.model(model_type, "AutoModelForCausalLM")
    return onnxfn.export(edit(with_input(spec_for(model_type, TASK), NAME)), model, folder / "out"), model


def feeds(result, ids, **more):
    sizes = {"batch_size": ids.shape[0], "sequence_length": ids.shape[1], "past_sequence_length": 0}
    part = result.plan.parts[0]
    shapes = {name: [sizes.get(axis.symbol, 0) if axis.kind == "dynamic" else int(axis.symbol)
              for axis in part.spec.inputs[name].axes.axes] for name in part.inputs}  # fmt: skip
    cache = {each.input: np.zeros(shapes[each.input], np.float32) for each in part.spec.feedback}
    positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": positions, **cache, **more}
    return {name: known[name] for name in part.inputs}


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "gemma2", "lfm2", "granite"])
def test_the_last_logits_are_those_of_pytorch(model_type, tmp_path):
    result, model = exported(model_type, tmp_path)
    assert_agreement(result)
    ids = np.random.default_rng(0).integers(3, 90, (2, 13))
    for kept in (0, 1, 5, 13, 20):
        logits = result(**feeds(result, ids, **{NAME: np.array(kept)}))["logits"]
        with torch.no_grad():
            expected = model(torch.tensor(ids), logits_to_keep=kept).logits.numpy()
        assert logits.shape == expected.shape == (2, kept if 0 < kept < 13 else 13, expected.shape[-1])
        np.testing.assert_allclose(logits, expected, atol=2e-5, rtol=1e-4)


def test_the_hidden_states_are_sliced_before_the_last_matrix(tmp_path):
    exported("llama", tmp_path)
    graph = onnx.load(tmp_path / "out" / "model.onnx", load_external_data=False).graph
    makers = {name: node for node in graph.node for name in node.output}
    assert makers["logits"].op_type == "MatMul"
    assert makers[makers["logits"].input[0]].op_type == "Slice"


def test_the_number_can_be_a_constant(tmp_path):
    result, model = exported("llama", tmp_path, lambda spec: with_opset(with_constants(spec, **{NAME: 1}), 23))
    assert NAME not in result.plan.parts[0].inputs
    ids = np.random.default_rng(1).integers(3, 90, (3, 6))
    with torch.no_grad():
        expected = model(torch.tensor(ids)).logits[:, -1:].numpy()
    np.testing.assert_allclose(result(**feeds(result, ids))["logits"], expected, atol=2e-5, rtol=1e-4)


def test_a_model_whose_forward_lacks_the_argument_is_refused(tmp_path):
    with pytest.raises(InvalidSpec, match="forward of TrOCRForCausalLM has no argument logits_to_keep"):
        exported("trocr", tmp_path)


# `position_ids` of other forms: none, and three for each token

THREE_AXES = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0, "mrope_section": [2, 1, 1]}
"""Frequencies for each of the three positions: the defaults have more than a head of a tiny model."""


def agreeing(edit, model_type, folder, **options):
    model = tiny.model(model_type, "AutoModelForCausalLM", **options)
    return assert_agreement(onnxfn.export(edit(spec_for(model_type, TASK)), model, folder / "out")), model


@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_a_decoder_without_positions_counts_the_tokens_of_the_cache(model_type, tmp_path):
    result, model = agreeing(without("position_ids"), model_type, tmp_path)
    assert "position_ids" not in result.inputs
    ids = torch.tensor([[5, 7, 9, 11]])
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6)
    tokens = onnxfn.generate(result, ids.numpy(), max_new_tokens=6)[0]
    assert tokens[: expected.shape[1]].tolist() == expected[0].tolist()


def test_positions_in_time_height_and_width_are_those_of_pytorch(tmp_path):
    result, model = agreeing(with_mrope, "qwen3_5_text", tmp_path, rope_parameters=THREE_AXES)
    assert result.inputs["position_ids"] == {1: "batch_size", 2: "sequence_length"}
    sizes = {"batch_size": 1, "sequence_length": 6, "past_sequence_length": 0}
    inputs = onnxfn.dummy_inputs(with_mrope(spec_for("qwen3_5_text", TASK)), model, "np", **sizes)
    inputs = {name: np.zeros_like(array) if name.startswith("past") else array for name, array in inputs.items()}
    inputs["attention_mask"][...] = 1
    inputs["position_ids"] = np.array([[[0, 1, 1, 1, 1, 2]], [[0, 1, 1, 2, 2, 3]], [[0, 1, 2, 1, 2, 3]]])
    given = {name: torch.tensor(inputs[name]) for name in ("input_ids", "attention_mask", "position_ids")}
    with torch.no_grad():
        expected = model(**given).logits.numpy()
        texts = model(**{**given, "position_ids": given["position_ids"][:1].expand(3, -1, -1)}).logits.numpy()
    np.testing.assert_allclose(result(**inputs)["logits"], expected, atol=2e-5, rtol=1e-3)
    assert np.abs(texts - expected).max() > 1e-3


def test_a_model_without_such_positions_is_refused(tmp_path):
    with pytest.raises(CaptureFailed):
        agreeing(with_mrope, "llama", tmp_path)


def test_positions_that_the_row_leaves_out_can_be_taken(tmp_path):
    spec, model = spec_for("bert", "fill-mask"), tiny.model("bert", "AutoModelForMaskedLM")
    assert "position_ids" not in spec
    result = assert_agreement(onnxfn.export(with_input(spec, "position_ids"), model, tmp_path / "out"))
    inputs = onnxfn.dummy_inputs(with_input(spec, "position_ids"), model, "np")
    first = result(**inputs)["logits"]
    other = result(**{**inputs, "position_ids": inputs["position_ids"][:, ::-1].copy()})["logits"]
    assert np.abs(first - other).max() > 1e-4
