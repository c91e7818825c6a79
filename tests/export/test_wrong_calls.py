"""Whatever a caller does wrong is an OnnxfnError: one line, and one frame of onnxfn in its traceback."""

import json
import pickle
import sys
import traceback
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import transformers
from public_names import VALUES
from refusals import refusal

import onnxfn
from onnxfn import compose, dummy_inputs, export, generates, sized, takes
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, ModelNotFound, WriteFailed

SPEC = onnxfn.for_task(compose(onnxfn.text_encoder, onnxfn.bert_inputs), "text-classification")
MODULE = "functions_of_a_user"
PACKAGE = str(Path(onnxfn.__file__).parent)


@pytest.fixture
def functions(monkeypatch):
    """A module with functions of a user that are no generators."""

    def fails(*_):
        raise KeyboardError("mine")

    module = ModuleType(MODULE)
    module.fails, module.text, module.shorter = fails, lambda *_: "ids", lambda *_: np.zeros(3)
    monkeypatch.setitem(sys.modules, MODULE, module)


class KeyboardError(Exception):
    """An error that no library knows."""


def dummies_by(function):
    return lambda bert, _: dummy_inputs(compose(SPEC, generates("token_ids", function)), bert.config, "np")


NAMES = {**VALUES, "onnxfn": onnxfn, "SPEC": SPEC, "dummies_by": dummies_by}
NAMES |= {"np": np, "torch": torch, "transformers": transformers}
CALLS = json.loads(Path(__file__).with_name("wrong_calls.json").read_text())
"""What is wrong, the line of Python, and how its message starts."""


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(("line", "start"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_a_wrong_call_is_an_error_of_onnxfn_in_one_line(line, start, classifier, tmp_path):
    with pytest.raises(onnxfn.OnnxfnError) as caught:
        eval(line, {**NAMES, "bert": classifier, "out": tmp_path / "out"})
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)
    assert frames_of_onnxfn(caught.value) <= 2
    assert list(tmp_path.iterdir()) == []


def frames_of_onnxfn(error):
    """How many frames of onnxfn Python prints for an error and its causes."""
    printed = "".join(traceback.format_exception(error))
    return sum(f'File "{PACKAGE}/' in line for line in printed.splitlines())


def test_the_cause_of_an_error_keeps_the_frames_of_its_library(classifier, tmp_path):
    spec = compose(SPEC, takes("position_ids", "batch_size sequence_length", "token_ids"))
    with pytest.raises(onnxfn.OnnxfnError) as caught:
        export(spec, classifier, tmp_path / "out")
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert "/torch/" in files[0]
    assert not any(file.startswith(f"{PACKAGE}/") for file in files)


def test_an_error_that_no_wrong_type_explains_stays():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        onnxfn.plan()


def test_a_public_function_is_pickled_by_its_public_name():
    assert pickle.loads(pickle.dumps(onnxfn.export)) is onnxfn.export
    assert onnxfn.export.__module__ == "onnxfn"


def test_an_edit_without_its_spec_is_refused_in_one_frame_too():
    with pytest.raises(onnxfn.OnnxfnError) as caught:
        onnxfn.with_opset(99)(SPEC)
    assert frames_of_onnxfn(caught.value) == 1


def test_a_wrong_call_of_a_result_has_one_frame(classifier):
    result = export(SPEC, classifier, check=False)
    calls = (lambda: result(input_ids=[[1]]), lambda: result.session("nope"), lambda: result.model_proto("nope"))
    for call in calls:
        with pytest.raises(onnxfn.OnnxfnError) as caught:
            call()
        assert frames_of_onnxfn(caught.value) == 1
        assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers():
    assert sized(batch_size=np.int64(3)).axes["batch_size"].size == 3
    assert onnxfn.with_tolerance(SPEC, atol=np.float32(0.5)).check.atol == 0.5


# The arguments of `export`, `validate` and `BuildOptions`: a wrong type is InvalidSpec before anything runs

FILL_MASK = onnxfn.spec_for("bert", "fill-mask")

WRONG_TYPES = [
    ({"spec": "bert"}, "spec is of the type str; pass an ExportSpec, such as spec_for(model)"),
    ({"model": None}, "model is of the type NoneType; pass a torch.nn.Module, such as model_for(folder)"),
    ({"path": 5}, "path is of the type int; pass a path, None, or a file open for bytes"),
    ({"checkpoint": 5}, "checkpoint of export is 5, of the type int; it must be str or Path or None"),
    ({"build": None}, "build of export is None, of the type NoneType; it must be BuildOptions"),
    ({"write": "optimum"}, "write of export is 'optimum', of the type str; it must be WriteOptions"),
    ({"on_event": None}, "on_event of export is None, of the type NoneType; it must be Callable"),
    ({"timeout": "1"}, "timeout of export is '1', of the type str; it must be float or None"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_TYPES, ids=[next(iter(wrong)) for wrong, _ in WRONG_TYPES])
def test_an_argument_of_another_type_is_refused(wrong, message, bert, tmp_path):
    arguments = {"spec": FILL_MASK, "model": bert, "path": tmp_path / "out", **wrong}
    assert refusal(InvalidSpec, onnxfn.export, **arguments) == message
    assert list(tmp_path.iterdir()) == []


IMPOSSIBLE_PATHS = {"null": "a\0b", "surrogate": "\ud800"}


@pytest.mark.parametrize("name", IMPOSSIBLE_PATHS.values(), ids=[*IMPOSSIBLE_PATHS])
@pytest.mark.parametrize("pattern", ["{}", "{}.onnx", "{}/model.onnx"])
def test_a_path_that_no_system_can_have_is_refused(name, pattern, bert, tmp_path):
    path = tmp_path / pattern.format(name)
    for call in (onnxfn.export, lambda _, pipeline, path: onnxfn.export_pipeline(pipeline, path.with_suffix(""))):
        message = refusal(WriteFailed, call, FILL_MASK, bert, path)
        assert message.startswith("cannot write '")
        assert message.endswith(": no path has a null character or half of a surrogate pair; choose another path")
        assert message.isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["nope", "file", *IMPOSSIBLE_PATHS.values()], ids=["nope", "file", *IMPOSSIBLE_PATHS])
def test_a_checkpoint_that_is_no_folder_is_refused(name, bert, tmp_path):
    (tmp_path / "file").write_text("mine")
    message = refusal(ModelNotFound, onnxfn.export, FILL_MASK, bert, tmp_path / "out", checkpoint=tmp_path / name)
    assert message.startswith("no folder '")
    assert message.endswith("'; pass the folder of the model's checkpoint, or leave checkpoint out")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_dynamic_axis_of_size_1_in_the_sample_is_traced_at_2(bert, tmp_path):
    result = onnxfn.export(onnxfn.compose(FILL_MASK, onnxfn.sized(batch_size=1)), bert, tmp_path / "out")
    assert result.report.passed
    assert result.limits == onnxfn.export(FILL_MASK, bert, tmp_path / "other").limits


class Refuses(torch.nn.Module):
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
    exported = onnxfn.export(FILL_MASK, bert, tmp_path / "out", check=False)
    handle = bert.bert.encoder.register_forward_hook(Mock(side_effect=RuntimeError("broken")))
    try:
        message = refusal(CaptureFailed, onnxfn.validate, FILL_MASK, bert, exported)
    finally:
        handle.remove()
    case = "in case one (batch_size=1, sequence_length=7): RuntimeError: broken; "
    assert message.startswith(f"BertForMaskedLM does not run in PyTorch on inputs of model {case}")
    assert "; inputs: input_ids int64[1, 7] from " in message
