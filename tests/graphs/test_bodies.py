"""A file with bodies: ONNX Runtime's kernels, the bodies and onnx.reference write the same tokens."""

import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from quantized_decoder import exported_decoder, greedy

from onnxfn.check.check import BY_BODIES, check
from onnxfn.check.variants.float_form import body_form


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return exported_decoder(tmp_path_factory.mktemp("bodies"))


@pytest.mark.parametrize("length", [0, 40])
def test_kernels_bodies_and_the_reference_write_the_same_tokens(length, exported):
    result, _, file = exported
    assert result.report.passed
    proto = onnx.load(file)
    assert {function.name for function in proto.functions} == {"GroupQueryAttention", "MatMulNBits"}
    by_kernels, by_bodies = (onnxruntime.InferenceSession(each) for each in (file.read_bytes(), body_form(file)))
    tokens = greedy(by_kernels.run, length)
    assert greedy(by_bodies.run, length) == tokens
    assert greedy(ReferenceEvaluator(proto).run, length) == tokens
    assert len({*tokens}) > 2


@pytest.mark.parametrize(("right", "wrong"), [("past_key", "past_value"), ("zeros_of_blocks", "codes")])
def test_the_check_finds_a_wrong_body(right, wrong, exported, tmp_path):
    result, model, file = exported
    proto = onnx.load(file)
    node = next(each for function in proto.functions for each in function.node if right in each.input)
    node.input[:] = [wrong if name == right else name for name in node.input]
    onnx.save(proto, tmp_path / "model.onnx")
    report = check(model, result.plan.parts[0], tmp_path / "model.onnx")
    failed = [each for each in report.differences if not each.passed]
    assert failed
    assert all(each.worst_case.endswith(BY_BODIES) for each in failed)
