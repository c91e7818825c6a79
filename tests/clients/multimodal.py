"""Tiny models that see or hear and write, for clients: their exports, and what they are given."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from attrs import frozen
from every_part import tiny_model
from exporting import export_folder

import onnxfn
from onnxfn.architectures.placeholders import Placeholders, placeholders
from onnxfn.check.wholes.torch_whole import MASK, POSITIONS, forward_arguments
from onnxfn.models.forward import torch_outputs
from onnxfn.run.prompts_with_images import Prompt, whole_prompts
from onnxfn.run.towers import TOWERS
from onnxfn.specs.edits.token_embeddings import IDS

SEES, HEARS = "image-text-to-text-with-past", "audio-text-to-text-with-past"
SEES_AND_HEARS = "any-to-any-with-past"

SEEING = (
    *("llava", "gemma3", "idefics3", "smolvlm", "mistral3", "lfm2_vl", "paligemma", "lighton_ocr", "florence2"),
    *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "glm_ocr"),
)
HEARING = ("voxtral", "granite_speech")
REFUSED: Mapping[str, str] = MappingProxyType(
    {"llava_onevision": "transformers.js gives llava_onevision no image_sizes, which vision_encoder.onnx takes"}
)
"""Model type that transformers.js cannot run -> what its plan says of that."""

TASKS: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys((*SEEING, *REFUSED), SEES), **dict.fromkeys(HEARING, HEARS), "gemma4": SEES_AND_HEARS}
)
"""Model type -> the task of its export. transformers.js loads Gemma 4 from one folder that sees and hears."""

IMAGES_FIRST = ("florence2",)
"""Model types for which transformers.js puts the rows of an image before its text, and takes no placeholder tokens."""

CLIENT_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType({"voxtral": {"input_features": "audio_values"}})
"""Model type -> what the processor of the client calls the arguments of `forward`."""

BEGIN_KEYS = ("vision_start_token_id", "image_start_token_id")
"""The keys of a configuration with the token before an image, by which a client finds it."""

WRITING = {"max_new_tokens": 16, "do_sample": False, "num_beams": 1}


@frozen
class Sight:
    model: Any
    plan: Any
    folder: Path

    @property
    def known(self) -> Placeholders:
        """How its tokens and features become one sequence."""
        return placeholders(self.model.config.to_dict())


def sight(model_type: str, root: Path) -> Sight:
    task = TASKS[model_type]
    model = tiny_model(model_type, HEARS if task == SEES_AND_HEARS else task)
    for config in (model.generation_config, model.config, model.config.get_text_config()):
        config.eos_token_id = None  # the client looks for an end token in all of them
    model.save_pretrained(root / "checkpoint")
    folder = export_folder(root / "checkpoint", root / model_type, task, ("--no-check",))
    return Sight(model, onnxfn.plan(onnxfn.spec_for(model, task), model), folder)


def prompts(sight: Sight) -> list[Prompt]:
    """Texts with no image, with one, with several, and a batch, without padding: transformers.js forgets the mask."""

    def rows_of(part, inputs):
        return torch_outputs(sight.model, part, inputs)[0]

    parts, table = {part.name: part for part in sight.plan.parts}, sight.plan["embed_tokens"].spec
    towers = {stem: parts[stem] for stem in TOWERS if stem in parts}
    every = [without_padding(prompt) for prompt in whole_prompts(towers, table, sight.known, rows_of)]
    if sight.model.config.model_type in IMAGES_FIRST:
        return [with_images_first(prompt, sight.known) for prompt in every if len(images(prompt)) in (0, texts(prompt))]
    return [with_begins(prompt, sight) for prompt in (every[1:] if has_three_positions(sight) else every)]


def has_three_positions(sight: Sight) -> bool:
    """Whether positions are in time, height and width."""
    inputs = sight.plan["decoder_model_merged"].spec.inputs
    return POSITIONS in inputs and len(inputs[POSITIONS].axes.axes) == 3


def without_padding(prompt: Prompt) -> Prompt:
    return Prompt(
        prompt.case.replace(" left-padded", ""), {**prompt.arguments, MASK: np.ones_like(prompt.arguments[MASK])}
    )


def images(prompt: Prompt) -> np.ndarray:
    return prompt.arguments.get("pixel_values", np.zeros(0))


def texts(prompt: Prompt) -> int:
    return len(prompt.arguments[IDS])


def with_images_first(prompt: Prompt, known: Placeholders) -> Prompt:
    """The prompt with all placeholder tokens of a text before its other tokens."""
    ids = prompt.arguments[IDS]
    order = np.argsort(~is_placeholder(ids, known), axis=1, kind="stable")
    return Prompt(prompt.case, {**prompt.arguments, IDS: np.take_along_axis(ids, order, axis=1)})


def is_placeholder(ids: np.ndarray, known: Placeholders) -> np.ndarray:
    return np.isin(ids, [*known.tokens.values()])


def client_arguments(sight: Sight, prompt: Prompt) -> dict[str, np.ndarray]:
    model_type, ids = sight.model.config.model_type, prompt.arguments[IDS]
    names = CLIENT_NAMES.get(model_type, {})
    arguments = {names.get(name, name): np.asarray(array) for name, array in prompt.arguments.items()}
    if model_type not in IMAGES_FIRST:
        return arguments
    is_token = ~is_placeholder(ids, sight.known)
    return arguments | {name: arguments[name][is_token].reshape(len(ids), -1) for name in (IDS, MASK)}


def with_begins(prompt: Prompt, sight: Sight) -> Prompt:
    """The prompt with the token that begins an image before each image."""
    config = sight.model.config.to_dict()
    begin = next((config[key] for key in BEGIN_KEYS if config.get(key) is not None), None)
    ids = prompt.arguments[IDS].copy()
    is_image = is_placeholder(ids, sight.known)
    begins = ~is_image & np.roll(is_image, -1, axis=1)
    ids[begins] = ids[begins] if begin is None else begin
    return Prompt(prompt.case, {**prompt.arguments, IDS: ids})


def written(sight: Sight, prompt: Prompt) -> np.ndarray:
    ids = prompt.arguments[IDS]
    arguments = forward_arguments(sight.model, prompt.arguments, ids, sight.known, has_three_positions=True)
    names = {*inspect.signature(sight.model.forward).parameters}
    tensors = {name: torch.from_numpy(np.asarray(each)) for name, each in arguments.items() if name in names}
    return sight.model.generate(**tensors, **WRITING).numpy()[:, -WRITING["max_new_tokens"] :]
