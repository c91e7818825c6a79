"""Law: a file has the opset that its spec names, and computes what PyTorch computes."""

import onnx
import pytest
import torch

from onnxfn.export.find.lookup import derived
from onnxfn.export.run.export import export
from onnxfn.specs.algebra.spec import OPSETS
from onnxfn.specs.edits.tensors import with_opset


@pytest.mark.parametrize("opset", OPSETS)
def test_each_opset_is_written_and_passes_the_check(opset, tmp_path):
    """Operators that changed between opsets: reductions, reshapes, normalization, activations, resizing."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.GroupNorm(2, 4),
        torch.nn.GELU(),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.LayerNorm(16),
        torch.nn.Linear(16, 3),
        torch.nn.Softmax(dim=-1),
    )
    spec = with_opset(derived(model, sample={"input": torch.randn(3, 1, 6, 6)}), opset)
    exported = export(spec, model, tmp_path / "small.onnx")
    proto = onnx.load(tmp_path / "small.onnx")
    assert {entry.domain: entry.version for entry in proto.opset_import}[""] == opset == exported.opset
    assert exported.report.passed
    onnx.checker.check_model(proto, full_check=True)


class MeanRMSNorm(torch.nn.Module):
    """A norm with the name of an operator of opset 23, and another formula."""

    def forward(self, x):
        return x / (x.abs().mean(-1, keepdim=True) + 1e-3)


def test_what_is_not_fused_is_no_error(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), MeanRMSNorm()).eval()
    spec = with_opset(derived(model, sample={"input": torch.randn(2, 8)}), 23)
    exported = export(spec, model, tmp_path / "norm.onnx")
    assert exported.report.passed
    assert "RMSNormalization" not in str(exported.fusions)
