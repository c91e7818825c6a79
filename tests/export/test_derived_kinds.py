"""The dtypes of the outputs of own modules: in the derived spec, in the plan, and in the file."""

import pytest
import torch
from refusals import refusal

import onnxfn
from onnxfn import CheckFailed, compose, derived, export, gives, plan, with_dtypes


class Mixed(torch.nn.Module):
    """Outputs of several dtypes; `ids_after` has the dtype of `ids`, `best` is int64 always."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x, ids):
        y = self.linear(x)
        outputs = {"y": y, "best": y.argmax(-1), "positive": y > 0, "wide": y.double()}
        return {**outputs, "ids_after": ids + 1, "small": (ids % 7).to(torch.uint8)}


@pytest.fixture(scope="module")
def mixed():
    torch.manual_seed(0)
    return Mixed().eval()


@pytest.fixture(scope="module")
def spec(mixed):
    return derived(mixed, sample={"x": torch.randn(2, 3), "ids": torch.arange(8).reshape(2, 4)})


def dtypes(record):
    """The name of each output and its dtype, as the table of a spec, a plan or a result shows them."""
    lines = str(record).splitlines()
    rows = [line.split() for line in lines[lines.index("  outputs") + 1 :][:6]]
    return {row[0]: row[1].partition("[")[0] for row in rows}


FIXED = {"positive": "bool", "wide": "float64", "small": "uint8"}


def test_a_derived_spec_has_the_dtypes_of_a_run(spec):
    assert dtypes(spec) == {"y": "float", "best": "int", "ids_after": "int", **FIXED}
    assert dtypes(plan(spec)) == {"y": "float", "best": "int64", "ids_after": "int64", **FIXED}


EDITS = {
    "none": ({}, ("float32", "int64", "int64")),
    "float16": ({"float": "float16"}, ("float16", "int64", "int64")),
    "int32": ({"int": "int32"}, ("float32", "int64", "int32")),
    "one input": ({"ids": "int32"}, ("float32", "int64", "int32")),
}
"""Types that `with_dtypes` gives -> the dtypes of y, best and ids_after in the file."""


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_has_the_dtypes_of_the_plan(edit, mixed, spec):
    types, expected = EDITS[edit]
    result = export(with_dtypes(spec, **types), mixed)
    assert result.report.passed
    assert dtypes(result) == dict(zip(("y", "best", "ids_after"), expected, strict=True)) | FIXED
    known = {name: dtype for name, dtype in dtypes(result.plan).items() if dtype not in ("", "float", "int")}
    assert known.items() <= dtypes(result).items()
    assert "x " in str(result)
    assert f"{types.get('float', 'float32')}[batch_size, 3]" in str(result)


@pytest.mark.parametrize(("kind", "planned"), [("float", "float32"), ("int32", "int32")])
def test_a_file_with_another_dtype_than_the_plan_is_refused(kind, planned, mixed, spec):
    wrong = compose(spec, gives("best", "batch_size", kind=kind))
    message = refusal(CheckFailed, export, wrong, mixed)
    assert f"'best' is int64 in the file, but {planned} in the plan: write gives('best', ..., kind='int64')" in message


def test_outputs_without_a_kind_have_any_dtype(mixed, spec):
    assert export(compose(spec, gives("best", "batch_size")), mixed).report.passed
    assert onnxfn.with_output(spec, "best", "batch_size", kind="int64").outputs["best"].kind == "int64"
