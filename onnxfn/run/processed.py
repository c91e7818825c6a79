"""The outputs of the processor in the folder of an export for a text, images and sounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.models.pretrained import pretrained
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, errors_as, first_line


def saved_processor(folder: Path) -> Any:
    """The processor or tokenizer that is saved in a folder; its own code does not run. ModelNotFound if none is."""
    import transformers

    # The code of any processor may raise anything.
    advice = "save the processor of the model there: processor.save_pretrained(folder)"
    with errors_as(lambda error: ModelNotFound(f"no processor in {folder} ({first_line(error)}); {advice}")):
        return pretrained(transformers.AutoProcessor.from_pretrained, folder, trust_remote_code=False)


def processed(processor: Any, text: str, images: Sequence[Any], audio: Sequence[Any]) -> dict[str, Array]:
    """The arguments of `forward` for a text with images and sounds, as a processor computes them.

    A chat template, where the processor has one, makes the text the message of a user. Else placeholders stand before
    a text that has none. Images and sounds are as `generate` takes them. InvalidSpec if the processor cannot read them,
    ModelNotFound if there is no such file.
    """
    values = {"images": [_image(each) for each in images], "audio": [_sound(processor, each) for each in audio]}
    contents = {name: several for name, several in values.items() if several}
    kind = f"{type(processor).__name__} cannot read {len(images)} images and {len(audio)} sounds with this text"
    with errors_as(lambda error: InvalidSpec(f"{kind}: {first_line(error)}")):
        features = processor(text=[_prompt(processor, text, len(images), len(audio))], return_tensors="pt", **contents)
    return {name: np.asarray(array) for name, array in features.items()}


def arrays_of(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The outputs of a processor as arrays."""
    return {name: np.asarray(values) for name, values in inputs.items() if values is not None}


def _prompt(processor: Any, text: str, images: int, sounds: int) -> str:
    """The text as the message of a user, or with a placeholder for each image and each sound in front."""
    counts = {"image_token": images, "audio_token": sounds}
    tokens = [(getattr(processor, name, None), count) for name, count in counts.items()]
    if any(token and token in text for token, _ in tokens):
        return text
    with_tokens = "".join(token * count for token, count in tokens if token) + text
    if not getattr(processor, "chat_template", None):
        return with_tokens
    parts = [*[{"type": "image"}] * images, *[{"type": "audio"}] * sounds, {"type": "text", "text": text}]
    prompt = _message(processor, parts if images or sounds else text)
    # The template of a model that reads only texts may drop other parts.
    has_all = all(prompt.count(token) == count for token, count in tokens if token)
    return prompt if has_all else _message(processor, with_tokens)


def _message(processor: Any, content: Any) -> str:
    """The text that begins the answer to a message of a user."""
    message = [{"role": "user", "content": content}]
    return str(processor.apply_chat_template(message, tokenize=False, add_generation_prompt=True))


def _image(image: Any) -> Any:
    """An image of PIL; any other object, such as an array, unchanged."""
    if not isinstance(image, str | PathLike):
        return image
    from PIL import Image

    return Image.open(_file(image)).convert("RGB")


def _sound(processor: Any, sound: Any) -> Any:
    """Samples at the sampling rate of a processor."""
    if not isinstance(sound, str | PathLike):
        return np.asarray(sound, dtype=np.float32)
    from transformers.audio_utils import load_audio

    return load_audio(str(_file(sound)), sampling_rate=processor.feature_extractor.sampling_rate)


def _file(path: str | PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise ModelNotFound(f"no file {path}; pass the path of an image or a sound, or its values")
    return Path(path)
