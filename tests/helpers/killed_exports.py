"""Kills exports with SIGKILL, and prints as JSON what they left: a program, as a killed process cannot be a test.

    killed_exports.py steps FOLDER WAY     before each change of a folder (rename, link, unlink, mkdir, rmdir)
    killed_exports.py moments FOLDER WAY COUNT SEED     real exports, at random moments

WAY: `fresh`: the destination is absent. `exchanged`: it holds an earlier export. `moved`: the same, and folders cannot
be exchanged. `file`: the destination is an ONNX file. `empty`: it is an empty folder. `mounted` and `mounted-empty`:
the staging folder must be in the destination, as on a mount point.
"""

import errno
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

from exported_folders import content, write_set

from onnxfn.export.publish import exchange, staging
from onnxfn.export.publish.publishing import publish
from onnxfn.export.publish.staging import Destination, check_destination, staging_folder
from onnxfn.run.sessions import open_session
from onnxfn.specs.stored.reports import CheckFailed
from onnxfn.weights.journal import STAGING_PREFIX

Run = Callable[[Path, str, float], None]

OLD = ("encoder.onnx", "decoder.onnx", "decoder_with_past.onnx", "config.json")
NEW = ("encoder.onnx", "decoder.onnx", "decoder_merged.onnx", "config.json")
CHANGES = ("os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "swap")
"""Events of Python's audit hooks that a change of a folder raises, and the exchange of two folders."""


def write_earlier(out: Path, way: str, run: Run) -> None:
    """Puts what is at the destination before the export: files of an earlier one, and a file of the user."""
    if way.endswith("empty"):
        out.mkdir()
    elif way != "fresh":
        run(out, "fresh", 1)
        (folder_of(out) / "notes.txt").write_text("mine")


def folder_of(out: Path) -> Path:
    return Destination(out).folder


def export(out: Path, way: str, number: float) -> None:
    """What an export does with its files."""
    destination = Destination(out)
    overwrite = number > 2 or not way.endswith(("fresh", "empty"))
    check_destination(out, overwrite=overwrite)
    with staging_folder(destination) as folder:
        names = ["model.onnx"] if destination.is_file else OLD if number == 1 else NEW
        publish(write_set(folder, names, number), folder, destination, overwrite=overwrite)


def published(folder: Path) -> dict[str, bytes] | None:
    """The content of a destination without staging folders; None if there is nothing."""
    files = content(folder) if folder.exists() else {}
    return {name: data for name, data in files.items() if STAGING_PREFIX not in name} or None


def is_refused(file: Path) -> bool:
    try:
        open_session(file)
    except CheckFailed:
        return True
    return False


def state(folder: Path, states: dict[str, dict[str, bytes] | None]) -> str:
    """The state that a folder is in; `incomplete`: it has files of no other, lacks some, and no reader opens it."""
    now = published(folder)
    for name, files in states.items():
        if now == files:
            return name
    is_part = any((now or {}).items() <= (files or {}).items() for files in states.values())
    graphs = [file for file in folder.rglob("*.onnx") if STAGING_PREFIX not in str(file)]
    return "incomplete" if is_part and all(map(is_refused, graphs)) else f"mixture of {sorted(now or ())}"


def killed(work: Callable[[], None], wait: Callable[[int], None]) -> bool:
    """Runs `work` in a child process; whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    wait(child)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"the export failed: {status}")
    return os.WIFSIGNALED(status)


def kill_at(step: int) -> None:
    """Kills this process before it changes a folder for the `step`th time."""
    steps = iter(range(step, -1, -1))

    def hook(event: str, _: object) -> None:
        if event in CHANGES and next(steps) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    swap = exchange.swap

    def audited(first: Path, second: Path) -> None:
        sys.audit("swap", str(first), str(second))
        swap(first, second)

    exchange.swap = audited
    sys.addaudithook(hook)


def create_inside(parent: Path, folder: Path) -> tuple[Path, int]:
    """Creates a staging folder as on a mount point: a folder in the parent cannot be moved to it."""
    if folder.is_dir() and parent != folder:
        raise OSError(errno.EXDEV, "a mount point")
    return create(parent, folder)


def trial(
    folder: Path, way: str, run: Run, kill: Callable[[int], None], before: Callable[[], None]
) -> tuple[bool, str, str, list[str]]:
    """Kills an export, then runs the next; whether it was killed, the state before and after, and what else is left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    out = folder / ("model.onnx" if way == "file" else "out")
    write_earlier(out, way, run)
    old = published(folder_of(out))
    mine = {"notes.txt": b"mine"} if old else {}
    new, following = (export_alone(folder.with_name("alone") / out.name, run, number) | mine for number in (2, 3))

    def work() -> None:
        before()
        run(out, way, 2)

    was_killed = killed(work, kill)
    after_kill = state(folder_of(out), {"old" if old else "absent": old, "new": new})
    run(out, way, 3)
    left = [str(path.relative_to(folder)) for path in folder.rglob(f"{STAGING_PREFIX}*")]
    return was_killed, after_kill, state(folder_of(out), {"next": following}), left


def export_alone(out: Path, run: Run, number: float) -> dict[str, bytes]:
    """The files of an export to a folder that holds nothing else."""
    shutil.rmtree(out.parent, ignore_errors=True)
    out.parent.mkdir()
    run(out, "fresh", number)
    return published(folder_of(out)) or {}


def steps(folder: Path, way: str) -> list[tuple[int, str, str, list[str]]]:
    """A trial for each change of a folder that an export makes."""
    results = []
    for step in range(1000):
        was_killed, *result = trial(folder, way, export, lambda _: None, lambda step=step: kill_at(step))
        results.append((step, *result))
        if not was_killed:
            return results
    raise SystemExit("an export makes more than 1000 changes")


def real_export() -> Run:
    """An export of a small model whose weights are of a number."""
    import torch

    import onnxfn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2000))
    spec = onnxfn.derived(model, sample={"input": torch.randn(2, 64)})
    state_of_model = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    write = onnxfn.WriteOptions(external_data_threshold=0)

    def run(out: Path, way: str, number: float) -> None:
        model.load_state_dict({name: tensor * number for name, tensor in state_of_model.items()})
        overwrite = number > 2 or not way.endswith(("fresh", "empty"))
        onnxfn.export(spec, model, out, overwrite=overwrite, write=write, check=False)

    return run


def moments(folder: Path, way: str, count: int, seed: int) -> list[tuple[float, str, str, list[str]]]:
    """Trials in which real exports are killed at random moments of the time that one takes."""
    run, generator, results = real_export(), random.Random(seed), []
    run(folder / "first", "fresh", 2)  # imports what an export needs, so that the next one takes as long as the others
    start = time.monotonic()
    killed(lambda: run(folder / "second", "fresh", 2), lambda _: None)
    seconds = time.monotonic() - start
    while len(results) < count:
        delay = generator.uniform(0, seconds)

        def kill(child: int, delay: float = delay) -> None:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)

        _, *result = trial(folder / "trial", way, run, kill, lambda: None)
        results.append((round(delay / seconds, 3), *result))
    return results


if __name__ == "__main__":
    command, root, kind, *numbers = sys.argv[1:]
    if kind == "moved":
        exchange.swap = Mock(side_effect=OSError(errno.EINVAL, "folders cannot be exchanged"))
    if kind.startswith("mounted"):
        create, staging._create_in = staging._create_in, create_inside
    found = {"steps": steps, "moments": moments}[command](Path(root), kind, *map(int, numbers))
    print(json.dumps(found))
