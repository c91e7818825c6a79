"""The Python code of all pages and of README passes `mypy --strict`: the types help whoever copies from a page."""

import os
import subprocess
import sys
from pathlib import Path

from pages import blocks

import onnxfn

ROOT = Path(onnxfn.__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "onnxfn" / "guide").glob("*.md"))]


def test_the_code_of_all_pages_has_right_types(tmp_path):
    for page in PAGES:
        code = "\n".join(code for kind, code, _ in blocks(page.read_text()) if kind == "python")
        (tmp_path / f"page_{page.stem.replace('-', '_')}.py").write_text(code)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--config-file",
        str(ROOT / "pyproject.toml"),
    ]
    files = sorted(str(file) for file in tmp_path.glob("page_*.py"))
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    cache = f"--cache-dir={tmp_path / 'cache'}"
    process = subprocess.run(
        [*command, cache, *files], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert (process.stdout, process.stderr) == ("", "")
