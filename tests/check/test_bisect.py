import copy

import pytest
import tiny
import torch
from graph_edits import changed_weight, edited_export, nodes, users
from onnx import helper

import onnxfn

MODELS = {
    "bert": "text-classification",
    "llama": "text-generation-with-past",
    "gpt2": "text-generation-with-past",
    "mistral": "text-generation",
    "t5": "text2text-generation-with-past",
    "vit": "image-classification",
    "mamba": "text-generation-with-past",
    "whisper": "automatic-speech-recognition-with-past",
}
"""Model type -> the task."""


def scale(module):
    module.weight.data *= 1.5


def swap(module):
    module.weight.data = module.weight.data.flip(0)


def drop_bias(module):
    module.bias.data.zero_()


def change_epsilon(module):
    name = next(name for name in ("variance_epsilon", "eps") if hasattr(module, name))
    setattr(module, name, 0.3)


def change_activation(module):
    module.forward = torch.nn.functional.relu


FAULTS = [
    ("bert", "bert.encoder.layer.1.attention.self.value", swap),
    ("bert", "bert.encoder.layer.0.intermediate.dense", drop_bias),
    ("bert", "bert.embeddings.LayerNorm", change_epsilon),
    ("llama", "model.layers.1.mlp.up_proj", swap),
    ("llama", "model.layers.0.post_attention_layernorm", change_epsilon),
    ("llama", "lm_head", scale),
    ("gpt2", "transformer.h.1.attn.c_proj", drop_bias),
    ("mistral", "model.layers.1.self_attn.v_proj", scale),
    ("mistral", "model.layers.1.mlp.act_fn", change_activation),
    ("t5", "encoder.block.1.layer.1.DenseReluDense.wo", scale),
    ("t5", "decoder.block.0.layer.1.EncDecAttention.v", swap),
    ("vit", "vit.embeddings.patch_embeddings.projection", drop_bias),
    ("mamba", "backbone.layers.1.mixer.in_proj", swap),
    ("whisper", "model.encoder.conv2", drop_bias),
    ("whisper", "model.decoder.layers.0.fc1", scale),
]
"""Model type, the module that is changed after the export, and the change."""


def spec_and_model(model_type):
    spec, model = tiny.spec_and_model(model_type, MODELS[model_type])
    for name, bias in model.named_parameters():
        bias.data *= not name.endswith("output.dense.bias")  # these are 0 in a BERT that was not trained
    return spec, model


@pytest.mark.parametrize(
    ("model_type", "path", "change"), FAULTS, ids=[f"{path}-{change.__name__}" for _, path, change in FAULTS]
)
def test_the_module_with_the_fault_is_named(exports, model_type, path, change):
    spec, model, folder = exports(model_type)
    changed = copy.deepcopy(model)
    change(changed.get_submodule(path))
    result = onnxfn.bisect(spec, changed, folder)
    assert result.module == path
    assert result.first.max_abs > result.tolerance
    assert result.before is None or result.before.max_abs <= max(1e-4, result.tolerance)


def one_element(matrix):
    """A matrix with one element that is a little larger: rounding alone does not tell where that is."""
    matrix[5, 7] += 2e-4
    return matrix


def read_another_weight(model):
    (node,) = users(model, "model.layers.1.self_attn.k_proj.weight")
    node.input[1] = "model.layers.1.self_attn.v_proj.weight"


def without_a_residual(model):
    """The sum after the MLP of layer 0 is the output of the MLP alone."""
    (product,) = users(model, "model.layers.0.mlp.down_proj.weight")
    total = users(model, product.output[0])[0]
    total.CopyFrom(helper.make_node("Identity", product.output, total.output))


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        (changed_weight("model.layers.1.mlp.down_proj.weight", lambda own: own * 1.5), "model.layers.1.mlp.down_proj"),
        (changed_weight("model.layers.0.mlp.down_proj.weight", one_element), "model.layers.0.mlp.down_proj"),
        (read_another_weight, "model.layers.1.self_attn.k_proj"),
        (lambda model: setattr(nodes(model, "Sigmoid")[0], "op_type", "Tanh"), "model.layers.0.mlp.act_fn"),
        (without_a_residual, "model.layers.0"),
    ],
    ids=["weight", "one element", "input of a node", "operator", "residual"],
)
def test_the_module_is_named_for_a_file_that_was_changed(exports, tmp_path, edit, path):
    spec, model, folder = exports("llama")
    assert onnxfn.bisect(spec, model, edited_export(folder, tmp_path / "out", edit)).module == path


def test_fused_operators_and_external_data(tmp_path):
    spec, model = tiny.spec_and_model("bert", MODELS["bert"])
    spec, write = onnxfn.with_opset(spec, 23), onnxfn.WriteOptions(external_data_threshold=0)
    exported = onnxfn.export(spec, model, tmp_path / "out", write=write)
    assert onnxfn.bisect(spec, model, exported).module is None
    scale(model.bert.encoder.layer[1].intermediate.dense)
    assert onnxfn.bisect(spec, model, exported).module == "bert.encoder.layer.1.intermediate.dense"
    assert len(list((tmp_path / "out").iterdir())) == len(exported.files)


def test_files_that_agree_have_no_divergence(exports):
    spec, model, folder = exports("t5")
    result = onnxfn.bisect(spec, model, folder)
    assert (result.module, result.first) == (None, None)
    assert "encoder_model.onnx, decoder_model_merged.onnx: in the cases that run no output differs" in str(result)


def test_the_text_has_the_module_and_the_case_that_repeats_it(exports):
    spec, model, folder = exports("bert")
    changed = copy.deepcopy(model)
    change_epsilon(changed.bert.encoder.layer[1].output.LayerNorm)
    result = onnxfn.bisect(spec, changed, folder)
    first, *_ = str(result).splitlines()
    assert "bert.encoder.layer.1.output.LayerNorm" in first
    assert result.sizes == (("batch_size", 1), ("sequence_length", 7))
    assert str(onnxfn.bisect(spec, changed, folder, case=result.case, sizes=dict(result.sizes))) == str(result)


def test_an_unknown_case_is_an_error_that_lists_the_cases(exports):
    spec, model, folder = exports("bert")
    with pytest.raises(onnxfn.UnknownName, match="no case 'on' for model; known: one, special tokens"):
        onnxfn.bisect(spec, model, folder, case="on")
    with pytest.raises(onnxfn.UnknownName, match="no size 'seq' for bert; known: batch_size, sequence_length"):
        onnxfn.bisect(spec, model, folder, sizes={"seq": 3})


def test_a_failed_check_says_how_to_find_the_module(exports, tmp_path):
    spec, model, _ = exports("bert")
    strict = onnxfn.with_tolerance(spec, atol=0.0, rtol=0.0)
    with pytest.raises(onnxfn.CheckFailed, match=r"onnxfn\.bisect\(spec, model, path\)$"):
        onnxfn.export(strict, model, tmp_path / "out")


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.second(self.first(x) * self.scale)


def test_a_wrong_scale_is_found_where_the_right_one_changes_nothing(tmp_path):
    model = Scaled().eval()
    spec = onnxfn.derived(model, sample={"x": torch.ones(2, 4, 3)}, axes={"x": "batch_size time 3"})
    onnxfn.export(spec, model, tmp_path / "right", check=False)
    wrong = edited_export(tmp_path / "right", tmp_path / "out", changed_weight("scale", lambda own: own * 1.5))
    result = onnxfn.bisect(spec, model, wrong)
    assert (result.module, result.first.value, result.before.value) == ("", "Mul_0", "Add_0")
