"""onnxruntime-genai: the tokens or the text that a decoder adds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime_genai as genai
from lines import answer_jobs, array, arrays


def result(job: dict[str, Any]) -> Any:
    """The new tokens for `ids`, also with images for `feeds` and with a sound for `sound`; those after `text` with the
    files of `pictures`; the new text for `text`, for `messages` and for each of `texts`. `overlay` goes over the
    configuration."""
    config = genai.Config(job["folder"])
    if "overlay" in job:
        config.overlay(json.dumps(job["overlay"]))
    model = genai.Model(config)
    if "feeds" in job:
        return tokens_with_images(model, job)
    if "pictures" in job:
        return tokens_after_pictures(model, job)
    if "ids" in job:
        return new_tokens(model, job["ids"], job["count"], job.get("sound"))
    tokenizer = genai.Tokenizer(model)
    if "texts" in job:
        return new_texts(model, tokenizer, job)
    return tokenizer.decode(new_tokens(model, tokenizer.encode(prompt(tokenizer, job)), job["count"]))


def prompt(tokenizer: Any, job: dict[str, Any]) -> str:
    """The text of a job; that of its messages by the chat template of the folder."""
    if "messages" not in job:
        return job["text"]
    return tokenizer.apply_chat_template(messages=json.dumps(job["messages"]), add_generation_prompt=True)


def generated(model: Any, start: Callable[[Any], None], length: int, count: int, rows: int = 1) -> list[list[int]]:
    """The tokens that the model adds to each text, the most likely each time, to its end; `start` feeds a generator."""
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(do_sample=False, max_length=length + count, batch_size=rows)
    generator = genai.Generator(model, parameters)
    start(generator)
    while not generator.is_done():
        generator.generate_next_token()
    return [[int(token) for token in generator.get_sequence(row)[length:]] for row in range(rows)]


def new_tokens(model: Any, ids: Any, count: int, sound: Any = None) -> list[int]:
    features = None if sound is None else array(sound)  # genai reads this memory later, and does not keep it

    def start(generator: Any) -> None:
        if features is not None:
            generator.set_model_input("audio_features", features)
        generator.append_tokens(ids)

    return generated(model, start, len(ids), count)[0]


def new_texts(model: Any, tokenizer: Any, job: dict[str, Any]) -> list[str]:
    ids = tokenizer.encode_batch(job["texts"]).as_numpy()
    added = generated(model, lambda generator: generator.append_tokens(ids), ids.shape[1], job["count"], len(ids))
    return [tokenizer.decode(tokens) for tokens in added]


def tokens_with_images(model: Any, job: dict[str, Any]) -> list[list[int]]:
    """The tokens that the model adds to texts with images. The feeds are what a processor gives."""
    feeds = arrays(job["feeds"])
    ids = feeds["input_ids"].astype(np.int32)
    tensors = genai.NamedTensors()
    placeholders = np.array([(ids == job["placeholder"]).sum()], np.int64)
    for name, each in {**feeds, "input_ids": ids, "num_image_tokens": placeholders}.items():
        if name != "attention_mask":  # the runtime makes it
            tensors[name] = each
    return generated(model, lambda generator: generator.set_inputs(tensors), ids.shape[1], job["count"], len(ids))


def tokens_after_pictures(model: Any, job: dict[str, Any]) -> list[int]:
    """The tokens that the model adds to a text with pictures, which the runtime reads and makes into its inputs."""
    inputs = model.create_multimodal_processor()(job["text"], images=genai.Images.open(*job["pictures"]))
    length = inputs["input_ids"].shape()[-1]
    return generated(model, lambda generator: generator.set_inputs(inputs), length, job["count"])[0]


if __name__ == "__main__":
    answer_jobs(result)
