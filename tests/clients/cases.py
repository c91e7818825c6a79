"""The cases of transformers.js: a pipeline, a checkpoint, and what it is given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import Factory, field, frozen


@frozen
class Case:
    """A pipeline that is run on a folder; empty fields are those of its kind, the key of `RESULTS`."""

    kind: str
    checkpoint: str
    arguments: list[Any]
    task: str = Factory(lambda case: case.kind, takes_self=True)
    flags: tuple[str, ...] = ()
    pipeline: str = ""
    dtype: str = "fp32"
    job: Mapping[str, Any] = field(factory=dict)
    tolerance: float = 1e-5

    @property
    def label(self) -> str:
        return " ".join([self.checkpoint, *([self.dtype] if self.dtype != "fp32" else [])])

    @property
    def name(self) -> str:
        return f"{self.kind} {self.label}"


def image(width: int, height: int) -> dict[str, Any]:
    points = np.random.default_rng(0).integers(0, 256, width * height * 3)
    return {"image": {"data": points.tolist(), "width": width, "height": height}}


def quarters(width: int) -> dict[str, Any]:
    half = width // 2
    colors = np.array([[[254, 1, 1], [1, 254, 1]], [[1, 1, 254], [254, 254, 254]]])
    points = colors.repeat(half, axis=0).repeat(half, axis=1)
    return {"image": {"data": points.flatten().tolist(), "width": width, "height": width}}


def sound(samples: int) -> dict[str, Any]:
    time = np.arange(samples) / 16000
    noise = np.random.default_rng(0).normal(0, 0.05, samples)
    wave = 0.5 * np.sin(2 * np.pi * 440 * time) + 0.2 * np.sin(2 * np.pi * 1230 * time) + noise
    return {"numbers": wave.astype(np.float32).tolist()}


TEXTS = ["the cat sat on the mat", "what is my name?", "a dog"]
CHAT = [{"role": role, "content": text} for role, text in (("user", "the cat"), ("assistant", "sat"), ("user", "on"))]
FEW = {"max_new_tokens": 10}
POOLED = {"pooling": "mean", "normalize": True}
ALL = {"top_k": None}
SMALL = {"target_sizes": [[16, 16]]}
SPEECH = "automatic-speech-recognition"
TEXT2TEXT, SEGMENTS = "text2text-generation-with-past", "image-segmentation"
PROCESSED = {"processed": True}
POINTS = {"input_points": [[[10, 12], [30, 25]]], "input_labels": [[1, 0]]}

PIPELINES = (
    Case("feature-extraction", "bert", [TEXTS, POOLED]),
    Case("fill-mask", "bert masked", ["the cat [MASK] on the mat"]),
    Case("fill-mask", "roberta masked", ["the cat <mask> on the mat"]),
    Case("text-classification", "bert classes", [TEXTS[0], ALL]),
    Case("token-classification", "bert tokens", [TEXTS[0], {"ignore_labels": []}]),
    Case("question-answering", "bert answers", [TEXTS[1], TEXTS[0]]),
    Case("text-generation", "llama", [TEXTS[0], FEW], "text-generation-with-past"),
    Case("text-generation", "gpt2", [TEXTS[0], FEW], "text-generation-with-past"),
    Case("chat", "llama", [CHAT, FEW], "text-generation-with-past", pipeline="text-generation"),
    Case("text2text-generation", "t5", [TEXTS[0], FEW], TEXT2TEXT),
    Case("summarization", "bart", [TEXTS[0], FEW], TEXT2TEXT),
    Case("translation", "marian", [TEXTS[0], FEW], TEXT2TEXT),
    Case("image-to-text", "vision-encoder-decoder", [image(24, 24), FEW], "image-to-text-with-past", job=PROCESSED),
    Case("whisper", "whisper", [sound(3000), FEW], f"{SPEECH}-with-past", pipeline=SPEECH, job=PROCESSED),
    Case(SPEECH, "wav2vec2 letters", [sound(8000)], job=PROCESSED),
    Case("audio-classification", "wav2vec2 classes", [sound(8000), ALL], job=PROCESSED),
    Case("image-classification", "vit", [image(24, 24), {"top_k": 5}], job=PROCESSED),
    Case("zero-shot-image-classification", "clip", [image(24, 24), ["cat", "dog", "mat"]], job=PROCESSED),
    Case("object-detection", "detr", [image(64, 64), {"threshold": 0, "percentage": True}], job=PROCESSED),
    Case("image-segmentation", "segformer", [image(64, 64), SMALL], "semantic-segmentation", job=PROCESSED),
    Case("panoptic-segmentation", "detr segments", [quarters(64), SMALL], SEGMENTS, pipeline=SEGMENTS, job=PROCESSED),
    Case("depth-estimation", "depth_anything", [image(56, 56)], job=PROCESSED, tolerance=1e-4),
    Case("mask-generation", "sam", [image(40, 40)], job={"prompts": POINTS}, tolerance=1e-4),
    Case("text-to-speech", "vits", [TEXTS[2], {}], "text-to-audio", tolerance=1e-4),
)
