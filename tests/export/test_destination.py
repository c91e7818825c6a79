"""What an export never replaces is refused in one line, before the model is read."""

import pytest
from exported_folders import staged
from refusals import refusal

from onnxfn.export.publish.staging import check_destination
from onnxfn.specs.errors import OutputExists
from onnxfn.weights.journal import STAGING_PREFIX


@pytest.mark.parametrize("name", ["link", "link.onnx"])
def test_a_link_to_nothing_is_refused(tmp_path, name):
    (tmp_path / name).symlink_to("missing")
    message = refusal(OutputExists, check_destination, tmp_path / name, overwrite=True)
    assert message == (
        f"{tmp_path / name} is a link to missing, which does not exist; create that, or choose another path"
    )


@pytest.mark.parametrize("name", ["file/out", "file/deep/out", "file/model.onnx", "link/out"])
def test_a_path_below_a_file_is_refused(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("missing")
    message = refusal(OutputExists, check_destination, tmp_path / name, overwrite=True)
    above = tmp_path / name.split("/")[0]
    assert message == f"{tmp_path / name} is below {above}, which is not a folder; choose another path"


def test_a_folder_whose_name_ends_in_onnx_is_refused(tmp_path):
    (tmp_path / "model.onnx").mkdir()
    message = refusal(OutputExists, check_destination, tmp_path / "model.onnx", overwrite=True)
    assert message.endswith("is a folder and ends in .onnx; name a file in it, or another folder")


def test_a_folder_with_staging_folders_alone_is_empty(tmp_path):
    staged(tmp_path, f"{STAGING_PREFIX}0123/files/model.onnx")
    check_destination(tmp_path, overwrite=False)
    staged(tmp_path, "model.onnx")
    refusal(OutputExists, check_destination, tmp_path, overwrite=False)
    check_destination(tmp_path, overwrite=True)
