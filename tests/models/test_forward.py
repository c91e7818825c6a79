"""What `forward` gets besides the inputs of the graph."""

import numpy as np
import torch

import onnxfn


def test_a_constant_that_forward_passes_on_itself_is_left_out():
    """T5Gemma's heads call their model with `use_cache=False` and with their own keyword arguments."""

    def inner(x, *, use_cache=True, scale=1.0):
        return x * (2.0 if use_cache else 3.0) * scale

    class Head(torch.nn.Module):
        def forward(self, x, **kwargs):
            return inner(x, use_cache=False, **kwargs)

    class Open(torch.nn.Module):
        def forward(self, x, **kwargs):
            return inner(x, **kwargs)

    for module, factor in ((Head(), 3.0), (Open(), 3.0)):
        spec = onnxfn.compose(
            onnxfn.takes("x", "batch_size 3", "numbers", kind="float"),
            onnxfn.generates("numbers", "normal"),
            onnxfn.sized(batch_size=2),
            onnxfn.gives("y", "batch_size 3"),
            onnxfn.always(use_cache=False),
        )
        result = onnxfn.export(spec, module)
        x = np.ones((4, 3), np.float32)
        assert np.allclose(result(x=x)["y"], factor * x)
