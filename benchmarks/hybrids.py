"""The time of hybrids at opset 27, with one operator for each linear attention, over that at opset 25, with scans.

    python benchmarks/hybrids.py [NEW OLD]

Prints the processor time of a prompt of 512 tokens and of the token after it, with one thread, and whether 64 greedy
tokens equal those of PyTorch. Sizes are those of Qwen3-Next and Mamba2, with an eighth and a third of their width.
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

TASK, PROMPT, TOKENS = "text-generation-with-past", 512, 64

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


def session(path: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(of: Any, new: int, past: int) -> dict[str, Any]:
    sizes = {"batch_size": 1, "sequence_length": new, "past_sequence_length": past}
    shapes = {port.name: [sizes.get(size, past + new) if isinstance(size, str) else size for size in port.shape]
              for port in of.get_inputs()}  # fmt: skip
    kinds = {port.name: np.int64 if "int64" in port.type else np.float32 for port in of.get_inputs()}
    given = {name: np.full(shape, kinds[name] is np.int64, kinds[name]) for name, shape in shapes.items()}
    return given | ({"position_ids": np.arange(past, past + new)[None]} if "position_ids" in given else {})


def seconds(of: Any, given: dict[str, Any]) -> float:
    start = time.process_time()
    of.run(None, given)
    return time.process_time() - start


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
            sessions = [session(f"{folder}/{opset}/model.onnx") for opset in opsets]
            for new, past, rounds in ((PROMPT, 0, 5), (1, PROMPT, 200)):
                runs = [[seconds(each, feeds(each, new, past)) for each in sessions] for _ in range(rounds)]
                first, second = (median(times) * 1e3 for times in zip(*runs, strict=True))
                print(f"{kind}, {new} tokens: {first:.2f} ms / {second:.2f} ms = {first / second:.2f}", flush=True)
            print(f"{kind}, {TOKENS} greedy tokens equal: {greedy_tokens_agree(f'{folder}/{opsets[0]}', model)}")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [27, 25])
