"""The check compares the inputs and outputs that a file declares with the plan, whatever the values are."""

import sys
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
import tiny
from onnx import TensorProto, helper
from refusals import refusal

import onnxfn
from onnxfn.check.check import check
from onnxfn.export.run.attempts import RETRACED
from onnxfn.run.sessions import open_check_session
from onnxfn.specs.stored.reports import CheckFailed

SPEC = onnxfn.spec_for("bert", "text-classification")


@pytest.fixture(scope="module")
def bert():
    return tiny.model("bert", "AutoModelForSequenceClassification")


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory):
    return onnxfn.export(SPEC, bert, tmp_path_factory.mktemp("bert") / "model.onnx")


def rename_axis(graph):
    graph.output[0].type.tensor_type.shape.dim[0].dim_param = "s44"


def declare_sizes(graph):
    graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2


def add_output(graph):
    graph.output.append(helper.make_tensor_value_info("more", TensorProto.INT64, ["batch_size", "sequence_length"]))
    graph.node.append(helper.make_node("Identity", ["input_ids"], ["more"]))


def exchange_inputs(graph):
    first, second = graph.input[0], graph.input[1]
    ports = [second, first, *list(graph.input)[2:]]
    copies = [onnx.ValueInfoProto.FromString(port.SerializeToString()) for port in ports]
    del graph.input[:]
    graph.input.extend(copies)


def cast_output(graph, dtype=TensorProto.DOUBLE):
    name = graph.output[0].name
    for node in graph.node:
        node.output[:] = ["uncast" if output == name else output for output in node.output]
    graph.node.append(helper.make_node("Cast", ["uncast"], [name], to=dtype))
    graph.output[0].type.tensor_type.elem_type = dtype


def cast_input(graph):
    name = graph.input[0].name
    for node in graph.node:
        node.input[:] = ["cast" if input_ == name else input_ for input_ in node.input]
    graph.node.insert(0, helper.make_node("Cast", [name], ["cast"], to=TensorProto.INT64))
    graph.input[0].type.tensor_type.elem_type = TensorProto.INT32


def changed(exported, change, folder):
    """A copy of an exported file whose graph is changed."""
    model = onnx.load(exported.files[0])
    change(model.graph)
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (rename_axis, "axis 0 of 'logits' is s44 in the file, but batch_size in the plan"),
        (declare_sizes, "axis 0 of 'logits' is 2 in the file, but batch_size in the plan"),
        (add_output, "the outputs of the file are logits, more; those of the plan are logits"),
        (
            exchange_inputs,
            "the inputs of the file are attention_mask, input_ids, token_type_ids; those of the plan are ",
        ),
        (cast_output, "'logits' is float64 in the file, but float32 in the plan"),
    ],
)
def test_an_interface_that_is_not_the_plans_is_found(change, finding, bert, exported, tmp_path):
    report = onnxfn.validate(SPEC, bert, changed(exported, change, tmp_path))
    assert not report.passed
    assert report.findings[0].startswith(f"model: {finding}")
    assert "findings" in str(report)
    assert all(difference.passed for difference in report.differences)


def test_an_input_of_another_dtype_is_refused_by_onnx_runtime(bert, exported, tmp_path):
    message = refusal(CheckFailed, onnxfn.validate, SPEC, bert, changed(exported, cast_input, tmp_path))
    assert "Unexpected input data type" in message


def test_the_interface_of_an_export_has_no_findings(exported):
    assert exported.report.findings == ()


def test_a_past_of_layers_that_the_model_does_not_have_is_found(tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=4)
    model.config.num_hidden_layers = 7
    spec = onnxfn.spec_for("llama", "text-generation-with-past")
    message = refusal(CheckFailed, onnxfn.export, spec, model, tmp_path / "out")
    assert "'present.4.key' has the shape " in message
    assert "the model has fewer layers than its configuration" in message


@pytest.fixture(scope="module")
def llama():
    return tiny.model("llama", "AutoModelForCausalLM")


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
    message = refusal(CheckFailed, check, llama, result.plan.parts[0], file, session_for=session_for)
    assert message == (
        "model: texts cannot be decoded (16 tokens after left-padded prompts of 6): IndexError: indices and arrays"
    )
    assert steps


def test_all_layers_are_traced_if_onnx_runtime_cannot_run_a_graph_from_a_template(llama, tmp_path, monkeypatch):
    spec = onnxfn.spec_for("llama", "text-generation-with-past")
    build = onnxfn.BuildOptions(template_cache=tmp_path / "templates")
    onnxfn.export(spec, llama, tmp_path / "first", build=build, check=False)
    errors = [CheckFailed("ONNX Runtime cannot run model.onnx at one: Fail")]

    def fail_once(*arguments, **keywords):
        if errors:
            raise errors.pop()
        return check(*arguments, **keywords)

    monkeypatch.setattr(sys.modules["onnxfn.export.run.file_checks"], "check_part", fail_once)
    result = onnxfn.export(spec, llama, tmp_path / "second", build=build)
    assert result.report.passed
    assert result.repeats == (RETRACED,)
