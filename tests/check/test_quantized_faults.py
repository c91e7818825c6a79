"""Faults in the graphs of quantized files are found, apart from their weights and without any floor."""

from functools import cache

import fault_models
import pytest
import swept
from quantized_faults import PLANTED, WITHOUT, finds, quantized, report_of
from smollm2_weights import load_smollm2

import onnxfn

DTYPES = ("q4", "q8", "q4f16", "bnb4")
EVERY = {
    is_default: [
        (name, DTYPES[(shift + place + number) % 4], fault)
        for shift, name in enumerate(WITHOUT)
        for place, fault in enumerate(PLANTED)
        if fault not in WITHOUT[name]
        for number in range(len(DTYPES))
        if (number == 0) is is_default
    ]
    for is_default in (True, False)
}
"""A model, a dtype and a fault, of the default run or of the sweep: by default one dtype for each fault of a model."""

SMOLLM2 = (
    *("gate and up are exchanged", "a head sees the future", "attention is scaled by 1.05"),
    *("the rotary base is 10 % larger", "a layer has no mask", "no token sees itself", "a past key is ignored"),
    *("positions are clipped at 30", "heads of keys are tiled", "the cache of another layer"),
)
"""The faults that are planted in SmolLM2, in each dtype."""


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory):
    """A function from a model and a dtype to its right file; each is exported once."""

    @cache
    def file_of(name, dtype):
        model, spec = fault_models.build(name)
        return quantized(model, spec, dtype, tmp_path_factory.mktemp(name) / "out")

    return file_of


@pytest.mark.parametrize(("name", "dtype", "fault"), swept.with_sweep(EVERY[True], EVERY[False]))
def test_a_fault_is_found(tiny_files, name, dtype, fault, tmp_path):
    assert finds(tiny_files(name, dtype), *PLANTED[fault], tmp_path)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WITHOUT)
def test_files_without_a_fault_agree(tiny_files, name, dtype):
    tested = tiny_files(name, dtype)
    report = report_of(tested, tested.file)
    assert report.findings == ()
    assert {each.output for each in report.differences} == {*tested.part.outputs}
    assert all(each.passed for each in report.differences)


def test_at_least_40_faults_are_planted_by_default_in_every_dtype():
    assert len(EVERY[True]) >= 40
    assert {dtype for _, dtype, _ in EVERY[True]} == {*DTYPES}
    assert {fault for _, _, fault in EVERY[True]} == {*PLANTED}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_faults_of_smollm2_are_found(dtype, tmp_path):
    model, _ = load_smollm2()
    tested = quantized(model, onnxfn.spec_for(model, "text-generation-with-past"), dtype, tmp_path / "out")
    assert all(each.passed for each in report_of(tested, tested.file).differences)
    missed = []
    for fault in SMOLLM2:
        (tmp_path / fault).mkdir()
        missed += [] if finds(tested, *PLANTED[fault], tmp_path / fault) else [fault]
    assert missed == []
