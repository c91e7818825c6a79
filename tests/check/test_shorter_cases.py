"""Cases of a large model run without equal layers; the first case, and each that differs without them, runs whole."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import onnx
import pytest
import torch
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import onnxfn
from onnxfn import compose, generates, gives, sized, takes
from onnxfn.check.check import check
from onnxfn.check.layer_calls import recorded_chains, without_layers
from onnxfn.check.references import references
from onnxfn.check.shorter_cases import LARGE_COST, with_shorter_cases
from onnxfn.graphs.capture.forward import torch_outputs

WIDTH = 6
SPEC = compose(
    takes("pixels", "batch_size 4 6", "pixels", kind="float"),
    gives("scores", "batch_size 4 3"),
    generates("pixels", "normal"),
    sized(batch_size=2),
)


def layer(scale=1.0, *, in_tuple=False, mixes_rows=False):
    """A residual layer; `scale` is a constant of its graph. `calls` counts the calls of its own `forward`."""
    module = torch.nn.Module()
    module.inner = torch.nn.Linear(WIDTH, WIDTH)
    module.calls = Counter()

    def forward(hidden):
        module.calls["forward"] += 1
        changed = torch.tanh(module.inner(hidden)) * scale
        changed = changed + hidden.mean(dim=0, keepdim=True) if mixes_rows else changed
        return (hidden + changed, None) if in_tuple else hidden + changed

    module.forward = forward
    return module


def unchanged(_, hidden):
    return hidden


def model_of(layers, between=unchanged):
    """A model that hands hidden states through its layers; `between` changes them after a layer."""
    module = torch.nn.Module()
    module.first, module.last = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 3)
    module.layers = torch.nn.ModuleList(layers)

    def forward(pixels):
        hidden = module.first(pixels)
        for index, each in enumerate(module.layers):
            result = each(hidden)
            hidden = between(index, result[0] if isinstance(result, tuple) else result)
        return {"scores": module.last(hidden)}

    module.forward = forward
    return module.eval()


def exported(model, folder):
    result = onnxfn.export(SPEC, model, folder, check=False)
    return result.plan.parts[0], folder / "model.onnx"


def shortened(model, part, file):
    """The references of a part, those of all cases but the first without equal layers."""
    return [*references(model, part, of_case=with_shorter_cases(model, part, file, large_cost=0))]


def left_of(reference):
    """The layers whose weights the graph of a reference reads."""
    graph = onnx.ModelProto.FromString(reference.shorter.content).graph
    return sorted({int(each.name.split(".")[1]) for each in graph.initializer if each.name.startswith("layers.")})


@pytest.mark.parametrize("in_tuple", [False, True])
def test_of_equal_layers_the_last_is_left_and_the_whole_runs_once(in_tuple, tmp_path):
    model = model_of([layer(scale, in_tuple=in_tuple) for scale in (1.0, 1.0, 2.0, 1.0, 1.0, 2.0)])
    part, file = exported(model, tmp_path)
    for each in model.layers:
        each.calls.clear()
    one, several = shortened(model, part, file)
    assert one.shorter is None
    assert left_of(several) == [4, 5]
    assert several.case.endswith("2 of 6 layers")
    assert [each.calls["forward"] for each in model.layers] == [1, 1, 1, 1, 2, 2]
    report = check(model, part, file, expected=[one, several])
    assert report.passed
    assert report.cases == (one.case, several.case)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=2, max_size=6))
def test_one_layer_of_each_kind_is_left_and_the_check_passes(tmp_path_factory, scales):
    model = model_of([layer(scale) for scale in scales])
    part, file = exported(model, tmp_path_factory.mktemp("model"))
    one, several = shortened(model, part, file)
    last = {scale: index for index, scale in enumerate(scales)}
    if len(last) == len(scales):
        assert several.shorter is None
    else:
        assert left_of(several) == sorted(last.values())
    assert check(model, part, file, expected=[one, several]).passed


def test_a_layer_whose_result_is_changed_before_the_next_one_is_left(tmp_path):
    model = model_of([layer() for _ in range(5)], lambda index, hidden: hidden * 2 if index == 1 else hidden)
    part, file = exported(model, tmp_path)
    one, several = shortened(model, part, file)
    assert left_of(several) == [1, 4]
    assert check(model, part, file, expected=[one, several]).passed


def test_a_layer_with_a_value_inside_that_is_read_elsewhere_is_left(tmp_path):
    values = {}

    def squashed(index, hidden):
        values[index] = torch.tanh(hidden)
        return hidden + model.layers[index].inner(values[index])

    model = model_of([layer() for _ in range(5)], lambda index, hidden: hidden + values[0] if index == 4 else hidden)
    for index, each in enumerate(model.layers):
        each.forward = partial(squashed, index)
    part, file = exported(model, tmp_path)
    one, several = shortened(model, part, file)
    assert left_of(several) == [0, 3, 4]
    assert check(model, part, file, expected=[one, several]).passed


def test_hidden_states_that_are_read_again_later_are_read_without_layers_too(tmp_path):
    kept = {}

    def around(index, hidden):
        kept[index] = hidden
        return hidden + kept[1] if index == 4 else hidden

    model = model_of([layer() for _ in range(5)], around)
    part, file = exported(model, tmp_path)
    one, several = shortened(model, part, file)
    assert left_of(several) == [3, 4]
    assert check(model, part, file, expected=[one, several]).passed


def test_layers_are_left_out_where_the_scale_of_the_inputs_goes_around_them_to_the_outputs(tmp_path):
    model = model_of([layer() for _ in range(5)])
    plain = model.forward

    def scaled(pixels):
        mean, deviation = pixels.mean((1, 2), keepdim=True), pixels.std((1, 2), keepdim=True)
        return {"scores": plain((pixels - mean) / deviation)["scores"] * deviation + mean}

    model.forward = scaled
    part, file = exported(model, tmp_path)
    one, several = shortened(model, part, file)
    assert left_of(several) == [4]
    assert check(model, part, file, expected=[one, several]).passed


def test_a_layer_whose_weights_compute_a_value_that_goes_around_the_next_ones_is_left(tmp_path):
    values = {}

    def kept(index, hidden):
        values[index] = model.layers[index].inner(hidden)
        return hidden + values[index]

    model = model_of([layer() for _ in range(5)], lambda index, hidden: hidden + values[1] if index == 4 else hidden)
    for index, each in enumerate(model.layers):
        each.forward = partial(kept, index)
    part, file = exported(model, tmp_path)
    one, several = shortened(model, part, file)
    assert 1 in left_of(several)
    assert check(model, part, file, expected=[one, several]).passed


def test_a_graph_whose_rows_depend_on_one_another_fails_where_those_of_the_model_do_not(tmp_path):
    wrong, right = (model_of([layer(mixes_rows=mixes) for _ in range(4)]) for mixes in (True, False))
    right.load_state_dict(wrong.state_dict())
    part, file = exported(wrong, tmp_path)
    one, several = shortened(right, part, file)
    assert several.shorter is not None
    report = check(right, part, file, expected=[one, several])
    assert not report.passed
    assert not any(case.endswith("layers") for case in report.cases)  # the case ran again, with all layers


def test_a_case_that_differs_without_layers_alone_agrees_with_all_of_them(tmp_path):
    model = model_of([layer() for _ in range(4)])
    part, file = exported(model, tmp_path)
    one, several = shortened(model, part, file)
    other = evolve(several, outputs=tuple(output + 1 for output in several.outputs))
    report = check(model, part, file, expected=[one, other])
    assert report.passed
    assert report.cases == (one.case, several.shorter.whole().case)


def test_a_file_that_compares_its_values_is_not_compared_in_float64_without_layers(tmp_path):
    """A value may equal a threshold but for rounding, and float64 may then answer otherwise, too."""

    def without_negative(index, hidden):
        return hidden * (hidden > 0) if index == 3 else hidden

    for between, chooses in ((unchanged, False), (without_negative, True)):
        model = model_of([layer() for _ in range(4)], between)
        part, file = exported(model, tmp_path / str(chooses))
        one, several = shortened(model, part, file)
        assert (several.shorter is None, several.shorter.exact is None) == (False, chooses)
        assert check(model, part, file, expected=[one, several]).cases == (one.case, several.case)
        other = evolve(several, outputs=tuple(output + 1 for output in several.outputs))
        report = check(model, part, file, expected=[one, other])
        assert report.passed
        assert report.cases == (one.case, several.shorter.whole().case)


def test_a_case_that_onnxruntime_cannot_run_without_layers_runs_with_all_of_them(tmp_path):
    model = model_of([layer() for _ in range(4)])
    part, file = exported(model, tmp_path)
    one, several = shortened(model, part, file)
    broken = evolve(several, shorter=evolve(several.shorter, content=b"no ONNX"))
    report = check(model, part, file, expected=[one, broken])
    assert report.passed
    assert report.cases == (one.case, several.shorter.whole().case)


def test_a_model_that_does_not_run_without_a_layer_runs_with_all_of_them(tmp_path):
    """The first layer counts its calls, and the model wants a new one in each run."""
    model = model_of([layer() for _ in range(4)])
    part, file = exported(model, tmp_path)
    plain, runs = model.forward, [0]

    def counted(pixels):
        scores = plain(pixels)
        runs.append(model.layers[0].calls["forward"])
        if runs[-1] == runs[-2]:
            raise RuntimeError("the first layer was not called")
        return scores

    model.forward = counted
    one, several = shortened(model, part, file)
    assert (one.shorter, several.shorter) == (None, None)
    assert check(model, part, file, expected=[one, several]).passed


def test_layers_that_are_left_out_return_what_they_take_and_compute_again_afterwards(tmp_path):
    model = model_of([layer(in_tuple=index == 1) for index in range(3)])
    part, _ = exported(model, tmp_path)
    pixels = {"pixels": np.ones((2, 4, WIDTH), np.float32)}
    before = torch_outputs(model, part, pixels)
    with recorded_chains(model) as chains:
        torch_outputs(model, part, pixels)
    (chain,) = chains()
    assert chain.paths == ("layers.0", "layers.1", "layers.2")
    assert chain.returned == (0, 2, None)
    with without_layers(model, {"layers.0": 0, "layers.1": 2, "layers.2": 0}):
        assert torch.equal(model(torch.ones(4, WIDTH))["scores"], model.last(model.first(torch.ones(4, WIDTH))))
    assert np.array_equal(before[0], torch_outputs(model, part, pixels)[0])


def test_a_small_case_and_a_quantized_file_run_whole(tmp_path):
    model = model_of([layer() for _ in range(4)])
    part, file = exported(model, tmp_path)
    assert 2 * 4 * WIDTH * sum(parameter.numel() for parameter in model.parameters()) < LARGE_COST
    assert [each.shorter for each in references(model, part, of_case=with_shorter_cases(model, part, file))] == [
        None
    ] * 2
    quantized = onnxfn.plan(onnxfn.quantize(SPEC, bits=8), {}).parts[0]
    assert [each.shorter for each in shortened(model, quantized, file)] == [None, None]
