"""What several tests of exports share."""

import tempfile

import pytest
import tiny


@pytest.fixture(scope="module")
def t5():
    return tiny.model("t5", "AutoModelForSeq2SeqLM")


@pytest.fixture
def temporary_files(tmp_path, monkeypatch):
    """The folder where this test has its temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
