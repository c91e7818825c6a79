"""The pages of the guide, which travel with the package."""

import sys
from collections.abc import Mapping
from pathlib import Path

from onnxfn.export.cli.flags import say
from onnxfn.specs.errors import refuse_unknown

GUIDE = Path(__file__).parents[2] / "guide"


def pages() -> Mapping[str, Path]:
    """From the topic of a page to its file, in the order of the web site: from a first export to programs."""
    site = (GUIDE / "mkdocs.yml").read_text()
    return {file.stem: file for file in sorted(GUIDE.glob("*.md"), key=lambda file: site.find(f"/{file.name}"))}


def index() -> str:
    """A line for each page: its topic and its title."""
    titles = {topic: file.read_text().partition("\n")[0].removeprefix("# ") for topic, file in pages().items()}
    width = max(map(len, titles))
    return "\n".join(f"{topic:{width}}  {title}" for topic, title in titles.items())


def print_page(topic: str) -> None:
    """Prints a page: rendered on a terminal, as Markdown elsewhere. UnknownName for another topic."""
    refuse_unknown("page", topic, list(pages()))
    text = pages()[topic].read_text()
    if not sys.stdout.isatty():
        say(text)
    else:
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
