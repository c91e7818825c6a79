"""ORTModel of optimum-onnx, and sentence-transformers with its ONNX back end."""

from __future__ import annotations

import tempfile
from typing import Any

from lines import answer_jobs


def result(job: dict[str, Any]) -> Any:
    """What the function of a job returns; arrays are lists."""
    return FUNCTIONS[job["function"]](job)


def text(job: dict[str, Any]) -> str:
    """The text that a decoder adds to a text, or an encoder-decoder writes for it, by the tokenizer of the folder."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(job["folder"])
    fed = tokenizer(job["text"], return_tensors="pt")
    model = _ort_model(job)
    written = model.generate(**fed, do_sample=False, num_beams=1, **job.get("options", {}))[0]
    start = 0 if model.config.is_encoder_decoder else fed["input_ids"].shape[1]
    return tokenizer.decode(written[start:], skip_special_tokens=True)


def tokens(job: dict[str, Any]) -> list[int]:
    """The tokens that a decoder adds to some tokens, the likeliest each time."""
    return _added(_ort_model(job), job)


def own_folder(job: dict[str, Any]) -> dict[str, list[int]]:
    """The tokens of a tiny decoder of random weights: those of PyTorch, and of ORTModel with Optimum's own folder."""
    import torch
    import transformers
    from optimum.exporters.onnx import main_export

    torch.manual_seed(0)
    default = transformers.AutoConfig.for_model(job["model_type"])
    known = {*default.to_dict(), *default.attribute_map, *job["known"]}
    config = type(default)(**{name: value for name, value in job["sizes"].items() if name in known})
    if (config.pad_token_id or 0) >= config.vocab_size:
        config.pad_token_id = 0
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with tempfile.TemporaryDirectory() as root:
        model.save_pretrained(f"{root}/checkpoint")
        task = "text-generation-with-past"
        main_export(f"{root}/checkpoint", f"{root}/own", task=task, do_validation=False, no_post_process=True)
        own = _ort_model({"class": "ORTModelForCausalLM", "folder": f"{root}/own"})
        return {"pytorch": _added(model, job), "own": _added(own, job)}


def _added(model: Any, job: dict[str, Any]) -> list[int]:
    """The tokens that a model adds to those of a job. None ends the text."""
    import torch

    ids = torch.tensor([job["ids"]])
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    written = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=job["count"])
    return written[0, len(job["ids"]) :].tolist()


def outputs(job: dict[str, Any]) -> dict[str, Any]:
    import torch
    from transformers import AutoTokenizer

    fed = AutoTokenizer.from_pretrained(job["folder"])(job["texts"], padding=True, return_tensors="pt")
    with torch.no_grad():
        given = _ort_model(job)(**fed)
    return {name: given[name].tolist() for name in given}


def embeddings(job: dict[str, Any]) -> list[list[float]]:
    """The embeddings of texts by SentenceTransformer, or the dense form of those by SparseEncoder."""
    import sentence_transformers

    model = getattr(sentence_transformers, job["class"])(job["folder"], backend="onnx", **job.get("options", {}))
    given = model.encode(job["texts"])
    return (given.to_dense() if hasattr(given, "to_dense") else given).tolist()


def scores(job: dict[str, Any]) -> list[Any]:
    from sentence_transformers import CrossEncoder

    return CrossEncoder(job["folder"], backend="onnx").predict([tuple(pair) for pair in job["pairs"]]).tolist()


def _ort_model(job: dict[str, Any]) -> Any:
    import optimum.onnxruntime

    return getattr(optimum.onnxruntime, job["class"]).from_pretrained(job["folder"], **job.get("load", {}))


FUNCTIONS = {function.__name__: function for function in (text, tokens, own_folder, outputs, embeddings, scores)}

if __name__ == "__main__":
    answer_jobs(result)
