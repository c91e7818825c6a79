"""How many files of the package run when a BERT is exported, and whether the page about its way names such files."""

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = TESTS.parent / "onnxfn"

MOST = 110
"""The most files of the package whose functions may run."""

EXPORT = """
import sys, threading
from pathlib import Path
import tiny, torch, onnxfn

package = str(Path(onnxfn.__file__).parent)
files = set()

def note(frame, event, _):
    name = frame.f_code.co_filename
    if event != "call" or not name.startswith(package):
        return
    while frame:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(package):
            return  # it runs because a file is imported
        frame = frame.f_back
    files.add(str(Path(name).relative_to(package)))

spec, model = onnxfn.spec_for("bert", "fill-mask"), tiny.model("bert", "AutoModelForMaskedLM")
threading.setprofile(note)
sys.setprofile(note)
onnxfn.export(spec, model, sys.argv[1])
sys.setprofile(None)
print(*sorted(files), sep="\\n")
"""


def test_an_export_of_bert_runs_through_few_files_and_the_page_names_those_that_run(tmp_path):
    paths = os.pathsep.join(map(str, (TESTS.parent, TESTS / "tiny_models", TESTS / "helpers")))
    command = [sys.executable, "-c", EXPORT, str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": paths}
    text = subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout
    files = set(text.split())
    assert len(files) <= MOST
    page = (PACKAGE / "export" / "WAY.md").read_text()
    named = set(re.findall(r"`((?!tests/)[a-z_/]+\.py)`", page))
    assert len(named) <= 25
    assert named - files == {"architectures/text.py"}  # a table: no function of it runs
