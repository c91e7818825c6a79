"""The points of `Report.plot`, and the plot where matplotlib is installed."""

import importlib.util
import sys

import pytest

from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.results.printing import SMALLEST, report_points
from onnxfn.specs.stored.reports import Difference, Report

CASES = ["one (batch_size=1)", "several (batch_size=3)"]


def difference(output, *errors, passed=True):
    by_case = tuple((case, error, 1e-5) for case, error in zip(CASES, errors, strict=True))
    return Difference("model", output, ((1,), (3,)), max(errors), 0.1, 1e-5, CASES[0], passed=passed, errors=by_case)


REPORT = Report(
    [
        difference("logits", 0.0, 2e-5, passed=False),
        *(difference(f"present.{layer}.key", 1e-6 * layer, 5e-6) for layer in range(30)),
    ],
    CASES,
)


def test_a_point_is_a_multiple_of_the_allowed_error_and_layers_are_one_line():
    points = report_points(REPORT)
    assert list(points) == ["model: logits", "model: present.{0..29}.key"]
    assert points["model: logits"] == {"one": SMALLEST, "several": pytest.approx(2.0)}
    assert points["model: present.{0..29}.key"] == {"one": pytest.approx(2.9), "several": pytest.approx(0.5)}


def test_an_error_where_none_is_allowed_is_infinite():
    exact = Difference("model", "ids", ((1,),), 1.0, 1.0, 0.0, "one", passed=False, errors=(("one", 1.0, 0.0),))
    assert report_points(Report([exact], ["one"])) == {"model: ids": {"one": float("inf")}}


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OnnxfnError, match=r"^plot needs matplotlib: pip install 'onnxfn\[plot\]'$"):
        REPORT.plot()


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is an extra")
def test_a_plot_has_a_line_for_each_output_and_one_for_what_is_allowed():
    axes = REPORT.plot()
    assert [line.get_label() for line in axes.get_lines()] == [*report_points(REPORT), "allowed"]
    assert axes.get_yscale() == "log"
    pyplot = importlib.import_module("matplotlib.pyplot")
    assert pyplot.gcf() is axes.figure  # so that a notebook shows it
    pyplot.close(axes.figure)
