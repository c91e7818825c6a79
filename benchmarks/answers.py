"""Compares a folder of ONNX files of any exporter with PyTorch.

PyTorch's outputs for a checkpoint are computed once and saved. The inputs have two rows and sizes that no exporter
traced. A decoder also decodes a few tokens greedily. Exporters use different names, so tensors are matched by role.
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
from processes import run_process

Arrays = dict[str, Any]
PROMPT, STEPS = 9, 6
"""Tokens of a prompt, and tokens that are decoded after it."""

RESULT_MARK = "difference:"
"""What this file prints before the difference, when it runs as a program."""

TOLERANCE = 1e-3
"""The largest difference that is tolerated, relative to the root mean square of PyTorch's output, at least 1."""

CACHE_NAME = re.compile(r"(?:past|present).*?(?P<layer>\d+)\D*?(?P<entry>key|value)")
CACHE_NAME_LAYER_LAST = re.compile(r"(?:past|present)_(?P<entry>key|value)_(?:self|cross)_(?P<layer>\d+)")
SYNONYMS = {
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
"""From the file that decodes the first token to the file that decodes the others."""

DTYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float16)": np.float16}
"""The dtypes of inputs that are not float32."""

ENCODERS = ("encoder_model.onnx", "encoder.onnx", "encoder/model.onnx")


def role(name: str) -> str:
    """What the tensor with this name is for; exporters use different names for one role.

    >>> role("past_key_values.3.key"), role("input.past_key_values.layers.3.keys"), role("present.0.encoder.value")
    ('cache.3.key', 'cache.3.key', 'cache.0.cross.value')
    >>> role("input.past_key_values.cross_attention_cache.layers.1.values"), role("past_key_self_1")
    ('cache.1.cross.value', 'cache.1.key')
    >>> role("decoder_input_ids")
    'input_ids'
    """
    match = CACHE_NAME_LAYER_LAST.search(name) or CACHE_NAME.search(name)
    if match is None:
        return SYNONYMS.get(name, name)
    is_cross = "cross" in name or ".encoder." in name
    return f"cache.{match['layer']}.{'cross.' if is_cross else ''}{match['entry']}"


def expected_arrays(checkpoint: Checkpoint, cache: Path = CACHE) -> Arrays:
    """The inputs for a checkpoint and PyTorch's outputs (`logits`, `tokens`), by role; computed once."""
    file = cache / "expected" / f"{checkpoint.name}.npz"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **_torch_arrays(checkpoint, checkpoint_folder(checkpoint, cache)))
    with np.load(file) as saved:
        return dict(saved)


def difference(checkpoint: Checkpoint, folder: Path, cache: Path = CACHE) -> str | None:
    """How the ONNX files in a folder differ from PyTorch, as one line; None if they agree.

    Runs in another process: some graphs crash the process that runs them.
    """
    expected_arrays(checkpoint, cache)
    process = run_process([sys.executable, __file__, checkpoint.name, folder, cache])
    if process.code < 0:
        return f"ends ONNX Runtime with signal {-process.code}"
    assert process.code == 0, process.output
    return process.output.rpartition(RESULT_MARK)[2].strip() or None


def difference_in_this_process(checkpoint: Checkpoint, folder: Path, expected: Mapping[str, Any]) -> str | None:
    """How the ONNX files in a folder differ from the expected arrays, as one line; None if they agree."""
    try:
        arrays = _onnx_arrays(checkpoint, folder, expected)
    except Exception as error:  # noqa: BLE001 - a graph that cannot be run is wrong, whatever the error is
        return f"could not be run: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"
    compared = expected["attention_mask"].astype(bool) if checkpoint.kind == "encoder" else ...
    by_torch, by_onnx = expected["answer"][compared], arrays["answer"][compared]
    largest = float(np.abs(by_torch - by_onnx).max())
    tolerated = TOLERANCE * max(1.0, float(np.sqrt(np.square(by_torch).mean())))
    if not largest <= tolerated:
        return f"{largest:.1e} away from PyTorch, {tolerated:.1e} allowed"
    if "tokens" in expected and not np.array_equal(expected["tokens"], arrays["tokens"]):
        return "decodes other tokens than PyTorch"
    return None


def share_threads() -> None:
    """Makes all sessions without threads of their own use the same threads, one for each core."""
    import onnxruntime

    onnxruntime.set_global_thread_pool_sizes(os.cpu_count() or 1, 1)


def session(file: Path, *, own_threads: bool = True) -> Any:
    """An ONNX Runtime session of a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.use_per_session_threads = own_threads
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def feeds(graph: Any, arrays: Mapping[str, Any]) -> Arrays:
    """The inputs of a graph under its own names, from arrays by role. A cache that is not among them is empty."""
    head_dim = int(arrays["head_dim"]) if "head_dim" in arrays else 0
    sizes = {"batch": len(next(iter(arrays.values()))), "head_dim": head_dim}
    takes_encoder_outputs = any(input_.name.startswith("encoder_outputs.") for input_ in graph.get_inputs())
    if takes_encoder_outputs and "encoder_attention_mask" in arrays:
        # In T5's `forward`, `attention_mask` is the mask of the encoder.
        arrays = {**arrays, "attention_mask": arrays["encoder_attention_mask"]}
    return {input_.name: _feed(input_, arrays, sizes) for input_ in graph.get_inputs()}


def outputs_by_role(graph: Any, arrays: Mapping[str, Any]) -> Arrays:
    """The outputs of a graph for arrays by role, by role."""
    names = [output.name for output in graph.get_outputs()]
    return {role(name): array for name, array in zip(names, graph.run(None, feeds(graph, arrays)), strict=True)}


def token_arrays(new_tokens: Any, length: int) -> Arrays:
    """The inputs for new tokens of a text that has `length` tokens, the new ones included."""
    positions = np.arange(length - new_tokens.shape[1], length)[None].repeat(len(new_tokens), 0)
    mask = np.ones((len(new_tokens), length), np.int64)
    return {"input_ids": new_tokens, "attention_mask": mask, "position_ids": positions}


def _feed(input_: Any, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    input_role = role(input_.name)
    if input_role in arrays:
        return arrays[input_role].astype(DTYPES.get(input_.type, np.float32))
    if input_role == "use_cache_branch":
        return np.array([any(name.startswith("cache") for name in arrays)])
    if not input_role.startswith("cache."):
        raise ValueError(f"no array for the input {input_.name}")
    _, heads, _, width = input_.shape
    shape = (sizes["batch"], heads, 0, width if isinstance(width, int) else sizes["head_dim"])
    return np.zeros(shape, DTYPES.get(input_.type, np.float32))


def _onnx_arrays(checkpoint: Checkpoint, folder: Path, expected: Mapping[str, Any]) -> Arrays:
    """ONNX Runtime's outputs for the expected inputs."""
    if checkpoint.kind in {"encoder", "image"}:
        outputs = outputs_by_role(session(folder / "model.onnx"), expected)
        return {"answer": outputs["last_hidden_state" if checkpoint.kind == "encoder" else "logits"]}
    constant = {name: expected[name] for name in ("head_dim",) if name in expected}
    if checkpoint.kind == "decoder":
        graph = session(folder / "model.onnx")
        return _decoded(graph, graph, expected["input_ids"], constant)
    constant |= _encoder_arrays(folder, expected)
    first_file = _first_existing(folder, tuple(DECODERS))
    next_file = folder / DECODERS[first_file.relative_to(folder).as_posix()]
    first = session(first_file)
    following = first if first_file == next_file else session(next_file)
    return _decoded(first, following, expected["input_ids"], constant)


def _encoder_arrays(folder: Path, expected: Mapping[str, Any]) -> Arrays:
    """The encoder's outputs that a decoder takes: hidden states, their mask, and a cross-attention cache if any."""
    inputs = {name: expected[name] for name in ("input_features", "attention_mask") if name in expected}
    if "encoder_input_ids" in expected:
        inputs["input_ids"] = expected["encoder_input_ids"]
    outputs = outputs_by_role(session(_first_existing(folder, ENCODERS)), inputs)
    arrays = {"encoder_hidden_states": next(iter(outputs.values()))}
    arrays |= {name: array for name, array in outputs.items() if name.startswith("cache.")}
    if "attention_mask" in expected:
        arrays["encoder_attention_mask"] = expected["attention_mask"]
    return arrays


def _first_existing(folder: Path, names: tuple[str, ...]) -> Path:
    files = [folder / name for name in names if (folder / name).is_file()]
    if not files:
        present = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.onnx"))
        raise ValueError(f"none of {', '.join(names)} in the folder, which has {', '.join(present)}")
    return files[0]


def _decoded(first: Any, following: Any, prompt: Any, constant: Mapping[str, Any]) -> Arrays:
    """The logits of a prompt, and the tokens that are decoded greedily after it.

    `first` decodes the first token, `following` the others. `constant` are inputs that stay the same.
    """
    graph, new_tokens, length, cache = first, prompt, prompt.shape[1], {}
    logits, tokens = [], []
    for _ in range(STEPS):
        outputs = outputs_by_role(graph, {**token_arrays(new_tokens, length), **constant, **cache})
        logits.append(outputs["logits"])
        cache |= {name: array for name, array in outputs.items() if name.startswith("cache.") and array.size}
        new_tokens = outputs["logits"][:, -1:].argmax(-1)
        tokens.append(new_tokens)
        graph, length = following, length + 1
    return {"answer": logits[0], "tokens": np.concatenate(tokens, 1)}


def _torch_arrays(checkpoint: Checkpoint, folder: Path) -> Arrays:
    """Inputs for a checkpoint and PyTorch's outputs."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    is_encoder = checkpoint.kind == "encoder"
    loader = transformers.AutoModel if is_encoder else getattr(transformers, config.architectures[0])
    model = loader.from_pretrained(folder, dtype=torch.float32).eval()
    inputs = {name: torch.from_numpy(array) for name, array in _inputs(checkpoint, config).items()}
    with torch.no_grad():
        if checkpoint.kind in {"encoder", "image"}:
            outputs: Arrays = {"answer": model(**inputs)[0]}
        elif checkpoint.kind == "decoder":
            outputs = _decoded_by_torch(model, inputs.pop("input_ids"), "input_ids", {})
            outputs["head_dim"] = _head_dim(config)
        else:
            start = torch.full((2, 1), config.decoder_start_token_id)
            outputs = _decoded_by_torch(model, start, "decoder_input_ids", inputs)
            if "input_ids" in inputs:
                inputs["encoder_input_ids"] = inputs.pop("input_ids")
    return {name: np.asarray(tensor) for name, tensor in {**inputs, **outputs}.items()}


def _head_dim(config: Any) -> int:
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _decoded_by_torch(model: Any, prompt: Any, input_name: str, constant: Mapping[str, Any]) -> Arrays:
    """PyTorch's logits of a prompt and the tokens after it, without a cache: each token from the whole text."""
    import torch

    text, logits = prompt, []
    for _ in range(STEPS):
        logits.append(model(**constant, **{input_name: text}, use_cache=False).logits)
        text = torch.cat([text, logits[-1][:, -1:].argmax(-1)], 1)
    return {"input_ids": prompt, "answer": logits[0], "tokens": text[:, prompt.shape[1] :]}


def _inputs(checkpoint: Checkpoint, config: Any) -> Arrays:
    """Two rows of random inputs. In a text with a mask, the second row has padding."""
    random = np.random.default_rng(0)
    if checkpoint.kind == "image":
        shape = (2, config.num_channels, config.image_size, config.image_size)
        return {"pixel_values": random.standard_normal(shape, dtype=np.float32)}
    if checkpoint.kind == "speech to text":
        shape = (2, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": random.standard_normal(shape, dtype=np.float32)}
    ids = random.integers(5, config.vocab_size, (2, PROMPT))
    if checkpoint.kind == "decoder":
        return {"input_ids": ids}
    mask = np.ones_like(ids)
    mask[1, 6:] = 0
    segments = {"token_type_ids": np.zeros_like(ids)} if checkpoint.kind == "encoder" else {}
    return {"input_ids": ids, "attention_mask": mask, **segments}


if __name__ == "__main__":
    name, folder, cache = sys.argv[1:]
    selected = CHECKPOINTS[name]
    line = difference_in_this_process(selected, Path(folder), expected_arrays(selected, Path(cache)))
    print(RESULT_MARK, line or "")
