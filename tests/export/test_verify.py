import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import onnx
import pytest
from command_line import error_of, invoke, succeed
from exported_folders import content
from onnx import TensorProto, helper
from refusals import refusal

import onnxfn
from onnxfn.export.report import report_file
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.write import WriteOptions, resolved_write_options

GOLDEN = Path(__file__).with_name("golden_report.json")
PLAN = onnxfn.Plan([onnxfn.Part("model", onnxfn.PlannedSpec(name="bert", task="fill-mask"))])
FIGURES = (2e-7, float("inf"), 1e-5, "one (batch_size=2)", True, 1e-7, ("PyTorch in float64",))
DIFFERENCE = onnxfn.Difference("model", "logits", ((2, 8),), *FIGURES)
SEVERAL_FILES = onnxfn.WriteOptions(external_data_threshold=0)
T5 = onnxfn.spec_for("t5", "text2text-generation-with-past")


@pytest.fixture(scope="module")
def exported(t5, tmp_path_factory):
    """A folder with an encoder, a decoder and shared weights in external data."""
    folder = tmp_path_factory.mktemp("exported") / "t5"
    onnxfn.export(T5, t5, folder, write=SEVERAL_FILES)
    return folder


@pytest.fixture
def folder(exported, tmp_path):
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def test_the_format_is_that_of_the_golden_file(tmp_path):
    """For a new format: write the new file; raise SCHEMA_VERSION if a field goes or changes its meaning."""
    (tmp_path / "onnx").mkdir()
    files = (tmp_path / "onnx" / "model.onnx", tmp_path / "config.json")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch_size", 2, None]) for name in ("x", "y")]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2, 1], b"\0" * 8, raw=True)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
    stated = {"opset_imports": [helper.make_opsetid("", 18)], "ir_version": 10, "producer_name": "test"}
    files[0].write_bytes(helper.make_model(graph, **stated).SerializeToString())
    files[1].write_text("{}\n")
    options = resolved_write_options(WriteOptions(layout="transformers.js"))
    measurement = onnxfn.Measurement("model", "logits", "kl", 0.01, 0.05, "300 tokens of text", passed=True)
    report = onnxfn.Report([DIFFERENCE], ["one (batch_size=2)"], measurements=[measurement])
    written = report_file.report_content(dict.fromkeys(files, ""), tmp_path, PLAN, report, options)
    assert report_file.write_report(written, tmp_path) == tmp_path / report_file.REPORT_FILE
    content = json.loads((tmp_path / report_file.REPORT_FILE).read_text())
    assert list(content["versions"]) == ["onnxfn", "python", *report_file.PACKAGES]
    content["versions"] = "of the packages"
    assert json.dumps(content, indent=2) + "\n" == GOLDEN.read_text()


def test_files_that_were_written_with_weights_are_not_read_for_their_digests(t5, tmp_path, monkeypatch):
    recorded = Mock(wraps=sha256_of)
    monkeypatch.setattr(sys.modules["onnxfn.export.report.report_file"], "sha256_of", recorded)
    onnxfn.export(T5, t5, tmp_path / "out", write=SEVERAL_FILES, check=False)
    written = {file.name for file in (tmp_path / "out").iterdir()}
    hashed = {name for name in written if name.endswith((".onnx", ".onnx_data"))}
    assert len(hashed) == 4
    read = [call.args[0].name for call in recorded.call_args_list]
    assert sorted(read) == sorted(written - hashed - {report_file.REPORT_FILE})
    assert onnxfn.verify(tmp_path / "out").passed


def test_the_digest_of_a_plan_is_that_of_its_canonical_json():
    text = '{"name":"model","record":"Part","spec":{"name":"bert","record":"PlannedSpec","task":"fill-mask"}}'
    text = f'{{"parts":[{text}],"record":"Plan"}}'
    assert report_file.plan_digest(PLAN) == hashlib.sha256(text.encode()).hexdigest()


def test_an_export_is_verified(exported):
    verification = onnxfn.verify(exported)
    files = {file.name: file.stat().st_size for file in exported.iterdir() if file.name != report_file.REPORT_FILE}
    assert verification.passed
    assert (verification.files, verification.bytes) == (len(files), sum(files.values()))
    assert str(verification).endswith(" comparisons passed at the export")
    assert set(files) >= {"encoder_model.onnx", "decoder_model_merged.onnx", "encoder_model.onnx_data", "config.json"}


def test_the_report_has_the_errors_of_the_check_and_the_opset_of_the_graphs(exported):
    report = json.loads((exported / report_file.REPORT_FILE).read_text())
    assert report["check"]["status"] == "passed"
    assert {figures["part"] for figures in report["check"]["outputs"]} == {"encoder_model", "decoder_model_merged"}
    assert all(0 <= each["max_abs"] <= each["tolerance"] < 1e-3 for each in report["check"]["outputs"])
    assert {facts["opset"] for facts in report["graphs"].values()} == {18}
    assert {facts["dtype"] for facts in report["graphs"].values()} == {"float32"}


def test_a_report_holds_no_path_of_the_machine(exported):
    text = (exported / report_file.REPORT_FILE).read_text()
    assert str(exported.parent) not in text
    assert os.path.expanduser("~") + "/" not in text


def test_the_same_export_writes_the_same_bytes(exported, t5, tmp_path):
    onnxfn.export(T5, t5, tmp_path / "again", write=SEVERAL_FILES)
    assert content(tmp_path / "again") == content(exported)


def test_an_export_without_a_check_says_so(bert, tmp_path):
    onnxfn.export(onnxfn.spec_for(bert), bert, tmp_path / "out", check=False)
    verification = onnxfn.verify(tmp_path / "out")
    assert verification.passed
    assert verification.checks == ("the export was not checked",)
    assert json.loads((tmp_path / "out" / report_file.REPORT_FILE).read_text())["check"]["status"] == "not checked"


@pytest.mark.parametrize("storage", ["link", "none"])
def test_linked_weights_are_verified_and_weights_that_were_not_written_are_not_missed(storage, bert, tmp_path):
    bert.save_pretrained(tmp_path / "checkpoint")
    options = {"checkpoint": tmp_path / "checkpoint", "write": onnxfn.WriteOptions(weight_storage=storage)}
    onnxfn.export(onnxfn.spec_for(bert), bert, tmp_path / "out", check=False, **options)
    assert onnxfn.verify(tmp_path / "out").faults == ()
    names = json.loads((tmp_path / "out" / report_file.REPORT_FILE).read_text())["files"]
    assert ("model.safetensors" in names) == (storage == "link")


def test_the_parts_of_a_pipeline_are_verified_together(folder, exported, tmp_path):
    shutil.copytree(exported, tmp_path / "pipeline" / "one")
    shutil.copytree(exported, tmp_path / "pipeline" / "two")
    (tmp_path / "pipeline" / "model_index.json").write_text("{}")
    assert onnxfn.verify(tmp_path / "pipeline").files == 2 * onnxfn.verify(exported).files
    assert str(onnxfn.verify(tmp_path / "pipeline")).endswith("; 1 other file in no report, not compared")
    assert onnxfn.verify(exported).others == 0
    flip(tmp_path / "pipeline" / "two", DATA, 5000)
    assert len(onnxfn.verify(tmp_path / "pipeline").faults) == 1


def flip(folder, name, at):
    content = bytearray((folder / name).read_bytes())
    content[at] ^= 1
    (folder / name).write_bytes(bytes(content))


def reserialize(folder, name):
    """Another graph of the same size and interface: the producer has another name."""
    model = onnx.load(folder / name, load_external_data=False)
    model.producer_name = "onnxfm"
    onnx.save(model, folder / name)


def reported(change):
    def change_report(folder):
        content = json.loads((folder / report_file.REPORT_FILE).read_text())
        change(content)
        (folder / report_file.REPORT_FILE).write_text(json.dumps(content))

    return change_report


DATA, ENCODER, DECODER = "encoder_model.onnx_data", "encoder_model.onnx", "decoder_model_merged.onnx"
CHANGES = {
    "a missing graph": (lambda folder: (folder / DECODER).unlink(), f"{DECODER} is missing"),
    "missing weights": (lambda folder: (folder / DATA).unlink(), f"{DATA} is missing"),
    "a missing configuration": (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
    "a folder in place of a file": (
        lambda folder: ((folder / "config.json").unlink(), (folder / "config.json").mkdir()),
        "config.json is missing",
    ),
    "a bit of a weight": (lambda folder: flip(folder, DATA, 5000), f"{DATA} was changed or exchanged"),
    "a bit of a graph": (lambda folder: flip(folder, ENCODER, 2000), f"{ENCODER} was changed or exchanged"),
    "a cut file": (lambda folder: os.truncate(folder / DATA, 100), f"{DATA} has 100 bytes, not "),
    "an empty graph": (lambda folder: os.truncate(folder / ENCODER, 0), f"{ENCODER} has 0 bytes, not "),
    "another graph": (lambda folder: reserialize(folder, DECODER), f"{DECODER} was changed or exchanged"),
    "an exchanged graph": (lambda folder: shutil.copy(folder / ENCODER, folder / DECODER), f"{DECODER} has "),
    "a graph of another export": (
        lambda folder: shutil.copy(folder / ENCODER, folder / "decoder_model.onnx"),
        "decoder_model.onnx is of another export",
    ),
    "another input": (
        reported(lambda content: content["graphs"][ENCODER]["inputs"][0].update(name="id")),
        "inputs of ",
    ),
    "another opset": (
        reported(lambda content: content["graphs"][DECODER].update(opset=26)),
        "is 18, not as the report states",
    ),
    "weights that the report leaves out": (
        reported(lambda content: content["files"].pop(DATA)),
        f"{ENCODER} has its weights in {DATA}, which is not a file of the export",
    ),
    "a file outside": (
        reported(lambda content: content["files"].update({"../secret": content["files"].pop("config.json")})),
        ", which is outside its folder",
    ),
    "no files": (reported(lambda content: content.pop("files")), "it lacks one of files, "),
    "a later version": (reported(lambda content: content.update(schema_version=2)), "its schema_version is 2, not 1"),
    "a report of another program": (
        lambda folder: (folder / report_file.REPORT_FILE).write_text("{}"),
        "cannot be used: it is not one of onnxfn's",
    ),
    "a report that is no JSON": (lambda folder: os.truncate(folder / report_file.REPORT_FILE, 50), "cannot be used"),
    "no report": (lambda folder: (folder / report_file.REPORT_FILE).unlink(), f"no {report_file.REPORT_FILE} in "),
}


@pytest.mark.parametrize(("change", "fault"), CHANGES.values(), ids=CHANGES)
def test_a_fault_is_found_and_is_one_line(change, fault, folder):
    change(folder)
    verification = onnxfn.verify(folder)
    assert not verification.passed
    assert any(fault in line for line in verification.faults)
    result = invoke("verify", folder)
    assert result.exit_code == 1
    assert result.output.splitlines() == list(verification.faults)


def test_a_graph_whose_report_was_changed_with_it_is_read(folder):
    """The digests fit, and the file is no graph."""
    (folder / ENCODER).write_bytes(b"no graph")
    facts = {"bytes": 8, "sha256": "1f5cbb3e1d8b5e3a8d4ef1c1e1a0f7f3"}
    reported(lambda content: content["files"].update({ENCODER: facts}))(folder)
    assert any(f"{ENCODER} is not an ONNX file" in line for line in onnxfn.verify(folder).faults)


def test_graphs_and_weights_of_two_exports_with_their_own_report_are_told_apart(folder):
    """Someone who writes a report for a mixture does not pass: the graph states the digest of its weights."""
    flip(folder, DATA, -1)
    reported(lambda content: content["files"][DATA].update(sha256=sha256_of(folder / DATA)))(folder)
    (fault,) = onnxfn.verify(folder).faults
    assert fault.endswith(tuple(f"{DATA} was written by another export than {graph}" for graph in (ENCODER, DECODER)))


def test_a_good_folder_is_one_line_and_exit_code_0(folder):
    result = succeed("verify", folder)
    assert result.output == f"{onnxfn.verify(folder)}\n"
    assert len(result.output.splitlines()) == 1


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    message = refusal(onnxfn.ModelNotFound, onnxfn.verify, tmp_path / "none")
    assert message == f"no folder {tmp_path / 'none'}; verify takes the folder of an export"
    assert error_of("verify", tmp_path / "none") == message


def test_a_report_of_another_program_is_not_replaced(bert, tmp_path):
    (tmp_path / report_file.REPORT_FILE).write_text('{"accuracy": 0.9}')
    message = refusal(onnxfn.OutputExists, onnxfn.export, onnxfn.spec_for(bert), bert, tmp_path, overwrite=True)
    assert message.startswith(f"onnxfn did not write {tmp_path / report_file.REPORT_FILE}, and would replace it")
    assert (tmp_path / report_file.REPORT_FILE).read_text() == '{"accuracy": 0.9}'


def test_the_report_of_an_earlier_export_is_replaced(bert, folder):
    onnxfn.export(onnxfn.spec_for(bert), bert, folder, overwrite=True)
    assert onnxfn.verify(folder).passed
    assert list(report_file.read_report(folder / report_file.REPORT_FILE).graphs) == ["model.onnx"]


def test_the_facts_of_a_graph_do_not_need_its_weights(folder):
    before = report_file.graph_facts(folder / ENCODER)
    (folder / DATA).unlink()
    assert report_file.graph_facts(folder / ENCODER) == before
    port = {"name": "input_ids", "dtype": "int64", "shape": ["batch_size", "encoder_sequence_length"]}
    assert before["inputs"][0] == port
