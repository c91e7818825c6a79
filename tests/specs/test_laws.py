"""The laws of the algebra, of patterns, of paths, of dummies, of records as data, and of edits."""

import json
import pickle
from operator import attrgetter

import numpy as np
import pytest
import strategies as some
from attrs import evolve, fields
from declared_specs import every_name, tensors_in
from hypothesis import given, reject
from hypothesis import strategies as st
from own_processes import printed
from refusals import refusal

from onnxfn.architectures import ARCHITECTURES
from onnxfn.specs.algebra import compose as joins
from onnxfn.specs.algebra.compose import EMPTY
from onnxfn.specs.algebra.dummies import dummies, generates, sized
from onnxfn.specs.algebra.facts import takes
from onnxfn.specs.algebra.spec import Cache, Call, Check, Dummies, ExportSpec, Parts, Target
from onnxfn.specs.axes import axis_map, names, pattern
from onnxfn.specs.axis_symbols import AxisFacts
from onnxfn.specs.converters import at, nested
from onnxfn.specs.edits import tensors as edits
from onnxfn.specs.edits.axes import with_axis
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.errors import InvalidSpec, UnknownName
from onnxfn.specs.records import Read
from onnxfn.specs.stored.serialize import from_json, to_json, to_plain
from onnxfn.specs.tasks.tasks import SYNONYMS, for_task, task_names, tasked

BY_NAME = (
    *("inputs", "outputs", "dummies.generators", "call.constants", "call.builders", "call.patches"),
    *("cache.rows", "parts.files", "parts.links"),
)
OVERLAYS = ("tasks", "cases", "parts.behaviors")
RULES, LIMITS = "target.quantization", "limits"
SCALARS = (
    *("name", "task", "derived", "call.loader", "call.submodule", "call.attention", "cache.past"),
    *("check.atol", "check.rtol", "check.mask_input", "target.opset", "target.int_dtype", "target.float_dtype"),
    *("target.io_dtype", "target.input_order", "target.adapter_inputs", "target.shared_cache", "target.static_cache"),
    "target.provider",
)

TASKED = [(model_type, task) for model_type, spec in ARCHITECTURES.items() for task in task_names(spec)]


def value(spec, path):
    return attrgetter(path)(spec)


def field_paths(record, prefix=""):
    """The dotted paths of the fields of a spec, those of its groups in place of the group."""
    for one in fields(type(record)):
        inner = getattr(record, one.name)
        if isinstance(inner, (Cache, Call, Check, Dummies, Parts, Target)):
            yield from field_paths(inner, f"{prefix}{one.name}.")
        else:
            yield f"{prefix}{one.name}"


def named(records):
    """Names in the order of first mention, records as last mentioned."""
    return list({one.name: one for one in records}.items())


def lost(right, joined):
    """What the right spec specifies and the joined one does not have."""
    missing = [path for path in SCALARS if value(right, path) not in (None, value(joined, path))]
    missing += [one for path in BY_NAME for one in value(right, path) if one not in value(joined, path)]
    missing += [one for path in (RULES, LIMITS) for one in value(right, path) if one not in value(joined, path)]
    missing += [one for one in right.normalizer.reads if one not in joined.normalizer.reads]
    for path in OVERLAYS:
        known = {one.name: one for one in value(joined, path)}
        for overlay in value(right, path):
            missing += lost(overlay.spec, known[overlay.name].spec)
            missing += [edit for edit in overlay.edits if edit not in known[overlay.name].edits]
    return missing


# Joining


def compose(*specs):
    """The specs composed; no example if one adds to a task and another to its left is for a task, which is refused."""
    try:
        return joins.compose(*specs)
    except InvalidSpec:
        reject()


def test_the_laws_cover_every_field():
    assert {*BY_NAME, *OVERLAYS, *SCALARS, RULES, LIMITS, "axes", "normalizer"} == set(field_paths(EMPTY))


chosen_tasks = st.builds(evolve, some.thick_specs, task=st.none() | st.sampled_from(some.TASK_NAMES))
"""Specs that add to tasks, or are for a task, or both."""


def composed_or_none(*specs):
    if None in specs:
        return None
    try:
        return joins.compose(*specs)
    except InvalidSpec:
        return None


@given(*[some.specs | chosen_tasks] * 3)
def test_composing_is_associative_where_it_is_defined(a, b, c):
    together = composed_or_none(a, b, c)
    assert composed_or_none(composed_or_none(a, b), c) == together
    right_first = composed_or_none(a, composed_or_none(b, c))
    assert None in (together, right_first) or right_first == together


@given(chosen_tasks, chosen_tasks)
def test_composing_is_defined_unless_a_spec_for_a_task_is_left_of_an_addition_to_a_task(a, b):
    is_refused = a.task is not None and b.task is None and any(overlay not in tuple(a.tasks) for overlay in b.tasks)
    assert (composed_or_none(a, b) is None) == is_refused


@given(some.specs)
def test_empty_is_neutral_and_a_spec_over_itself_is_that_spec(spec):
    assert compose() == EMPTY
    assert compose(spec) == compose(EMPTY, spec) == compose(spec, EMPTY) == compose(spec, spec) == spec


@given(some.specs, some.specs)
def test_the_right_most_wins_and_what_it_leaves_out_comes_from_the_left(a, b):
    joined = compose(a, b)
    assert lost(b, joined) == []
    assert [path for path in SCALARS if value(b, path) is None and value(joined, path) != value(a, path)] == []


@given(some.specs, some.specs)
def test_records_are_in_the_order_of_first_mention_with_the_last_value(a, b):
    joined = compose(a, b)
    assert named(joined.normalizer.reads) == named((*a.normalizer.reads, *b.normalizer.reads))
    for name in BY_NAME:
        assert named(value(joined, name)) == named((*value(a, name), *value(b, name)))
    for name in OVERLAYS:
        mentioned = (one.name for one in (*value(a, name), *value(b, name)))
        assert [one.name for one in value(joined, name)] == list(dict.fromkeys(mentioned))


@given(some.by_name(some.axis_facts), some.by_name(some.axis_facts))
def test_what_is_known_of_an_axis_joins_field_by_field_and_its_limits_as_one(a, b):
    left, right = ({axis.name: axis for axis in axes} for axes in (a, b))
    joined = compose(ExportSpec(axes=a), ExportSpec(axes=b)).axes
    assert [axis.name for axis in joined] == list(left | right)
    for axis in joined:
        early, late = (known.get(axis.name, AxisFacts(axis.name)) for known in (left, right))
        assert axis.size == (early.size if late.size is None else late.size)
        assert axis.new == (late.new or early.new)
        limits = [(one.low, one.high, one.when) for one in (late, early)]
        assert (axis.low, axis.high, axis.when) == next(filter(any, limits), (None, None, None))


# Tasks


@given(some.specs, st.data())
def test_a_spec_for_a_task_twice_is_that_spec_once(spec, data):
    untold = compose(evolve(spec, task=None), tasked("fill-mask"))
    task = data.draw(st.sampled_from(task_names(untold)))
    try:
        once = for_task(untold, task)
    except InvalidSpec:
        reject()  # an edit of the task is refused: it adds an axis to inputs that the spec does not have
    assert once.task == task
    assert for_task(once, task) == once


@pytest.mark.parametrize(("model_type", "task"), TASKED)
def test_an_architecture_for_a_task_twice_is_that_spec_once(model_type, task):
    once = for_task(ARCHITECTURES[model_type], task)
    assert for_task(once, task) == once


@pytest.mark.parametrize(("synonym", "task"), SYNONYMS.items())
def test_a_synonym_names_the_same_spec(synonym, task):
    spec = tasked(task)
    assert tasked(synonym) == spec
    assert for_task(spec, synonym) == for_task(spec, task)
    assert for_task(for_task(spec, synonym), synonym) == for_task(spec, task)


# Axis patterns


@given(some.said_axis_maps)
def test_a_pattern_gives_its_axes_which_print_as_the_pattern(said):
    word, axes = said
    assert axis_map(word) == axes
    assert pattern(axes) == word


# Nested and flat


def leaves(tree, path=()):
    if isinstance(tree, int):
        return [(path, tree)]
    steps = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return [leaf for step, branch in steps for leaf in leaves(branch, (*path, step))]


@given(some.trees)
def test_nesting_the_leaves_of_a_tree_gives_the_tree(tree):
    assert nested(leaves(tree)) == tree


@given(some.trees, st.data())
def test_flattening_what_was_nested_gives_the_values(tree, data):
    shuffled = data.draw(st.permutations(leaves(tree)))
    paths = [path for path, _ in shuffled]
    values = tuple(range(len(paths)))
    tree = nested(zip(paths, values, strict=True))
    assert tuple(at(path, tree) for path in paths) == values


# Dummy tensors

moving_or_literal = st.lists(
    st.one_of(some.spelt_symbols(operators=("+", "*")).map(lambda spelt: spelt[0]), st.integers(1, 4).map(str)),
    min_size=1,
    max_size=2,
).map(" ".join)

filling = compose(
    generates("token_ids", "integers", high=1 << 40), generates("padding_mask", "mask"), generates("pixels", "normal")
)


@st.composite
def dummy_specs(draw):
    made = [evolve(one, axes=draw(moving_or_literal), when=None) for one in draw(some.by_name(some.inputs)) if one.name]
    return compose(filling, ExportSpec(inputs=made), sized(**dict.fromkeys(some.AXES, 2)))


def same(left, right):
    return left.dtype == right.dtype and np.array_equal(left, right)


@given(dummy_specs(), st.integers(0, 1 << 32), st.data())
def test_a_dummy_does_not_depend_on_the_other_inputs_nor_on_their_order(spec, seed, data):
    every = dummies(spec, {}, seed=seed)
    shuffled = data.draw(st.permutations([*spec.inputs]))
    kept = tuple(one for one in shuffled if data.draw(st.booleans()))
    fewer = dummies(evolve(spec, inputs=kept), {}, seed=seed)
    assert list(fewer) == [one.name for one in kept]
    assert [name for name in fewer if not same(fewer[name], every[name])] == []


@given(dummy_specs(), st.integers(0, 1 << 32), st.sampled_from(some.AXES))
def test_a_dummy_does_not_depend_on_sizes_that_are_not_its_own(spec, seed, axis):
    before = dummies(spec, {}, seed=seed)
    after = dummies(compose(spec, sized(**{axis: 3})), {}, seed=seed)
    others = [one.name for one in spec.inputs if axis not in names(one.axes)]
    assert [name for name in others if not same(before[name], after[name])] == []


@given(dummy_specs(), st.integers(0, 1 << 32), st.permutations(some.FILLED))
def test_a_dummy_does_not_depend_on_the_order_of_the_generators(spec, seed, order):
    by_name = {one.name: one for one in spec.dummies.generators}
    moved = evolve(spec, dummies=evolve(spec.dummies, generators=tuple(by_name[name] for name in order)))
    before, after = (dummies(one, {}, seed=seed) for one in (spec, moved))
    assert [name for name in before if not same(before[name], after[name])] == []


TOKENS = compose(
    takes("input_ids", "batch_size sequence_length", "token_ids"),
    takes("other_ids", "batch_size sequence_length", "token_ids"),
    generates("token_ids", "integers", high=1 << 40),
    sized(batch_size=2, sequence_length=8),
)


def test_a_dummy_depends_on_the_seed_and_on_the_name():
    made = dummies(TOKENS, {})
    assert not same(made["input_ids"], dummies(TOKENS, {}, seed=1)["input_ids"])
    assert not same(made["input_ids"], made["other_ids"])


def test_a_dummy_is_the_same_in_another_process():
    code = "import sys; from onnxfn.specs.stored.serialize import from_json\n"
    code += "from onnxfn.specs.algebra.dummies import dummies\n"
    code += "print(dummies(from_json(sys.stdin.read()), {}, seed=7)['input_ids'].tolist())"
    told = printed("-c", code, given=to_json(TOKENS), PYTHONHASHSEED="1")
    assert json.loads(told) == dummies(TOKENS, {}, seed=7)["input_ids"].tolist()


# Records as data


def pickled(record):
    return pickle.loads(pickle.dumps(record))


@given(some.records)
def test_a_record_goes_to_json_or_pickle_and_back(record):
    for back in (from_json(to_json(record), record=type(record), trust=some.TRUST), pickled(record)):
        assert back == record
        assert hash(back) == hash(record)
        assert to_json(back) == to_json(record)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_text_that_cannot_be_read_back_is_not_written(text):
    with pytest.raises(InvalidSpec, match="without null characters"):
        to_json(Read(text, "n"))


def test_specs_are_pickled_to_another_process_and_back():
    specs = [*ARCHITECTURES.values(), *(for_task(ARCHITECTURES[model_type], task) for model_type, task in TASKED)]
    code = """
import pickle, sys
from onnxfn.specs.stored.serialize import from_json
pairs = [(spec, from_json(text)) for spec, text in pickle.load(sys.stdin.buffer)]
agreed = all(spec == told and hash(spec) == hash(told) for spec, told in pairs)
sys.stdout.buffer.write(pickle.dumps((agreed, [spec for spec, _ in pairs])))
"""
    told = printed("-c", code, given=pickle.dumps([(spec, to_json(spec)) for spec in specs]), PYTHONHASHSEED="1")
    agreed, back = pickle.loads(told)
    assert agreed
    assert back == specs
    assert list(map(hash, back)) == list(map(hash, specs))


# Edits


@st.composite
def specs_and_names(draw):
    spec = compose(draw(some.specs), ExportSpec(inputs=[draw(some.inputs)]))
    return spec, draw(st.lists(st.sampled_from(every_name(spec)), min_size=1, unique=True))


@given(specs_and_names())
def test_removed_tensors_are_in_no_inner_spec_at_once_or_one_by_one_and_cannot_be_removed_again(given_pair):
    spec, gone = given_pair
    one_by_one = spec
    for name in gone:
        one_by_one = edits.without(one_by_one, name)
        assert f"no input or output {name!r}" in refusal(UnknownName, edits.without, one_by_one, name)
    assert edits.without(spec, *gone) == one_by_one
    assert set(every_name(one_by_one)) == set(every_name(spec)) - set(gone)


@given(specs_and_names(), st.data())
def test_renaming_keeps_paths_and_renaming_back_restores_names(given_pair, data):
    spec, old = given_pair
    new = data.draw(st.permutations(old) | st.just([f"my_{name}" for name in old]))
    there = dict(zip(old, new, strict=True))
    changed = renamed(spec, **there)
    back = renamed(changed, **{late: early for early, late in there.items()})
    assert list(tensors_in(to_plain(back))) == list(tensors_in(to_plain(spec)))
    for each in (changed, back):
        assert [one.forward_path for one in each.inputs] == [one.forward_path for one in spec.inputs]
        assert [one.forward_path for one in each.outputs] == [one.forward_path for one in spec.outputs]
        assert [one.axes for one in each.inputs] == [one.axes for one in spec.inputs]


CHANGES = {
    "without": lambda spec: edits.without(spec, spec.inputs[0].name),
    "renamed": lambda spec: renamed(spec, **{spec.inputs[0].name: "otherwise"}),
    "with_output": lambda spec: edits.with_output(spec, "another", "batch_size _"),
    "with_opset": lambda spec: edits.with_opset(spec, 25),
    "with_tolerance": lambda spec: edits.with_tolerance(spec, atol=2.0, rtol=2.0),
    "with_dtypes": lambda spec: edits.with_dtypes(spec, float="bfloat16"),
    "with_shapes": lambda spec: edits.with_shapes(spec, num_choices=4),
    "with_axis": lambda spec: with_axis(spec, "num_choices", at=0, starting=""),
    "only_tasks": lambda spec: edits.only_tasks(evolve(spec, task=None), "question-answering"),
    "for_task": lambda spec: for_task(evolve(spec, task=None), "question-answering"),
}


@given(st.sampled_from(sorted(CHANGES)), some.specs, some.inputs)
def test_an_edit_returns_another_spec_and_does_not_change_its_argument(name, spec, one):
    whole = compose(tasked("fill-mask"), tasked("question-answering"), spec, ExportSpec(inputs=[one]))
    before = to_json(whole)
    assert CHANGES[name](whole) != whole
    assert to_json(whole) == before


@pytest.mark.sweep
def test_the_laws_hold_for_300_examples():
    printed("-m", "pytest", "-q", "--hypothesis-profile=many", "-p", "no:cacheprovider", __file__)
