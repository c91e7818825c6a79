"""Own modules are exported from a sample, and agree with PyTorch at sizes, values and dtypes that were not traced."""

from contextlib import suppress
from importlib.metadata import version

import numpy as np
import pytest
import torch
from own_modules import OWN_MODULES
from small_modules import derived_export
from torch import nn

import onnxfn
from onnxfn.export.derive.index_bounds import table_limits
from onnxfn.models.forward import torch_outputs
from onnxfn.run.sessions import open_session
from onnxfn.specs.plan.size_cases import within

DEFAULT = (
    *("Embedding", "GRU", "LSTM of two directions", "RNN", "Conv1d", "MaxPool1d", "TransformerEncoder", "LogSigmoid"),
    *("PixelUnshuffle", "tagger", "captioner", "attentive", "float64", "casts", "arithmetic in int16"),
    *("arithmetic in uint8", "products in uint64", "reductions in int16"),
)
"""The modules of the default run; the others are in the sweep."""

NO_UINT64 = pytest.mark.skipif(
    version("torch").startswith("2.12."), reason="torch 2.12 has no `where` for uint64: the module itself does not run"
)


def marks(name):
    return (*(() if name in DEFAULT else (pytest.mark.sweep,)), *((NO_UINT64,) if name == "products in uint64" else ()))


def exported(name, path):
    torch.manual_seed(0)
    own = OWN_MODULES[name]
    model = own.build()
    return derived_export(model, own.sample, path, own.axes), model


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in OWN_MODULES])
def test_a_module_agrees_at_sizes_values_and_dtypes_that_were_not_traced(name, tmp_path):
    result, model = exported(name, tmp_path / "model.onnx")
    assert "batch_size" in {symbol for axes in result.inputs.values() for symbol in axes.values()}
    part, session = result.plan.parts[0], open_session(tmp_path / "model.onnx")
    model = onnxfn.models.submodules.as_module(model)
    for seed, batch in ((1, 1), (2, 5)):
        inputs = onnxfn.specs.algebra.dummies.dummies(part.spec, other_sizes(part, result.limits, batch), seed=seed)
        actual = session.run(None, inputs)
        expected = torch_outputs(model, part, inputs)
        for output, ours, theirs in zip(part.spec.outputs, actual, expected, strict=True):
            same_kind = ours.dtype == theirs.dtype or {ours.dtype, theirs.dtype} <= {np.dtype("f2"), np.dtype("f4")}
            assert same_kind, (output.name, ours.dtype, theirs.dtype)
            rounding = 1e-2 if "f2" in (ours.dtype.str[1:], theirs.dtype.str[1:]) else 1e-4
            np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=rounding, err_msg=output.name)


def other_sizes(part, limits, batch):
    planned = onnxfn.specs.algebra.dummies.known_sizes(part.spec, {})
    more = {name: size + 7 + batch for name, size in planned.items()}
    return within(more | {"batch_size": batch}, limits)


def test_the_modules_of_the_default_run_are_in_the_table():
    assert set(DEFAULT) <= OWN_MODULES.keys()


# Modules that keep tables between calls, and modules that fix an axis at the size of the sample


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.length, self.table, self.tables = 0, None, {}
        self.register_buffer("mean", torch.ones(1))

    def forward(self, x):
        if x.shape[1] != self.length:
            self.length, self.table = x.shape[1], torch.arange(x.shape[1]).float()
        if x.shape not in self.tables:
            self.tables[x.shape] = torch.arange(x.shape[1]).float() * 2
        self.mean.copy_(x.mean())
        return x * self.table + self.tables[x.shape] - self.mean


@pytest.mark.parametrize("used", [(), (10,), (7, 10), (30, 10)])
def test_tables_that_a_module_keeps_are_no_state(used, tmp_path):
    model = Kept()
    for length in used:
        model(torch.rand(2, length))
    result = derived_export(model, torch.rand(2, 10), tmp_path / "m.onnx", "batch length")
    assert (result.limits, [*model.tables]) == ((), [(2, length) for length in used])
    for length in (5, 10, 41):
        x = torch.rand(3, length)
        np.testing.assert_allclose(result(x=x.numpy())["output"], Kept()(x), rtol=1e-5, atol=1e-5)


def test_sides_that_are_equal_in_the_sample_are_two_axes():
    square = lambda x: x.mT if x.shape[1] == x.shape[2] else x.transpose(1, 2)  # noqa: E731
    result = derived_export(square, torch.rand(4, 4, 4), axes="batch n m")
    assert result.outputs == {"output": {0: "batch", 1: "m", 2: "n"}}


BRANCHES = [lambda n, m: n == m, lambda n, _: n == 8, lambda n, _: n == 1, lambda n, _: n**2 > 10**6]
BEHIND_AN_EQUALITY = [lambda n, m: (n, m) == (16, 16), lambda n, m: n * m == 256 and n == m, lambda n, m: n == 16 == m]


@pytest.mark.parametrize("branch", [*BRANCHES, *BEHIND_AN_EQUALITY])
def test_another_branch_is_in_the_file_or_a_limit_where_it_is_behind_an_equality(branch, tmp_path):
    function = lambda x: x * 2 if branch(*x.shape[1:]) else x * 3  # noqa: E731
    result = derived_export(function, torch.rand(2, 8, 8), tmp_path / "m.onnx", "batch n m")
    for x in map(torch.rand, [(2, 8, 8), (2, 9, 9), (3, 9, 7), (3, 1, 7), (2, 16, 16)]):
        with suppress(*[onnxfn.InvalidSpec] * (x.shape[1] == 16)):
            np.testing.assert_allclose(result(x=x)["output"], function(x), rtol=1e-6)


def test_a_remark_says_that_a_file_does_not_take_the_sample():
    result = derived_export(lambda x: x * 2 if len(x) > 2 else x, torch.rand(2, 8), axes="batch n")
    assert "the sizes of the sample, batch=2, n=8, are outside the limits of model" in result.plan.remarks


class Positions(nn.Module):
    """Adds a row of a table to each element; the kinds of tables are lists of rows, and lookups."""

    def __init__(self, rows, kind):
        super().__init__()
        self.rows, self.kind, self.table = rows, kind, nn.Embedding(rows, 4)

    def forward(self, x):
        length = x.shape[1]
        if self.kind == "raises" and length > self.rows:
            raise ValueError(f"at most {self.rows} steps")
        return x + (self.table(torch.arange(length)) if self.kind == "lookup" else self.table.weight[:length])


@pytest.mark.parametrize("kind", ["raises", "slice", "lookup"])
@pytest.mark.parametrize("rows", [6, 8, 64])
def test_the_rows_of_a_table_of_positions_limit_the_length(rows, kind):
    model = Positions(rows, kind).eval()
    result = derived_export(model, torch.randn(2, 6, 4), axes="batch_size time 4")
    assert result.inputs == {"x": {0: "batch_size", 1: "time"}}
    assert [str(each) for each in result.limits] == [f"time <= {rows}"]
    for length in (1, 5, rows):
        x = torch.randn(1, length, 4)
        torch.testing.assert_close(torch.tensor(result(x=x)["output"]), model(x).detach())


def test_a_lookup_whose_need_grows_with_two_axes_limits_neither():
    lookups = [({"height": 6, "width": 9}, [(6, 64)]), ({"height": 9, "width": 12}, [(9, 64)])]
    assert table_limits(lookups) == ()
    assert [str(each) for each in table_limits([*lookups, ({"height": 6, "width": 10}, [(6, 64)])])] == ["height <= 64"]


def test_a_model_that_does_not_run_is_told_with_case_sizes_and_values():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = {"vocab_size": 50}
            self.words, self.positions = nn.Embedding(50, 4), nn.Embedding(128, 4)

        def forward(self, input_ids):
            return self.words(input_ids) + self.positions(torch.arange(input_ids.shape[1]))

    hidden = onnxfn.gives("last_hidden_state", "batch_size sequence_length _", path=(0,))
    ids = onnxfn.takes("input_ids", "batch_size sequence_length", "token_ids")
    spec = onnxfn.for_task(onnxfn.compose(onnxfn.text_encoder, ids, hidden), "feature-extraction")
    with pytest.raises(onnxfn.CaptureFailed) as caught:
        onnxfn.export(spec, Encoder())
    assert str(caught.value) == (
        "Encoder does not run in PyTorch on inputs of model in case long text (batch_size=1, sequence_length=512): "
        "IndexError: index out of range in self; if sequence_length is too long, use with_shapes(spec, "
        "sequence_length=(1, N)) with N below 512; if a value is out of range, give its generator another `high`; "
        "inputs: input_ids int64[1, 512] from 0 to 49"
    )
    result = onnxfn.export(onnxfn.with_shapes(spec, sequence_length=(1, 128)), Encoder())
    assert [str(each) for each in result.limits] == ["sequence_length <= 128"]
