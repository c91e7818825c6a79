"""The loop of the guide in Node.js writes the tokens that its loop in Python writes."""

import json
import subprocess
from pathlib import Path

import pytest
from client_environments import NODE, installed_folder, required_program
from pages import blocks, run_page

import onnxfn

pytestmark = pytest.mark.clients
PAGE = Path(onnxfn.__file__).parent / "guide" / "decoder.md"


def test_the_loop_in_javascript_writes_the_tokens_of_the_loop_in_python(tmp_path, monkeypatch, note):
    note({"client": "onnxruntime-node", "kind": "text-generation", "case": "the loop of the guide", "flags": ()})
    monkeypatch.chdir(tmp_path)
    names = {}
    run_page(PAGE.read_text(), PAGE.name, names)
    [loop] = [code for kind, code, _ in blocks(PAGE.read_text()) if kind == "js"]
    (tmp_path / "loop.mjs").write_text(loop)
    (tmp_path / "node_modules").symlink_to(installed_folder("transformers.js") / "node_modules")
    printed = subprocess.run([required_program(NODE), "loop.mjs"], check=True, capture_output=True, text=True).stdout
    assert json.loads(printed) == names["tokens"]
