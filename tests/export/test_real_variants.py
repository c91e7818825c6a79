"""Files in 16 and 8 bits of real weights: all-MiniLM-L6-v2."""

import pytest

import onnxfn
from onnxfn import CheckFailed, Floors
from onnxfn.export.cli.demo import minilm

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


def test_minilm_below_a_floor_leaves_no_file(encoder, tmp_path):
    with pytest.raises(CheckFailed, match="cosine"):
        onnxfn.export(*encoder, tmp_path / "out", dtypes=("q8",), checkpoint=minilm(), floors=Floors(cosine=0.99999))
    assert not (tmp_path / "out").exists()
