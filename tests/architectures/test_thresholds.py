import json
from pathlib import Path

import pytest
from transformers import AutoConfig

from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.plan.text_cases import thresholds

THRESHOLDS = json.loads(Path(__file__).with_name("thresholds.json").read_text())
"""Model type -> the thresholds of its default configuration. Swin's reads no text, so its window does no harm."""


@pytest.mark.parametrize("model_type", THRESHOLDS)
def test_the_thresholds_of_a_configuration_are_found_by_their_names(model_type):
    assert {*thresholds(snapshot(AutoConfig.for_model(model_type)))} == {*THRESHOLDS[model_type]}
