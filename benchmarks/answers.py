"""What PyTorch answers, kept in a file, and whether a folder of ONNX files answers the same, whoever named its tensors.

Two rows of input, none of them traced by anyone; a text is also continued greedily by a few tokens.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from models import CACHE, CHECKPOINTS, Checkpoint, checkpoint_folder
from processes import ran

Arrays = dict[str, Any]
PROMPT, STEPS = 9, 6
ANSWERED = "answered:"
TOLERANCE = 1e-3
"""Of the largest difference, in units of the root mean square of what PyTorch answers, or of 1 where that is less."""
CACHED = re.compile(r"(?:past|present).*?(?P<layer>\d+)\D*?(?P<entry>key|value)")
CACHED_LAST = re.compile(r"(?:past|present)_(?P<entry>key|value)_(?:self|cross)_(?P<layer>\d+)")
CALLED = {
    "decoder_input_ids": "input_ids",
    "encoder_outputs.last_hidden_state": "encoder_hidden_states",
    "audio_features": "input_features",
}
DECODERS = {
    "decoder_model.onnx": "decoder_with_past_model.onnx",
    "decoder_model_merged.onnx": "decoder_model_merged.onnx",
    "prefill.onnx": "decode.onnx",
    "decoder.onnx": "decoder.onnx",
    "decoder/model.onnx": "decoder/model.onnx",
}
"""The file that gives the first token, and the one that gives the others."""
ENCODERS = ("encoder_model.onnx", "encoder.onnx", "encoder/model.onnx")


def role(name: str) -> str:
    """What a tensor is for, whatever it is called.

    >>> role("past_key_values.3.key"), role("input.past_key_values.layers.3.keys"), role("present.0.encoder.value")
    ('cache.3.key', 'cache.3.key', 'cache.0.cross.value')
    >>> role("input.past_key_values.cross_attention_cache.layers.1.values"), role("past_key_self_1")
    ('cache.1.cross.value', 'cache.1.key')
    >>> role("decoder_input_ids")
    'input_ids'
    """
    found = CACHED_LAST.search(name) or CACHED.search(name)
    if found is None:
        return CALLED.get(name, name)
    crossed = "cross" in name or ".encoder." in name
    return f"cache.{found['layer']}.{'cross.' if crossed else ''}{found['entry']}"


def expected(one: Checkpoint, cache: Path = CACHE) -> Arrays:
    """Inputs and PyTorch's answers for a checkpoint, computed once."""
    file = cache / "answers" / f"{one.name}.npz"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **_by_torch(one, checkpoint_folder(one, cache)))
    with np.load(file) as kept:
        return dict(kept)


def disagreement(one: Checkpoint, folder: Path, cache: Path = CACHE) -> str | None:
    """How a folder of ONNX files answers otherwise than PyTorch, in a line; None when it does not.

    Asked in a process of its own: there are graphs that end the process which runs them.
    """
    expected(one, cache)
    done = ran([sys.executable, __file__, one.name, folder, cache])
    if done.code < 0:
        return f"ends ONNX Runtime with signal {-done.code}"
    assert done.code == 0, done.said
    return done.said.rpartition(ANSWERED)[2].strip() or None


def difference(one: Checkpoint, folder: Path, known: Mapping[str, Any]) -> str | None:
    """What `disagreement` says, found in this process."""
    try:
        answer = _by_onnx(one, folder, known)
    except Exception as problem:  # noqa: BLE001, a graph that cannot be fed or run is one that is wrong, whatever it says
        return f"could not be run: {type(problem).__name__}: {(str(problem).splitlines() or [''])[0][:300]}"
    judged = known["attention_mask"].astype(bool) if one.kind == "encoder" else ...
    wanted, given = known["answer"][judged], answer["answer"][judged]
    off = float(np.abs(wanted - given).max())
    allowed = TOLERANCE * max(1.0, float(np.sqrt(np.square(wanted).mean())))
    if not off <= allowed:
        return f"{off:.1e} away from PyTorch, {allowed:.1e} allowed"
    if "tokens" in known and not np.array_equal(known["tokens"], answer["tokens"]):
        return "writes other tokens than PyTorch"
    return None


def share_threads() -> None:
    """Let graphs that have no threads of their own be run by as many as there are cores: the same for all of them."""
    import onnxruntime

    onnxruntime.set_global_thread_pool_sizes(os.cpu_count() or 1, 1)


def session(file: Path, *, own_threads: bool = True) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.use_per_session_threads = own_threads
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def fed(graph: Any, known: Mapping[str, Any]) -> Arrays:
    """What a graph takes, by its own names; a cache that nobody knows is empty."""
    sizes = {"batch": len(next(iter(known.values()))), "head_dim": int(known["head_dim"]) if "head_dim" in known else 0}
    if any(one.name.startswith("encoder_outputs.") for one in graph.get_inputs()) and "encoder_attention_mask" in known:
        known = {
            **known,
            "attention_mask": known["encoder_attention_mask"],
        }  # the encoder's, as T5's `forward` calls it
    return {one.name: _array(one, known, sizes) for one in graph.get_inputs()}


def asked(graph: Any, known: Mapping[str, Any]) -> Arrays:
    """What a graph answers, by what its outputs are for."""
    names = [one.name for one in graph.get_outputs()]
    return {role(name): made for name, made in zip(names, graph.run(None, fed(graph, known)), strict=True)}


def text(new: Any, length: int) -> Arrays:
    """The inputs for new tokens of a text that has `length` tokens with them."""
    places = np.arange(length - new.shape[1], length)[None].repeat(len(new), 0)
    return {"input_ids": new, "attention_mask": np.ones((len(new), length), np.int64), "position_ids": places}


def _array(one: Any, known: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    purpose = role(one.name)
    if purpose in known:
        return known[purpose].astype({"tensor(int64)": np.int64, "tensor(int32)": np.int32}.get(one.type, np.float32))
    if purpose == "use_cache_branch":
        return np.array([any(name.startswith("cache") for name in known)])
    if not purpose.startswith("cache."):
        raise ValueError(f"nothing to feed {one.name} with")
    _, heads, _, width = one.shape
    return np.zeros((sizes["batch"], heads, 0, width if isinstance(width, int) else sizes["head_dim"]), np.float32)


def _by_onnx(one: Checkpoint, folder: Path, known: Mapping[str, Any]) -> Arrays:
    if one.kind in {"encoder", "image"}:
        answer = asked(session(folder / "model.onnx"), known)
        return {"answer": answer["last_hidden_state" if one.kind == "encoder" else "logits"]}
    told = {name: known[name] for name in ("head_dim",) if name in known}
    if one.kind == "decoder":
        graph = session(folder / "model.onnx")
        return _written(graph, graph, known["input_ids"], told)
    encoder = session(_there(folder, ENCODERS))
    read = {name: known[name] for name in ("input_features", "attention_mask") if name in known}
    states = asked(encoder, read | {"input_ids": known["read_ids"]} if "read_ids" in known else read)
    told["encoder_hidden_states"] = next(iter(states.values()))
    told |= {name: made for name, made in states.items() if name.startswith("cache.")}
    if "attention_mask" in known:
        told["encoder_attention_mask"] = known["attention_mask"]
    first = _there(folder, tuple(DECODERS))
    later = folder / DECODERS[first.relative_to(folder).as_posix()]
    opened = session(first)
    return _written(opened, opened if first == later else session(later), known["input_ids"], told)


def _there(folder: Path, names: tuple[str, ...]) -> Path:
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        there = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.onnx"))
        raise ValueError(f"none of {', '.join(names)}; there is: {', '.join(there)}")
    return found[0]


def _written(first: Any, later: Any, prompt: Any, told: Mapping[str, Any]) -> Arrays:
    """The answer to a prompt, and the tokens that follow it."""
    graph, new, length, kept, answers, tokens = first, prompt, prompt.shape[1], {}, [], []
    for _ in range(STEPS):
        answer = asked(graph, {**text(new, length), **told, **kept})
        answers.append(answer["logits"])
        kept |= {name: made for name, made in answer.items() if name.startswith("cache.") and made.size}
        new = answer["logits"][:, -1:].argmax(-1)
        tokens.append(new)
        graph, length = later, length + 1
    return {"answer": answers[0], "tokens": np.concatenate(tokens, 1)}


def _by_torch(one: Checkpoint, folder: Path) -> Arrays:
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    loader = transformers.AutoModel if one.kind == "encoder" else getattr(transformers, config.architectures[0])
    model = loader.from_pretrained(folder, dtype=torch.float32).eval()
    given = {name: torch.from_numpy(made) for name, made in _inputs(one, config).items()}
    with torch.no_grad():
        if one.kind in {"encoder", "image"}:
            known: Arrays = {"answer": model(**given)[0]}
        elif one.kind == "decoder":
            known = _continued(model, given.pop("input_ids"), "input_ids", {}) | {"head_dim": _width(config)}
        else:
            start = torch.full((2, 1), config.decoder_start_token_id)
            known = _continued(model, start, "decoder_input_ids", given)
            given |= {"read_ids": given.pop("input_ids")} if "input_ids" in given else {}
    return {name: np.asarray(made) for name, made in {**given, **known}.items()}


def _width(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _continued(model: Any, prompt: Any, name: str, beside: Mapping[str, Any]) -> Arrays:
    """Without a cache: each token from the whole text."""
    import torch

    written, answers = prompt, []
    for _ in range(STEPS):
        answers.append(model(**beside, **{name: written}, use_cache=False).logits)
        written = torch.cat([written, answers[-1][:, -1:].argmax(-1)], 1)
    return {"input_ids": prompt, "answer": answers[0], "tokens": written[:, prompt.shape[1] :]}


def _inputs(one: Checkpoint, config: Any) -> Arrays:
    draw = np.random.default_rng(0)
    if one.kind == "image":
        return {"pixel_values": _noise(draw, 2, config.num_channels, config.image_size, config.image_size)}
    if one.kind == "speech to text":
        return {"input_features": _noise(draw, 2, config.num_mel_bins, 2 * config.max_source_positions)}
    ids = draw.integers(5, config.vocab_size, (2, PROMPT))
    if one.kind == "decoder":
        return {"input_ids": ids}
    mask = np.ones_like(ids)
    mask[1, 6:] = 0
    return {"input_ids": ids, "attention_mask": mask} | (
        {"token_type_ids": np.zeros_like(ids)} if one.kind == "encoder" else {}
    )


def _noise(draw: Any, *shape: int) -> Any:
    return draw.standard_normal(shape, dtype=np.float32)


if __name__ == "__main__":
    name, folder, cache = sys.argv[1:]
    asked_of = CHECKPOINTS[name]
    print(ANSWERED, difference(asked_of, Path(folder), expected(asked_of, Path(cache))) or "")
