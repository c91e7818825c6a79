"""The environments of clients: what is installed, and what cannot be, is tried once."""

import client_environments
import pytest
from client_environments import NotInstalledError, installed_folder


@pytest.mark.parametrize("error", [NotInstalledError("npm reaches no package index"), RuntimeError("no such version")])
def test_a_failure_to_install_is_tried_once_and_raised_for_each_test(error, tmp_path, monkeypatch):
    tried = []

    def fail(*words):
        tried.append(words)
        raise error

    monkeypatch.setattr(client_environments, "_install", fail)
    for _ in range(3):
        with pytest.raises(type(error), match=str(error)):
            installed_folder("transformers.js", tmp_path)
    assert tried == [("transformers.js", tmp_path / "transformers.js")]


def test_an_environment_is_installed_again_for_other_versions_alone(tmp_path, monkeypatch):
    installed = []
    monkeypatch.setattr(client_environments, "_install", lambda name, _: installed.append(name))
    for pins in (("onnx==1.23.2",), ("onnx==1.23.2",), ("onnx==1.23.3",)):
        monkeypatch.setattr(client_environments, "PYTHON", {"onnx": pins})
        client_environments._install_once("onnx", tmp_path)
    assert installed == ["onnx", "onnx"]
