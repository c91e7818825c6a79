import gc
from contextlib import suppress
from operator import methodcaller
from types import SimpleNamespace

import pytest
import tiny
import torch
from other_threads import in_another_thread
from refusals import refusal
from small_modules import module
from torch.fx.experimental import proxy_tensor, sym_node
from torch.fx.passes import shape_prop
from vector_specs import vector_spec

import onnxfn
from onnxfn.graphs.capture.capture import capture
from onnxfn.graphs.capture.trace_conditions import without_assumed
from onnxfn.models.forward import flat_forward
from onnxfn.specs.algebra.dummies import padded
from onnxfn.specs.conditions import Condition
from onnxfn.specs.errors import CaptureFailed, FixedSizes
from onnxfn.specs.plan.planning import plan

BERT = onnxfn.spec_for("bert", "feature-extraction")


@pytest.fixture(scope="module")
def bert():
    return tiny.model("bert", "AutoModel")


def part(model, *specs, base=BERT):
    return plan(onnxfn.compose(base, *specs), model).parts[0]


def test_a_mask_that_is_all_ones_in_the_sample_stays_a_used_input(bert):
    graph = capture(bert, part(bert, padded("none"))).model.graph
    assert len(graph.inputs) == 3
    assert all(value.uses() for value in graph.inputs)


def test_a_capture_keeps_few_objects_when_it_is_done(bert):
    def objects_after(captures):
        for _ in range(captures):
            capture(bert, part(bert))
        gc.collect()
        return len(gc.get_objects())

    before = objects_after(captures=2)
    assert objects_after(captures=4) - before < 4 * 600  # torch's caches keep about 300 of each capture


def test_weights_have_the_names_of_the_checkpoint_and_are_not_copied(bert):
    weight = capture(bert, part(bert)).model.graph.initializers["embeddings.word_embeddings.weight"].const_value
    assert weight.raw.data_ptr() == bert.embeddings.word_embeddings.weight.data_ptr()


def test_flat_forward_returns_the_planned_outputs_in_order(bert):
    spec = part(bert, onnxfn.gives("pooler_output", "batch_size _")).spec
    ids = torch.arange(8).reshape(2, 4)
    with torch.no_grad():
        hidden, pooled = flat_forward(bert, spec)((ids, torch.ones_like(ids), torch.zeros_like(ids)))
        expected = bert(ids)
    assert torch.equal(hidden, expected.last_hidden_state)
    assert torch.equal(pooled, expected.pooler_output)


def everything(model):
    """The state of a model: weights by identity and value, attributes of each module, the configuration."""
    return (
        {name: (id(tensor), tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()},
        {name: {key: repr(value) for key, value in vars(module).items()} for name, module in model.named_modules()},
        model.config.to_dict(),
    )


def unchanged(before, after):
    same = all(before[0][name][0] == after[0][name][0] for name in before[0])
    equal = all(torch.equal(before[0][name][1], after[0][name][1]) for name in before[0])
    return same and equal and before[0].keys() == after[0].keys() and before[1:] == after[1:]


@pytest.mark.parametrize("model_type", ["bert", "big_bird", "esm", "modernbert"])
def test_the_model_is_restored(model_type):
    # big_bird switches its attention, esm and modernbert cache position embeddings in forward.
    model = tiny.model(model_type, "AutoModel").train()
    model.config.marked = "mine"
    before = everything(model)
    capture(model, plan(onnxfn.spec_for(model_type, "feature-extraction"), model).parts[0])
    assert unchanged(before, everything(model))


def test_the_model_is_restored_when_the_capture_fails(bert):
    bert.train()
    before = everything(bert)
    refusal(CaptureFailed, capture, bert, part(bert, onnxfn.gives("nothing", "batch_size _")))
    assert unchanged(before, everything(bert))
    bert.eval()


def test_the_global_state_of_torch_is_restored(bert):
    random, grad, dtype = torch.get_rng_state(), torch.is_grad_enabled(), torch.get_default_dtype()
    sdpa = torch.nn.functional.scaled_dot_product_attention
    settings = torch._dynamo.config.fake_tensor_cache_enabled, torch.fx.config.do_not_emit_stack_traces
    capture(bert, part(bert))
    assert (torch._dynamo.config.fake_tensor_cache_enabled, torch.fx.config.do_not_emit_stack_traces) == settings
    assert torch.equal(torch.get_rng_state(), random)
    assert (torch.is_grad_enabled(), torch.get_default_dtype()) == (grad, dtype)
    assert torch.nn.functional.scaled_dot_product_attention is sdpa
    assert proxy_tensor._extract_tensor_metadata is shape_prop._extract_tensor_metadata


def test_a_trace_of_another_thread_has_the_functions_of_torch(bert):
    """A program that compiles a model of its own meanwhile gets what torch notes about tensors, and its quotients."""
    seen = []

    def note():
        tensor, size = torch.zeros(2, 3), sym_node.SymNode
        facts = proxy_tensor._extract_tensor_metadata(tensor, include_contiguity=True)
        seen.append((facts.memory_format, size.int_floordiv.__module__))

    def tick():
        is_traced = sym_node.SymNode.int_floordiv.__module__ != sym_node.__name__
        if is_traced and not seen:
            in_another_thread(note)

    capture(bert, part(bert), tick)
    assert seen == [(torch.contiguous_format, sym_node.__name__)]


def test_an_output_that_the_model_does_not_return_is_an_error_that_lists_those_it_returns(bert):
    message = refusal(CaptureFailed, capture, bert, part(bert, onnxfn.gives("logits", "batch_size _")))
    assert message.startswith("BertModel does not fit feature-extraction: nothing at 'logits'")
    assert "last_hidden_state, pooler_output" in message


NUMBERS = plan(onnxfn.compose(vector_spec("width"), onnxfn.sized(width=8)), {}).parts[0]


def test_a_model_that_fixes_a_dynamic_axis_is_an_error_that_names_the_axis():
    fixed = module(lambda _, x: {"y": x if x.shape[1] == 8 else x + 1})
    message = refusal(FixedSizes, capture, fixed, NUMBERS)
    line = fixed.forward.__code__.co_firstlineno
    change = f"use with_shapes(spec, width=8), or change the model at test_capture.py:{line}"
    assert message == f"the trace of Module fixes axis 1 of 'x' (width) at 8; {change}"


def test_limits_that_the_models_branches_set_come_with_the_graph():
    branching = module(lambda _, x: {"y": x if x.shape[1] > 6 else x + 1})
    assert [str(limit) for limit in capture(branching, NUMBERS).limits] == ["width >= 7"]
    assert capture(module(lambda _, x: {"y": x + 1}), NUMBERS).limits == ()


@pytest.mark.parametrize("handled", [(), (Exception,)], ids=["", "whose error the model handles"])
def test_a_branch_on_data_is_an_error_that_names_the_line(handled):
    def branch(_, x):
        with suppress(*handled):
            x = x if x.sum() > 0 else -x
        return {"y": x}

    assert "at test_capture.py:" in refusal(CaptureFailed, capture, module(branch), NUMBERS).splitlines()[-1]


@pytest.mark.parametrize("values", [methodcaller("numpy"), methodcaller("tolist")])
def test_the_values_of_a_tensor_are_refused_in_a_line(values):
    with_values = module(lambda _, x: {"y": x * len(values(x))})
    assert "() is not supported" in refusal(CaptureFailed, capture, with_values, NUMBERS)


@pytest.mark.parametrize("tied", [(), (Condition("w == h"),)])
def test_the_sides_of_squares_keep_their_ends_as_none_is_smaller_alone(tied):
    squares = SimpleNamespace(spec=SimpleNamespace(limits=tied, axes=(), derived=None))
    left, _ = without_assumed(dict.fromkeys("hw", (33, None)), [], squares, lambda of: len(of) == 2)
    assert "".join(left) == ("hw" if tied else "")


@pytest.mark.parametrize(("low", "left"), [(20, 2), (49, 49)])
def test_an_end_that_torch_assumed_inside_a_range_is_no_limit(low, left):
    axes = (SimpleNamespace(name="n", low=low, high=300),)
    part = SimpleNamespace(spec=SimpleNamespace(limits=(), axes=axes, derived=None))
    assert without_assumed({"n": (49, 300)}, [], part, lambda _: True)[0] == {"n": (left, 300)}
