"""`position_ids` of other forms, against PyTorch at sizes that were not traced: none, and three for each token."""

import numpy as np
import pytest
import tiny
import torch
from agreement import assert_agreement

import onnxfn
from onnxfn import CaptureFailed, spec_for, with_input, with_mrope, without

TASK = "text-generation-with-past"

THREE_AXES = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0, "mrope_section": [2, 1, 1]}
"""Frequencies for each of the three positions: the defaults have more than a head of a tiny model."""


def exported(edit, model_type, folder, **options):
    model = tiny.model(model_type, "AutoModelForCausalLM", **options)
    return assert_agreement(onnxfn.export(edit(spec_for(model_type, TASK)), model, folder / "out")), model


@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_a_decoder_without_positions_counts_the_tokens_of_the_cache(model_type, tmp_path):
    result, model = exported(without("position_ids"), model_type, tmp_path)
    assert "position_ids" not in result.inputs
    ids = torch.tensor([[5, 7, 9, 11]])
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6)
    assert (
        onnxfn.generate(result, ids.numpy(), max_new_tokens=6)[0, : expected.shape[1]].tolist() == expected[0].tolist()
    )


def test_positions_in_time_height_and_width_are_those_of_pytorch(tmp_path):
    result, model = exported(with_mrope, "qwen3_5_text", tmp_path, rope_parameters=THREE_AXES)
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
        exported(with_mrope, "llama", tmp_path)


def test_positions_that_the_row_leaves_out_can_be_taken(tmp_path):
    spec, model = spec_for("bert", "fill-mask"), tiny.model("bert", "AutoModelForMaskedLM")
    assert "position_ids" not in spec
    result = assert_agreement(onnxfn.export(with_input(spec, "position_ids"), model, tmp_path / "out"))
    inputs = onnxfn.dummy_inputs(with_input(spec, "position_ids"), model, "np")
    first = result(**inputs)["logits"]
    other = result(**{**inputs, "position_ids": inputs["position_ids"][:, ::-1].copy()})["logits"]
    assert np.abs(first - other).max() > 1e-4
