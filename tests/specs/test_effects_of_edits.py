"""No edit is silently without effect: what a later step would drop is kept, or the edit is refused."""

import pytest
from attrs import evolve
from refusals import refusal

from onnxfn import ARCHITECTURES, InvalidSpec, OnnxfnError
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.facts import gives
from onnxfn.specs.edits import tensors
from onnxfn.specs.edits.axes import with_axis, with_axis_names
from onnxfn.specs.edits.behaviors import split, with_behavior
from onnxfn.specs.edits.caches import with_past
from onnxfn.specs.edits.extra_outputs import with_outputs
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.edits.token_embeddings import with_inputs_embeds
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.stored.diff import diff
from onnxfn.specs.tasks.tasks import for_task, task_names, tasked

BERT = ARCHITECTURES["bert"]
CLASSIFIER = for_task(BERT, "text-classification")
CONFIG = {"vocab_size": 9, "type_vocab_size": 2, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}

EDITS = {
    "opset": tensors.with_opset(20),
    "tolerance": tensors.with_tolerance(atol=0.5, rtol=0.25),
    "integers": tensors.with_dtypes(int="int32"),
    "floats": tensors.with_dtypes(float="float16"),
    "size": tensors.with_shapes(batch_size=3),
    "range": tensors.with_shapes(batch_size=(3, 4)),
    "axis name": with_axis_names(batch_size="N"),
    "logits": tensors.with_output("logits", "batch_size 17 19"),
    "features": tensors.with_output("last_hidden_state", "batch_size 17 19"),
    "pooled": with_outputs("pooler_output"),
    "a layer": with_outputs("hidden_states.1"),
    "generator": tensors.with_generator("input_ids", "constant", value=3),
    "dtype": tensors.with_dtypes(input_ids="int32"),
    "constant": tensors.with_constants(attention_mask=1),
    "left out": tensors.without("attention_mask"),
    "input name": renamed(attention_mask="mask"),
    "output name": renamed(logits="scores"),
    "embeddings": with_inputs_embeds(),
}

PAIRS = [
    (model_type, task)
    for model_type in ("albert", "bart", "clip", "gpt2", "llama", "t5", "vit", "wav2vec2")
    for task in (task_names(ARCHITECTURES[model_type])[0], task_names(ARCHITECTURES[model_type])[-1], "multiple-choice")
    if task in task_names(ARCHITECTURES[model_type])
]


def result_of(change, spec):
    try:
        return evolve(change(spec), tasks=())
    except OnnxfnError as error:
        return type(error)


def in_any_order(changes):
    return [change for change in (*changes.added, *changes.removed, *changes.changed) if "(order)" not in change.path]


@pytest.mark.parametrize(("model_type", "task"), dict.fromkeys(PAIRS), ids=" ".join)
def test_an_edit_before_the_task_is_chosen_is_the_edit_after_it(model_type, task):
    """The overlay of a task, and its edits, undo no edit."""
    row = ARCHITECTURES[model_type]
    chosen = for_task(row, task)
    for name, edit in EDITS.items():
        before = result_of(lambda spec, edit=edit: for_task(edit(spec), task), row)
        after = result_of(edit, chosen)
        if isinstance(before, type) or isinstance(after, type):
            assert before == after, name
        else:
            assert in_any_order(diff(before, after)) == [], name


@pytest.mark.parametrize("structure", [with_past, with_outputs("attentions"), with_inputs_embeds])
@pytest.mark.parametrize("name", [name for name in EDITS if name not in ("features", "embeddings")])
def test_an_edit_of_a_decoder_survives_another_edit(name, structure):
    """In either order, unless the second one is refused: then the first has removed what it needs."""
    spec = for_task(ARCHITECTURES["llama"], "text-generation")
    first, second = EDITS[name], structure
    one, other = (result_of(both, spec) for both in (lambda s: second(first(s)), lambda s: first(second(s))))
    if not isinstance(one, type) and not isinstance(other, type):
        assert in_any_order(diff(one, other)) == []
    assert not isinstance(one, type)


def test_the_embedding_file_takes_tokens_of_the_dtype_and_the_dummies_of_the_spec():
    narrow = tensors.with_dtypes(CLASSIFIER, input_ids="int32")
    edited = tensors.with_generator(narrow, "input_ids", "constant", value=3)
    first, _ = plan(with_inputs_embeds(edited), CONFIG).parts
    ids = first.spec.inputs["input_ids"]
    assert (first.name, ids.kind) == ("embed_tokens", "int32")
    assert first.spec.dummies.generators[ids.generator].function == "constant"


def test_an_overlay_of_a_task_after_the_task_was_chosen_is_refused():
    extra = gives("extra", "batch_size")
    message = refusal(InvalidSpec, compose, CLASSIFIER, tasked("text-classification", spec=extra))
    assert message.startswith("bert is for text-classification already, so what is composed onto its task ")
    before = for_task(compose(BERT, tasked("text-classification", spec=extra)), "text-classification")
    assert "extra" in before.outputs
    assert compose(CLASSIFIER, extra).outputs["extra"] == extra.outputs[0]
    assert compose(CLASSIFIER, CLASSIFIER) == CLASSIFIER == compose(CLASSIFIER, evolve(CLASSIFIER, task=None))


def test_a_constant_gets_the_axis_that_its_input_would_get():
    edited = with_axis(tensors.with_constants(CLASSIFIER, attention_mask=1), "num_choices", at=1, starting="batch_size")
    assert str(edited.call.constants[-1].axes) == "[batch_size, num_choices, sequence_length]"


def test_a_renamed_input_of_tokens_still_names_the_axes_of_hidden_states():
    spec = renamed(for_task(BERT, "multiple-choice"), input_ids="ids")
    assert with_outputs(spec, "hidden_states").outputs["hidden_states.0"].axes == (
        with_outputs(for_task(BERT, "multiple-choice"), "hidden_states").outputs["hidden_states.0"].axes
    )


def test_a_part_has_no_constants_in_place_of_inputs_of_another_part():
    clip = for_task(ARCHITECTURES["clip"], "feature-extraction")
    names = [part.name for part in plan(split(tensors.with_constants(clip, attention_mask=1)), CLIP).parts]
    assert names == ["vision_model", "text_model"]
    assert with_behavior(tensors.with_constants(clip, attention_mask=1), "vision_model").call.constants == (
        with_behavior(clip, "vision_model").call.constants
    )


CLIP = {"text_config": {"vocab_size": 99, "eos_token_id": 98}, "vision_config": {"image_size": 32}}
