"""The demo, on real weights: all-MiniLM-L6-v2."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import onnxfn
from onnxfn.export.cli import app
from onnxfn.export.demo import minilm, pooled, similarities
from onnxfn.export.lookup.loading import load_configuration, load_model


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "minilm"
    return CliRunner().invoke(app, ["demo", str(out)]), out


def test_the_demo_prints_the_same_cosines_by_both(demonstrated):
    done, _ = demonstrated
    assert done.exit_code == 0, done.output
    cosines = re.findall(r"^(\S+) by ONNX Runtime, (\S+) by PyTorch", done.stdout, re.MULTILINE)
    assert len(cosines) == 3
    assert all(left == right for left, right in cosines)
    assert cosines[0] == ("0.6654", "0.6654")


def test_minilm_is_within_1e_4_of_pytorch_at_every_shape(demonstrated):
    _, out = demonstrated
    config = load_configuration(minilm())
    spec = onnxfn.spec_for(config, "feature-extraction")
    model = load_model(str(minilm()), config, spec)
    tried = onnxfn.compose(
        spec,
        *(
            onnxfn.case(
                f"{batch} x {length} {side}",
                onnxfn.sized(batch_size=batch, sequence_length=length),
                onnxfn.padded(side),
            )
            for batch, length in ((1, 1), (1, 512), (5, 64), (8, 3))
            for side in ("none", "left", "right")
        ),
    )
    report = onnxfn.validate(tried, model, out)
    assert len(report.cases) == 15
    assert max(one.max_abs for one in report.differences) <= 1e-4
    assert all(abs(one.onnx - one.torch) < 5e-5 for one in similarities(model, tokenizer(), out / "model.onnx"))


def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(minilm())


def test_pooling_is_the_mean_of_what_is_not_padding():
    hidden = np.array([[[1.0], [3.0], [100.0]]])
    assert pooled(hidden, np.array([[1, 1, 0]])).tolist() == [[2.0]]
