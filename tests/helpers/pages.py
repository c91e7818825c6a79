"""The blocks of code of a page in Markdown, and what they print when they run."""

import contextlib
import io
import re
import shlex

from command_line import succeed

from onnxfn.export.cli.demo import minilm

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
CHECKPOINTS = {"sentence-transformers/all-MiniLM-L6-v2": minilm}
"""Names on the hub that pages use, and where the same checkpoint is in a package."""

UNREACHABLE = (
    *("HuggingFaceTB/SmolLM2-135M-Instruct", "google-t5/t5-small", "llava-hf/llava-1.5-7b-hf", "openai/whisper-tiny"),
    *("MODEL", "SCRIPT"),
)
"""Names of other models on the hub, and words for a model or a script of the reader."""


def blocks(page):
    """The blocks of a page, (language, code), each with the text that the page shows after it, or None."""
    found = BLOCK.findall(page)
    following = [*found[1:], ("", "")]
    return [
        (kind, code, text if after == "text" else None)
        for (kind, code), (after, text) in zip(found, following, strict=True)
        if kind != "text"
    ]


def run_page(page, name, names):
    """Runs the Python code and the commands of onnxfn on a page in the current folder; asserts what it prints.

    Returns how many texts were compared. Blocks of other languages, and other commands of a shell, do not run.
    `names` gets the names that the code assigns.
    """
    compared = 0
    for kind, code, text in blocks(page):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, name, "exec"), names)
            shown = printed.getvalue()
        else:
            shown = "".join(map(run_command, commands(code))) if kind == "sh" else ""
        if text is not None:
            assert shown == text
            compared += 1
    return compared


def commands(code):
    """The commands of a shell, where a backslash at the end of a line joins it to the next."""
    return code.replace("\\\n", " ").splitlines()


def run_command(line):
    """What a command of onnxfn prints; nothing for another one, or for a model that is on the hub alone."""
    program, *words = shlex.split(line, comments=True) or [""]
    if program != "onnxfn" or any(word in UNREACHABLE for word in words):
        return ""
    return succeed(*(CHECKPOINTS[word]() if word in CHECKPOINTS else word for word in words)).stdout
