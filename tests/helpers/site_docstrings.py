"""Docstrings as the site shows them: an example of doctest is a block of code. An extension of griffe."""

import re

from griffe import Extension

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
"""A paragraph that starts with a prompt of Python."""


class Examples(Extension):
    """Puts each example into a block of code, also where no section names it."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
