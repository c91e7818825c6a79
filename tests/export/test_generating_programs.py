import numpy as np
import pytest
import shrunk
import torch
from sizes import PARTS
from torch import nn
from transformers import DynamicCache

import onnxfn

MODELS = {
    "llava": ("LlavaForConditionalGeneration", "language_model", "batch_size 2 past_sequence_length 8", 64),
    "git": ("GitForCausalLM", "git_2", "batch_size 4 past_sequence_length 8", 0),
    "blip-2": ("Blip2ForConditionalGeneration", "language_model_2", "batch_size 4 past_sequence_length 4", 5),
}
"""Model type -> its class, the part that reads the cache, the axes of keys in it, and the placeholders of an image."""


def generates(model, texts, length, placeholders):
    """A run that writes five tokens after texts of one image each."""
    torch.manual_seed(texts)
    ids = torch.randint(5, 30, (texts, length))
    if placeholders:
        places = torch.full((texts, placeholders), model.config.image_token_id)
        ids = torch.cat([ids[:, :2], places, ids[:, 2:]], 1)
    side = model.config.vision_config.image_size
    images = torch.randn(texts, 3, side, side)
    inputs = {"input_ids": ids, "pixel_values": images, "attention_mask": torch.ones_like(ids)}
    return lambda: model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False)


@pytest.mark.parametrize("model_type", MODELS)
def test_a_model_generates_on_the_parts_that_it_was_seen_to_call(model_type, tmp_path):
    class_name, decoder, keys, placeholders = MODELS[model_type]
    model = shrunk.model(model_type, class_name, **PARTS.get(model_type, {})).eval()
    runs = [generates(model, *sizes, placeholders) for sizes in ((1, 6), (2, 9))]
    assert onnxfn.watched(model, *runs)[decoder].axes["cache.layers.0.keys"] == keys
    parts = onnxfn.export_pipeline(model, tmp_path / "out", run=runs)
    assert all(part.report.passed for part in parts.values())
    other = generates(model, 3, 7, placeholders)
    expected = other()
    with onnxfn.assembled(model, tmp_path / "out") as replaced:
        assert torch.equal(other(), expected)
    assert replaced == tuple(parts)


def test_a_sample_may_have_a_cache_and_the_file_takes_one_of_no_tokens():
    model = shrunk.model("llama", "LlamaModel").eval()
    cache = DynamicCache()
    with torch.no_grad():
        model(torch.ones(2, 7, dtype=torch.long), cache=cache)
    past = {f"cache.layers.{layer}.{name}": "batch_size 2 past 8" for layer in (0, 1) for name in ("keys", "values")}
    sample = {"input_ids": torch.ones(2, 3, dtype=torch.long), "cache": cache}
    spec = onnxfn.derived(model, sample=sample, axes={"input_ids": "batch_size length", **past})
    outputs = ["last_hidden_state", *(f"output_{name}" for name in past)]
    assert [output.name for output in spec.outputs] == outputs
    exported, ids = onnxfn.export(spec, model, None), torch.arange(10).reshape(2, 5)
    found = exported(input_ids=ids, **dict.fromkeys(past, np.zeros((2, 2, 0, 8), np.float32)))
    with torch.no_grad():
        expected = model(ids).last_hidden_state
    torch.testing.assert_close(torch.from_numpy(found["last_hidden_state"]), expected, rtol=1e-4, atol=1e-4)


def test_a_cache_that_forgets_tokens_is_refused_by_name():
    model = shrunk.model("gemma2", "Gemma2Model").eval()
    sample = {"input_ids": torch.ones(1, 3, dtype=torch.long), "cache": DynamicCache(config=model.config)}
    with pytest.raises(onnxfn.InvalidSpec, match="'cache' in the sample for Gemma2Model is DynamicCache"):
        onnxfn.derived(model, sample=sample)


class Shifted(nn.Module):
    def forward(self, first, second=None):
        return first * 2 if second is None else (first - second, second)


def test_calls_with_other_tensors_are_another_part(tmp_path):
    modules = {"shifted": Shifted()}

    def run(rows):
        return modules["shifted"](modules["shifted"](torch.arange(2.0 * rows).reshape(rows, 2)), torch.ones(1, 2))[0]

    parts = onnxfn.export_pipeline(modules, tmp_path / "out", run=[lambda: run(2), lambda: run(3)])
    assert [tuple(part.plan.parts[0].inputs) for part in parts.values()] == [("first",), ("first", "second")]
    with onnxfn.assembled(modules, tmp_path / "out") as replaced:
        assert torch.equal(run(5), torch.arange(10.0).reshape(5, 2) * 2 - 1)
    assert replaced == tuple(parts) == ("shifted", "shifted_2")
