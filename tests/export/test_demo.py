import re

import pytest
from command_line import invoke

import onnxfn
from onnxfn.export.cli.demo import minilm


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "minilm"
    return invoke("demo", out), out


def test_the_demo_prints_equal_cosines(demo):
    result, _ = demo
    assert result.exit_code == 0, result.output
    cosines = re.findall(r"^(\S+) by ONNX Runtime, (\S+) by PyTorch", result.stdout, re.MULTILINE)
    assert len(cosines) == 3
    assert all(left == right for left, right in cosines)
    assert cosines[0] == ("0.6654", "0.6654")


def test_minilm_is_within_1e_4_of_pytorch_at_every_shape(demo):
    _, out = demo
    model = onnxfn.model_for(str(minilm()), "feature-extraction")
    with_cases = onnxfn.compose(
        onnxfn.spec_for(model, "feature-extraction"),
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
    report = onnxfn.validate(with_cases, model, out)
    assert len(report.cases) == 3 + 10  # a single token has no padding: three of the cases are one
    assert max(difference.max_abs for difference in report.differences) <= 1e-4


# Files in 16 and 8 bits

WANTED = {"model_fp16": 0.9999, "model_quantized": 0.99}
"""The cosine of a file's outputs and PyTorch's, on a real text."""


@pytest.fixture(scope="module")
def encoder():
    model = onnxfn.model_for(str(minilm()), "feature-extraction")
    return onnxfn.spec_for(model, "feature-extraction"), model


def test_minilm_in_16_and_8_bits_reaches_its_cosines_and_its_floors_ask_for_them(encoder, tmp_path):
    result = onnxfn.export(*encoder, tmp_path / "out", dtypes=("float16", "q8"), checkpoint=minilm())
    cosines = [measured for measured in result.report.measurements if measured.measure == "cosine"]
    assert {measured.part for measured in cosines} == WANTED.keys()
    for measured in cosines:
        assert measured.value >= WANTED[measured.part]
        assert measured.floor >= WANTED[measured.part]
