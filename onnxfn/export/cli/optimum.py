"""The options of `optimum-cli export onnx`: our words for them, or advice in one sentence.

Options of the same meaning have the same word, with hyphens or underscores; only `library-name` is `library` here.
ANSWERS has the refused options.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import typer

AXES: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("batch_size", "sequence_length", "num_choices", "width", "height")},
        **{name: name for name in ("point_batch_size", "nb_points_per_image", "visual_seq_length")},
        "nb_max_frames": "sequence_length",
        "audio_sequence_length": "sequence_length",
    }
)
"""Optimum's options for the sizes of dummy inputs -> our names of these axes."""

CONFIGURED = "the configuration of the model says it, and the dummy inputs follow; leave it out"
FOLDER = "download the files, such as with `hf download`, and pass their folder as MODEL"
ALREADY_SIMPLE = "graphs are simplified while they are built, and no pass folds weights"

ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("model", "m"), "MODEL is the first argument: onnxfn export MODEL OUT"),
        "device": "models are traced and checked on the CPU, and a file runs on any device; leave it out",
        "optimize": "ONNX Runtime does this when it loads a file; --dtype float16 is the rest of O4",
        "no-post-process": "--decoders separate writes two decoders instead of a merged one; nothing else is processed",
        "variant": "use the options for inputs and outputs: --output, --with-input, --split, --decoders",
        "framework": "models are those of PyTorch: there is no other framework; leave it out",
        "cache-dir": "the client of the hub reads where downloads lie from the environment: HF_HUB_CACHE=FOLDER",
        "pad-token-id": "the id is read from config.json of the checkpoint; set pad_token_id there",
        "model-kwargs": "--output and --with-input add outputs and inputs; other arguments of forward are constants in "
        "a spec, in Python: compose(spec, always(NAME=VALUE))",
        "no-dynamic-axes": "--shape fixes an axis: --shape batch_size=1 --shape sequence_length=128",
        "no-constant-folding": ALREADY_SIMPLE,
        "slim": f"{ALREADY_SIMPLE}; onnxslim runs on the files",
        "fp16": "--dtype float16",
        "fuse": "ONNX Runtime fuses its own operators when it loads a file; --opset 23 writes those of ONNX",
        "legacy": "--decoders separate writes a decoder without and one with a past",
        "revision": FOLDER,
        "subfolder": FOLDER,
        "feature-size": CONFIGURED,
        "num-channels": CONFIGURED,
        **{
            word.replace("_", "-"): f"--size {axis}=NUMBER sets the size in the dummy inputs, --shape {axis}=NUMBER "
            "fixes it in the graph"
            for word, axis in AXES.items()
        },
    }
)
"""Refused options, without the hyphens in front -> the replacement, or why there is none."""


def our_option(word: str) -> str:
    """The word of our option for a word of the command line, without the hyphens in front.

    typer calls it with each option that is passed. BadParameter for an option of Optimum that is refused.

    >>> our_option("library_name"), our_option("opset")
    ('library', 'opset')
    >>> our_option("monolithic")
    'monolithic'
    """
    name = word.replace("_", "-")
    if name in ANSWERS:
        raise typer.BadParameter(f"no option {'-' if len(word) == 1 else '--'}{word}: {ANSWERS[name]}")
    return "library" if name == "library-name" else name
