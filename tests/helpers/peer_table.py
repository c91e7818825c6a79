"""The section of tests/sweeps/README.md about onnxfn and transformers.exporters on the same pairs."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill

import peer_pairs
import swept

TEXT = """\
{drawn} pairs of this sweep are drawn at random (`peer_pairs.drawn`). {count} were exported by onnxfn
and by transformers.exporters in the same run: {runs}.
A result counts only if it agrees with PyTorch by the rule of onnxfn's check.

| exporter | at the traced sizes | at the traced sizes and others |
| --- | --- | --- |
| onnxfn | not compared | {ours} |
| transformers.exporters | {traced} | {both} |

How the peer was counted: it exports the modules that onnxfn exports, with the same arguments, also the modules of
`onnxfn/architectures/wrappers`. Arguments that it computes before the trace are computed for each size. Its graphs run
through its own `ExportedModel`. The other sizes are those of onnxfn's check. Frames that an encoder calls padding are
not compared. `peer_specs.py` has the arguments of pairs that onnxfn cannot run. The peer is tried in each of these
ways until one is right, and the best result counts: {ways}.
On {untried} pairs it was not tried, because no arguments are known that run; they count as not right.
The table has the pairs that an exporter has not right, `peers.json` has all.

```sh
python -m pytest -m sweep --record tests/architectures/test_peers.py           # writes peers.json
python -m pytest -m sweep --record --left tests/architectures/test_peers.py    # goes on after an interruption
```

{table}
"""


def lines() -> dict[tuple[str, str], Mapping[str, str]]:
    """The recorded result of each pair."""
    return {(name, task): result for name, tasks in peer_pairs.seen().items() for task, result in tasks.items()}


def ours() -> int:
    """How many pairs onnxfn exported right."""
    return sum(not result["onnxfn"].startswith(swept.NOT) for result in lines().values())


def traced() -> int:
    """How many pairs the peer exported right for the sizes of its trace."""
    return sum(result["traced"] == peer_pairs.AGREES for result in lines().values())


def both() -> int:
    """How many pairs the peer exported right, for the sizes of its trace and for others."""
    return sum(result["traced"] == result["others"] == peer_pairs.AGREES for result in lines().values())


def untried() -> int:
    """How many pairs the peer was not tried on, because no arguments are known with which PyTorch runs."""
    return sum(not result["way"] for result in lines().values())


def sentence() -> str:
    """The result in a sentence."""
    peer = f"{peer_pairs.PEER} has {both()} right and was not tried on {untried()}"
    return f"Of {len(lines())} random pairs {ours()} agree; {peer}."


def section() -> str:
    """The text of the section."""
    text = TEXT.format(
        drawn=peer_pairs.COUNT,
        count=len(lines()),
        runs=swept.runs_text(peer_pairs.NAME),
        ours=ours(),
        traced=traced(),
        both=both(),
        untried=untried(),
        ways=", ".join(f"`{way}`" for way in peer_pairs.WAYS),
        table=_table(),
    )
    return "\n".join(text.splitlines())


def _table() -> str:
    """A row for each pair that an exporter has not right."""
    wrong = {pair: result for pair, result in sorted(lines().items()) if _is_wrong(result)}
    head = ("model type", "task", "onnxfn", "transformers.exporters, traced sizes", "other sizes")
    rows = ((*pair, *(_short(result[key]) for key in ("onnxfn", "traced", "others"))) for pair, result in wrong.items())
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows))


def _is_wrong(result: Mapping[str, str]) -> bool:
    return any(result[key].startswith(swept.NOT) for key in ("onnxfn", "traced", "others"))


def _short(line: str) -> str:
    """The start of a reason; `agrees` for a result that agrees."""
    if not line.startswith(swept.NOT):
        return peer_pairs.AGREES
    return fill(peer_pairs.COLORS.sub("", line).removeprefix(swept.NOT).replace("|", "/"), 100).splitlines()[0]
