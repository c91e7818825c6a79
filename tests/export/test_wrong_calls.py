"""Whatever a caller does wrong is an OnnxfnError: one line, and one frame of onnxfn in its traceback."""

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
from refusals import refusal

import onnxfn
from onnxfn import EMPTY, always, compose, dummy_inputs, export, generates, sized, takes, with_dtypes, with_shapes
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


CALLS = {
    "module of a generator": (dummies_by("nowhere:f"), "dummy function 'nowhere:f': module 'nowhere' cannot be import"),
    "name of a generator": (dummies_by("math:nope"), "no dummy function 'nope' for 'math:nope'; known: acos, "),
    "generator that fails": (dummies_by(f"{MODULE}:fails"), f"{MODULE}:fails() cannot make a dummy for 'input_ids' w"),
    "generator of a text": (dummies_by(f"{MODULE}:text"), f"{MODULE}:text() cannot make a dummy for 'input_ids' with "),
    "generator of other shapes": (dummies_by(f"{MODULE}:shorter"), f"{MODULE}:shorter() cannot make a dummy for 'inp"),
    "generator that is a function": (lambda *_: generates("ids", print), "function of generates is <built-in functi"),
    "kind": (lambda *_: takes("x", "batch_size", "ids", kind="complex64"), "no kind 'complex64' for InputSpec; known:"),
    "ids above the table": (
        lambda bert, out: export(
            compose(SPEC, takes("position_ids", "batch_size sequence_length", "token_ids")), bert, out
        ),
        "BertForSequenceClassification does not run in PyTorch on inputs of model: IndexError: index out of range",
    ),
    "no shape": (lambda *_: with_shapes(SPEC, batch_size=None), "axis 'batch_size' cannot be fixed at None; a size is"),
    "dtype of torch": (lambda *_: with_dtypes(SPEC, float=torch.float16), "no float type torch.float16; known: "),
    "rows of two lengths": (lambda *_: onnxfn.generate("nowhere", [[1, 2], [3]]), "input_ids has rows of different le"),
    "empty spec": (lambda bert, out: export(EMPTY, bert, out), "this spec has no output; add one: compose("),
    "no input": (
        lambda bert, out: export(onnxfn.gives("logits", "batch_size _"), bert, out),
        "model of this spec has no inputs; compose some: takes(...)",
    ),
    "list of specs": (lambda *_: compose([SPEC, SPEC]), "compose joins specs, not the list "),
    "model in compose": (lambda bert, _: compose(SPEC, bert), "compose joins specs, not the BertForSequenceCla"),
    "size that is a text": (lambda *_: sized(batch_size="2"), "batch_size of sized is '2', of the type str; it must b"),
    "size of a dummy": (lambda *_: dummy_inputs(EMPTY, {}, "np", batch="2"), "no size 'batch' for this spec; known: "),
    "opset": (lambda *_: onnxfn.with_opset(SPEC, 99), "no opset 99; possible: 18 to 28"),
    "constant of numpy": (lambda *_: onnxfn.to_json(always(x=np.complex64(1))), "x of always is "),
    "constant that is a tensor": (lambda *_: always(x=torch.zeros(2)), "x of always is "),
    "model as JSON": (lambda bert, _: onnxfn.to_json(bert), "BertForSequenceClassification is not a record, or holds"),
    "model in place of a spec": (lambda bert, _: onnxfn.without(bert, "logits"), "names of without is BertForSequence"),
    "axes": (lambda *_: takes("x", 3, "ids"), "axes of InputSpec: axes are a pattern, a text such"),
    "path of an output": (lambda *_: onnxfn.gives("y", "batch_size", path=0), "path of OutputSpec: a tuple is expecte"),
    "folder of a fingerprint": (lambda _, out: onnxfn.fingerprint(out), "no folder"),
    "no export to run": (lambda *_: onnxfn.generate(None, [[1]]), "None is not an export: pass the result of export("),
    "no export to check": (lambda bert, _: onnxfn.validate(SPEC, bert, None), "None is not an export: "),
    "no model to check": (lambda _, out: onnxfn.validate(SPEC, "bert", out), "model is of the type str; "),
    "decoders": (
        lambda bert, out: export(SPEC, bert, out, decoders="seperate"),
        "no decoders 'seperate' for ExportRequest; known: merged, separate, both; did you mean 'separate'?",
    ),
    "task to derive": (lambda bert, _: onnxfn.derived(bert, "no-such-task"), "no task 'no-such-task'; known: "),
    "task with a past": (
        lambda bert, _: onnxfn.derived(bert.bert, "feature-extraction-with-past"),
        "BertModel returns no cache that onnxfn knows, so it has no task",
    ),
    "head that transformers does not list": (
        lambda *_: onnxfn.spec_for("sew", "audio-xvector"),
        "no task 'audio-xvector' for sew; known: feature-extraction, automatic-speech-recognition, ",
    ),
    "head whose outputs no family knows": (
        lambda *_: onnxfn.spec_for("hgnet_v2", "feature-extraction"),
        "a run of the model shows the outputs of feature-extraction of hgnet_v2; pass the model or its configuration",
    ),
    "task of no class": (
        lambda *_: onnxfn.spec_for(transformers.LlavaConfig(), "automatic-speech-recognition"),
        "no spec could be derived from LlavaConfig without weights: ",
    ),
    "task that is close": (
        lambda *_: onnxfn.spec_for("splinter", "question-answer"),
        "no task 'question-answer' for splinter; known: feature-extraction, question-answering; did you mean 'question",
    ),
    "configuration without a type": (lambda *_: onnxfn.spec_for({"vocab_size": 50}), "dict has no model_type; compose"),
    "module of torch": (
        lambda *_: onnxfn.spec_for(torch.nn.Linear(4, 2)),
        "Linear is not a model of transformers; derive the spec from sample arguments: derived(model, sample=",
    ),
    "pipeline": (lambda _, out: onnxfn.export_pipeline(3, out), "int has no modules; pass a dict of modules by name"),
}


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(("call", "start"), CALLS.values(), ids=[*CALLS])
def test_a_wrong_call_is_an_error_of_onnxfn_in_one_line(call, start, classifier, tmp_path):
    with pytest.raises(onnxfn.OnnxfnError) as caught:
        call(classifier, tmp_path / "out")
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
    ({"path": 5}, "path is of the type int; pass a path, a file object, or None"),
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
    spec = onnxfn.compose(FILL_MASK, onnxfn.sized(batch_size=1))
    result = onnxfn.export(spec, bert, tmp_path / "out")
    assert result.report.passed
    assert result.limits == onnxfn.export(FILL_MASK, bert, tmp_path / "other").limits


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
    exported = onnxfn.export(FILL_MASK, bert, tmp_path / "out", check=False)
    handle = bert.bert.encoder.register_forward_hook(Mock(side_effect=RuntimeError("broken")))
    try:
        message = refusal(CaptureFailed, onnxfn.validate, FILL_MASK, bert, exported)
    finally:
        handle.remove()
    assert message == "BertForMaskedLM does not run in PyTorch on inputs of model: RuntimeError: broken"
