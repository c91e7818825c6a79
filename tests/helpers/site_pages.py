"""The pages of the web site: those of the repository, the reference, the table of model types.

Pages keep their paths of the repository, so that a link between them works in both places.
"""

import re
import shutil
import subprocess
from html import escape
from importlib import import_module
from pathlib import Path

from names_page import homes, rows

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "onnxfn" / "guide"
SOURCE_LINK = re.compile(r"(\]\([^)#\s]+\.py)\)")
"""A link to a file of Python, which the site shows as a page."""

KINDS = {
    "text": "text encoder",
    "decoders": "decoder",
    "seq2seq": "encoder-decoder",
    "vision": "vision",
    "detection": "vision, places in images",
    "multimodal": "text with images or sound",
    "audio": "audio",
    "series": "time series, decisions",
    "libraries": "timm, sentence-transformers, diffusers",
}
"""From a table of `onnxfn.architectures` to the models in it."""


def write(folder):
    """Writes the configuration of the site and all its pages into a folder, for `zensical build` there."""
    shutil.rmtree(folder / "pages", ignore_errors=True)
    for path, text in pages().items():
        file = folder / "pages" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "mkdocs.yml").write_text((GUIDE / "mkdocs.yml").read_text().replace("REPOSITORY", str(ROOT)))


def pages():
    """From a path on the site to what is there."""
    texts = {path: (ROOT / path).read_text() for path in tracked("*.md", "*.svg")}
    links = {link for path, text in texts.items() for link in sources_linked(ROOT / path, text)}
    return {
        **{path: SOURCE_LINK.sub(r"\1.md)", text) for path, text in texts.items()},
        **{path.name: path.read_text() for path in (GUIDE / "site").glob("*.[!t]*")},
        **{f"{path}.md": f"# {path}\n\n````python\n{(ROOT / path).read_text()}````\n" for path in sorted(links)},
        **{f"reference/{module}.md": text for module, text in reference_pages().items()},
        **{path: with_links(texts[path]) for path in ("onnxfn/README.md", "onnxfn/guide/names.md")},
        "README.md": "---\nhide: [navigation]\n---\n" + texts["README.md"],
        "models.md": models_page(),
    }


def tracked(*patterns):
    """The paths of the files that git knows, or would add; not those of the site itself."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(path for path in {*lines} if (ROOT / path).is_file() and not path.startswith("onnxfn/guide/site/"))


def sources_linked(page, text):
    """The files of Python that a page links to, from the top of the repository."""
    return [(page.parent / link[2:]).resolve().relative_to(ROOT).as_posix() for link in SOURCE_LINK.findall(text)]


# The reference


def link(name):
    """A link to the documentation of a public name, from any page."""
    return f"[`{name}`][{homes()[name]}.{name}]"


def reference_pages():
    """From the last word of a public module to its page."""
    home = homes()
    pages = {}
    for module, purpose, names in rows():
        others = ", ".join(link(name) for name in names if home[name] != module)
        also = f"Also here: {others}.\n\n" if others else ""
        own = "\n\n".join(f"::: {module}.{name}" for name in names if home[name] == module)
        pages[module.rpartition(".")[2]] = f"# {module}\n\n{purpose}\n\n{also}{own}\n"
    return pages


def with_links(markdown):
    """An index of public names, where each name leads to its documentation."""
    names = homes()
    return re.sub(r"(?<=[-,|] )`(\w+)`", lambda match: link(match[1]) if match[1] in names else match[0], markdown)


# The table of model types


def models_page():
    """A row for each model type: its kind, and the tasks that it is exported for."""
    from onnxfn import tasks_for

    tables = {name: import_module(f"onnxfn.architectures.{name}").ROWS for name in KINDS}
    lines = [
        f"<tr><td><code>{escape(model_type)}</code></td>"
        f"<td>{' '.join(f'<code>{task}</code>' for task in tasks_for(model_type))}</td><td>{KINDS[name]}</td></tr>"
        for name, table in tables.items()
        for model_type in sorted(table)
    ]
    return (GUIDE / "site" / "models.template").read_text().replace("ROWS", "\n".join(lines))
