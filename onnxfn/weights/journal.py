"""The journal of an export that replaces files: while there is one, the destination may lack files of the set."""

import json
import os
from pathlib import Path

from attrs import asdict, field, frozen

from onnxfn.specs.converters import as_tuple
from onnxfn.weights.names import file_fault, is_inside, name_fault, read_regular

STAGING_PREFIX = ".onnxfn."
"""The prefix of the names of staging folders."""

STAGED_FILES, REPLACED_FILES = "files", "replaced"
"""In a staging folder: the folder of the complete files, and the folder of the replaced files."""

JOURNAL_FILE, NEW_JOURNAL_FILE = "journal.json", "journal.json.new"
"""In a staging folder: the journal, and the journal while it is written."""


@frozen
class Journal:
    """The changes of an export to a folder: `files` to move, in order, `stale` ones to delete, `new_folder`'s inode."""

    files: tuple[str, ...] = field(converter=as_tuple)
    stale: tuple[str, ...] = field(converter=as_tuple)
    new_folder: int = 0


def write_journal(root: Path, journal: Journal) -> None:
    """Writes the journal of a staging folder; it appears by one rename."""
    new = root / NEW_JOURNAL_FILE
    new.write_text(json.dumps(asdict(journal)))
    new.replace(root / JOURNAL_FILE)


def read_journal(root: Path) -> Journal | None:
    """The journal of a staging folder; None if it has none, or if a name in it, or a staged file, leads out of it."""
    try:
        journal = Journal(**json.loads(read_regular(root / JOURNAL_FILE)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    staged = root / STAGED_FILES
    moved = () if journal.new_folder else journal.files  # after a swap the old folder is there, as its owner left it
    faults = (file_fault(staged, root), *(name_fault(name, staged) for name in moved))
    return journal if all(map(is_inside, (*journal.files, *journal.stale))) and not any(faults) else None


def half_replaced(graph: Path) -> bool:
    """Whether an ONNX file is of a set of which an export, killed or running, has replaced some files and not all."""
    graph, pattern = graph.absolute(), f"{STAGING_PREFIX}*"
    return any(_is_half_replaced(graph, root) for folder in graph.parents[:2] for root in folder.glob(pattern))


def _is_half_replaced(graph: Path, root: Path) -> bool:
    folder, journal = root.parent, read_journal(root)
    if journal is None or journal.new_folder:
        return False
    names = (*journal.files, *journal.stale)
    waiting = [name for name in journal.files if os.path.lexists(root / STAGED_FILES / name)]
    finished = not waiting and not any(os.path.lexists(folder / name) for name in journal.stale)
    begun = len(waiting) < len(journal.files) or any((root / REPLACED_FILES).glob("*"))
    return graph.relative_to(folder).as_posix() in names and begun and not finished
