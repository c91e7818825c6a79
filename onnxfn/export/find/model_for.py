"""The model of a checkpoint, for its task or another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnxfn.export.find.lookup import checkpoint_task, has_row, loader_spec, spec_for
from onnxfn.export.load.class_tasks import loader_of
from onnxfn.export.load.folders import checkpoint_folder, refuse_revision_of_files
from onnxfn.export.load.loading import load_configuration, load_model
from onnxfn.export.load.quantized import is_gguf, load_gguf


def model_for(
    name: str,
    task: str | None = None,
    *,
    trust_remote_code: bool = False,
    dequantize: bool = False,
    revision: str | None = None,
) -> Any:
    """Loads the model of a checkpoint.

    Args:
        name: A folder, a GGUF file, or the name of a repository on the hub.
        task: The name of a task, or a synonym. By default the task of the checkpoint, by the class name in
            its `config.json`.
        trust_remote_code: Whether code of the checkpoint may run, for a model type unknown to transformers.
        dequantize: Whether a graph gets the weights of a quantized checkpoint (GPTQ, AWQ, FP8, MXFP4,
            compressed-tensors, GGUF) as floats. Else it keeps them quantized, if MatMulNBits can hold them exactly. In
            PyTorch they are always floats, in a temporary file that is deleted with the model.
        revision: The branch, tag or commit of a repository on the hub. None: its main branch.

    Returns:
        The model of transformers for the task, in float32 and in evaluation mode.

    Raises:
        ModelNotFound: There is no such checkpoint.
        LoadFailed: A file of the checkpoint is damaged, or its weights do not fit its configuration. It needs a missing
            package, or its own code while `trust_remote_code` is False. Or it is quantized, no graph can keep its
            weights, and `dequantize` is False.
        UnknownName: The model does not have the task.
        InvalidSpec: The checkpoint has no trained weights for the task, or a folder has a `revision`.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertModel
        >>> tiny = BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BertModel(tiny).save_pretrained(folder)
        ...     type(model_for(folder)).__name__
        'BertModel'
    """
    if is_gguf(name):
        refuse_revision_of_files(name, revision)
        return load_gguf(Path(name), "AutoModelForCausalLM" if task is None else loader_of(task), dequantize=dequantize)
    config = load_configuration(checkpoint_folder(name, revision=revision), trust_remote_code=trust_remote_code)
    spec = spec_for(config, task or checkpoint_task(config)) if has_row(config) else loader_spec(config, task)
    how: dict[str, Any] = {"trust_remote_code": trust_remote_code, "dequantize": dequantize, "revision": revision}
    return load_model(name, config, spec, **how).eval()
