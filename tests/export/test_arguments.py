"""The arguments of `export`, `validate` and `BuildOptions`: a wrong type is InvalidSpec before anything runs."""

from unittest.mock import Mock

import pytest
import torch
from refusals import refusal

import onnxfn
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, ModelNotFound, WriteFailed

SPEC = onnxfn.spec_for("bert", "fill-mask")


WRONG_TYPES = [
    ({"spec": "bert"}, "spec is of the type str; pass an ExportSpec, such as spec_for(model)"),
    ({"model": None}, "model is of the type NoneType; pass a torch.nn.Module, such as model_for(folder)"),
    ({"path": 5}, "path is of the type int; pass a path, a file object, or None"),
    ({"checkpoint": 5}, "checkpoint of export is 5, of the type int; it must be str or Path or None"),
    ({"build": None}, "build of export is None, of the type NoneType; it must be BuildOptions"),
    ({"write": "optimum"}, "write of export is 'optimum', of the type str; it must be WriteOptions"),
    ({"on_event": None}, "on_event of export is None, of the type NoneType; it must be Callable"),
    ({"timeout": "1"}, "timeout of export is '1', of the type str; it must be float or None"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_TYPES, ids=[next(iter(wrong)) for wrong, _ in WRONG_TYPES])
def test_an_argument_of_another_type_is_refused(wrong, message, bert, tmp_path):
    arguments = {"spec": SPEC, "model": bert, "path": tmp_path / "out", **wrong}
    assert refusal(InvalidSpec, onnxfn.export, **arguments) == message
    assert list(tmp_path.iterdir()) == []


IMPOSSIBLE_PATHS = {"null": "a\0b", "surrogate": "\ud800"}


@pytest.mark.parametrize("name", IMPOSSIBLE_PATHS.values(), ids=[*IMPOSSIBLE_PATHS])
@pytest.mark.parametrize("pattern", ["{}", "{}.onnx", "{}/model.onnx"])
def test_a_path_that_no_system_can_have_is_refused(name, pattern, bert, tmp_path):
    path = tmp_path / pattern.format(name)
    for call in (onnxfn.export, lambda _, pipeline, path: onnxfn.export_pipeline(pipeline, path.with_suffix(""))):
        message = refusal(WriteFailed, call, SPEC, bert, path)
        assert message.startswith("cannot write '")
        assert message.endswith(": no path has a null character or half of a surrogate pair; choose another path")
        assert message.isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["nope", "file", *IMPOSSIBLE_PATHS.values()], ids=["nope", "file", *IMPOSSIBLE_PATHS])
def test_a_checkpoint_that_is_no_folder_is_refused(name, bert, tmp_path):
    (tmp_path / "file").write_text("mine")
    message = refusal(ModelNotFound, onnxfn.export, SPEC, bert, tmp_path / "out", checkpoint=tmp_path / name)
    assert message.startswith("no folder '")
    assert message.endswith("'; pass the folder of the model's checkpoint, or leave checkpoint out")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_dynamic_axis_of_size_1_in_the_sample_is_traced_at_2(bert, tmp_path):
    spec = onnxfn.compose(SPEC, onnxfn.sized(batch_size=1))
    result = onnxfn.export(spec, bert, tmp_path / "out")
    assert result.report.passed
    assert result.limits == onnxfn.export(SPEC, bert, tmp_path / "other").limits


class Refuses(torch.nn.Module):
    """Raises an error whatever its inputs are."""

    def __init__(self, model, error):
        super().__init__()
        self.config, self.error, self.weight = model.config, error, torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids=None, attention_mask=None):  # noqa: ARG002 - the names are those of a text model
        raise self.error


@pytest.mark.parametrize("error", [MemoryError("8 GiB"), OSError("a disk")])
def test_an_error_that_is_no_refusal_of_inputs_propagates(bert, error):
    with pytest.raises(type(error)) as caught:
        onnxfn.derived(Refuses(bert, error), "feature-extraction")
    assert caught.value.args == error.args


@pytest.mark.parametrize("error", [TypeError("x"), NameError("x"), IndexError("x"), RuntimeError("x")])
def test_an_error_that_refuses_inputs_leads_to_invalid_spec(bert, error):
    message = refusal(InvalidSpec, onnxfn.derived, Refuses(bert, error), "feature-extraction")
    assert f"first: {type(error).__name__}: " in message


def test_a_model_that_pytorch_cannot_run_is_capture_failed(bert, tmp_path):
    exported = onnxfn.export(SPEC, bert, tmp_path / "out", check=False)
    handle = bert.bert.encoder.register_forward_hook(Mock(side_effect=RuntimeError("broken")))
    try:
        message = refusal(CaptureFailed, onnxfn.validate, SPEC, bert, exported)
    finally:
        handle.remove()
    assert message == "BertForMaskedLM does not run in PyTorch on inputs of model: RuntimeError: broken"
