"""The links and the blocks of all pages are whole; pages that are written from the code are as the code is."""

import re
import runpy
import subprocess
from itertools import pairwise
from pathlib import Path

import names_page
import pytest
import rooms_picture

import onnxfn
from onnxfn.specs.version import VERSION

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "onnxfn" / "guide"
LISTED = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
PAGES = [path for path in LISTED.split() if (ROOT / path).is_file()]
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
"""A link inside the repository: its target."""

FENCE = re.compile(r"^(`{3,})(\w*)$")
CHANGES = (ROOT / "CHANGELOG.md").read_text()


def split_page(text):
    """The lines outside of blocks of code, the languages of the blocks, and whether the last block is closed."""
    outside, languages, fence = [], [], ""
    for line in text.splitlines():
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
            languages.append(match[2])
        elif fence and line == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    return outside, languages, not fence


def anchors(path):
    """The names that headings of a page have in links."""
    titles = [line.lstrip("#").strip() for line in split_page(path.read_text())[0] if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page, text):
    """The links of a page that lead to no file, or to no heading of a page."""
    for link in LINK.findall("\n".join(split_page(text)[0])):
        target, _, anchor = link.partition("#")
        path = (page.parent / target) if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            yield link


@pytest.mark.parametrize("path", PAGES)
def test_the_links_of_a_page_lead_to_files_and_headings(path):
    page = ROOT / path
    assert list(broken(page, page.read_text())) == []


@pytest.mark.parametrize("path", PAGES)
def test_blocks_are_closed_and_have_a_language_and_lists_and_tables_stand_below_an_empty_line(path):
    """The site takes a list for a part of the paragraph above it, as GitHub does not."""
    outside, languages, is_closed = split_page((ROOT / path).read_text())
    assert is_closed
    assert "" not in languages
    starts = [line for line, following in pairwise(outside) if re.match(r"- |\|", following)]
    assert [line for line in starts if re.match(r"[^\s|\-]", line) and not re.match(r"\d\.", line)] == []


def test_a_broken_link_and_an_open_block_are_noticed():
    text = "[a](nowhere.md) [b](speech.md#no-heading)\n[c](speech.md#the-loop)\n```py\n[d](x)\n```\n"
    assert list(broken(GUIDE / "decoder.md", text)) == ["nowhere.md", "speech.md#no-heading"]
    assert split_page("```py\na\n")[1:] == (["py"], False)


def test_every_page_of_the_guide_has_a_place_in_the_navigation_of_the_site():
    entries = re.findall(r"[ :] ?(\S+\.md)$", (GUIDE / "mkdocs.yml").read_text(), re.MULTILINE)
    modules = {module.rpartition(".")[2] for module, *_ in names_page.rows()}
    assert {path for path in entries if not (ROOT / path).is_file()} == {
        "models.md",
        *(f"reference/{module}.md" for module in modules),
    }
    assert {f"onnxfn/guide/{page.name}" for page in GUIDE.glob("*.md")} <= {*entries}
    assert len({*entries}) == len(entries)


def test_the_page_of_names_has_the_first_sentence_of_each_docstring():
    page = names_page.PAGE.read_text()
    assert page == names_page.page(), "python tests/tools/documents.py write"
    assert {name for name in onnxfn.__all__ if f"- `{name}`: " not in page} == set()


def test_the_picture_of_the_folders_has_their_imports():
    assert rooms_picture.PICTURE.read_text() == rooms_picture.picture(), "python tests/tools/documents.py write"


def test_the_changelog_has_this_version_and_few_lines():
    versions = re.findall(r"^## (\S+)", CHANGES, re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert VERSION in versions
    assert len(CHANGES.splitlines()) <= 120
    notes = runpy.run_path(str(ROOT / "tests" / "tools" / "documents.py"))["notes"]
    assert notes(VERSION).startswith("The first version")
    assert "\n## " not in notes("Unreleased")
