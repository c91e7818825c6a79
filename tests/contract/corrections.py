"""Where a plan differs from Optimum's on purpose, with the reason of each difference: `corrections.csv`.

Cells with several names separate them by spaces. An empty cell of model types, presets or tasks is true of all. Kinds:

- symbol: an axis of tensors has another symbol; an empty symbol is a static axis.
- size: an axis of the dummy inputs whose names end so has another size.
- added input: Optimum does not declare it; it is the last one. `ours` has its axes.
- absent: no model has the tensors whose names start so.
- without model: no class of transformers has these tasks.
- repeated preset: it is not planned, because its configuration is that of the preset in `ours`.
"""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import evolve, frozen

from onnxfn import ExportSpec, File, Parts
from onnxfn.specs.edits.behaviors import split, with_behavior


@frozen
class Correction:
    """A row of the table. `optimum` is what Optimum declares, `ours` what is here, `why` the reason."""

    kind: str
    model_types: tuple[str, ...]
    presets: tuple[str, ...]
    tasks: tuple[str, ...]
    tensors: tuple[str, ...]
    axis: int | None
    optimum: str | None
    ours: str | None
    why: str

    def fits(self, model_type: str, preset: str | None = None, task: str | None = None) -> bool:
        """Whether the row is true of a model type, and of a preset and a task where they are given."""
        cells = ((self.presets, preset), (self.tasks, task))
        return model_type in self.model_types and all(own is None or not cell or own in cell for cell, own in cells)


def _row(cells: list[str]) -> Correction:
    kind, model_types, presets, tasks, tensors, axis, optimum, ours, why = cells
    names = (tuple(cell.split()) for cell in (model_types, presets, tasks, tensors))
    return Correction(kind, *names, int(axis) if axis else None, optimum or None, ours or None, why)


with (Path(__file__).parent / "corrections.csv").open() as _file:
    CORRECTIONS = tuple(map(_row, list(csv.reader(_file))[1:]))


def corrections(kind: str, *where: str | None) -> tuple[Correction, ...]:
    """The rows of a kind; `where` is a model type, a preset and a task, of which those that are given decide."""
    return tuple(row for row in CORRECTIONS if row.kind == kind and (not where or row.fits(*where)))


VARIANTS: Mapping[tuple[str, str], Callable[[ExportSpec], ExportSpec]] = {
    ("colpali", "text"): lambda spec: evolve(with_behavior(spec, "text_model"), parts=Parts(files=(File("model"),))),
    ("metaclip_2", "split"): split,
}
"""(model type, variant of Optimum that is not its default) -> the edit that exports the same files, by their names."""

# Optimum declares the whole SAM as one of its parts, and a split MetaCLIP 2 for a task whose class has no parts.
EXCLUDED = {("sam", "feature-extraction@monolith"), ("metaclip_2", "image-classification@split")}

NEXT_TOKENS, NEXT_TOKENS_SIZE = "decoder_sequence_length", 16
"""The symbol of the new tokens of a decoder with a past, where Optimum has the size 1, and their number in dummies.

Such a decoder reads any number of new tokens, so that a draft can be verified in one call.
"""
