"""Names of dtypes that clients have are ours in Python, too."""

import torch

import onnxfn


def test_a_name_of_a_client_is_taken_by_export_load_and_requests(tmp_path):
    model = torch.nn.Linear(4, 2)
    spec = onnxfn.derived(model, sample=torch.ones(3, 4))
    result = onnxfn.export(spec, model, tmp_path / "out", dtypes=("fp32", "f16"))
    assert [part.dtype for part in result.plan.parts] == ["float32", "float16"]
    assert onnxfn.load(tmp_path / "out", dtype="fp16").files[0].endswith("model_fp16.onnx")
    assert onnxfn.ExportRequest("a", "b", dtypes=("bf16",)).dtypes == ("bfloat16",)
