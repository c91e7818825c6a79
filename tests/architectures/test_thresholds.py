import pytest
from transformers import AutoConfig

from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.plan.text_cases import thresholds

THRESHOLDS = {
    "mistral": {4096},
    "gemma2": {4096},
    "gemma3": {4096},
    "gpt_oss": {128},
    "llama4_text": {8192},
    "deepseek_v32": {2048},
    "modernbert": {128},
    "longformer": {512},
    "mamba2": {256},
    "ministral3": {16384},
    "qwen2": set(),
    "llama": set(),
    "bert": set(),
    "gpt2": set(),
    "t5": set(),
    "whisper": set(),
    "clip": set(),
    "swin": {7},
}
"""Model type -> the thresholds of its default configuration. Swin's reads no text, so its window does no harm."""


@pytest.mark.parametrize("model_type", THRESHOLDS)
def test_the_thresholds_of_a_configuration_are_found_by_their_names(model_type):
    assert {*thresholds(snapshot(AutoConfig.for_model(model_type)))} == THRESHOLDS[model_type]
