"""What `forward` gets besides the inputs of the graph."""

import numpy as np
import torch
from vector_specs import vector_spec

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

    for module in (Head(), Open()):
        result = onnxfn.export(onnxfn.compose(vector_spec(3), onnxfn.always(use_cache=False)), module)
        x = np.ones((4, 3), np.float32)
        assert np.allclose(result(x=x)["y"], 3 * x)
