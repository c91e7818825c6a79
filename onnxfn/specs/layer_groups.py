"""Rows that differ in the number of a layer alone, as one row: `past_key_values.{0..29}.key`.

A row is a tuple of cells; its first cell is the name. The number of a layer is one part of a dotted name. Rows form a
group when one number in their names differs, and every other number that differs does so by the same amount. All other
text is equal, so layers of two kinds (with other axes) are in two groups.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from attrs import evolve, frozen

Row = tuple[str, ...]

_NUMBER = re.compile(r"(?<=\.)(0|[1-9][0-9]*)(?!\w)")
_GROUP = re.compile(r"\{([0-9]+(?:(?:,|\.\.)[0-9]+)*)\}")


@frozen
class Group:
    """Rows that differ in numbers alone.

    Attributes:
        texts: The text of each cell, split at its numbers.
        numbers: For each row, the numbers of all its cells.
        varying: The positions among the numbers at which rows differ; empty for a single row.
        indices: Which rows they are.
    """

    texts: tuple[tuple[str, ...], ...]
    numbers: tuple[tuple[int, ...], ...]
    varying: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
