"""From the path of a name to what it names."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any


def at_path(path: str) -> Any:
    """The object named by `package.module` or `package.module:name`. Only this call imports the module.

    The result is not kept: while a model is traced, a patch may stand there.

    >>> at_path("operator:add")(1, 2)
    3
    """
    module, _, name = path.partition(":")
    return attrgetter(name)(import_module(module)) if name else import_module(module)
