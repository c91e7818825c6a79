"""Which opsets and operators programs run: data, by which the opset of a graph is chosen."""

from collections.abc import Mapping
from types import MappingProxyType

LOADED: Mapping[str, int] = MappingProxyType({"1.24": 25, "1.26": 26, "1.28": 26, "1.30": 26, "1.31": 26, "1.32": 28})
"""A version of ONNX Runtime -> the last opset that it loads. Tried: a session for a Transpose of each opset."""

KERNELS: Mapping[str, str | None] = MappingProxyType(
    {
        "Attention-23": "1.24",
        "RMSNormalization-23": "1.24",
        "RotaryEmbedding-23": "1.24",
        "Attention-24": "1.24",
        "com.microsoft.LinearAttention-1": "1.26",
        "com.microsoft.CausalConvWithState-1": "1.26",
        "Attention-25": None,
        "LinearAttention-27": None,
        "CausalConvWithState-27": None,
        "Swish-24": None,
        "SwiGLU-28": None,
    }
)
"""An operator, since an opset -> the first of these versions that has a kernel for it on the CPU; None: 1.32 has none.

ONNX Runtime then runs the definition of the operator in small operators, and refuses Swish from opset 25 on. onnxfn
writes two of those: the convolution of a text, whose definition is faster than the kernel, and Attention (25) with a
static cache. Other attention is written in small operators of its own, which are fewer. Profiles of sessions tell which
nodes run.
"""

CLIENTS: Mapping[str, int] = MappingProxyType(
    {
        # 1.24 to 1.32, the versions that onnxfn runs with, and what is built upon them. A token of SmolLM2 takes about
        # as long as at opset 18 after 512 tokens, and 1.1 of that after 2,048.
        "onnxruntime": 24,
        "ORTModel": 24,
        "sentence-transformers": 24,
        "onnxruntime-genai": 24,
        # 4.3.1 has ONNX Runtime 1.30 (Node.js) and 1.31 (web), but nobody has tried Attention on WebGPU.
        "transformers.js": 18,
        # 2026.4 refuses Attention (23) with grouped heads. From 19 to 22 no operator that a graph needs is new.
        "OpenVINO": 18,
    }
)
"""A client -> the last opset whose operators it has kernels for.

ONNX Runtime's Attention (23) refuses an empty batch, as a tower gets that sees no image: Janus then needs opset 18.
"""
