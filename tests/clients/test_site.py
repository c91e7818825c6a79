"""The web site of the guide is built without a warning, and its links lead to what is there."""

import subprocess
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import names_page
import pytest
import site_pages
from client_environments import command

import onnxfn

pytestmark = pytest.mark.clients
SECONDS = 60
"""The most that a build may take."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    site_pages.write(folder)
    build = [command("docs", folder)[0], "-m", "zensical", "build", "--strict", "--config-file", folder / "mkdocs.yml"]
    done = subprocess.run(build, check=False, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "html").resolve()


def read_page(text):
    """The links and the anchors of a page of HTML."""
    links, anchors = [], set()

    def note(_, attributes):
        values = dict(attributes)
        links.extend(values[name] for name in ("href", "src") if values.get(name))
        anchors.update(values[name] for name in ("id", "name") if values.get(name))

    parser = HTMLParser()
    parser.handle_starttag = parser.handle_startendtag = note
    parser.feed(text)
    return links, anchors


def broken(page, links, anchors):
    """The links of a page that lead to no file of the site, or to no anchor of a page."""
    for link in links:
        parts = urlsplit(link)
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        target = target / "index.html" if target.is_dir() else target
        is_there = target.is_file() and unquote(parts.fragment) in {"", *anchors.get(target, (parts.fragment,))}
        if not is_there and not parts.scheme and not parts.netloc:
            yield link


def test_no_link_of_the_site_is_broken(site):
    pages = {page: read_page(page.read_text()) for page in sorted(site.rglob("*.html")) if page.name != "404.html"}
    anchors = {page: names for page, (_, names) in pages.items()}
    assert len(pages) > 90
    wrong = {page: list(broken(page, links, anchors)) for page, (links, _) in pages.items()}
    assert {page: links for page, links in wrong.items() if links} == {}
    assert list(broken(site / "index.html", ["models/", "gone/", "models/#gone"], anchors)) == ["gone/", "models/#gone"]


def test_the_reference_has_every_public_name_and_the_table_every_model_type(site):
    reference = {path.parent.name: read_page(path.read_text())[1] for path in site.glob("reference/*/index.html")}
    missing = {
        name for name, home in names_page.homes().items() if f"{home}.{name}" not in reference[home.rpartition(".")[2]]
    }
    assert missing == set()
    rows = (site / "models" / "index.html").read_text()
    assert {name for name in onnxfn.ARCHITECTURES if f"<code>{name}</code>" not in rows} == set()
    assert "depth-estimation" in rows
