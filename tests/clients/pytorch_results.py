"""What PyTorch gives for the input of a client, in the form in which the client gives it.

Each function takes a `Reference` (the model, the tokenizer, the names that the file takes), the arguments of a client,
and the tensors that the processor of the client gives for an image or a sound. PyTorch is fed only what the file takes:
a client drops what it does not take without a word.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from attrs import frozen


@frozen
class Reference:
    """A PyTorch model with its tokenizer, and the names of the inputs that the exported files take."""

    model: Any
    tokenizer: Any
    names: frozenset[str]


Result = Callable[[Reference, list[Any], Mapping[str, Any]], Any]


def fed(reference: Reference, *texts: Any, **options: Any) -> dict[str, Any]:
    tokens = reference.tokenizer(*texts, return_tensors="pt", padding=True, **options)
    return {name: value for name, value in tokens.items() if name in reference.names}


def tensors(inputs: Mapping[str, Any], *names: str) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(inputs[name]["data"]).reshape(inputs[name]["dims"]) for name in names}


def array(tensor: torch.Tensor) -> dict[str, Any]:
    return {"dims": list(tensor.shape), "data": tensor.flatten().tolist()}


def embeddings(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> dict[str, Any]:
    return array(torch.tensor(text_embeddings(reference, arguments[0])))


def text_embeddings(reference: Reference, texts: list[str]) -> list[list[float]]:
    inputs = fed(reference, texts)
    weights = inputs["attention_mask"][..., None]
    mean = (reference.model(**inputs).last_hidden_state * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1).tolist()


def filled(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> list[dict[str, Any]]:
    inputs = fed(reference, arguments[0])
    place = inputs["input_ids"][0].tolist().index(reference.tokenizer.mask_token_id)
    scores, tokens = reference.model(**inputs).logits[0, place].softmax(-1).topk(5)
    return [{"token": token, "score": score} for score, token in zip(scores.tolist(), tokens.tolist(), strict=True)]


def text_classes(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> list[dict[str, Any]]:
    return scored(reference, reference.model(**fed(reference, arguments[0])).logits[0])


def scored(reference: Reference, logits: torch.Tensor) -> list[dict[str, Any]]:
    names = reference.model.config.id2label
    scores, classes = logits.softmax(-1).sort(descending=True)
    return [{"label": names[each], "score": own} for each, own in zip(classes.tolist(), scores.tolist(), strict=True)]


def token_classes(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> list[dict[str, Any]]:
    inputs = fed(reference, arguments[0])
    scores, classes = reference.model(**inputs).logits[0].softmax(-1).max(-1)
    special = set(reference.tokenizer.all_special_ids)
    names = reference.model.config.id2label
    return [
        {"entity": names[int(classes[index])], "score": float(scores[index]), "index": index}
        for index, token in enumerate(inputs["input_ids"][0].tolist())
        if token not in special
    ]


def answer(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """The likeliest span of the second text, with its score among the tokens of that text and the first token."""
    inputs = fed(reference, *arguments[:2])
    given = reference.model(**inputs)
    ids = inputs["input_ids"][0]
    second = ids.tolist().index(reference.tokenizer.sep_token_id)
    special = torch.tensor([int(token) in reference.tokenizer.all_special_ids for token in ids])
    allowed = (torch.arange(len(ids)) > second) & ~special
    first = torch.arange(len(ids)) == 0
    lowest = torch.tensor(float("-inf"))
    starts, ends = (
        torch.where(allowed | first, logits[0], lowest).softmax(-1) * allowed
        for logits in (given.start_logits, given.end_logits)
    )
    spans = (starts[:, None] * ends[None]).triu()
    start, end = divmod(int(spans.argmax()), len(ids))
    text = reference.tokenizer.decode(ids[start : end + 1], skip_special_tokens=True)
    return {"answer": text, "score": float(spans.max())}


def completion(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"generated_text": arguments[0] + added(reference, *arguments)}]


def added(reference: Reference, text: str, options: Mapping[str, Any]) -> str:
    """The text that a decoder adds to a text; all that an encoder-decoder writes for it."""
    inputs = fed(reference, text)
    start = 0 if reference.model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    return reference.tokenizer.decode(written(reference, inputs, options)[0, start:], skip_special_tokens=True)


def chat_answer(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages = arguments[0]
    text = reference.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = fed(reference, text, add_special_tokens=False)
    tokens = written(reference, inputs, arguments[1])[0, inputs["input_ids"].shape[1] :]
    content = reference.tokenizer.decode(tokens, skip_special_tokens=True)
    return [{"generated_text": [*messages, {"role": "assistant", "content": content}]}]


def written(reference: Reference, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> torch.Tensor:
    return reference.model.generate(**inputs, do_sample=False, num_beams=1, **options)


def new_tokens(model: Any, ids: list[int], count: int) -> list[int]:
    """The tokens that a decoder adds to some tokens, the likeliest each time."""
    given = torch.tensor([ids])
    tokens = model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=count)
    return tokens[0, len(ids) :].tolist()


def new_text(key: str, reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{key: added(reference, *arguments)}]


def caption(reference: Reference, arguments: list[Any], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    tokens = written(reference, tensors(inputs, "pixel_values"), arguments[1])
    return [{"generated_text": reference.tokenizer.decode(tokens[0], skip_special_tokens=True).strip()}]


def transcript(reference: Reference, arguments: list[Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    tokens = written(reference, tensors(inputs, "input_features"), arguments[1])
    return {"text": reference.tokenizer.decode(tokens[0], skip_special_tokens=True)}


def heard_letters(reference: Reference, _: list[Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    tokens = reference.model(**tensors(inputs, "input_values")).logits[0].argmax(-1)
    return {"text": reference.tokenizer.decode(tokens, skip_special_tokens=True).strip()}


def classes(key: str, reference: Reference, _: list[Any], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    return scored(reference, reference.model(**tensors(inputs, key)).logits[0])


def fitting_labels(reference: Reference, arguments: list[Any], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    texts = fed(reference, [f"This is a photo of {label}" for label in arguments[1]])
    scores = reference.model(**texts, **tensors(inputs, "pixel_values")).logits_per_image[0].softmax(-1)
    pairs = sorted(zip(scores.tolist(), arguments[1], strict=True), reverse=True)
    return [{"label": label, "score": score} for score, label in pairs]


def boxes(reference: Reference, _: list[Any], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The boxes of an image by the parts of its width and height. The last class is no object."""
    given = reference.model(**tensors(inputs, "pixel_values"))
    scores, classes = given.logits[0].softmax(-1)[:, :-1].max(-1)
    none = given.logits[0].argmax(-1) == given.logits.shape[-1] - 1
    return [
        {"score": float(scores[index]), "label": reference.model.config.id2label[int(classes[index])], "box": box}
        for index, box in enumerate(map(_corners, given.pred_boxes[0].tolist()))
        if not none[index]
    ]


def _corners(box: list[float]) -> dict[str, float]:
    x, y, width, height = box
    return {"xmin": x - width / 2, "ymin": y - height / 2, "xmax": x + width / 2, "ymax": y + height / 2}


def segments(reference: Reference, _: list[Any], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A mask for each class that is the likeliest at some point, at the size of the logits."""
    classes = reference.model(**tensors(inputs, "pixel_values")).logits[0].argmax(0)
    names = reference.model.config.id2label
    return [{"label": names[each], "mask": array((classes == each) * 255)} for each in classes.unique().tolist()]


def panoptic_segments(reference: Reference, _: list[Any], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A mask for each query that sees an object: where probability times score is largest (arXiv 2005.12872, 4.4)."""
    given = reference.model(**tensors(inputs, "pixel_values"))
    scores, classes = given.logits[0].softmax(-1).max(-1)
    sees = (classes < given.logits.shape[-1] - 1) & (scores > 0.5)
    weighted = given.pred_masks[0, sees].sigmoid() * scores[sees, None, None]
    winners, names = weighted.argmax(0), reference.model.config.id2label
    return [
        {"label": names[int(label)], "score": float(score), "mask": array((winners == query) * 255)}
        for query, (label, score) in enumerate(zip(classes[sees], scores[sees], strict=True))
    ]


def depths(reference: Reference, _: list[Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"predicted_depth": array(reference.model(**tensors(inputs, "pixel_values")).predicted_depth[0])}


def masks(reference: Reference, _: list[Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    given = reference.model(**tensors(inputs, "pixel_values", "input_points", "input_labels"))
    return {name: array(given[name]) for name in ("pred_masks", "iou_scores")}


def speech(reference: Reference, arguments: list[Any], _: Mapping[str, Any]) -> dict[str, Any]:
    return {"audio": reference.model(**fed(reference, arguments[0])).waveform[0].tolist()}


def outputs(reference: Reference, texts: list[str], _: Mapping[str, Any]) -> dict[str, Any]:
    given = reference.model(**fed(reference, texts))
    return {name: value.tolist() for name, value in given.items() if torch.is_tensor(value)}


RESULTS: Mapping[str, Result] = MappingProxyType(
    {
        "feature-extraction": embeddings,
        "fill-mask": filled,
        "text-classification": text_classes,
        "token-classification": token_classes,
        "question-answering": answer,
        "text-generation": completion,
        "chat": chat_answer,
        "text2text-generation": partial(new_text, "generated_text"),
        "summarization": partial(new_text, "summary_text"),
        "translation": partial(new_text, "translation_text"),
        "image-to-text": caption,
        "whisper": transcript,
        "automatic-speech-recognition": heard_letters,
        "audio-classification": partial(classes, "input_values"),
        "image-classification": partial(classes, "pixel_values"),
        "zero-shot-image-classification": fitting_labels,
        "object-detection": boxes,
        "image-segmentation": segments,
        "panoptic-segmentation": panoptic_segments,
        "depth-estimation": depths,
        "mask-generation": masks,
        "text-to-speech": speech,
    }
)
"""From a kind of a case to the function."""
