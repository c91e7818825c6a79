"""The time of hybrids at opset 27, with one operator for each linear attention, over that at opset 25, with scans.

    python benchmarks/hybrids.py [NEW OLD]

Prints the time of a prompt of 512 tokens and of the token after it, with a thread for each core, and whether 64 greedy
tokens equal those of PyTorch. Sizes are those of Qwen3-Next and Mamba2, with an eighth and a third of their width.
The files take turns: threads of a session that waits would disturb the other.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
import torch
import transformers

from onnxfn import export, generate, spec_for, with_opset

TASK, PROMPT, TOKENS, TURNS = "text-generation-with-past", 512, 64, 5

SHARED = {"vocab_size": 1000, "hidden_size": 256, "num_hidden_layers": 4, "head_dim": 64}
LINEAR = {
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
}
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 704}
DENSE = {"num_experts": 0, "mlp_only_layers": [0, 1, 2, 3]}
STATES = {"num_heads": 8, "state_size": 128, "n_groups": 1}


def models() -> Iterator[Any]:
    yield transformers.Qwen3NextForCausalLM(
        transformers.Qwen3NextConfig(**SHARED, **LINEAR, **ATTENTION, **DENSE)
    ).eval()
    yield transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**SHARED, **STATES)).eval()


def feeds(of: Any, new: int, past: int) -> dict[str, Any]:
    sizes = {"batch_size": 1, "sequence_length": new, "past_sequence_length": past}
    shapes = {port.name: [sizes.get(size, past + new) if isinstance(size, str) else size for size in port.shape]
              for port in of.get_inputs()}  # fmt: skip
    kinds = {port.name: np.int64 if "int64" in port.type else np.float32 for port in of.get_inputs()}
    given = {name: np.full(shape, kinds[name] is np.int64, kinds[name]) for name, shape in shapes.items()}
    return given | ({"position_ids": np.arange(past, past + new)[None]} if "position_ids" in given else {})


def milliseconds(path: str, new: int, past: int, rounds: int) -> float:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = feeds(session, new, past)
    times = []
    for _ in range(rounds + 1):  # the first allocates memory
        start = time.perf_counter()
        session.run(None, given)
        times.append(time.perf_counter() - start)
    return median(times[1:]) * 1e3


def greedy_tokens_agree(folder: str, model: Any) -> bool:
    ids = torch.arange(1, 17)[None]
    expected = model.generate(ids, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0)
    tokens = generate(folder, ids.numpy(), max_new_tokens=TOKENS)
    return np.array_equal(np.asarray(tokens)[:, -TOKENS:], expected[:, -TOKENS:].numpy())


def main(opsets: Sequence[int]) -> None:
    torch.manual_seed(0)
    for model in models():
        kind = model.config.model_type
        with tempfile.TemporaryDirectory() as folder:
            for opset in opsets:
                export(with_opset(spec_for(kind, TASK), opset), model, f"{folder}/{opset}", check=False)
            for new, past, rounds in ((PROMPT, 0, 5), (1, PROMPT, 200)):
                turns = [[milliseconds(f"{folder}/{opset}/model.onnx", new, past, rounds) for opset in opsets]
                         for _ in range(TURNS)]  # fmt: skip
                first, second = map(median, zip(*turns, strict=True))
                print(f"{kind}, {new} tokens: {first:.2f} ms / {second:.2f} ms = {first / second:.2f}", flush=True)
            print(f"{kind}, {TOKENS} greedy tokens equal: {greedy_tokens_agree(f'{folder}/{opsets[0]}', model)}")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [27, 25])
