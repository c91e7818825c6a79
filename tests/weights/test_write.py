"""`WriteOptions` refuse what is not an option, before anything is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

import onnxfn
from onnxfn.specs.errors import InvalidSpec
from onnxfn.weights.write import OTHER_SUFFIXES


def options(suffix):
    return onnxfn.WriteOptions(external_data_suffix=suffix)


@pytest.mark.parametrize("suffix", ["", "/x", "a/b", "/../../victim.txt", "..", "x..data", "\\x", "\0", "a\nb"])
def test_a_suffix_that_is_not_the_end_of_a_file_name_is_refused(suffix):
    message = refusal(InvalidSpec, options, suffix)
    assert message == f"external_data_suffix {suffix!r} is not the end of a file name, such as '.onnx_data'"


@pytest.mark.parametrize("suffix", [*OTHER_SUFFIXES, "x.onnx", ".SAFETENSORS", "-00001-of-00002.safetensors"])
def test_the_suffix_of_graphs_and_of_checkpoints_is_refused(suffix):
    message = refusal(InvalidSpec, options, suffix)
    assert message.startswith(f"external_data_suffix {suffix!r} is that of files of another kind: .onnx, .safetensors")


@given(st.text())
def test_no_suffix_leads_out_of_a_folder(tmp_path_factory, suffix):
    """A refusal is of one line; any other suffix makes a name in the folder."""
    folder = tmp_path_factory.getbasetemp()
    try:
        options(suffix)
    except InvalidSpec as error:
        message = str(error)
    else:
        message = ""
        assert (folder / f"model{suffix}").parent == folder
        assert (folder / f"model{suffix}").name == f"model{suffix}"
    assert len(message.splitlines()) <= 1
