"""The check compares the inputs and outputs that a file declares with the plan, whatever the values are."""

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
from graph_edits import at, edited_file
from onnx import TensorProto, helper
from refusals import refusal
from structure_faults import axis_name, declared_size, input_order, input_type, output_type

import onnxfn
from onnxfn.check.check import check
from onnxfn.export.run.attempts import RETRACED
from onnxfn.run.sessions import open_check_session

SPEC = onnxfn.spec_for("bert", "text-classification")


@pytest.fixture(scope="module")
def exported(classifier, tmp_path_factory):
    return onnxfn.export(SPEC, classifier, tmp_path_factory.mktemp("bert") / "model.onnx")


def more_outputs(model):
    def add(graph):
        graph.output.append(helper.make_tensor_value_info("more", TensorProto.INT64, ["batch_size", "sequence_length"]))
        graph.node.append(helper.make_node("Identity", ["input_ids"], ["more"]))

    yield "more", partial(add, model.graph)


@pytest.mark.parametrize(
    ("kind", "site", "finding"),
    [
        (axis_name, "logits[0]", "axis 0 of 'logits' is s44 in the file, but batch_size in the plan"),
        (declared_size, "logits[0]", "axis 0 of 'logits' is 4 in the file, but batch_size in the plan"),
        (more_outputs, "more", "the outputs of the file are logits, more; those of the plan are logits"),
        (input_order, "inputs", "the inputs of the file are token_type_ids, attention_mask, input_ids; those of the "),
        (output_type, "logits", "'logits' is float64 in the file, but float32 in the plan: write with_dtypes("),
    ],
)
def test_an_interface_that_is_not_the_plans_is_found(kind, site, finding, classifier, exported, tmp_path):
    report = onnxfn.validate(SPEC, classifier, edited_file(exported.files[0], at(kind, site), tmp_path / "model.onnx"))
    assert not report.passed
    assert report.findings[0].startswith(f"model: {finding}")
    assert "findings" in str(report)
    assert all(difference.passed for difference in report.differences)


def test_an_input_of_another_dtype_is_refused_by_onnx_runtime(classifier, exported, tmp_path):
    file = edited_file(exported.files[0], at(input_type, "input_ids"), tmp_path / "model.onnx")
    assert "Unexpected input data type" in refusal(onnxfn.CheckFailed, onnxfn.validate, SPEC, classifier, file)


def test_a_past_of_layers_that_the_model_does_not_have_is_found(tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=4)
    model.config.num_hidden_layers = 7
    spec = onnxfn.spec_for("llama", "text-generation-with-past")
    message = refusal(onnxfn.CheckFailed, onnxfn.export, spec, model, tmp_path / "out")
    assert "'present.4.key' has the shape " in message
    assert "the model has fewer layers than its configuration" in message


def test_an_error_while_texts_are_decoded_is_one_line(llama, tmp_path):
    """A wrong file may pass every single step, and return what no next step can take."""
    result = onnxfn.export(onnxfn.spec_for("llama", "text-generation-with-past"), llama, tmp_path / "out")
    steps = []

    def run_fails(session):
        def run(names, feeds, options=None):
            steps.append(names)
            if names is None:  # decoding asks for all outputs
                raise IndexError("indices and arrays" + chr(10) + "do not fit")
            return session.run(names, feeds, options)

        methods = ("get_inputs", "get_outputs", "get_session_options")
        return SimpleNamespace(run=run, **{name: getattr(session, name) for name in methods})

    def session_for(file, *_):
        return run_fails(open_check_session(file))

    file = Path(result.files[0])
    message = refusal(onnxfn.CheckFailed, check, llama, result.plan.parts[0], file, session_for=session_for)
    reason = "texts cannot be decoded (16 tokens after left-padded prompts of 6): IndexError: indices and arrays"
    assert message == f"model: {reason}"
    assert steps


def test_all_layers_are_traced_if_onnx_runtime_cannot_run_a_graph_from_a_template(llama, tmp_path, monkeypatch):
    spec = onnxfn.spec_for("llama", "text-generation-with-past")
    build = onnxfn.BuildOptions(template_cache=tmp_path / "templates")
    onnxfn.export(spec, llama, tmp_path / "first", build=build, check=False)
    errors = [onnxfn.CheckFailed("ONNX Runtime cannot run model.onnx at one: Fail")]

    def fail_once(*arguments, **keywords):
        if errors:
            raise errors.pop()
        return check(*arguments, **keywords)

    monkeypatch.setattr(sys.modules["onnxfn.export.run.file_checks"], "check_part", fail_once)
    result = onnxfn.export(spec, llama, tmp_path / "second", build=build)
    assert result.report.passed
    assert result.repeats == (RETRACED,)
