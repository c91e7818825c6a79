"""The arguments of `generate`: arrays of tokens, of a mask, of features, checked before ONNX Runtime reads them.

A processor in the folder of an export computes them from a text, images and sounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.models.pretrained import pretrained
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, errors_as, first_line, shortened
from onnxfn.specs.stored.reports import Exported


def token_ids(input_ids: Any) -> Array:
    """Prompts as int64, `[batch, length]`. InvalidSpec if they are not token ids, or a prompt has none."""
    ids = encoder_array(input_ids)
    if not np.equal(ids, ids.astype(np.int64)).all():
        raise InvalidSpec(f"input_ids holds fractions, {ids.dtype}; pass token ids, which are integers")
    if ids.ndim != 2:  # noqa: PLR2004 - texts and tokens
        raise InvalidSpec(f"input_ids has the shape {list(ids.shape)}; pass [batch, length], such as [[1, 2, 3]]")
    return encoder_array(ids.astype(np.int64))


def encoder_array(inputs: Any) -> Array:
    """The inputs of an encoder: token ids or features. InvalidSpec if they are empty, negative ids or not numbers."""
    array = _numbers("input_ids", inputs)
    if array.size == 0:
        raise InvalidSpec(f"input_ids has the shape {list(array.shape)}; each prompt has at least one token")
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidSpec(f"input_ids holds {array.min()}; a token is 0 or more")
    return array


def token_mask(attention_mask: Any, inputs: Array) -> Array:
    """The mask of the inputs as int64, `[batch, length]`; ones for None. InvalidSpec for another shape or value."""
    shape = inputs.shape[:2]
    if attention_mask is None:
        return np.ones(shape, dtype=np.int64)
    mask = _numbers("attention_mask", attention_mask)
    if mask.shape != shape:
        raise InvalidSpec(f"attention_mask has the shape {list(mask.shape)}, and input_ids {list(inputs.shape)}")
    if not np.isin(mask, (0, 1)).all():
        raise InvalidSpec("attention_mask holds other values than 0 for padding and 1 for tokens")
    return mask.astype(np.int64)


def stop_tokens(stop: Iterable[int]) -> tuple[int, ...]:
    """Token ids that end a text. InvalidSpec if they are not integers."""
    tokens = tuple(stop) if isinstance(stop, Iterable) and not isinstance(stop, str) else (None,)
    if not all(isinstance(token, int | np.integer) for token in tokens):
        raise InvalidSpec(f"stop is {stop!r}; pass token ids, such as (2,)")
    return tuple(map(int, tokens))


def number_of_tokens(number: Any) -> int:
    """The largest number of new tokens. InvalidSpec if it is not an integer, or below 0."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise InvalidSpec(f"max_new_tokens is {number!r}; pass a whole number, 0 or more")
    return int(number)


def export_path(exported: Exported | str | PathLike[str]) -> Path:
    """The path of an export. InvalidSpec if it is neither the result of `export` or `load` nor a path."""
    path = exported.path if isinstance(exported, Exported) else exported
    if not isinstance(path, str | PathLike):
        raise InvalidSpec(f"{shortened(path)} is not an export: pass the result of export(...), a folder or a file")
    return Path(path)


def run_errors(inputs: Array) -> AbstractContextManager[None]:
    """Turns errors of ONNX Runtime inside into InvalidSpec: they are caused by inputs that do not fit the model."""

    def failed(error: Exception) -> InvalidSpec:
        node, _, reason = first_line(error).rpartition(" Status Message: ")
        table = ""
        if "Gather" in node:
            table = f"; {node.rpartition('Name:')[2]} has no such token or position: may max_new_tokens be too large?"
        tokens = f" with tokens from {inputs.min()} to {inputs.max()}" if inputs.dtype.kind in "iu" else ""
        values = f"{'input_ids' if tokens else 'features'} of the shape {list(inputs.shape)}{tokens}"
        return InvalidSpec(f"ONNX Runtime cannot generate from {values}: {reason}{table}")

    return errors_as(failed)


def _numbers(name: str, values: Any) -> Array:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidSpec(f"{name} has rows of different lengths; pad the shorter prompts on the left") from None
    if array.dtype.kind not in "iufb" and array.size:
        raise InvalidSpec(f"{name} holds {array.dtype}, which are not numbers; pass the output of a tokenizer")
    return array


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
    a text that has none. InvalidSpec if the processor cannot read them, ModelNotFound if there is no such file.
    """
    if text_alone := next((each for each in (images, audio) if isinstance(each, str)), ""):
        raise InvalidSpec(f"images and audio are lists, also of one: [{text_alone!r}]")
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
    # The template of a model that reads only texts may drop other parts, and one that reads parts a plain text.
    for content in (parts, with_tokens) if images or sounds else (text, parts):
        prompt = _message(processor, content)
        if text.strip() in prompt and all(prompt.count(token) == count for token, count in tokens if token):
            return prompt
    return _message(processor, with_tokens)


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
