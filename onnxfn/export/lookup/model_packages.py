"""The package `transformers.models`, imported without reading its files a second time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

MODELS = "transformers.models"

Names = Mapping[frozenset[str], Mapping[str, set[str]]]
"""From the packages that are needed to the names in each module."""


def import_models() -> None:
    """Imports `transformers.models` with the names that `transformers` has found in its 3,000 files.

    Each of the two packages looks for them in all files, which takes a fifth of a second. What the first has found,
    which transformers keeps, is what the second would find.
    """
    import transformers
    from transformers.utils import import_utils

    if MODELS in sys.modules:
        return
    folder = Path(transformers.__file__).parent / "models"
    find = import_utils.define_import_structure
    names = names_in_models(find(folder, prefix="models"))

    def known(path: Any, prefix: str | None = None) -> Names:
        return names if prefix is None and Path(path) == folder / "__init__.py" else find(path, prefix)

    import_utils.define_import_structure = known
    try:
        import_module(MODELS)
    finally:
        import_utils.define_import_structure = find


def names_in_models(names: Names) -> Names:
    """Of the names in `transformers`, those in its folder `models`, from there.

    >>> names_in_models({frozenset(): {"models.bert": {"BertModel"}, "trainer": {"Trainer"}}})
    {frozenset(): {'bert': {'BertModel'}}}
    """
    of_models = (
        (needed, {name.removeprefix("models."): each for name, each in modules.items() if name.startswith("models.")})
        for needed, modules in names.items()
    )
    return {needed: modules for needed, modules in of_models if modules}
