"""Cases of other texts beside images of the same sizes take what the first case computed of the images."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

import onnxfn
from onnxfn import case, compose, generates, gives, sized, takes
from onnxfn.check.check import check
from onnxfn.check.references import references
from onnxfn.check.same_images import recorded_images, with_first_images
from onnxfn.check.shorter_cases import with_shorter_cases
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.errors import CaptureFailed

SIDE, WORDS = 4, 10
SPEC = compose(
    takes("pixels", f"batch_size 3 {SIDE} {SIDE}", "pixels", kind="float"),
    takes("ids", "text_batch_size sequence_length", "ids"),
    gives("scores", "batch_size text_batch_size"),
    gives("image_embeds", "batch_size 5"),
    gives("text_embeds", "text_batch_size 5"),
    generates("pixels", "normal"),
    generates("ids", "integers", high=WORDS),
    sized(batch_size=2, text_batch_size=2, sequence_length=4),
    case("one", sized(batch_size=1, text_batch_size=3, sequence_length=7)),
    case("several", sized(batch_size=2, text_batch_size=5, sequence_length=9)),
    case("long text", sized(batch_size=1, text_batch_size=4, sequence_length=20)),
)


def of_texts_alone(texts, _):
    return texts


class TwoTowers(torch.nn.Module):
    """A model of images and texts. `of_texts` makes the embeddings of texts from theirs and those of the images."""

    def __init__(self, of_texts=of_texts_alone, *, calls_twice=False):
        super().__init__()
        self.vision = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE**2, 8), torch.nn.Tanh())
        self.projection = torch.nn.Linear(8, 5)
        self.words = torch.nn.Embedding(WORDS, 5)
        self.of_texts, self.calls_twice, self.calls = of_texts, calls_twice, Counter()

    def forward(self, pixels, ids):
        self.calls.update(["model"])
        features = self.vision(pixels) + (self.vision(pixels) if self.calls_twice else 0)
        images = self.projection(features)
        texts = self.of_texts(self.words(ids).mean(dim=1), images)
        return {"scores": images @ texts.T, "image_embeds": images, "text_embeds": texts}


def exported(model, folder):
    torch.manual_seed(0)
    result = onnxfn.export(SPEC, model.eval(), folder, check=False)
    model.vision.register_forward_hook(lambda *_: model.calls.update(["vision"]))
    return result.plan.parts[0], folder / "model.onnx"


def shortened(model, part, file):
    return [*references(model, part, of_case=with_shorter_cases(model, part, file, large_cost=0))]


def weights(content):
    return {each.name for each in onnx.ModelProto.FromString(content).graph.initializer if "." in each.name}


def test_a_case_of_other_texts_takes_the_images_of_the_first(tmp_path):
    model = TwoTowers()
    part, file = exported(model, tmp_path)
    one, several, long_text = shortened(model, part, file)
    assert (one.shorter, several.shorter) == (None, None)
    assert long_text.case.endswith(", the images of one")
    assert np.array_equal(long_text.inputs["pixels"], one.inputs["pixels"])
    assert long_text.inputs["ids"].shape == (4, 20)
    assert weights(long_text.shorter.content) == {"words.weight"}
    report = check(model, part, file, expected=[one, several, long_text])
    assert report.passed
    assert report.cases == (one.case, several.case, long_text.case)


def test_its_outputs_are_those_of_the_whole_model(tmp_path):
    model = TwoTowers()
    part, file = exported(model, tmp_path)
    *_, long_text = shortened(model, part, file)
    for reused, whole in zip(long_text.outputs, torch_outputs(model, part, long_text.inputs), strict=True):
        assert np.array_equal(reused, whole)
    wider, exact = long_text.shorter.exact(part, long_text.inputs)
    assert wider == "float64"
    for reused, whole in zip(exact, torch_outputs(model, part, long_text.inputs, torch.float64), strict=True):
        assert reused.dtype == np.float64
        np.testing.assert_allclose(reused, whole, atol=1e-6)


def test_other_texts_are_made_for_the_same_images(tmp_path):
    model = TwoTowers()
    part, file = exported(model, tmp_path)
    one, _, long_text = shortened(model, part, file)
    other = long_text.other(1)
    assert np.array_equal(other.inputs["pixels"], one.inputs["pixels"])
    assert not np.array_equal(other.inputs["ids"], long_text.inputs["ids"])


def test_the_model_computes_images_again_afterwards(tmp_path):
    model = TwoTowers()
    part, file = exported(model, tmp_path)
    one, *_ = shortened(model, part, file)
    others = {**one.inputs, "pixels": one.inputs["pixels"] + 1}
    assert not np.array_equal(torch_outputs(model, part, others)[1], one.outputs[1])
    assert "forward" not in vars(model.vision)


def test_a_graph_that_is_wrong_for_longer_texts_fails(tmp_path):
    def of_the_first_words(ids):
        return wrong.words.weight[ids] * (torch.arange(ids.shape[1]) < 8)[None, :, None]

    model, wrong = TwoTowers().eval(), TwoTowers()
    wrong.load_state_dict(model.state_dict())
    wrong.words.forward = of_the_first_words
    part, file = exported(wrong, tmp_path)
    one, _, long_text = shortened(model, part, file)
    assert long_text.shorter is not None
    report = check(model, part, file, expected=[one, long_text])
    assert not report.passed
    assert report.cases == (one.case, long_text.shorter.whole().case)  # the case ran again, whole


def test_texts_may_depend_on_the_images(tmp_path):
    model = TwoTowers(lambda texts, images: texts + images.mean(dim=0))
    part, file = exported(model, tmp_path)
    cases = shortened(model, part, file)
    assert weights(cases[-1].shorter.content) == {"words.weight"}
    assert check(model, part, file, expected=cases).passed


def test_a_model_that_computes_its_images_twice_runs_whole(tmp_path):
    model = TwoTowers(calls_twice=True)
    part, file = exported(model, tmp_path)
    cases = shortened(model, part, file)
    assert [each.shorter for each in cases] == [None, None, None]
    assert check(model, part, file, expected=cases).passed


def test_a_model_that_compares_texts_with_what_is_no_output_runs_whole(tmp_path):
    class Hidden(TwoTowers):
        def forward(self, pixels, ids):
            outputs = super().forward(pixels, ids)
            return {**outputs, "image_embeds": outputs["image_embeds"] * 2}

    model = Hidden()
    part, file = exported(model, tmp_path)
    cases = shortened(model, part, file)
    assert [each.shorter for each in cases] == [None, None, None]
    assert check(model, part, file, expected=cases).passed


@pytest.mark.parametrize(
    "form",
    [
        lambda hidden: hidden,
        lambda hidden: (hidden, None, 3),
        lambda hidden: {"states": [hidden]},
        lambda hidden: BaseModelOutput(last_hidden_state=hidden),
    ],
)
def test_a_module_returns_what_it_returned_in_the_dtype_of_its_images(form):
    model = torch.nn.Module()
    model.vision = torch.nn.Module()
    model.vision.forward = lambda pixels: form(pixels * 2)
    images = torch.rand(2, 3, 4)
    with recorded_images(model, [(2, 3, 4)]) as calls:
        first = model.vision(images)
    with with_first_images(model, calls):
        same, wide = model.vision(images), model.vision(images.double())
        with pytest.raises(CaptureFailed, match="vision takes other images"):
            model.vision(images + 1)
    assert type(same) is type(wide) is type(first)
    assert str(same) == str(first)
    assert str(wide) == str(form(images.double() * 2))
    assert str(first) == str(form(images * 2))
