"""The page of all public names, by purpose, with the first sentence of each docstring."""

import ast
import inspect
import re
import textwrap
from importlib import import_module
from itertools import pairwise
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "onnxfn"
PAGE = PACKAGE / "guide" / "names.md"

HEAD = """# Names by purpose

Each public name with its first sentence. For functions and classes `help(onnxfn.export)` prints the whole; of specs and
tables the sentence stands in the source. `from onnxfn import NAME` works for each of them, also below a heading with
another module: `from onnxfn.facts import takes` is the same.
"""


def rows():
    """The rows of the index of public names: (module, its purpose, names)."""
    lines = (PACKAGE / "README.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `onnxfn")]
    return [(module.strip("`"), purpose, re.findall(r"`(\w+)`", names)) for module, purpose, names in cells]


def homes():
    """From a public name to the module that documents it: the first of those by purpose, else the package."""
    package, *by_purpose = rows()
    return {name: module for module, _, names in [package, *reversed(by_purpose)] for name in names}


def page():
    """The text of the page."""
    home, values = homes(), docstrings_of_values()
    parts = [HEAD]
    for module, purpose, names in rows():
        title = purpose.partition(":")[0].rstrip(".") if module != "onnxfn" else "The export, and what follows it"
        lines = [entry(module, name, values) for name in names if home[name] == module]
        parts.append(f"## {title}: `{module}`\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def entry(module, name, values):
    value = getattr(import_module(module), name)
    documented = inspect.isfunction(value) or inspect.isclass(value)
    text = f"- `{name}`: {first_sentence(value.__doc__ if documented else values[name])}"
    return textwrap.fill(text, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def first_sentence(docstring):
    paragraph = " ".join(inspect.cleandoc(docstring).partition("\n\n")[0].split())
    return re.split(r"(?<=[.!])\s+(?=[A-Z`])", paragraph)[0]


def docstrings_of_values():
    """From the name of a value of a module to the docstring below its definition."""
    texts = {}
    public = "".join(path.read_text() for path in sorted(PACKAGE.glob("*.py*")))
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        body = ast.parse(path.read_text()).body
        for statement, following in pairwise(body):
            target = getattr(statement, "target", None) or getattr(statement, "targets", [None])[0]
            text = getattr(getattr(following, "value", None), "value", None)
            name = target.id if isinstance(target, ast.Name) else ""
            if isinstance(text, str) and f"from {module} import {name} as {name}\n" in public:
                texts[name] = text
    return texts
