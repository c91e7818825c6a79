"""Tiny models that see or hear and write, for clients: their exports, and what they are given."""

from __future__ import annotations

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
from onnxfn.check.whole.prompts_with_images import Prompt, towers_of, whole_prompts
from onnxfn.check.whole.torch_whole import MASK, POSITIONS, forward_arguments
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.edits.token_embeddings import IDS

SEES, HEARS = "image-text-to-text-with-past", "audio-text-to-text-with-past"

SEEING = (
    *("llava", "gemma3", "idefics3", "smolvlm", "mistral3", "lfm2_vl"),
    *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm_ocr"),
)
HEARING = ("voxtral",)
TASKS: Mapping[str, str] = MappingProxyType({**dict.fromkeys(SEEING, SEES), **dict.fromkeys(HEARING, HEARS)})
"""Model type -> the task of its export."""

CLIENT_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType({"voxtral": {"input_features": "audio_values"}})
"""Model type -> what the processor of the client calls the arguments of `forward`."""

BEGIN_KEYS = ("vision_start_token_id", "image_start_token_id")
"""The keys of a configuration with the token before an image, by which a client finds it."""

WRITING = {"max_new_tokens": 16, "do_sample": False, "num_beams": 1}


@frozen
class Sight:
    """A model that sees or hears, and the folder of its export."""

    model: Any
    plan: Any
    folder: Path

    @property
    def known(self) -> Placeholders:
        """How its tokens and features become one sequence."""
        return placeholders(self.model.config.to_dict())


def sight(model_type: str, root: Path) -> Sight:
    """A tiny model of a type, exported by the command line."""
    task, model = TASKS[model_type], tiny_model(model_type, TASKS[model_type])
    for config in (model.generation_config, model.config, model.config.get_text_config()):
        config.eos_token_id = None  # the client looks for an end token in all of them
    model.save_pretrained(root / "checkpoint")
    folder = export_folder(root / "checkpoint", root / model_type, task, ("--no-check",))
    return Sight(model, onnxfn.plan(onnxfn.spec_for(model, task), model), folder)


def prompts(sight: Sight) -> list[Prompt]:
    """Texts with no image, with an image, with several, and a batch.

    No text is padded: transformers.js forgets the mask of a prompt with images after its first token. For positions in
    three axes there is no text alone: its step from a text to the tokens after it is wrong.
    """

    def rows_of(part, inputs):
        return torch_outputs(sight.model, part, inputs)[0]

    towers, table = towers_of(sight.plan.parts), sight.plan["embed_tokens"].spec
    every = [without_padding(prompt) for prompt in whole_prompts(towers, table, sight.known, rows_of)]
    return [with_begins(prompt, sight) for prompt in (every[1:] if has_three_positions(sight) else every)]


def has_three_positions(sight: Sight) -> bool:
    """Whether positions are in time, height and width."""
    inputs = sight.plan["decoder_model_merged"].spec.inputs
    return POSITIONS in inputs and len(inputs[POSITIONS].axes.axes) == 3


def without_padding(prompt: Prompt) -> Prompt:
    """The prompt with other tokens in the place of padding."""
    return Prompt(
        prompt.case.replace(" left-padded", ""), {**prompt.arguments, MASK: np.ones_like(prompt.arguments[MASK])}
    )


def with_begins(prompt: Prompt, sight: Sight) -> Prompt:
    """The prompt with the token that begins an image before each image."""
    config = sight.model.config.to_dict()
    begin = next((config[key] for key in BEGIN_KEYS if config.get(key) is not None), None)
    ids = prompt.arguments[IDS].copy()
    is_image = np.isin(ids, [*sight.known.tokens.values()])
    begins = ~is_image & np.roll(is_image, -1, axis=1)
    ids[begins] = ids[begins] if begin is None else begin
    return Prompt(prompt.case, {**prompt.arguments, IDS: ids})


def written(sight: Sight, prompt: Prompt) -> np.ndarray:
    """The tokens that PyTorch writes after a prompt."""
    ids = prompt.arguments[IDS]
    arguments = forward_arguments(sight.model, prompt.arguments, ids, sight.known, has_three_positions=True)
    names = {*inspect.signature(sight.model.forward).parameters}
    tensors = {name: torch.from_numpy(np.asarray(each)) for name, each in arguments.items() if name in names}
    return sight.model.generate(**tensors, **WRITING).numpy()[:, -WRITING["max_new_tokens"] :]
