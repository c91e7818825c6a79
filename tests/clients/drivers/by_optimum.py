"""ORTModel of optimum-onnx, and sentence-transformers with its ONNX back end."""

from __future__ import annotations

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


def outputs(job: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a model for texts, by the tokenizer of the folder."""
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
    """What CrossEncoder says of pairs of texts."""
    from sentence_transformers import CrossEncoder

    return CrossEncoder(job["folder"], backend="onnx").predict([tuple(pair) for pair in job["pairs"]]).tolist()


def _ort_model(job: dict[str, Any]) -> Any:
    import optimum.onnxruntime

    return getattr(optimum.onnxruntime, job["class"]).from_pretrained(job["folder"])


FUNCTIONS = {function.__name__: function for function in (text, outputs, embeddings, scores)}

if __name__ == "__main__":
    answer_jobs(result)
