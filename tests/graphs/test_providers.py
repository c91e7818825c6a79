"""Profiles of programs that run graphs: what they choose, which graphs they refuse, and what is slow there."""

import json

import onnx_ir as ir
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

import onnxfn
from onnxfn import InvalidSpec, UnknownName, export, pipe, spec_for, with_opset
from onnxfn.edits import for_provider, with_static_cache
from onnxfn.graphs.providers.checks import CHECKS, table_of
from onnxfn.specs.edits.providers import PROVIDERS
from onnxfn.specs.runtimes import KERNELS

TASK = "text-generation-with-past"
NAMES = st.sampled_from([*PROVIDERS])


@given(NAMES, NAMES)
def test_the_last_provider_wins_and_a_second_time_changes_nothing(first, last):
    spec = spec_for("bert", "fill-mask")
    assert for_provider(for_provider(spec, last), last) == for_provider(spec, last)
    target = pipe(spec, for_provider(first), for_provider(last)).target
    assert (target.provider, target.opset) == (last, PROVIDERS[last].opset)


def test_later_edits_win_and_an_unknown_name_is_refused():
    spec = with_opset(for_provider(spec_for("bert", "fill-mask"), "qnn", dtype="float16"), 20)
    assert (spec.target.opset, spec.target.float_dtype, spec.target.quantization) == (20, "float16", ())
    with pytest.raises(UnknownName, match="did you mean 'openvino'"):
        for_provider(spec, "openvin")


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_profile_has_checks_and_a_table_with_its_source(name):
    table = table_of(name)
    assert all((table["source"], table["version"], PROVIDERS[name].source))
    assert {check.check for check in PROVIDERS[name].checks} <= set(CHECKS)
    assert {"MatMul", "Add", "Softmax", "Reshape"} <= set(table["operators"])


def test_the_table_of_the_cpu_has_the_kernels_that_profiles_of_sessions_showed():
    for name, first in KERNELS.items():
        operator, since = name.rsplit("-", 1)
        rows = table_of("cpu")["operators"].get(operator, [])
        assert any(row[0] <= int(since) <= row[1] for row in rows) == (first is not None), name


def lines(name, *nodes, opset=18):
    """What the checks of a profile say of a graph of these nodes."""
    inputs = dict.fromkeys(value for node in nodes for value in node.inputs if value.producer() is None)
    model = ir.Model(ir.Graph([*inputs], [nodes[-1].outputs[0]], nodes=nodes, opset_imports={"": opset}), ir_version=10)
    return [line for check in PROVIDERS[name].checks for line in CHECKS[check.check](model, check, PROVIDERS[name])]


def value(name, dtype=ir.DataType.FLOAT, shape=(2, 3)):
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))


def test_a_line_names_the_operator_its_version_type_and_node():
    node = ir.node("Range", [value(name, ir.DataType.FLOAT16, ()) for name in "abc"], name="node_Range")
    table = "its operators are those of ONNX Runtime main of 2026-01-26, before 1.25"
    assert lines("cuda", node) == [("the operators Range-11 of float16 (node_Range)", table)]
    assert lines("webgpu", ir.node("Gelu", [value("x")], name="g"), opset=20) == []
    assert lines("directml", ir.node("Gelu", [value("x")], name="g"), opset=20)[0][0] == "the operators Gelu-20 (g)"


def test_axes_that_move_and_large_ranks_are_named():
    moving = ir.node("Relu", [value("x", shape=("batch_size", "width", "width + 1"))])
    fixed = "fix them: with_shapes(spec, batch_size=1, width=128) (--shape batch_size=1 --shape width=128)"
    assert lines("qnn", moving) == [("the dynamic axes batch_size, width, width + 1", fixed)]
    large = ir.node("Relu", [value("x", shape=(1,) * 6)], name="large")
    assert lines("coreml", large) == [("nodes with more than 5 axes (large)", "the others run there")]


@pytest.fixture(scope="module")
def llama():
    return tiny.spec_and_model("llama", TASK)[1]


def test_what_a_provider_refuses_is_an_error_before_weights_are_read(llama):
    spec, stages = with_static_cache(spec_for("llama", TASK), 64), []
    spec = pipe(spec, for_provider("openvino"), with_opset(24))
    with pytest.raises(InvalidSpec) as caught:
        export(spec, llama, on_event=lambda event: stages.append(event.stage))
    assert str(caught.value).startswith("model in OpenVINO: the operators TensorScatter-24 (")
    assert "leave out the static cache" in str(caught.value)
    assert "write" not in stages


def test_what_runs_elsewhere_is_a_remark_of_the_result(llama):
    result = export(for_provider(spec_for("llama", TASK), "webgpu"), llama, check="none")
    assert any("the operators Max-13 (model/Max) run on the CPU" in remark for remark in result.plan.remarks)


def test_the_command_line_names_a_provider_and_may_choose_otherwise(tmp_path):
    from onnxfn.export.jobs.request import request_of, written
    from onnxfn.export.run.spec_edits import spec_of

    config = tiny.config("bert")
    for values, expected in (({}, ("float16", 23)), ({"dtype": ["float32"], "opset": 20}, ("float32", 20))):
        request = request_of("bert", str(tmp_path), {"provider": "cuda", **values})
        target = spec_of(request, config).target
        assert (request.dtypes, target.opset, target.provider) == ((expected[0],), expected[1], "cuda")
        assert request_of("bert", str(tmp_path), written(request)) == request
        assert json.loads(onnxfn.to_json(target))["provider"] == "cuda"
