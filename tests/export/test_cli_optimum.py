"""Every option of `optimum-cli export onnx` is ours too, or its refusal says what to write instead."""

import re

import pytest
import tiny
import typer
from typer.testing import CliRunner

import onnxfn
from onnxfn.export.cli import export_command as cli_export
from onnxfn.export.cli.commands import app
from onnxfn.export.cli.optimum_words import optimum_options, our_word
from onnxfn.export.run.spec_edits import spec_of

FLAGS = (
    *("--monolith", "--no-post-process", "--trust-remote-code"),
    *("--no-dynamic-axes", "--no-constant-folding", "--slim"),
)
SIZES = (
    *("batch_size", "sequence_length", "num_choices", "width", "height", "num_channels", "feature_size"),
    *("nb_max_frames", "audio_sequence_length", "point_batch_size", "nb_points_per_image", "visual_seq_length"),
)
VALUES = {
    "-m": "bert",
    "--model": "bert",
    "--task": "fill-mask",
    "--opset": "18",
    "--device": "cuda",
    "--dtype": "bf16",
    "--optimize": "O2",
    "--variant": "default",
    "--framework": "pt",
    "--atol": "1e-4",
    "--cache_dir": "cache",
    "--pad_token_id": "0",
    "--library-name": "transformers",
    "--model-kwargs": "{}",
    **{f"--{size}": "2" for size in SIZES},
}
"""The options of optimum-onnx 0.1.0, those without a value and those with one."""

ANSWERS = optimum_options()["answers"]
OPTIONS = [(flag,) for flag in FLAGS] + [*VALUES.items()]


@pytest.fixture
def requests(monkeypatch):
    found = []
    monkeypatch.setattr(cli_export, "run", lambda request, _, dry_run: found.append((request, dry_run)))
    return found


def run(*words):
    result = CliRunner().invoke(app, ["export", *words])
    return result, " ".join(re.sub("[│╭╮╰╯─]", " ", result.stderr).split())


@pytest.mark.parametrize("words", [*OPTIONS, ("--help",), ("-h",)], ids=lambda words: words[0])
@pytest.mark.parametrize("first", [True, False])
def test_an_option_is_accepted_or_its_refusal_says_what_to_write(words, first, requests):
    result, message = run(*words, "model", "out") if first else run("model", "out", *words)
    if result.exit_code == 0:
        assert len(requests) == (words[0] not in ("--help", "-h"))
    else:
        answer = ANSWERS[words[0].strip("-").replace("_", "-")]
        assert result.exit_code == 2
        assert message.startswith(f"error: no option {words[0]}: {answer} instead: onnxfn export ")
        assert requests == []


def test_the_options_that_mean_the_same_have_the_same_word(requests):
    accepted = [words[0] for words in OPTIONS if run("model", "out", *words)[0].exit_code == 0]
    expected = "--monolith --trust-remote-code --task --opset --dtype --atol --cache_dir --library-name"
    assert accepted == expected.split()
    assert requests[-4][0].dtypes == ("bfloat16",)


@pytest.mark.parametrize("words", [("--fp16",), ("--legacy",), ("--subfolder", "unet")])
def test_options_of_other_versions_are_answered(words, requests):
    message = run("model", "out", *words)[1]
    assert ANSWERS[words[0].strip("-")] in message
    assert "--decoders" not in message  # a decoder alone, for which `--legacy` is, is one file


def test_an_answer_names_options_that_there_are():
    command = typer.main.get_command(app).commands["export"]
    known = {name for option in command.params for name in option.opts}
    answered = {word for answer in ANSWERS.values() for word in re.findall(r"--[a-z][a-z-]+", answer)}
    assert answered <= known
    assert f"--{our_word('library-name')}" in known
    assert not {f"--{word}" for word in ANSWERS} & known


def test_the_axes_of_the_answers_are_those_of_specs():
    """Sizes of dummy inputs, or axes of the inputs of a graph."""
    tasks = {
        "bert": "multiple-choice",
        "visual_bert": "feature-extraction",
        "sam": "mask-generation",
        "speech_to_text": "automatic-speech-recognition",
        "resnet": "image-classification",
    }
    models = {name: tiny.model(name) for name in ("bert", "visual_bert", "sam", "speech_to_text", "resnet")}
    plans = [onnxfn.plan(onnxfn.spec_for(name, task), models[name].config) for name, task in tasks.items()]
    axes = {
        word
        for planned in plans
        for part in planned.parts
        for tensor in part.inputs.values()
        for symbol in tensor.values()
        for word in re.findall(r"\w+", symbol)
    }
    sizes = {size.name for planned in plans for part in planned.parts for size in part.spec.axes}
    named = {name for answer in ANSWERS.values() for name in re.findall(r"--size (\w+)=", answer)}
    assert named
    assert named - axes - sizes == set()


def test_words_of_options_may_have_underscores(requests):
    words = "--dry_run --trust_remote_code --io-dtype float32 --task auto"
    assert run("model", "out", *words.split())[0].exit_code == 0
    [(request, dry_run)] = requests
    assert (dry_run, request.trust_remote_code, request.task) == (True, True, None)
    assert dict(request.edits)["io_dtype"] == "float32"


def test_all_options_of_a_command_line_are_answered_with_the_command_to_run_instead(requests):
    words = "onnx --model bert --batch_size 2 --fp16 --device=cuda out --no-post-process --opset 20"
    *answered, instead = CliRunner().invoke(app, ["export", *words.split()]).stderr.splitlines()
    refused = "--model: --batch_size: --fp16: --device: --no-post-process:"
    assert [line.split()[3] for line in answered] == refused.split()
    options = "--opset 20 --layout optimum --size batch_size=2 --dtype float16 --decoders separate"
    assert instead == f"instead: onnxfn export bert out {options}"
    assert requests == []
    assert run(*instead.split()[3:])[0].exit_code == 0
    assert requests[0][0].dtypes == ("float16",)


def test_a_third_path_is_refused():
    assert run("model", "out", "more")[1] == "error: 'more' follows MODEL and OUT; quote a path that has spaces"


def test_an_unknown_option_is_still_refused_with_the_closest():
    result, message = run("model", "out", "--overwritten")
    assert result.exit_code == 2
    assert message == "error: no option --overwritten; did you mean '--overwrite'?"


def test_monolith_is_one_file_of_an_encoder_decoder_and_changes_no_other_model(tmp_path):
    tiny.model("t5", "AutoModelForSeq2SeqLM").save_pretrained(tmp_path / "t5")
    result, _ = run(str(tmp_path / "t5"), str(tmp_path / "out"), "--monolith")
    assert result.exit_code == 0, result.output
    assert "task: text2text-generation (found)" in result.stdout
    assert [file.name for file in (tmp_path / "out" / "onnx").glob("*.onnx")] == ["model.onnx"]
    llama = tiny.model("llama", "AutoModelForCausalLM")
    one_file, usual = (onnxfn.ExportRequest("llama", "out", edits=edits) for edits in ({"monolith": True}, {}))
    assert spec_of(one_file, llama) == spec_of(usual, llama)
