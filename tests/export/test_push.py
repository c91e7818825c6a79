"""`onnxfn push`: one call of the hub's client, against a server that answers as the hub does."""

import base64
import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from command_line import error_of, invoke

from onnxfn import WriteOptions, export, spec_for


@pytest.fixture(scope="module")
def folder(bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("push") / "tiny-bert"
    export(spec_for(bert, "fill-mask"), bert, path, write=WriteOptions(layout="hub"), check=False)
    return path


@pytest.fixture
def hub(monkeypatch):
    """A server with the answers of the hub for small files; yields what it was sent, as pairs of path and body."""
    requests = []

    class Hub(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def answer(self, content):
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer({"id": "me/tiny", "sha": "0" * 40, "siblings": []})

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            requests.append((self.path, body))
            if "/preupload/" in self.path:
                files = json.loads(body)["files"]
                modes = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
                self.answer({"files": modes})
            elif "/commit/" in self.path:
                commit = {"commitUrl": "https://huggingface.co/me/tiny/commit/1", "commitOid": "1", "hookOutput": ""}
                self.answer(commit)
            else:
                self.answer({"url": "https://huggingface.co/me/tiny", "name": "me/tiny"})

    server = HTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.hf_api.ENDPOINT", address, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    yield requests
    server.shutdown()


def test_every_file_of_the_export_is_in_the_commit_and_no_other_file(folder, hub):
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    (folder / ".env").write_text("TOKEN=secret")
    try:
        result = invoke("push", folder, "me/tiny")
    finally:
        (folder / ".env").unlink()
    assert result.exit_code == 0, result.output
    assert "https://huggingface.co/me/tiny/commit/1" in result.stdout
    (commit,) = [body for path, body in hub if "/commit/" in path]
    lines = [json.loads(line) for line in commit.splitlines() if line]
    sent = {line["value"]["path"]: line["value"]["content"] for line in lines if line["key"] == "file"}
    assert sent.keys() == files.keys() >= {"README.md", "onnx/model.onnx", "report.json"}
    assert all(base64.b64decode(sent[name]) == path.read_bytes() for name, path in files.items())


def test_a_dry_run_sends_nothing(folder, hub):
    result = invoke("push", folder, "me/tiny", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "nothing was uploaded" in result.stdout
    assert hub == []


def test_a_folder_that_differs_from_its_report_is_not_uploaded(folder, hub):
    config, text = folder / "config.json", (folder / "config.json").read_text()
    try:
        config.write_text(text + " ")
        message = error_of("push", folder, "me/tiny")
    finally:
        config.write_text(text)
    assert re.search(r"is not uploaded: .*config\.json has", message)
    assert hub == []
