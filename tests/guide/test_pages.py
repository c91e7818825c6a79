"""The code of each page of the guide runs, and prints what the page shows."""

from pathlib import Path

import pytest
from pages import run_page

import onnxfn

GUIDE = Path(onnxfn.__file__).parent / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
ELSEWHERE = {
    "diffusion": "diffusers is not among the packages of the tests: tests/architectures/test_pipelines.py",
    "names": "an index without code, written by tests/tools/documents.py",
}
LONGEST, WIDEST = 120, 120
"""The most lines of a page, and the most characters of a line."""


def ids(pages):
    return [page.stem for page in pages]


RUN = [page for page in PAGES if page.stem not in ELSEWHERE]


@pytest.mark.parametrize("page", RUN, ids=ids(RUN))
def test_the_code_of_a_page_runs_and_prints_the_text_that_follows_it(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(page.read_text(), page.name, {}) >= 1


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_a_page_is_short(page):
    text = page.read_text()
    assert text.startswith("# ")
    assert len(text.splitlines()) <= LONGEST or page.stem == "names"
    assert max(map(len, text.splitlines())) <= WIDEST
