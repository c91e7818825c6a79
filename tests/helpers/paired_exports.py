"""Two processes that publish to one destination at the same time: a program, as it forks.

    paired_exports.py FOLDER WAY COUNT

WAY: `fresh`: the destination is absent. `empty`: it is an empty folder. `file`: it is an ONNX file. `over`: it holds
an earlier export, which both replace. For each pair it prints the exit codes, 3 for OutputExists, and whether the
destination then holds all of one export and nothing else.
"""

import json
import os
import shutil
import sys
import time
import traceback
from pathlib import Path

from exported_folders import content, write_set

from onnxfn.export.publish.publishing import publish
from onnxfn.export.publish.staging import Destination, check_destination, staging_folder
from onnxfn.specs.errors import OutputExists

NAMES = {1: ("model.onnx",), 2: ("model.onnx", "other.onnx")}
OLD = ("model.onnx", "old.onnx")


def export(out: Path, number: int, start: float, *, overwrite: bool) -> int:
    destination = Destination(out)
    try:
        check_destination(out, overwrite=overwrite)
        with staging_folder(destination) as staging:
            files = write_set(staging, NAMES[1 if destination.is_file else number], number)
            while time.time() < start:
                pass
            publish(files, staging, destination, overwrite=overwrite)
    except OutputExists:
        return 3
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        return 4
    return 0


def pair(folder: Path, way: str) -> tuple[list[int], bool]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    out = folder / ("model.onnx" if way == "file" else "out")
    if way == "empty":
        out.mkdir()
    if way == "over":
        write_set(out, OLD, 0)
    start, children = time.time() + 0.1, []
    for number in (1, 2):
        child = os.fork()
        if child == 0:
            os._exit(export(out, number, start, overwrite=way == "over"))
        children.append(child)
    codes = sorted(os.WEXITSTATUS(os.waitpid(child, 0)[1]) for child in children)
    return codes, content(folder) in [set_alone(folder, way, number) for number in (1, 2)]


def set_alone(folder: Path, way: str, number: int) -> dict[str, bytes]:
    alone = folder.with_name("alone")
    shutil.rmtree(alone, ignore_errors=True)
    write_set(alone if way == "file" else alone / "out", NAMES[1 if way == "file" else number], number)
    return content(alone)


if __name__ == "__main__":
    root, kind, count = sys.argv[1:]
    print(json.dumps([pair(Path(root), kind) for _ in range(int(count))]))
