"""The check by sections: it has the verdict of the whole check, and finds a fault in the layer where it is."""

import json

import numpy as np
import pytest
import tiny
from command_line import error_of, exported_checkpoint
from graph_edits import changed_weight, edited_export, edited_file, exchange_inputs, mask_sum, nodes, set_input, users
from onnx import helper
from refusals import refusal

import onnxfn
from onnxfn.check.cuts.cut import layer_paths
from onnxfn.check.variants.proof import check_error
from onnxfn.export.report.report_file import check_facts
from onnxfn.specs.stored.serialize import from_json, to_json

PAST = "text-generation-with-past"
MODELS = {
    "llama": (PAST, {"num_hidden_layers": 6, "num_key_value_heads": 4, "head_dim": 8}),
    "gemma3_text": (PAST, {}),
    "lfm2": (PAST, {}),
    "bert": ("text-classification", {"num_hidden_layers": 4}),
}
"""Model type -> the task, and sizes."""


def spec_and_model(model_type):
    task, sizes = MODELS[model_type]
    return tiny.spec_and_model(model_type, task, **sizes)


def by_sections(spec, model, folder):
    return onnxfn.validate(spec, model, folder, check="sections")


def after(model, weight, operator):
    """The first node with an operator among those after the first reader of a weight."""
    start = nodes(model).index(users(model, weight)[0])
    return next(node for node in nodes(model)[start:] if node.op_type == operator)


def other_operator(weight, operator, new, **attributes):
    """An edit of the first node with an operator after the reader of a weight: another operator reads its input."""

    def edit(model):
        node = after(model, weight, operator)
        node.CopyFrom(helper.make_node(new, node.input[:1], node.output, **attributes))

    return edit


def swapped(first, second):
    """An edit of a graph in which the readers of two weights read those of each other."""
    return lambda model: exchange_inputs(model, first, second)


def other_epsilon(weight, epsilon):
    """An edit of the norm of a weight: its variance gets another epsilon."""

    def edit(model):
        end = nodes(model).index(users(model, weight)[0])
        add = [node for node in nodes(model)[:end] if node.op_type == "Add" and "constant" in node.input[1]][-1]
        set_input(model, add, 1, epsilon)

    return edit


def without_mask(weight):
    """An edit of a softmax after the reader of a weight: it reads the scores before the mask is added."""

    def edit(model):
        softmax = after(model, weight, "Softmax")
        softmax.input[0] = mask_sum(model, softmax).input[0]

    return edit


LOW = onnxfn.Floors(agreement=0.0, kl=9.0, cosine=-1.0)
"""Floors that random weights reach."""

LAYERS = "model.layers"
LLAMA_FAULTS = {
    "a weight is scaled": (3, changed_weight(f"{LAYERS}.3.mlp.down_proj.weight", lambda array: 1.01 * array)),
    "a matrix is transposed": (4, changed_weight(f"{LAYERS}.4.self_attn.o_proj.weight", np.transpose)),
    "a row is zero": (
        5,
        changed_weight(
            f"{LAYERS}.5.self_attn.v_proj.weight", lambda array: array * (np.arange(len(array)) > 0)[:, None]
        ),
    ),
    "a norm is shifted": (2, changed_weight(f"{LAYERS}.2.post_attention_layernorm.weight", lambda array: array + 1e-3)),
    "q and k are swapped": (1, swapped(f"{LAYERS}.1.self_attn.q_proj.weight", f"{LAYERS}.1.self_attn.k_proj.weight")),
    "gate and up are swapped": (0, swapped(f"{LAYERS}.0.mlp.gate_proj.weight", f"{LAYERS}.0.mlp.up_proj.weight")),
    "another epsilon": (2, other_epsilon(f"{LAYERS}.2.post_attention_layernorm.weight", 1e-4)),
    "another epsilon in the first norm": (4, other_epsilon(f"{LAYERS}.4.input_layernorm.weight", 1e-4)),
    "halves are not negated": (3, other_operator(f"{LAYERS}.3.self_attn.q_proj.weight", "Neg", "Identity")),
    "another activation": (5, other_operator(f"{LAYERS}.5.mlp.gate_proj.weight", "Sigmoid", "Tanh")),
    "softmax over another axis": (
        1,
        other_operator(f"{LAYERS}.1.self_attn.q_proj.weight", "Softmax", "Softmax", axis=2),
    ),
    "no mask": (0, without_mask(f"{LAYERS}.0.self_attn.q_proj.weight")),
}
"""A fault -> the layer where it is, and the edit of the graph."""

BERT = "bert.encoder.layer"
OTHER_FAULTS = [
    ("bert", f"{BERT}.2", changed_weight(f"{BERT}.2.output.dense.weight", lambda array: 1.01 * array)),
    ("bert", f"{BERT}.0", swapped(f"{BERT}.0.attention.self.query.weight", f"{BERT}.0.attention.self.key.weight")),
    ("bert", f"{BERT}.3", changed_weight(f"{BERT}.3.intermediate.dense.bias", lambda array: array + 0.01)),
    ("gemma3_text", f"{LAYERS}.0", changed_weight(f"{LAYERS}.0.self_attn.q_norm.weight", lambda array: array + 0.01)),
    ("gemma3_text", f"{LAYERS}.1", other_operator(f"{LAYERS}.1.mlp.gate_proj.weight", "Tanh", "Sigmoid")),
    ("lfm2", f"{LAYERS}.0", changed_weight(f"{LAYERS}.0.feed_forward.w2.weight", lambda array: 1.01 * array)),
    ("lfm2", f"{LAYERS}.1", changed_weight(f"{LAYERS}.1.feed_forward.w3.weight", lambda array: 1.01 * array)),
]
"""Model type, the section with the fault, and the edit of the graph."""


@pytest.mark.parametrize("model_type", MODELS)
def test_files_without_a_fault_pass(exports, model_type):
    spec, model, folder = exports(model_type)
    report = by_sections(spec, model, folder)
    whole = onnxfn.validate(spec, model, folder)
    names = layer_paths(model, {name for name, _ in model.named_parameters()})
    assert [each.section for each in report.sections] == ["embedding", *names, "head"]
    assert report.passed
    assert whole.passed
    decoded = {"greedy tokens"}  # texts are decoded by the whole check alone
    assert {each.output for each in report.differences} == {each.output for each in whole.differences} - decoded
    assert report.cases == whole.cases[: len(report.cases)]


@pytest.mark.parametrize("fault", LLAMA_FAULTS)
def test_a_fault_in_a_layer_is_found_in_that_layer(exports, fault, tmp_path):
    spec, model, folder = exports("llama")
    layer, edit = LLAMA_FAULTS[fault]
    copied = edited_export(folder, tmp_path / "out", edit)
    report = by_sections(spec, model, copied)
    assert [each.section for each in report.sections if not each.passed] == [f"{LAYERS}.{layer}"]
    assert not onnxfn.validate(spec, model, copied).passed


@pytest.mark.parametrize(("model_type", "section", "edit"), OTHER_FAULTS, ids=[f"{a}-{b}" for a, b, _ in OTHER_FAULTS])
def test_faults_in_encoders_and_among_unlike_layers(exports, model_type, section, edit, tmp_path):
    spec, model, folder = exports(model_type)
    report = by_sections(spec, model, edited_export(folder, tmp_path / "out", edit))
    assert [each.section for each in report.sections if not each.passed] == [section]


def test_a_report_names_the_layer_in_its_table_its_json_and_its_error(exports, tmp_path):
    spec, model, folder = exports("bert")
    passed = by_sections(spec, model, folder)
    assert f"model: {BERT}.3" in str(passed)
    assert from_json(to_json(passed), record=onnxfn.Report) == passed
    facts = check_facts(passed)["sections"]
    assert [each["section"] for each in facts] == ["embedding", *(f"{BERT}.{index}" for index in range(4)), "head"]
    assert all(0 <= each["max_abs"] <= each["tolerance"] for each in facts)
    edit = changed_weight(f"{BERT}.2.output.dense.weight", lambda array: 1.01 * array)
    failed = by_sections(spec, model, edited_export(folder, tmp_path / "out", edit))
    assert f"model: {BERT}.2 differ: " in str(check_error(failed))


def test_an_export_by_sections_writes_them_to_the_report(exports, tmp_path):
    spec, model, _ = exports("bert")
    exported = onnxfn.export(spec, model, tmp_path / "out", check="sections")
    stated = json.loads((tmp_path / "out" / "report.json").read_text())["check"]
    assert stated["status"] == "passed"
    assert [each["section"] for each in stated["sections"]] == [each.section for each in exported.report.sections]
    assert onnxfn.verify(tmp_path / "out").passed


@pytest.mark.parametrize("dtype", ["float16", "q8", "q4"])
def test_16_bit_and_quantized_files_are_measured_as_by_the_whole_check(exports, dtype, tmp_path):
    spec, model, _ = exports("llama")
    reports = {
        mode: onnxfn.export(spec, model, tmp_path / mode, dtypes=(dtype,), floors=LOW, check=mode).report
        for mode in ("whole", "sections")
    }
    measured = [{(each.output, each.measure): each.value for each in one.measurements} for one in reports.values()]
    assert measured[0] == pytest.approx(measured[1], abs=1e-3)
    assert len(reports["sections"].sections) == 8
    assert all(each.tolerance > 0 for each in reports["sections"].sections)


@pytest.mark.parametrize("dtype", ["q8", "q4", "q4f16"])
def test_a_fault_in_a_layer_of_a_quantized_file_is_found_in_that_layer(exports, dtype, tmp_path):
    spec, model, _ = exports("llama")
    onnxfn.export(spec, model, tmp_path / "out", dtypes=(dtype,), check=False)
    loaded = onnxfn.load(tmp_path / "out", dtype=dtype)
    (file,) = loaded.graphs.values()
    right = onnxfn.validate(spec, model, loaded, check="sections", floors=LOW)
    edited_file(file, other_operator(f"{LAYERS}.5.mlp.gate_proj.weight.codes", "Sigmoid", "Tanh"))
    wrong = onnxfn.validate(spec, model, loaded, check="sections", floors=LOW)
    assert right.passed
    assert [each.section for each in wrong.sections if not each.passed] == [f"{LAYERS}.5"]


def test_a_model_without_a_chain_of_layers_is_refused_with_advice(tmp_path):
    model = tiny.model("albert", "AutoModel")
    spec = onnxfn.spec_for(model, "feature-extraction")
    message = refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "out", check="sections")
    assert message.endswith("check the whole graph: --check whole, or check='whole'")
    assert not (tmp_path / "out").exists()
    message = refusal(onnxfn.UnknownName, onnxfn.export, spec, model, tmp_path / "out", check="section")
    assert "did you mean 'sections'" in message


@pytest.mark.parametrize("dtypes", [(), ("float16",)])
def test_the_command_line_prints_the_sections_with_verbose(dtypes, tmp_path):
    model, words = tiny.model("llama", "AutoModelForCausalLM"), [f"--dtype={dtype}" for dtype in dtypes]
    result = exported_checkpoint(model, tmp_path, "--check", "sections", "--verbose", *words)
    assert "by sections" in result.stdout
    assert f"{LAYERS}.1 " in result.stdout


def test_two_words_for_the_check_are_refused(tmp_path):
    message = error_of("export", "no", tmp_path, "--no-check", "--check", "sections")
    assert "--no-check is --check none, and --check sections is another" in message


@pytest.mark.parametrize("model_type", ["bart", "t5"])
def test_a_merged_decoder_of_an_encoder_decoder_is_refused_and_separate_ones_are_checked(model_type, tmp_path):
    model = tiny.model(model_type, "AutoModelForSeq2SeqLM")
    spec = onnxfn.spec_for(model, "text2text-generation-with-past")
    message = refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "merged", check="sections")
    assert "no single value leads the hidden states into" in message
    exported = onnxfn.export(spec, model, tmp_path / "separate", decoders="separate", check="sections")
    assert exported.report.passed
    parts = {each.part for each in exported.report.sections}
    assert parts == {"encoder_model", "decoder_model", "decoder_with_past_model"}


@pytest.mark.parametrize("check", ["none", False])
def test_a_comparison_of_nothing_is_refused(exports, check):
    message = refusal(onnxfn.InvalidSpec, onnxfn.validate, *exports("bert"), check=check)
    assert message == f"validate needs a check, and check={check!r} is none; pass 'whole' or 'sections'"
