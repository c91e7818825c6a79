"""What many checkpoints cost on workers of dask, and what 70 billion parameters cost: measured, and computed from that.

    python benchmarks/costs.py

reads the results of many.py, large.py and larger.py, and exports nothing. The simulation has what `export_many` does:
one program prepares all jobs, then each worker starts, the first job of each kind traces the model, the others of its
kind wait for that, and every worker takes the next job as soon as it is free. It knows no slow disk that workers share
and no worker that fails, so its times are the least that a cluster of such machines needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

from attrs import frozen
from figures import RESULTS, print_and_save

JOBS, WORKERS = 10_000, (1, 4, 16, 64)
MEASURED, COMPUTED = "measured", "computed"
PARAMETERS_8B, PARAMETERS_70B = 8.03e9, 70.55e9
"""The parameters of Llama 3."""

MINUTE = 60.0


@frozen
class Kind:
    """Jobs that share a graph: how many, the seconds of the first one, which traces, and of each other."""

    jobs: int
    first: float
    other: float


def farm_seconds(kinds: Sequence[Kind], workers: int, *, prepare: float = 0.0, start: float = 0.0) -> float:
    """The seconds in which workers do all jobs.

    Args:
        kinds: The jobs.
        workers: How many jobs run at a time.
        prepare: Seconds for each job before the first one starts, in the program that hands them out.
        start: Seconds until a worker can take its first job.

    >>> farm_seconds([Kind(5, first=3.0, other=1.0)], 1), farm_seconds([Kind(5, first=3.0, other=1.0)], 4)
    (7.0, 4.0)
    >>> farm_seconds([Kind(5, 3.0, 1.0), Kind(1, 3.0, 1.0)], 2, prepare=1.0, start=2.0)
    13.0
    """
    free = [prepare * sum(kind.jobs for kind in kinds) + start] * workers
    heapify(free)
    waiting = sorted(kinds, key=lambda kind: -kind.other * kind.jobs)
    known = sorted((_end(free, 0.0, kind.first), index, kind) for index, kind in enumerate(waiting))
    ends = [end for end, _, _ in known]
    for ready, _, kind in known:
        ends.extend(_end(free, ready, kind.other) for _ in range(kind.jobs - 1))
    return max(ends, default=0.0)


def _end(free: list[float], ready: float, seconds: float) -> float:
    """The time at which the next free worker ends a job that can start at `ready`; the worker is free then."""
    end = max(heappop(free), ready) + seconds
    heappush(free, end)
    return end


def rows(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """All rows, from the rows of the results of many.py, large.py and larger.py."""
    return [*_farm_rows(results["many"], results["large"]), *_large_rows(results["large"], results["larger"])]


def _farm_rows(many: Sequence[Mapping[str, Any]], large: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    tiny = next(row for row in many if (row["model"], row["run by"]) == ("bert", "dask"))
    prepare = tiny["second run s"] / tiny["jobs"]
    other = (tiny["seconds"] - tiny["graphs s"] - prepare * tiny["jobs"]) * 2 / (tiny["jobs"] - 1)
    known = _farm_row("tiny BERT", tiny["jobs"], 2, tiny["seconds"], MEASURED)
    computed = [
        _farm_row("tiny BERT", JOBS, n, farm_seconds([Kind(JOBS, tiny["graphs s"], other)], n, prepare=prepare))
        for n in WORKERS
    ]
    return [known, *computed, *_large_farm_rows(large, prepare)]


def _large_farm_rows(large: Sequence[Mapping[str, Any]], prepare: float) -> list[dict[str, Any]]:
    """Fine-tunes of 1.1 billion parameters to 4 bits. A server has the imports; the first job alone has the graph."""
    one = next(row for row in large if row["exporter"] == "onnxfn q4 unchecked" and "1b" in row["model"])
    first = one["seconds"] - one["imports s"]
    kind = Kind(JOBS, first, first - one["graph s"])
    memory, disk = one["anonymous GB"], JOBS * one["GB on disk"]
    return [
        {
            **_farm_row("1.1 B to q4", JOBS, n, farm_seconds([kind], n, prepare=prepare, start=one["imports s"])),
            "GB of memory": memory,
            "GB written": disk,
        }
        for n in WORKERS
    ]


def _farm_row(what: str, jobs: int, workers: int, seconds: float, figure: str = COMPUTED) -> dict[str, Any]:
    return {"what": what, "jobs": jobs, "workers": workers, "minutes": seconds / MINUTE, "figure": figure}


def _large_rows(large: Sequence[Mapping[str, Any]], larger: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """70 billion parameters in bfloat16: linked as it was measured, copied and in 4 bits from 8 billion parameters."""
    known = next(row for row in larger if row["model"] == "llama-21b-bf16")
    measured = _linked_row("21 B, linked, sparse file", known["seconds"], known, MEASURED)
    reading = known["seconds"] - known["graph s"]
    factor = PARAMETERS_70B * 2e-9 / known["weights GB"]
    computed = _linked_row("70 B, linked", known["graph s"] + factor * reading, known, COMPUTED)
    return [measured, computed, *(row for name in ("float16", "q4") for row in _scaled_rows(name, large))]


def _linked_row(what: str, seconds: float, known: Mapping[str, Any], figure: str) -> dict[str, Any]:
    """An export that copies no weight: its memory and its files do not grow with the weights."""
    sizes = {"GB of memory": known["anonymous GB"], "GB written": known["written MB"] / 1000}
    return {**_farm_row(what, 1, 1, seconds, figure), **sizes}


def _scaled_rows(dtype: str, large: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """An export of 8 billion parameters, and the same of 70 billion: time beyond the imports and files in proportion.

    Memory does not grow with the number of layers; it grows with the largest weight, which has twice the elements.
    """
    eight = next(row for row in large if row["exporter"] == f"onnxfn {dtype} unchecked" and "8b" in row["model"])
    factor = PARAMETERS_70B / PARAMETERS_8B
    seconds = eight["imports s"] + eight["graph s"]
    base = {"jobs": 1, "workers": 1}
    return [
        {
            "what": f"8 B to {dtype}",
            **base,
            "minutes": eight["seconds"] / MINUTE,
            "GB of memory": eight["anonymous GB"],
            "GB written": eight["GB on disk"],
            "figure": MEASURED,
        },
        {
            "what": f"70 B to {dtype}",
            **base,
            "minutes": (seconds + factor * (eight["seconds"] - seconds)) / MINUTE,
            "GB of memory": eight["anonymous GB"] + eight["above imports GB"],
            "GB written": factor * eight["GB on disk"],
            "figure": COMPUTED,
        },
    ]


def read_rows(results: Path = RESULTS) -> dict[str, list[dict[str, Any]]]:
    """The rows of the last results that the costs follow from."""
    return {name: json.loads((results / f"{name}.json").read_text())["rows"] for name in ("many", "large", "larger")}


def main() -> None:
    print_and_save("costs", rows(read_rows()), [], RESULTS / "costs.json", runs=1)


if __name__ == "__main__":
    main()
