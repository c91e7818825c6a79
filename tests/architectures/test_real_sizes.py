"""The default configuration of every row whose model has at most 400 million parameters agrees with PyTorch."""

import default_models
import pytest
import real_sizes
import swept
import torch

import onnxfn
from onnxfn.architectures import audio, decoders, detection, multimodal, seq2seq, series, text, vision
from onnxfn.specs.tasks.tasks import task_names

ROWS = {
    model_type: real_sizes.chosen_task(task_names(row))
    for family in (text, vision, detection, multimodal, audio, series, seq2seq, decoders)
    for model_type, row in family.ROWS.items()
}
SWEPT = [name for name in ROWS if real_sizes.is_swept(real_sizes.seen().get(name))]


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", SWEPT)
def test_the_default_configuration_agrees_with_pytorch(model_type, request):
    is_left = real_sizes.is_left(real_sizes.seen().get(model_type)) or not swept.is_current("real_sizes", model_type)
    if request.config.getoption("--left") and not is_left:
        pytest.skip("the repository has a result of this row with these versions, and --left chooses the others")
    result = real_sizes.measured(model_type, ROWS[model_type])
    if request.config.getoption("--record"):
        real_sizes.record(model_type, result)
    if not real_sizes.is_swept(result):
        pytest.skip(result["line"])
    if model_type in real_sizes.REASONS and not real_sizes.passed(result):
        pytest.xfail(real_sizes.REASONS[model_type])
    assert real_sizes.passed(result), result["line"]
    varies = result["variation"] >= real_sizes.LEAST_VARIATION  # so much that a fault shows
    assert varies or model_type in real_sizes.CONSTANT, result["variation"]


def test_the_recorded_results_are_of_rows_and_their_tasks():
    assert {name: result["task"] for name, result in real_sizes.seen().items()}.items() <= ROWS.items()


def test_each_row_that_does_not_pass_has_its_reason():
    swept = {name: result for name, result in real_sizes.seen().items() if real_sizes.is_swept(result)}
    failed = {name for name, result in swept.items() if not real_sizes.passed(result)}
    assert {name for name in failed if not real_sizes.is_left(swept[name])} <= real_sizes.REASONS.keys() <= failed


def test_statistics_of_the_dummy_inputs_let_the_classes_of_a_deep_network_vary():
    spec = onnxfn.spec_for("mobilenet_v2", "image-classification")
    model = default_models.model("mobilenet_v2", spec.call.loader)
    images = torch.randn(2, 3, 64, 64)
    assert default_models.variation(model(images).logits) == 0  # they vanish
    assert default_models.least_variation(default_models.outputs_with_statistics(model, spec)) > 0.1
    assert default_models.variation(model(images).logits) > 0.01
