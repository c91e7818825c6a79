"""The layout `hub`: a folder that all clients load, written by an export."""

import json

import pytest
import tiny
from command_line import exported_checkpoint
from exported_folders import content
from refusals import refusal
from reports import report_text

import onnxfn
from onnxfn.export.jobs.request import request_of
from onnxfn.export.run.planned_files import layout_of_files

HUB = onnxfn.WriteOptions(layout="hub", external_data_threshold=0)
NEW = {"onnx/model.onnx", "onnx/model.onnx_data", "genai_config.json", "README.md", "graph.svg", "report.json"}
"""The files of a folder that its checkpoint lacks."""


@pytest.fixture
def llama(tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM")
    model.save_pretrained(tmp_path / "checkpoint")
    texts = {"tokenizer.json": "{}", "tokenizer_config.json": '{"tokenizer_class": "TokenizersBackend"}'}
    for name, text in {**texts, "chat_template.jinja": "{{ messages }}"}.items():
        (tmp_path / "checkpoint" / name).write_text(text)
    return onnxfn.spec_for(model, "text-generation-with-past"), model, tmp_path / "checkpoint"


def test_a_folder_has_the_side_files_of_all_clients_and_its_report_covers_them(llama, tmp_path):
    spec, model, checkpoint = llama
    out = tmp_path / "out"
    exported = onnxfn.export(spec, model, out, checkpoint=checkpoint, write=HUB, check=False)
    copied = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert {*content(out)} == copied | NEW
    assert {str(out / name) for name in {*content(out)}} == set(exported.files)
    config, tokenizer = (json.loads((out / name).read_text()) for name in ("config.json", "tokenizer_config.json"))
    assert config["transformers.js_config"] == {"use_external_data_format": {"model.onnx": 1}, "dtype": "fp32"}
    assert tokenizer["chat_template"] == "{{ messages }}"
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert onnxfn.verify(out).passed
    onnxfn.export(spec, model, out, check=False, overwrite=True)
    assert {*content(out)} == {"model.onnx", "config.json", "generation_config.json", "report.json"}


def test_an_export_to_the_folder_of_the_checkpoint_leaves_its_files_as_they_are(llama):
    spec, model, checkpoint = llama
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16", "mine": 1}))
    before = content(checkpoint)
    onnxfn.export(spec, model, checkpoint, checkpoint=checkpoint, write=HUB, check=False, overwrite=True)
    assert before.items() <= content(checkpoint).items()
    assert {*content(checkpoint)} == {*before} | NEW
    assert onnxfn.verify(checkpoint).passed


def test_a_folder_with_the_weights_of_another_checkpoint_is_left_as_it_is(llama, tmp_path):
    spec, model, _ = llama
    other = tmp_path / "other"
    tiny.model("llama", "AutoModelForCausalLM", vocab_size=99).save_pretrained(other)
    before = content(other)
    message = refusal(onnxfn.OutputExists, onnxfn.export, spec, model, other, check=False, overwrite=True)
    words = "has the weights of another checkpoint, model.safetensors, which needs its own config.json"
    assert message == f"{other} {words}; choose another path"
    assert content(other) == before


def test_the_command_line_states_an_alias_and_names_it_in_its_output_and_the_report(tmp_path):
    model = tiny.model("phi3", "AutoModelForCausalLM")
    result = exported_checkpoint(model, tmp_path, "--alias", "--no-check", "--no-template-cache")
    line = "as requested, config.json says model_type gemma, head_dim 8; the real type is phi3"
    assert line in " ".join(result.stdout.split())  # a screen breaks long lines
    assert json.loads((tmp_path / "out" / "report.json").read_text())["remarks"] == [line]
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "gemma"


def test_the_layout_is_that_of_the_programs_that_load_a_library():
    def layout(**values):
        return request_of("model", "out", values).write.layout

    assert [layout(library=library) for library in ("transformers", "timm", "diffusers")] == ["hub", "hub", "optimum"]
    assert layout(library="diffusers", layout="transformers.js") == "transformers.js"


@pytest.mark.parametrize(
    ("options", "layout"),
    [({"layout": "transformers.js"}, "transformers.js"), ({"layout": "mine"}, "hub"), ({}, "hub"), ([], "hub")],
)
def test_the_layout_of_a_folder_is_that_of_its_report_else_that_of_its_name(options, layout, tmp_path):
    (tmp_path / "report.json").write_text(report_text(options=options))
    assert layout_of_files(tmp_path / "onnx").name == layout
    assert layout_of_files(tmp_path / "elsewhere" / "files").name == "optimum"
