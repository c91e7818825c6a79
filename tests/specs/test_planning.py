import numpy as np
import pytest
from refusals import refusal

from onnxfn import ARCHITECTURES, ExportSpec, MissingValue, Target, bert_inputs, text_encoder
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import dummies, generates, sized
from onnxfn.specs.algebra.facts import case, gives, takes
from onnxfn.specs.axes import pattern
from onnxfn.specs.edits.tensors import only_tasks
from onnxfn.specs.plan.check_cases import in_case
from onnxfn.specs.plan.planning import DEFAULTS, dummy_inputs, inputs, outputs, plan, resolved
from onnxfn.specs.stored.serialize import to_json
from onnxfn.specs.tasks.tasks import for_task, task_names

BERT = compose(text_encoder, bert_inputs, ExportSpec(name="bert"))
CONFIG = {"vocab_size": 50, "type_vocab_size": 2}
TOKENS = {0: "batch_size", 1: "sequence_length"}

OPTIMUM = {"batch_size": 2, "sequence_length": 16, "num_choices": 4}
"""optimum.utils.input_generators.DEFAULT_DUMMY_SHAPES."""


# What goes in, what comes out


def test_sizes_of_dummies_and_cases_are_read_from_the_configuration():
    spec = compose(
        takes("x", "batch_size length", "ids"),
        generates("ids", "integers", high=9),
        sized(batch_size=2, length=from_config("patches + 3"), unused=from_config("nowhere + 1")),
        case("one", sized(batch_size=1, length=from_config("patches * 5"))),
        gives("y", "batch_size"),
    )
    made = plan(spec, {"patches": 4}).parts[0].spec
    assert dummies(made, {})["x"].shape == (2, 7)
    assert dummies(in_case(made, made.cases[0]), {})["x"].shape == (1, 20)
    assert "size 'length'" in refusal(MissingValue, plan, spec, {})


def test_a_spec_without_outputs_is_planned_for_features_or_its_first_task():
    assert plan(only_tasks(BERT, "fill-mask", "feature-extraction"), CONFIG).task == "feature-extraction"
    assert outputs(BERT, CONFIG) == {"last_hidden_state": TOKENS}
    assert plan(only_tasks(BERT, "question-answering", "fill-mask"), CONFIG).task == "question-answering"


def test_a_spec_with_outputs_needs_no_task():
    spec = compose(takes("x", "batch_size", "ids"), gives("y", "batch_size"), generates("ids", "first_one"))
    assert plan(spec, {}).task is None
    assert outputs(spec, {}) == {"y": {0: "batch_size"}}


def test_a_plan_starts_from_the_defaults_and_the_spec_wins():
    planned = plan(compose(BERT, ExportSpec(target=Target(opset=20))), CONFIG).parts[0].spec
    assert (planned.target.opset, planned.target.int_dtype) == (20, DEFAULTS.target.int_dtype)


# The configuration's facts


def test_axes_that_the_configuration_fixes_are_numbers_in_the_plan():
    ids = compose(takes("x", "batch_size depth=", "ids"), generates("ids", "first_one"))
    spec = compose(ids, gives("y", "batch_size"), reads(depth="max_depth"))
    assert pattern(plan(spec, {"max_depth": 50}).parts[0].spec.inputs[0].axes) == "batch_size 50"


def test_what_a_generator_reads_is_a_number_in_the_plan_and_its_texts_stay():
    generators = plan(BERT, CONFIG).parts[0].spec.dummies.generators
    assert dict(generators["token_ids"].arguments) == {"high": 50}
    assert dict(generators["padding_mask"].arguments)["padding"] == "right"


def test_what_a_case_reads_is_a_number_in_the_plan():
    spec = compose(BERT, case("wide", generates("token_ids", "integers", high=from_config("type_vocab_size"))))
    (wide,) = (one for one in plan(spec, CONFIG).parts[0].spec.cases if one.name == "wide")
    assert [dict(made.arguments) for made in wide.dummies.generators] == [{"high": 2}]


def test_a_generator_that_no_input_uses_reads_nothing():
    unused = generates("pixels", "integers", high=from_config("nowhere"))
    spec = compose(BERT, unused, case("one", unused))
    names = [made.name for made in plan(spec, CONFIG).parts[0].spec.dummies.generators]
    assert names == ["token_ids", "segment_ids", "padding_mask"]


@pytest.mark.parametrize(("segments", "names"), [(2, {"token_type_ids"}), (0, set())])
def test_an_input_exists_when_its_condition_is_true(segments, names):
    made = inputs(ARCHITECTURES["deberta-v2"], {"vocab_size": 50, "type_vocab_size": segments})
    assert set(made) == {"input_ids", "attention_mask"} | names


@pytest.mark.parametrize(("head", "names"), [("linear", {"y", "z"}), ("none", {"y"}), (None, {"y"})])
def test_an_output_exists_when_its_condition_is_true(head, names):
    spec = compose(gives("y", "batch_size"), gives("z", "batch_size", when="head == 'linear'"))
    assert set(outputs(spec, {"head": head})) == names


def test_a_plan_holds_no_conditions():
    spec = compose(BERT, takes("x", "batch_size", "token_ids", when="vocab_size"), gives("y", "3", when="vocab_size"))
    planned = plan(spec, CONFIG).parts[0].spec
    assert {one.when for one in (*planned.inputs, *planned.outputs)} == {None}


def test_an_input_whose_condition_is_false_reads_nothing():
    deep = takes("y", "depth=", "ids", when="deep")
    spec = compose(takes("x", "batch_size", "ids"), deep, generates("ids", "first_one"))
    assert inputs(spec, {}) == {"x": {0: "batch_size"}}


@pytest.mark.parametrize("model_type", ["bert", "deberta-v2", "longformer", "markuplm", "xlm"])
def test_a_planned_spec_holds_nothing_to_read_from_a_configuration(model_type):
    config = CONFIG | {"max_depth": 50, "max_xpath_subs_unit_embeddings": 30, "max_xpath_tag_unit_embeddings": 20}
    for task in task_names(ARCHITECTURES[model_type]):
        planned = resolved(for_task(ARCHITECTURES[model_type], task), config)
        text = to_json(planned)
        assert not {f'"record": "{name}"' for name in ("Getter", "Read", "Overlay") if f'"record": "{name}"' in text}
        assert {axis.kind for one in planned.inputs for axis in one.axes.axes} <= {"dynamic", "literal"}
        axes = [axis for one in (planned, *planned.cases) for axis in one.axes]
        assert {type(size) for axis in axes for size in (axis.size, axis.low, axis.high)} <= {int, type(None)}


@pytest.mark.parametrize(
    ("spec", "config", "message"),
    [
        (takes("x", "depth=", "ids"), {}, "axis 'depth' of 'x' of this spec: the configuration has no 'depth'"),
        (BERT, {"vocab": 50}, "'high' of token_ids of bert: the configuration has no 'vocab_size'; it has: vocab"),
    ],
)
def test_a_missing_value_names_the_axis_or_the_generator_that_needs_it(spec, config, message):
    assert refusal(MissingValue, plan, spec, config).startswith(message)


# Dummies


@pytest.mark.parametrize("size", OPTIMUM)
def test_a_size_of_dummies_is_set_by_its_name(size):
    spec = for_task(BERT, "multiple-choice")
    told = {**OPTIMUM, size: 7}
    made = dummy_inputs(spec, CONFIG, "np", **{size: 7})
    shape = (told["batch_size"], told["num_choices"], told["sequence_length"])
    assert {array.shape for array in made.values()} == {shape}


def test_dummies_are_those_of_the_plan():
    made = dummy_inputs(BERT, CONFIG, "np", seed=3)
    planned = dummies(plan(BERT, CONFIG).parts[0].spec, {}, seed=3)
    assert list(made) == list(planned)
    assert [name for name in made if not np.array_equal(made[name], planned[name])] == []


def test_dummies_are_torch_tensors_unless_asked_otherwise():
    import torch

    made = dummy_inputs(BERT, CONFIG)
    arrays = dummy_inputs(BERT, CONFIG, "np")
    assert {type(tensor) for tensor in made.values()} == {torch.Tensor}
    assert {tensor.dtype for tensor in made.values()} == {torch.int64}
    assert [name for name in made if made[name].tolist() != arrays[name].tolist()] == []
