"""What an export never replaces is refused in one line, before the model is read."""

import pytest
from exported_folders import staged
from refusals import refusal

from onnxfn.export.publish.staging import check_destination
from onnxfn.specs.errors import OutputExists
from onnxfn.weights.journal import STAGING_PREFIX


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("link link.onnx", "is a link to missing, which does not exist; create that, or choose another path"),
        ("file/out file/deep/out file/model.onnx", "is below {}/file, which is not a folder; choose another path"),
        ("link/out", "is below {}/link, which is not a folder; choose another path"),
        ("folder.onnx", "is a folder and ends in .onnx; name a file in it, or another folder"),
    ],
)
def test_what_is_no_place_for_an_export_is_refused(tmp_path, names, reason):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder.onnx").mkdir()
    for link in ("link", "link.onnx"):
        (tmp_path / link).symlink_to("missing")
    for name in names.split():
        message = refusal(OutputExists, check_destination, tmp_path / name, overwrite=True)
        assert message == f"{tmp_path / name} {reason.format(tmp_path)}"


def test_a_folder_with_staging_folders_alone_is_empty(tmp_path):
    staged(tmp_path, f"{STAGING_PREFIX}0123/files/model.onnx")
    check_destination(tmp_path, overwrite=False)
    staged(tmp_path, "model.onnx")
    refusal(OutputExists, check_destination, tmp_path, overwrite=False)
    check_destination(tmp_path, overwrite=True)
