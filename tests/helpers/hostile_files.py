"""Changes files of right exports and checkpoints at random, and does with them what users do: a program.

    hostile_files.py BASES FIRST LAST     prints a line of JSON for each seed from FIRST to before LAST

It is a program because it watches itself: an audit hook of Python notes what is opened or changed outside the folders
that a call gets, and inotify notes what any library opens in a private folder next to them. Both are for good.
"""

import ctypes
import json
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from mutated import places
from time_limits import limited

import onnxfn
from onnxfn.export.report.push import uploaded_files, verified
from onnxfn.export.run.requests import export_request, request_plan
from onnxfn.weights.adapters import read_adapter
from onnxfn.weights.journal import STAGING_PREFIX

LIMIT = 10
"""Seconds of a call."""

LOG, JOBS = "log.jsonl", "jobs.jsonl"
"""The log of a batch and the file of its jobs. The caller names them, so they are links where the caller wants that."""

PRIVATE, SECRET = "private", "the secret of the user"

VALUES: tuple[Any, ...] = (
    *("../private/secret", "../private/model.safetensors", "/etc/passwd", "", ".", "..", "a\0b", "a" * 5000, "\ud800"),
    *(None, True, -1, 0, 3, 10**30, 1.5, float("nan"), [], {}, [[]], {"a": {}}, ["../private/secret"], "q8", "link"),
)
"""What takes the place of a value of JSON; as texts, of its keys, too."""


# What is changed


def change_json(file: Path, draw: random.Random) -> str:
    data = file.read_bytes()
    start = 8 if file.suffix == ".safetensors" else 0
    stop = 8 + struct.unpack("<Q", data[:8])[0] if start else len(data)
    content = json.loads(data[start:stop])
    where = _change(content, draw)
    text = json.dumps(content).encode(errors="replace")
    file.write_bytes((struct.pack("<Q", len(text)) if start else b"") + text + data[stop:])
    return f"{file.name}: {where}"


def _change(content: Any, draw: random.Random) -> str:
    found = list(places(content))
    if not found:
        return "nothing"
    holder, key = draw.choice(found)
    value = draw.choice(VALUES)
    if isinstance(holder, dict) and isinstance(value, str) and draw.random() < 0.4:
        holder[value] = holder.pop(key)
        return f"key {key} is {value!r:.30}"
    if draw.random() < 0.1:
        del holder[key]
        return f"no {key}"
    holder[key] = value
    return f"{key} is {value!r:.30}"


def change_bytes(file: Path, draw: random.Random) -> str:
    data = bytearray(file.read_bytes())
    kind = draw.choice(("cut", "empty", "byte", "more"))
    place = draw.randrange(max(1, len(data)))
    if kind == "byte" and data:
        data[place] ^= 1 << draw.randrange(8)
    file.write_bytes({"cut": data[:place], "empty": b"", "byte": data, "more": data + bytes(9)}[kind])
    return f"{file.name}: {kind} {place}"


def change_kind(file: Path, draw: random.Random) -> str:
    kind = draw.choice(("gone", "pipe", "folder", "outside", "itself", "nothing", "secret", "linked folder"))
    private = Path(os.environ["CASE"]) / PRIVATE
    if kind == "linked folder" and file.parent.parent.name != "models":
        copy = Path(shutil.copytree(file.parent, private / file.parent.name))
        shutil.rmtree(file.parent)
        file.parent.symlink_to(copy)
        return f"{file.parent.name}: a link to a folder outside"
    if kind == "outside":
        shutil.copyfile(file, private / file.name)
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind in ("outside", "itself", "nothing", "secret"):
        targets = {"outside": private / file.name, "itself": file, "nothing": "no", "secret": private / "secret"}
        file.symlink_to(targets[kind])
    return f"{file.name}: {kind}"


def change_external_data(file: Path, draw: random.Random) -> str:
    model = onnx.load(file, load_external_data=False)
    tensors = [tensor for tensor in model.graph.initializer if tensor.external_data]
    if not tensors:
        return change_bytes(file, draw)
    entry = draw.choice(draw.choice(tensors).external_data)
    value = str(draw.choice([value for value in VALUES if not isinstance(value, str) or "\ud800" not in value]))
    entry.value = value
    file.write_bytes(model.SerializeToString())
    return f"{file.name}: {entry.key} is {value!r:.30}"


def change(folder: Path, draw: random.Random) -> str:
    words = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
        if not files:
            break
        file = draw.choice(files)
        changes = [change_bytes] if file.name in (LOG, JOBS) else [change_kind, change_bytes]
        if file.suffix in (".json", ".safetensors", ".jsonl"):
            changes = [change_json, change_json, change_json, *changes]
        if file.suffix == ".onnx":
            changes = [change_external_data, change_external_data, *changes]
        try:
            words.append(draw.choice(changes)(file, draw))
        except (ValueError, struct.error, DecodeError):  # it was damaged by an earlier change
            words.append(change_bytes(file, draw))
    return "; ".join(words)


# What is done


Action = Callable[[Path, Path], Any]


def verify(given: Path, out: Path) -> None:
    assert "\n" not in str(onnxfn.verify(given)).strip("\n") or not onnxfn.verify(given).passed


def push(given: Path, out: Path) -> None:
    verified(given)
    outside = [file for file in uploaded_files(given) if not file.resolve().is_relative_to(given.resolve())]
    assert outside == []


def run(given: Path, out: Path) -> None:
    import numpy as np

    onnxfn.load(given)(input=np.ones((3, 64), np.float32))


def validate(given: Path, out: Path) -> None:
    model, spec = linear()
    onnxfn.validate(spec, model, given)


def overwrite(given: Path, out: Path) -> None:
    model, spec = linear()
    onnxfn.export(spec, model, given, overwrite=True, check=False)


def inspect(given: Path, out: Path) -> None:
    from onnxfn.export.report.graph_summary import graph_files, graph_summary, summary_text

    for file in graph_files(given):
        summary_text(file.name, graph_summary(file))


def batch(given: Path, out: Path) -> None:
    jobs = onnxfn.read_jobs(given.parent if given.is_dir() else given, out)
    result = onnxfn.batch_preview(jobs, given.parent / LOG)
    assert not any("unexpected error" in job.error for job in result.jobs), result


def jobs(given: Path, out: Path) -> None:
    result = onnxfn.batch_preview(onnxfn.read_jobs(given / JOBS, out), given / LOG)
    assert not any("unexpected error" in job.error for job in result.jobs), result
    assert all(Path(job.path).resolve().is_relative_to(out.resolve()) for job in result.jobs)


ACTIONS: dict[str, Action] = {
    **{each.__name__: each for each in (verify, push, run, validate, overwrite, inspect, batch, jobs)},
    "load_and_save": lambda given, out: onnxfn.load(given).save(out),
    "plan": lambda given, out: request_plan(onnxfn.ExportRequest(given, out)),
    "export": lambda given, out: export_request(onnxfn.ExportRequest(given, out, check="none")),
    "model": lambda given, _: onnxfn.model_for(str(given)),
    "fingerprint": lambda given, _: onnxfn.fingerprint(given),
    "processor": lambda given, _: onnxfn.generate(given, "a text", max_new_tokens=1),
    "adapter": lambda given, _: read_adapter(given),
    "generate": lambda given, _: onnxfn.generate(given, [[1, 2, 3]], max_new_tokens=2),
}
OF_CHECKPOINTS = (*("batch",) * 4, *("plan",) * 4, *("model",) * 4, "fingerprint", "fingerprint", "processor", "export")
OF_BASES: dict[str, tuple[str, ...]] = {
    "linear": ("load_and_save", "load_and_save", "verify", "verify", "push", "run", "validate", "overwrite", "inspect"),
    "hub": ("load_and_save", "verify", "push", "inspect", "processor"),
    "decoder": ("generate", "generate", "load_and_save", "inspect"),
    "pipeline": ("verify", "push"),
    "bert": OF_CHECKPOINTS,
    "llama": OF_CHECKPOINTS,
    "adapter": ("adapter",),
    "jobs": ("jobs",),
}
"""From a base to what is done with it, the usual actions more than once."""


def linear() -> tuple[Any, Any]:
    import torch

    torch.manual_seed(0)
    module = torch.nn.Linear(64, 32)
    return module, onnxfn.derived(module, sample={"input": torch.ones(3, 64)})


def write_bases(folder: Path) -> None:
    import peft_adapters
    import tiny

    module, spec = linear()
    onnxfn.export(spec, module, folder / "linear", write=onnxfn.WriteOptions(external_data_threshold=0), check=False)
    bert = tiny.model("bert", "AutoModelForMaskedLM")
    bert.save_pretrained(folder / "bert")
    (folder / "bert" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb")
    (folder / "bert" / "tokenizer_config.json").write_text('{"tokenizer_class":"BertTokenizer","do_lower_case":true}')
    hub = onnxfn.WriteOptions(layout="hub", external_data_threshold=0)
    spec = onnxfn.spec_for(bert, "fill-mask")
    onnxfn.export(spec, bert, folder / "hub", checkpoint=folder / "bert", write=hub, check=False)
    llama = tiny.model("llama", "AutoModelForCausalLM")
    llama.save_pretrained(folder / "llama", max_shard_size="60KB")
    spec = onnxfn.spec_for(llama, "text-generation-with-past")
    onnxfn.export(spec, llama, folder / "decoder", checkpoint=folder / "llama", write=hub, check=False)
    shutil.copytree(peft_adapters.FOLDER / "patterns", folder / "adapter")
    shutil.copytree(folder / "linear", folder / "pipeline" / "unet")
    (folder / "pipeline" / "scheduler").mkdir()
    (folder / "pipeline" / "scheduler" / "scheduler_config.json").write_text("{}")
    index = {"_class_name": "X", "unet": ["diffusers", "UNet"], "scheduler": ["diffusers", "Scheduler"]}
    (folder / "pipeline" / "model_index.json").write_text(json.dumps(index))
    shutil.copytree(folder / "bert", folder / "jobs" / "models" / "bert")
    job = {"model": "models/bert", "out": "bert", "task": "fill-mask", "dtype": ["q8"], "shape": {"batch_size": 1}}
    (folder / "jobs" / JOBS).write_text(json.dumps(job))
    (folder / "jobs" / LOG).write_text(json.dumps({"path": "out/bert", "checkpoint": "bert", "status": "exported"}))


# What is watched

WRITES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.chmod", "os.truncate")
IN_OPEN, IN_CHANGES = 0x20, 0x2 | 0x40 | 0x80 | 0x100 | 0x200


def watch(folder: Path) -> int:
    """The descriptor of an inotify watch of what is opened or changed in a folder."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor: int = library.inotify_init1(os.O_NONBLOCK)
    library.inotify_add_watch(descriptor, os.fsencode(folder), IN_OPEN | IN_CHANGES)
    return descriptor


def seen(descriptor: int) -> list[str]:
    """The names in a watched folder that were opened or changed since the last call."""
    try:
        data = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return []
    names, start = [], 0
    while start < len(data):
        length = struct.unpack_from("I", data, start + 12)[0]
        names.append(data[start + 16 : start + 16 + length].rstrip(b"\0").decode())
        start += 16 + length
    return sorted({*filter(None, names)})


def audited(events: list[str], state: dict[str, Any]) -> Callable[[str, tuple[Any, ...]], None]:
    """A hook that adds to `events` what is opened or changed outside the folders of a case."""
    everywhere = [sys.prefix, sys.base_prefix, str(Path(onnxfn.__file__).parents[1]), "/proc", "/sys", "/dev", "/usr"]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not state["watches"] or event not in ("open", *WRITES):
            return
        state["watches"] = False
        try:
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                if isinstance(path, str | bytes | os.PathLike):
                    real = os.path.realpath(os.fsdecode(path))
                    # An export looks above its destination for what killed exports left.
                    is_above = str(state["case"]).startswith(os.path.join(real.partition(STAGING_PREFIX)[0], ""))
                    allowed = (*everywhere, *state["allowed"])
                    if not is_above and not any(real == root or real.startswith(f"{root}/") for root in allowed):
                        events.append(f"{event} {real}")
        except (ValueError, OSError):
            pass
        finally:
            state["watches"] = True

    return hook


class Hangs(BaseException):
    """A call takes longer than its limit."""


def outcome(action: Action, given: Path, out: Path) -> str:
    try:
        with limited(LIMIT, Hangs, signal.ITIMER_REAL):
            action(given, out)
    except onnxfn.OnnxfnError as error:
        text = str(error)
        return f"several lines: {text!r}" if "\n" in text or "Traceback" in text else f"refused: {text}"
    except Hangs:
        return "hangs: " + traceback.format_exc().splitlines()[-3].strip()
    except Exception as error:  # noqa: BLE001 - it is what must not be
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "onnxfn/" in frame.filename]
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        return f"raised: {type(error).__name__}: {str(error)[:200]} at {where}"
    return "right"


@contextmanager
def case_of(seed: int, bases: Path, own: str, state: dict[str, Any]) -> Iterator[tuple[Path, Path, dict[str, Any]]]:
    """The changed folder of a seed, the folder of what is written, and what is known of the seed."""
    draw = random.Random(seed)
    base = draw.choice([*OF_BASES])
    with tempfile.TemporaryDirectory(dir=bases) as name:
        case = Path(name).resolve()
        os.environ["CASE"] = state["case"] = str(case)
        given, out, private = case / "models" / base, case / "outs" / "out", case / PRIVATE
        shutil.copytree(bases / base, given)
        out.parent.mkdir()  # an export is completed next to its destination
        private.mkdir()
        (private / "secret").write_text(SECRET)
        shutil.copyfile(bases / "bert" / "model.safetensors", private / "model.safetensors")
        known = {"seed": seed, "base": base, "change": change(given, draw), "action": draw.choice(OF_BASES[base])}
        state["allowed"] = tuple(map(str, (case / "models", out.parent, own, os.environ["XDG_CACHE_HOME"])))
        yield given, out, known


def main(bases: Path, first: int, last: int) -> None:
    events: list[str] = []
    state: dict[str, Any] = {"watches": False, "allowed": (), "case": bases}
    with tempfile.TemporaryDirectory(dir=bases.resolve()) as own:
        os.environ["TMPDIR"] = tempfile.tempdir = own
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = own  # the process that starts this one may have another
        ACTIONS["plan"](bases / "bert", bases / "nowhere")  # the first call imports libraries, which takes seconds
        validate(bases / "linear", bases / "nowhere")
        sys.addaudithook(audited(events, state))
        for seed in range(first, last):
            with case_of(seed, bases, own, state) as (given, out, known):
                events.clear()
                descriptor = watch(given.parents[1] / PRIVATE)
                state["watches"] = True
                ended = outcome(ACTIONS[known["action"]], given, out)
                state["watches"] = False
                outside = [*events, *(f"private {name}" for name in seen(descriptor))]
                os.close(descriptor)
            print(json.dumps({**known, "end": ended, "outside": outside}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "bases":
        write_bases(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
