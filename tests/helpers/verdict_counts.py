"""Tables of verdicts on seeded faults. A verdict is (model, kind, status) here."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

STATUSES = ("found", "does not run", "equivalent", "allowed", "missed", "raw error")
"""What the check does with a fault.

`does not run`: ONNX Runtime refuses the file, which is also found. `equivalent`: no answer changes by more than
rounding. `allowed`: an answer changes by more, and the check allows such an error (`check/verdict/verdict.py`).
"""

FOUND, NOT_RUN, EQUIVALENT, ALLOWED, MISSED, RAW = STATUSES

Row = tuple[str, str, str]


def counts(verdicts: Iterable[Row], column: int) -> dict[str, dict[str, int]]:
    """From each model (column 0) or kind (column 1) to the numbers of its verdicts."""
    counters: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        counters.setdefault(verdict[column], Counter())[verdict[2]] += 1
    return {
        value: {status: counter[status] for status in STATUSES if counter[status]}
        for value, counter in sorted(counters.items())
    }


def table(rows: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    width = max(map(len, rows), default=0)
    yield "  ".join(["".ljust(width), *(status.rjust(12) for status in STATUSES)])
    for name, row in rows.items():
        yield "  ".join([name.ljust(width), *(str(row.get(status, 0)).rjust(12) for status in STATUSES)])


def summary(verdicts: Iterable[Row]) -> Iterator[str]:
    every = list(verdicts)
    yield from table(counts(every, 0))
    yield ""
    yield from table(counts(every, 1))
