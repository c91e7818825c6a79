"""Files that are changed at random: every call is right or refuses in one line, in time, and stays in its folders."""

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from own_processes import printed

PROGRAM = Path(__file__).parents[1] / "helpers" / "hostile_files.py"

SEEDS, CHUNK, SAMPLE = 2000, 100, 25
"""The seeds of the sweep, those of one process, and those of each run."""

CHUNKS = tuple(range(0, SEEDS, CHUNK))
TABLE = {(f"seeds {first} to {first + CHUNK - 1}", "all") for first in CHUNKS}


def program(*words):
    """The lines of the program. It ends itself at a call that hangs, unless that is in a library: then it is killed."""
    return [json.loads(line) for line in printed(PROGRAM, *words, timeout=600).splitlines()]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    program("bases", folder)
    return folder


def faults(lines):
    """The lines of seeds that ended in another way than they may, or that left their folders."""
    return [
        line for line in lines if line["outside"] or not (line["end"] == "right" or line["end"].startswith("refused: "))
    ]


def test_some_changed_files_do_no_harm(bases, request):
    """The commit chooses the seeds, so that over many commits all of them run."""
    first = int(sha256(request.config.getoption("--seed").encode()).hexdigest(), 16) % (SEEDS - SAMPLE)
    lines = program(bases, first, first + SAMPLE)
    assert faults(lines) == []
    assert [line["seed"] for line in lines] == [*range(first, first + SAMPLE)]
    assert {line["end"].partition(":")[0] for line in lines} == {"right", "refused"}


@pytest.mark.sweep
@pytest.mark.parametrize("first", CHUNKS)
def test_changed_files_do_no_harm(first, bases, record):
    lines = program(bases, first, first + CHUNK)
    assert faults(lines) == []
    assert len(lines) == CHUNK
    counts = Counter(line["end"].partition(":")[0] for line in lines)
    words = f"{counts['right']} right, {counts['refused']} refused in one line, 0 others"
    record("hostile_files", f"seeds {first} to {first + CHUNK - 1}", "all", words, TABLE)


def test_the_program_sees_what_is_opened_outside(bases, tmp_path):
    """Without it, no fault of a sweep would show."""
    code = """
import os, sys
from pathlib import Path
import hostile_files as program

private = Path(sys.argv[1], "private")
private.mkdir()
(private / "secret").write_text("secret")
events, state = [], {"watches": True, "allowed": (), "case": "/nowhere"}
sys.addaudithook(program.audited(events, state))
watched = program.watch(private)
(private / "secret").read_text()
os.system(f"cat {private}/secret > /dev/null")
state["watches"] = False
print(events == [f"open {private.resolve()}/secret"], program.seen(watched))
"""
    assert printed("-c", code, tmp_path).split() == ["True", "['secret']"]
