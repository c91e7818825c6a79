"""What every benchmark is told on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import RESULTS
from models import CACHE, CHECKPOINTS, Checkpoint
from peers import EXPORTERS, Exporter, chosen


def told(
    question: str, name: str, models: str, exporters: str | None = None, **more: Callable[[str], Any]
) -> argparse.Namespace:
    """The options; `checkpoints` and `exporters` are the rows that are meant, `more` are options of this one alone."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--runs", type=int, default=5, help="Rounds; in each, all take their turn.")
    parser.add_argument("--models", default=models, help=f"Of: {','.join(CHECKPOINTS)}.")
    parser.add_argument("--exporters", default=exporters, help=f"Of: {','.join(EXPORTERS)}.")
    parser.add_argument("--without", action="append", default=[], help="An exporter to leave out.")
    parser.add_argument("--peers-only", action="store_true", help="Leave out onnxfn.")
    parser.add_argument("--peers", type=Path, default=CACHE, help="Where checkpoints and environments are kept.")
    parser.add_argument("--json", type=Path, default=RESULTS / f"{name}.json", help="Where the figures go.")
    for option, kind in more.items():
        parser.add_argument(f"--{option}", type=kind)
    asked = parser.parse_args()
    asked.checkpoints = checkpoints(asked.models)
    asked.exporters = chosen(asked.exporters, asked.without, peers_only=asked.peers_only)
    return asked


def checkpoints(names: str) -> list[Checkpoint]:
    wanted = names.split(",")
    if unknown := set(wanted) - set(CHECKPOINTS):
        raise SystemExit(f"no model is called {', '.join(unknown)}; there are: {', '.join(CHECKPOINTS)}")
    return [CHECKPOINTS[name] for name in wanted]


def able(asked: list[Exporter], one: Checkpoint) -> list[Exporter]:
    """Those of the exporters that have a way for this kind of model."""
    return [how for how in asked if one.kind in how.kinds]
