"""Specs of any module, from a sample of its arguments: dtypes, ranges of dummies, forms of samples and of models."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
import tiny
import torch
from small_modules import derived_export, module
from torch import nn

import onnxfn
from onnxfn import case, compose, gives, patched, sized, takes

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def pooled():
    torch.manual_seed(0)
    return module(lambda self, ids, mask: masked_mean(self.table(ids), mask), table=nn.Embedding(300, 8))


def masked_mean(states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def mean_without_mask(states, mask):
    return (states * torch.ones_like(mask)[..., None]).sum(1) / torch.ones_like(mask).sum(1, keepdim=True)


POOLED = {"ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "mask": torch.ones(2, 3, dtype=torch.long)}
TOKENS = {"ids": "batch_size time", "mask": "batch_size time"}


def exported(spec, model, tmp_path):
    result = onnxfn.export(spec, model, tmp_path / "model.onnx")
    assert result.report.passed
    return result


def ports(tmp_path):
    graph = onnx.load(tmp_path / "model.onnx").graph
    return [onnx.TensorProto.DataType.Name(port.type.tensor_type.elem_type) for port in (*graph.input, *graph.output)]


def generator(spec, name):
    chosen = next(input_.generator for input_ in spec.inputs if input_.name == name)
    return next(each for each in spec.dummies.generators if each.name == chosen)


# Wrong once, though the check passed


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", "float16", "float64"])
def test_the_dtype_of_a_sample_is_kept(dtype, tmp_path):
    """uint8 became int64: 3 * 200 was 600, where PyTorch has 88."""

    def double(x):
        return x ^ True if x.dtype == torch.bool else x * (200 if dtype == "uint8" else 2)

    sample = torch.tensor([[3, 1], [2, 0], [1, 5]]).to(getattr(torch, dtype))
    derived_export(double, sample, tmp_path / "model.onnx")
    name = {"float16": "FLOAT16", "float64": "DOUBLE"}.get(dtype, dtype.upper())
    assert ports(tmp_path) == [name, name]
    fed = sample.repeat(2, 1)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert (session.run(None, {"x": fed.numpy()})[0] == double(fed).numpy()).all()


def test_bfloat16_is_kept_and_refused_by_the_check_with_advice(tmp_path):
    spec = onnxfn.derived(torch.neg, sample=torch.ones(2, 3, dtype=torch.bfloat16))
    with pytest.raises(onnxfn.CheckFailed, match=r"its CPU kernels lack this type"):
        onnxfn.export(spec, torch.neg, tmp_path / "model.onnx")
    onnxfn.export(spec, torch.neg, tmp_path / "model.onnx", check=False)
    assert ports(tmp_path) == ["BFLOAT16", "BFLOAT16"]


def test_a_graph_that_ignores_a_mask_of_ones_fails_its_check(tmp_path):
    model = pooled()
    spec = onnxfn.derived(model, sample=POOLED, axes=TOKENS)
    exported(spec, model, tmp_path)
    faulty = patched(f"{__name__}:masked_mean", by=f"{__name__}:mean_without_mask", why="a fault")
    with pytest.raises(onnxfn.CheckFailed, match="'output' is"):
        onnxfn.export(compose(spec, faulty), model, tmp_path / "faulty.onnx")


def test_an_axis_that_a_tensor_without_a_pattern_holds_still_is_refused():
    with pytest.raises(onnxfn.InvalidSpec, match="runs with time == 3 alone; add to `axes`: mask"):
        onnxfn.derived(pooled(), sample=POOLED, axes={"ids": TOKENS["ids"]})


def test_an_axis_without_a_size_in_any_case_is_checked_at_other_sizes(tmp_path):
    """After axes were renamed, all cases had the sizes of the trace."""
    spec = compose(
        takes("x", "rows columns", "normal", kind="float"),
        sized(rows=2, columns=16),
        gives("y", "rows columns"),
        case("one", sized(batch_size=1)),
        case("several", sized(batch_size=3)),
    )
    result = exported(spec, module(lambda _, x: x.relu()), tmp_path)
    assert result.report.cases == ("one (rows=1, columns=19)", "several (rows=3, columns=21)")


# Ranges


def test_integers_go_up_to_what_they_index():
    spec = onnxfn.derived(pooled(), sample=POOLED, axes=TOKENS)
    assert str(generator(spec, "ids")) == "integers(high=300, low=0), found: it indexes 300 elements"
    assert "assumed: 0 and 1, as in a mask" in str(onnxfn.plan(spec, {}))


INDEXING = {
    "index_select": lambda ids: torch.arange(50.0).index_select(0, ids),
    "gather": lambda ids: torch.arange(50.0).expand(len(ids), 50).gather(1, ids[:, None]),
    "index": lambda ids: torch.arange(50.0)[ids],
    "take": lambda ids: torch.arange(50.0).take(ids),
    "shifted": lambda ids: torch.arange(52.0)[(ids + 2).unsqueeze(0)],
    "one_hot": lambda ids: nn.functional.one_hot(ids, 50),
    "concatenated": lambda ids: torch.arange(50.0)[torch.cat([ids, torch.zeros(1, dtype=torch.long)])],
}


@pytest.mark.parametrize("name", INDEXING)
def test_what_indexes_what_is_found_in_a_run(name):
    spec = onnxfn.derived(INDEXING[name], sample=torch.tensor([1, 2]))
    found = generator(spec, spec.inputs[0].name)
    assert found.reason.startswith("found: ")
    assert dict(found.arguments) == {"low": 0, "high": 50}


def test_a_range_may_be_given():
    spec = onnxfn.derived(pooled(), sample=POOLED, axes=TOKENS, ranges={"ids": (7, 9)})
    assert str(generator(spec, "ids")) == "integers(high=9, low=7), given"
    assert set(np.unique(onnxfn.dummy_inputs(spec, {}, "np", time=50)["ids"])) == {7, 8}


@pytest.mark.parametrize(
    ("ranges", "message"),
    [({"idz": (0, 3)}, "no tensor 'idz' for the sample"), ({"ids": (3, 3)}, "the range of 'ids' is (3, 3); write")],
)
def test_a_wrong_range_is_refused(ranges, message):
    with pytest.raises(onnxfn.InvalidSpec if "ids" in ranges else onnxfn.UnknownName, match=re.escape(message)):
        onnxfn.derived(pooled(), sample=POOLED, ranges=ranges)


def test_real_numbers_have_other_scales():
    spec = onnxfn.derived(torch.nn.ReLU(), sample=torch.tensor([[1.0, -1.0], [0.5, 1.0]]))
    scales = np.abs(onnxfn.dummy_inputs(spec, {}, "np", batch_size=300)["input"]).max(axis=1)
    assert scales.max() > 4
    assert scales.min() < 0.25


def test_values_that_the_module_refuses_are_not_drawn():
    """Probabilities below 0 or above 1 are an error of PyTorch, and arcsine is NaN outside -1 to 1."""
    loss = lambda p, scale: nn.functional.binary_cross_entropy(p, p, reduction="none") * scale  # noqa: E731
    spec = onnxfn.derived(loss, sample=(torch.rand(4, 3), torch.rand(4, 3) + 1))
    assert generator(spec, "p").function == "uniform"
    assert generator(spec, "scale").function == "scaled"
    spec = onnxfn.derived(lambda x: x.asin(), sample=torch.rand(4, 3))
    assert generator(spec, "x").reason == "assumed: the range of the sample, since the module refuses others"


def test_a_mask_of_minus_infinity_has_both_values(tmp_path):
    def attend(scores, mask):
        return (scores + mask).softmax(-1)

    spec = onnxfn.derived(attend, sample=(torch.randn(2, 4), torch.tensor([[0.0, 0.0, -torch.inf, 0.0]] * 2)))
    assert onnxfn.from_json(onnxfn.to_json(spec)) == spec
    assert set(np.unique(onnxfn.dummy_inputs(spec, {}, "np")["mask"])) == {-np.inf, 0.0}
    exported(spec, attend, tmp_path)


def test_an_input_without_dynamic_axes_has_other_values_in_each_case(tmp_path):
    def model(x, gain):
        return times(x, gain)

    spec = onnxfn.derived(model, sample=(torch.randn(2, 4), torch.tensor(2.0)))
    gains = [float(onnxfn.dummy_inputs(spec, {}, "np", seed=seed)["gain"]) for seed in range(3)]
    assert len(set(gains)) == 3
    GAIN.append(gains[0])
    exported(spec, model, tmp_path)
    constant = patched(f"{__name__}:times", by=f"{__name__}:times_of_the_trace", why="a fault")
    with pytest.raises(onnxfn.CheckFailed):
        onnxfn.export(compose(spec, constant), model, tmp_path / "faulty.onnx")


GAIN = []


def times(x, gain):
    return x * gain


def times_of_the_trace(x, gain):
    return x * GAIN[0] + 0 * gain


# Samples


def nested(x, pair, gain=1.0, *, flag=False):
    scaled = x * pair["scale"] + pair["more"][0] * pair["more"][1]
    return scaled * gain if flag else scaled


def test_a_sample_may_be_nested_and_hold_numpy_arrays_numbers_and_none(tmp_path):
    pair = {"scale": torch.tensor(2.0), "more": [np.float32(3), 2]}
    spec = onnxfn.derived(nested, sample={"x": np.ones((2, 3), "float32"), "pair": pair, "gain": 3, "flag": True})
    assert spec.derived == "Module.forward(x, pair.scale, pair.more.0, pair.more.1=2, gain=3, flag=True), from a sample"
    assert list(exported(spec, nested, tmp_path).inputs) == ["x", "pair.scale", "pair.more.0"]
    assert onnxfn.from_json(onnxfn.to_json(spec)) == spec
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    feeds = {"pair.scale": np.array(4, "float32"), "pair.more.0": np.array(1, "float32")}
    feeds["x"] = np.ones((5, 3), "float32")
    assert session.run(None, feeds)[0].tolist() == [[18.0] * 3] * 5


@pytest.mark.parametrize("sample", [(torch.ones(2, 3), torch.ones(2, 3)), [torch.ones(2, 3), torch.ones(2, 3)]])
def test_a_sample_may_be_in_the_order_of_the_arguments(sample):
    def difference(left, right):
        return left - right

    assert list(derived_export(difference, sample).inputs) == ["left", "right"]


def test_a_module_may_take_any_number_of_arguments():
    def joined(first, *others):
        return torch.cat((first, *others), -1)

    sample = (torch.ones(2, 3), torch.ones(2, 4), torch.ones(2, 5))
    assert list(derived_export(joined, sample).inputs) == ["first", "others.0", "others.1"]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (torch.ones(2, 3, dtype=torch.complex64), "'input' is complex64, and inputs of ONNX are bool, int8, "),
        (torch.ones(2, 3).to(torch.float8_e5m2), "'input' is float8_e5m2, and inputs of ONNX are"),
        ((torch.ones(2), torch.ones(2)), "the sample has 2 arguments, but the forward of ReLU takes 1: input"),
        ({"input": object()}, "'input' in the sample for ReLU is object; a sample holds tensors, numpy arrays"),
        ({"input": np.array(["a"])}, "'input' is a numpy array of <U1; a sample holds tensors"),
        ({"input": 3}, "the sample for ReLU holds no tensor"),
        ({}, "the sample for ReLU holds no tensor"),
    ],
)
def test_a_sample_of_something_else_is_refused_in_one_line(sample, message):
    with pytest.raises(onnxfn.InvalidSpec, match=f"^{re.escape(message)}[^\n]*$"):
        onnxfn.derived(nn.ReLU(), sample=sample)


# Models


MODELS = {
    "function": lambda linear: linear.forward,
    "function of torch without a signature": lambda _: torch.relu,
    "compiled": torch.compile,
    "parallel": nn.DataParallel,
    "program": lambda linear: torch.export.export(
        linear, (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_function_a_program_and_a_wrapped_module_are_exported(name, tmp_path):
    model = MODELS[name](nn.Linear(4, 2))
    spec = onnxfn.derived(model, sample=torch.randn(3, 4))
    result = exported(spec, model, tmp_path)
    assert result.outputs == {"output": {0: "batch_size"}}
    assert onnxfn.validate(spec, model, result).passed


def test_the_least_size_that_a_module_takes_is_a_limit(tmp_path):
    averages = lambda x: nn.functional.avg_pool1d(x, 4, stride=1)  # noqa: E731
    result = derived_export(averages, torch.randn(2, 3, 9), tmp_path / "model.onnx", "batch_size 3 time")
    assert [str(limit) for limit in result.limits] == ["time >= 4"]
    assert result(x=np.ones((1, 3, 4), np.float32))["output"].shape == (1, 3, 1)


def test_a_class_is_refused_with_advice():
    with pytest.raises(onnxfn.InvalidSpec, match=r"the model is the class Linear; pass an instance: Linear\(\.\.\.\)"):
        onnxfn.derived(nn.Linear, sample=torch.ones(3, 4))


STEPS = {
    "a program of fixed sizes": (
        lambda: torch.export.export(nn.Linear(4, 2), (torch.ones(3, 4),)),
        (torch.ones(3, 4), {"input": "batch 4"}),
        ["batch == 3"],
    ),
    "pairs": (lambda: lambda x: x.view(-1, 2, 8), (torch.ones(4, 8), {"x": "batch 8"}), ["batch % 2 == 0"]),
    "patches": (
        lambda: nn.Sequential(nn.PixelUnshuffle(8), nn.PixelShuffle(8)),
        (torch.ones(2, 1, 16, 24), {"input": "batch 1 high wide"}),
        ["high >= 16", "wide >= 16", "high % 8 == 0", "wide % 8 == 0"],
    ),
    "a square": (lambda: lambda x: x[:, :, 2:] @ x, (torch.ones(2, 6, 8), {"x": "b high wide"}), ["wide == high + 2"]),
    "an axis that may go": (lambda: lambda x: x.squeeze(1), (torch.ones(3, 8), {"x": "batch time"}), ["time >= 2"]),
    "from a batch of 2": (lambda: lambda x: x[1:] - x[1], (torch.ones(3, 8), {"x": "batch 8"}), ["batch >= 2"]),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_spec_has_the_steps_in_which_a_module_takes_sizes(name):
    build, (sample, axes), limits = STEPS[name]
    assert [limit.text for limit in derived_export(build(), sample, axes=axes).limits] == limits


# Specs that are written by hand


def single(x):
    return x * 2


BY_HAND = compose(takes("x", "batch_size 3", "normal", kind="float"), gives("y", "batch_size 3"))
SIZED = compose(BY_HAND, sized(batch_size=2))


def test_a_generator_may_be_a_function_and_a_lone_output_needs_no_path(tmp_path):
    exported(SIZED, single, tmp_path)


def test_a_path_leads_to_an_output_in_tuples(tmp_path):
    fed, spec = np.ones((4, 3), np.float32), compose(SIZED, gives("y", "batch_size 3", path=(1, 0)))
    assert exported(spec, lambda x: (x, (x * 2, x + 1)), tmp_path)(x=fed)["y"].tolist() == [[2.0] * 3] * 4


@pytest.mark.parametrize(
    ("spec", "model", "message"),
    [
        (BY_HAND, single, "no size for 'batch_size' in axis 'batch_size'; known: none; give a size to trace with: si"),
        (SIZED, lambda x: (x * 2, x + 1), "forward returns a tuple of 2: write gives('y', 'batch_size 3', "),
        (compose(SIZED, gives("z", "3")), single, "forward returns one tensor, and the spec has 2 outputs: y, z; "),
        (SIZED, lambda x: {"doubled": x * 2}, "there is: doubled; write gives('y', 'batch_size 3', path=('doubled',))"),
        (SIZED, nn.Linear(3, 3), "no argument 'x' for the forward of Linear; known: input; write takes('x', ..., pat"),
        (compose(takes("x", "3", "noise"), gives("y", "3")), single, "or add one: generates('noise', 'integers', low="),
        (compose(takes("x", "3", "integers"), gives("y", "3")), single, "add generates('integers', 'integers', high="),
    ],
)
def test_an_error_about_a_spec_names_the_line_to_write(spec, model, message, tmp_path):
    with pytest.raises((onnxfn.UnknownName, onnxfn.InvalidSpec, onnxfn.CaptureFailed), match=re.escape(message)):
        onnxfn.export(spec, model, tmp_path / "model.onnx")


# Modules around a model of transformers


def scorer(model_type, loader):
    """A module whose forward returns the probabilities that a model of transformers gives, and a sample."""

    def forward(self, input_ids, attention_mask):
        return self.inner(input_ids=input_ids, attention_mask=attention_mask).logits.softmax(-1)

    tokens = torch.tensor([[1, 2, 3, 4], [4, 5, 6, 7]])
    model = module(forward, inner=tiny.model(model_type, loader))
    return model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


TEXTS = {"input_ids": "batch_size sequence_length", "attention_mask": "batch_size sequence_length"}


@pytest.mark.parametrize(
    ("model_type", "loader"), [("bert", "AutoModelForSequenceClassification"), ("gpt2", "AutoModelForCausalLM")]
)
def test_a_module_around_a_model_of_transformers_is_exported(model_type, loader, tmp_path):
    model, sample = scorer(model_type, loader)
    spec = onnxfn.derived(model, sample=sample, axes=TEXTS)
    assert generator(spec, "input_ids").reason.startswith("found: ")
    exported(spec, model, tmp_path)


def test_an_error_about_a_module_around_a_model_names_the_line_to_write(tmp_path):
    model, _ = scorer("bert", "AutoModelForSequenceClassification")
    spec = onnxfn.renamed(onnxfn.spec_for("bert", "text-classification"), logits="scores")
    message = (
        "the configuration has no 'vocab_size'; it has: none; Module has no configuration: pass config=model.inner."
    )
    with pytest.raises(onnxfn.MissingValue, match=re.escape(message)):
        onnxfn.export(spec, model, tmp_path / "out")
    message = "nothing at 'logits' of an object of the type tuple; forward returns one tensor: write gives('scores', "
    without_segments = onnxfn.without(spec, "token_type_ids")
    with pytest.raises(onnxfn.CaptureFailed, match=re.escape(message)):
        onnxfn.export(without_segments, model, tmp_path / "out", config=model.inner.config)


def test_the_pattern_of_the_only_tensor_may_be_a_text():
    assert str(onnxfn.derived(nn.Linear(3, 4), sample=(torch.ones(2, 3),), axes="rows _").inputs[0].axes) == "[rows, 3]"
    with pytest.raises(onnxfn.InvalidSpec, match="tensors ids, mask; write a pattern for each"):
        onnxfn.derived(pooled(), sample=POOLED, axes="batch_size time")
