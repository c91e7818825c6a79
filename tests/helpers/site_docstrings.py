"""Docstrings as the site shows them: an example of doctest is a block of code. An extension of griffe."""

import re
import textwrap

from griffe import Extension

EXAMPLE = re.compile(r"^(?:Example:\n)?((?: {4})?>>> .*(?:\n.+)*)", re.MULTILINE)
"""A paragraph that starts with a prompt of Python, perhaps in a section of its own."""


class Examples(Extension):
    """Puts each example into a block of code."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(fenced, obj.docstring.value)


def fenced(match):
    return f"```pycon\n{textwrap.dedent(match[1])}\n```"
