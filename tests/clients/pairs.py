"""The pairs of a model type and a task beyond decoders that transformers.js knows, and what each is given."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import frozen

from onnxfn import ARCHITECTURES
from onnxfn.export.clients.transformers_js import TYPES_BY_TASK
from onnxfn.specs.tasks.tasks import WITH_PAST, task_names

_EMBEDDING_TYPES = """
albert audio-spectrogram-transformer beit bert camembert chinese_clip clap clip clipseg convbert convnext convnextv2
deberta deberta-v2 decision_transformer deit detr dinov2 dinov2_with_registers dinov3_convnext dinov3_vit distilbert
donut-swin dpt efficientnet electra esm eurobert glpn groupvit hiera hubert ijepa maskformer mgp-str mobilebert
mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 modernbert mpnet nomic_bert owlv2 owlvit patchtsmixer patchtst pvt
resnet roberta roformer rt_detr rt_detr_v2 siglip squeezebert swin swin2sr table-transformer unispeech unispeech-sat
vit vit_mae vit_msn wav2vec2 wav2vec2-bert wavlm xlm xlm-roberta yolos
"""

MORE_TYPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "feature-extraction": tuple(_EMBEDDING_TYPES.split()),
        "zero-shot-image-classification": ("chinese_clip", "clip", "clipseg", "siglip"),
        "mask-generation": ("sam", "sam2", "sam3_tracker"),
    }
)
"""Types of `AutoModel` that have one file, and of a class for masks: the table of onnxfn does not list them."""

TASKS: Mapping[str, str] = MappingProxyType({"mask-generation": "feature-extraction"})
"""A task of transformers.js -> the task of the export, where that has another name."""

CLASSES: Mapping[str, tuple[str, ...]] = json.loads(Path(__file__).with_name("classes.json").read_text())
"""A task -> the classes of its pipeline, of which the first that knows a type loads it. `AutoModel` for others."""

GENERATES = frozenset({"text2text-generation", "automatic-speech-recognition", "image-to-text", "text-to-audio"})
"""The tasks whose models are called by `generate`, if they have a decoder."""

QUIET: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"vits": {"noise_scale": 0.0, "noise_scale_duration": 0.0}, "speecht5": {"speech_decoder_prenet_dropout": 0.0}}
)
"""A model type -> values without which it gives something else each time."""

GENERATION: Mapping[str, Mapping[str, int]] = MappingProxyType({"musicgen": {"pad_token_id": 32}})
"""A model type -> values of its generation configuration. Musicgen pads with the token of its decoder."""


@frozen
class Pair:
    """A model type, its task in the words of transformers.js, and the task of the export."""

    model_type: str
    kind: str
    task: str

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(CLASSES.get(self.kind, ("AutoModel",)))


def pairs() -> tuple[Pair, ...]:
    """Every pair of a row of onnxfn that transformers.js knows, but for decoders."""
    types = {**{task: tuple(sorted(names)) for task, names in TYPES_BY_TASK.items()}, **MORE_TYPES}
    every = [(name, kind) for kind, names in types.items() if kind != "text-generation" for name in names]
    found = [Pair(name, kind, task) for name, kind in every if (task := exported_task(name, kind))]
    return tuple(found)


def exported_task(model_type: str, kind: str) -> str:
    """The task of the export of a pair; that with a cache if the row has one. Empty if it has none of the kind."""
    row = ARCHITECTURES.get(model_type)
    known = task_names(row) if row is not None else ()
    task = TASKS.get(kind, kind)
    return next((name for name in (task + WITH_PAST, task) if name in known), "")


def tensors(arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: tensor(np.asarray(array)) for name, array in arrays.items()}


def tensor(array: Any) -> dict[str, Any]:
    return {"type": str(array.dtype), "dims": list(array.shape), "data": array.flatten().tolist()}
