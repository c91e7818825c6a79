"""Every broken checkpoint is refused in one line with exit code 1, and nothing is left; or it is exported."""

import json
import re
import shutil
import sys

import pytest
import tiny
import torch
from broken_checkpoints import BIN, BROKEN
from command_line import error_of, invoke, succeed
from safetensors.torch import save_file


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    bert = tiny.model("bert", "AutoModelForMaskedLM")
    bert.save_pretrained(folder / "bert")
    (folder / "bert" / "vocab.txt").write_text("[PAD]\n")
    tiny.model("llama", "AutoModelForCausalLM").save_pretrained(folder / "llama", max_shard_size="60KB")
    bert.config.save_pretrained(folder / "pickled")
    torch.save(bert.state_dict(), folder / "pickled" / BIN)
    return folder


STAGES = re.compile(r"(load|plan) .*\d s\b")
"""The start of a line of the error stream that names stages: those of one part follow the name of the part."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_checkpoint(name, bases, tmp_path, monkeypatch):
    broken = BROKEN[name]
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    shutil.copytree(bases / broken.base, checkpoint)
    broken.damage(checkpoint)
    before = sorted(tmp_path.rglob("*"))
    (tracebacks := tmp_path.parent / f"{tmp_path.name}-tracebacks").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tracebacks))
    result = invoke("export", checkpoint, out)
    errors = [line for line in result.stderr.splitlines() if not STAGES.match(line)]
    if broken.message:
        assert result.exit_code == 1, result.output
        (line,) = errors
        assert line.startswith("error: ")
        assert broken.message in line
        assert "please report" not in line
        assert sorted(tmp_path.rglob("*")) == before
        assert len(list(tracebacks.iterdir())) == line.count("(traceback: ")
    else:
        assert result.exit_code == 0, result.output
        assert (out / "onnx" / "model.onnx").is_file()


# Code of the checkpoint's own

CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

class OwnConfig(PretrainedConfig):
    model_type = "own-architecture"
    def __init__(self, vocab_size=32, num_labels=3, **named):
        self.vocab_size = vocab_size
        super().__init__(num_labels=num_labels, **named)

class OwnForSequenceClassification(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = torch.nn.Embedding(config.vocab_size, 8)
        self.classifier = torch.nn.Linear(8, config.num_labels)
        self.post_init()
    def forward(self, input_ids, attention_mask=None):
        weights = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        summed = (self.embeddings(input_ids) * weights[..., None]).sum(dim=1)
        return SequenceClassifierOutput(logits=self.classifier(summed / weights.sum(dim=1, keepdim=True)))
"""


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """A checkpoint with code of its own; transformers copies the code to a temporary folder."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own.py").write_text(CODE)
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnForSequenceClassification"}
    config = {"model_type": "own-architecture", "auto_map": classes, "architectures": ["OwnForSequenceClassification"]}
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    weights = {"embeddings.weight": (32, 8), "classifier.weight": (3, 8), "classifier.bias": (3,)}
    save_file({name: torch.randn(shape) for name, shape in weights.items()}, folder / "model.safetensors")
    return folder


def test_code_of_a_checkpoint_does_not_run_without_the_flag(own_code, tmp_path):
    (own_code / "own.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    result = invoke("export", own_code, tmp_path / "out", input="y\n")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: {own_code} has its own code for the model type 'own-architecture'; ")
    assert line.endswith("it runs only if you trust it: trust_remote_code=True (--trust-remote-code)")
    assert not (tmp_path / "executed").exists()


def test_code_of_a_checkpoint_runs_with_the_flag(own_code, tmp_path):
    result = succeed("export", own_code, tmp_path / "out", "--trust-remote-code")
    assert "task: text-classification (found)" in result.stdout
    assert "check passed" in result.stdout


def test_an_error_of_trusted_code_is_one_line(own_code, tmp_path):
    (own_code / "own.py").write_text("raise KeyError('own')")
    assert "KeyError: 'own'" in error_of("export", own_code, tmp_path / "out", "--trust-remote-code")
