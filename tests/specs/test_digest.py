"""A digest is equal for equal meaning, in every process."""

import pytest
import strategies as some
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from own_processes import printed

import onnxfn
from onnxfn import case, compose, digest, generates, gives, reads, sized, takes
from onnxfn.specs.stored.serialize import from_json, to_json

SPEC = compose(takes("x", "batch_size past+now", "noise"), gives("y", "batch_size _"), sized(batch_size=2))
DIGEST = "bd21fb0eb619a34ecab4fbfeade8fd9e6266ac7fbb5a1766e3f2d42d21156f54"
"""The digest of SPEC in onnxfn 0.1.0. A later version has the same: it may be the key of what others have stored."""


def test_the_digest_of_a_spec_stays_the_same_over_versions():
    assert digest(SPEC) == DIGEST


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_digest_is_the_same_in_another_process(seed):
    code = "import sys, onnxfn; print(onnxfn.digest(onnxfn.from_json(sys.stdin.read())), 'torch' in sys.modules)"
    assert printed("-c", code, given=to_json(SPEC), PYTHONHASHSEED=seed).split() == [DIGEST, "False"]


@settings(max_examples=100)
@given(some.specs)
def test_equal_specs_have_equal_digests(spec):
    assert digest(from_json(to_json(spec), trust=some.TRUST)) == digest(spec)


FACTS = (
    sized(a=1),
    sized(b=2),
    generates("ids", "integers", high=9),
    generates("mask", "mask", padding="left"),
    reads(heads="n_head"),
    reads(width="n_embd"),
    onnxfn.always(use_cache=False),
    onnxfn.always(return_dict=True),
    onnxfn.with_shapes(batch_size=1)(onnxfn.EMPTY),
    onnxfn.with_shapes(width=4)(onnxfn.EMPTY),
)


@given(st.permutations(FACTS))
def test_the_order_of_facts_does_not_change_the_digest(facts):
    assert digest(compose(SPEC, *facts)) == digest(compose(SPEC, *FACTS))


def test_a_number_and_a_path_have_the_same_digest_in_each_spelling():
    assert digest(generates("x", "normal", deviation=2)) == digest(generates("x", "normal", deviation=2.0))
    assert digest(takes("x", "n", "x", path=("x",))) == digest(takes("x", "n", "x"))


@pytest.mark.parametrize(
    "other",
    [
        compose(gives("z", "batch_size"), SPEC),
        compose(SPEC, sized(batch_size=3)),
        compose(SPEC, takes("x", "batch_size past", "noise")),
        onnxfn.with_opset(SPEC, 20),
        compose(SPEC, case("one")),
    ],
    ids=["output", "size", "axes", "opset", "case"],
)
def test_another_meaning_has_another_digest(other):
    assert digest(other) != DIGEST


def test_the_order_of_inputs_has_a_meaning():
    two = compose(SPEC, takes("w", "batch_size", "noise"))
    assert digest(evolve(two, inputs=two.inputs[::-1])) != digest(two)


def test_a_plan_and_its_json_have_a_digest():
    plan = onnxfn.plan(SPEC)
    assert digest(plan) == digest(from_json(to_json(plan), record=onnxfn.Plan))
