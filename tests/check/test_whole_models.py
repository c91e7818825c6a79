"""The check of a model that sees runs all of its files, one after the other, and finds faults between them."""

from functools import cache
from operator import attrgetter
from pathlib import Path

import every_part
import numpy as np
import pytest
from attrs import evolve
from faulty_sessions import Faulty
from refusals import refusal

import onnxfn
from onnxfn.architectures.families.features import DECODER_WITH_PAST, wide_decoder
from onnxfn.check.verdict.verdict import exact_outputs
from onnxfn.check.wholes import joined_parts
from onnxfn.check.wholes.joined_parts import prompts_of, whole_model
from onnxfn.check.wholes.torch_whole import WHOLE
from onnxfn.check.wholes.whole_models import generate_comparison, prompt_comparisons, whole_model_report
from onnxfn.run.sessions import open_check_session
from onnxfn.specs.edits.behaviors import model_part
from onnxfn.specs.results.printing import case_name

TASK = "image-text-to-text-with-past"


@pytest.fixture(scope="module")
def exported(llava, tmp_path_factory):
    return onnxfn.export(onnxfn.spec_for(llava, TASK), llava, tmp_path_factory.mktemp("llava") / "out")


@pytest.fixture(scope="module")
def whole(llava, exported):
    return whole_model(llava, exported.plan, Path(exported.path), cache(open_check_session))


def test_a_report_has_the_cases_of_the_whole_model(exported):
    cases = [case for case in exported.report.cases if "text" in case]
    assert [case for case in cases if case.startswith("16 tokens after")] == [
        "16 tokens after a text alone",
        "16 tokens after 1 image in a text",
        "16 tokens after 2 images in a text",
        "16 tokens after 2 images in 2 left-padded texts",
    ]
    outputs = {each.output: each for each in exported.report.differences if each.part == WHOLE}
    assert {*outputs} == {"logits", "logits of new tokens", "tokens of generate"}
    assert outputs["tokens of generate"].max_abs == 0
    assert not any("," in case_name(case) for case in exported.report.cases)  # a list of names has commas


def with_fault(whole, part, **fault):
    def session_of(each):
        session = whole.session_of(each)
        return Faulty(session, **fault) if each == part(whole) else session

    return evolve(whole, session_of=session_of)


def fed(name, change, *, later=False):
    """A fault in an input of a session; `later`: only in the steps after the prompt."""

    def changed(feeds):
        if name not in feeds or (later and feeds["inputs_embeds"].shape[1] > 1):
            return feeds
        return {**feeds, name: change(feeds[name])}

    return changed


table, decoder = attrgetter("table"), attrgetter("decoder")


def tower(whole):
    return whole.towers["vision_encoder"]


FAULTS = {
    "the features of two images are exchanged": (tower, {"returned": lambda outputs: [outputs[0][::-1]]}),
    "the rows of an image are in another order": (tower, {"returned": lambda outputs: [outputs[0][:, ::-1]]}),
    "features are a little larger": (tower, {"returned": lambda outputs: [1.001 * outputs[0]]}),
    "pixels are upside down": (tower, {"fed": fed("pixel_values", lambda pixels: pixels[:, :, ::-1].copy())}),
    "the table is off by a row": (table, {"fed": fed("input_ids", lambda ids: (ids + 1) % 100)}),
    "positions after the prompt are off by one": (
        decoder,
        {"fed": fed("position_ids", lambda positions: positions + 1, later=True)},
    ),
    "padding is not masked": (decoder, {"fed": fed("attention_mask", np.ones_like)}),
    "padding is not masked after the prompt": (decoder, {"fed": fed("attention_mask", np.ones_like, later=True)}),
    "the cache of a layer is lost": (decoder, {"fed": fed("past_key_values.1.key", np.zeros_like, later=True)}),
}


@pytest.mark.parametrize(("part", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_between_the_parts_is_found(whole, part, fault):
    assert not all(each.passed for each in compared(with_fault(whole, part, **fault)))


def test_the_parts_without_a_fault_agree(whole):
    assert all(each.passed for each in compared(with_fault(whole, decoder)))


def test_another_placeholder_token_is_refused_with_both_numbers(whole):
    prompts = [*prompts_of(whole)]
    wrong = evolve(whole, known=evolve(whole.known, tokens={"image_features": 98}))
    said = refusal(onnxfn.CheckFailed, list, prompt_comparisons(wrong, exact_outputs(whole.model, None), prompts[1]))
    assert "1 image in a text" in said
    assert "4 rows of features for 0 placeholder tokens (id 98)" in said


def compared(whole):
    """The comparisons of all prompts, of which the last is a padded batch."""
    for prompt in prompts_of(whole):
        yield from prompt_comparisons(whole, exact_outputs(whole.model, None), prompt)


def test_a_prompt_that_pytorch_refuses_is_a_finding(llava, exported, monkeypatch):
    own = joined_parts.torch_logits

    def refusing(whole, prompt, *more):
        if prompt.case == "2 images in a text":
            raise onnxfn.CaptureFailed("it takes one image")
        return own(whole, prompt, *more)

    monkeypatch.setattr(joined_parts, "torch_logits", refusing)
    exact = exact_outputs(llava, None)
    report = whole_model_report(llava, exported.plan, Path(exported.path), cache(open_check_session), exact)
    assert report.findings == ("2 images in a text: it takes one image",)
    assert not report.passed


def test_texts_of_another_length_than_those_of_generate_differ():
    spec, texts = onnxfn.PlannedSpec(), np.ones((1, 4), np.int64)
    compared = generate_comparison(spec, texts, texts[:, :3], np.ones((1, 4, 9), np.float32), "16 tokens")
    assert not compared.passed
    assert compared.case == "16 tokens: tokens [1, 4] where generate writes [1, 3]"


def test_a_model_that_reads_texts_alone_has_no_such_report(llava, exported):
    plan = evolve(exported.plan, parts=exported.plan.parts[1:])
    report = whole_model_report(llava, plan, Path(exported.path), open_check_session, exact_outputs(llava, None))
    assert not report.differences


def test_a_file_that_lacks_what_processors_give_is_refused(tmp_path):
    # PaliGemma's processor gives types of tokens, by which the tokens of a prompt attend to each other in both ways.
    # Its decoder does so while the cache is empty; this one is causal.
    model = every_part.tiny_model("paligemma", TASK)
    causal = onnxfn.compose(onnxfn.spec_for(model, TASK), model_part(DECODER_WITH_PAST, wide_decoder))
    with pytest.raises(onnxfn.CheckFailed, match="no file takes token_type_ids, which processors give"):
        onnxfn.export(causal, model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
