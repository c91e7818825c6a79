"""The command-line options that the benchmarks share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from figures import RESULTS
from models import CACHE, CHECKPOINTS, Checkpoint
from peers import EXPORTERS, Exporter, selected_exporters


def parsed_options(
    description: str,
    benchmark: str,
    models: str,
    exporters: str | None = None,
    flags: Mapping[str, str] = MappingProxyType({}),
    **more: Callable[[str], Any],
) -> argparse.Namespace:
    """The options of the command line.

    `options.checkpoints` and `options.exporters` are the selected rows. `more` are further options of a benchmark and
    their types, `flags` are options without a value and their help.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=5, help="Rounds. In each round every exporter runs once.")
    parser.add_argument("--models", default=models, help=f"Of: {','.join(CHECKPOINTS)}.")
    parser.add_argument("--exporters", default=exporters, help=f"Of: {','.join(EXPORTERS)}.")
    parser.add_argument("--without", action="append", default=[], help="An exporter to leave out.")
    parser.add_argument("--peers-only", action="store_true", help="Leave out onnxfn.")
    parser.add_argument("--cache", type=Path, default=CACHE, help="The folder of checkpoints and environments.")
    parser.add_argument("--json", type=Path, default=RESULTS / f"{benchmark}.json", help="The file for the figures.")
    for option, kind in more.items():
        parser.add_argument(f"--{option}", type=kind)
    for option, text in flags.items():
        parser.add_argument(f"--{option}", action="store_true", help=text)
    options = parser.parse_args()
    options.checkpoints = checkpoints(options.models)
    options.exporters = selected_exporters(options.exporters, options.without, peers_only=options.peers_only)
    options.cache.mkdir(parents=True, exist_ok=True)
    return options


def checkpoints(names: str) -> list[Checkpoint]:
    """The checkpoints with these names, which are separated by commas."""
    selected = names.split(",")
    if unknown := set(selected) - set(CHECKPOINTS):
        raise SystemExit(f"no model {', '.join(unknown)}; known: {', '.join(CHECKPOINTS)}")
    return [CHECKPOINTS[name] for name in selected]


def exporters_for(checkpoint: Checkpoint, exporters: list[Exporter]) -> list[Exporter]:
    """Those of the exporters that can export a checkpoint of this kind."""
    return [exporter for exporter in exporters if checkpoint.kind in exporter.kinds]
