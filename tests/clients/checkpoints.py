"""The checkpoints that are exported for clients: tiny random models with a tokenizer and a processor, two real ones."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tiny
import torch
from attrs import field, frozen
from cases import quarters
from client_environments import NotInstalledError
from sizes import SHARED
from tiny_tokenizers import TOKENIZERS
from trained import train_on_quarters

from onnxfn.architectures import decoders

BENCHMARKS = Path.home() / ".cache" / "onnxfn" / "benchmarks" / "models"


@frozen
class Checkpoint:
    """A checkpoint: a tiny model, its tokenizer and processor, and what is changed in it."""

    model_type: str
    loader: str
    tokenizer: str = ""
    processor: Mapping[str, Any] = field(factory=dict, converter=dict)
    sizes: Mapping[str, Any] = field(factory=dict, converter=dict)
    generation: Mapping[str, Any] = field(factory=dict, converter=dict)
    change: Callable[[Any], None] | None = None


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    if checkpoint.tokenizer:
        TOKENIZERS[checkpoint.tokenizer](folder)
    model = tiny.model(checkpoint.model_type, checkpoint.loader, **checkpoint.sizes)
    if checkpoint.change:
        checkpoint.change(model)
    for name, value in checkpoint.generation.items():
        setattr(model.generation_config, name, _token_id(folder, value) if isinstance(value, str) else value)
    if checkpoint.generation:
        model.generation_config._from_model_config = False  # else it is made anew, without these changes
    model.save_pretrained(folder)
    if checkpoint.processor:
        (folder / "preprocessor_config.json").write_text(json.dumps(checkpoint.processor))


def _token_id(folder: Path, token: str) -> int:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(token)


def real_checkpoint(name: str) -> Path:
    """The folder of a checkpoint with trained weights. Raises an error if it is not on this machine."""
    if name == "minilm":
        from onnxfn.export.cli.demo import minilm

        return Path(minilm())
    if not (BENCHMARKS / name).is_dir():
        raise NotInstalledError(f"no {BENCHMARKS / name}: the benchmarks write it")
    return BENCHMARKS / name


CLIP_TEXT = {"text_config": {**SHARED["text"], "eos_token_id": 5}}
NO_NOISE = {"noise_scale": 0.0, "noise_scale_duration": 0.0}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "rescale_factor": 1 / 255}
IMAGE = {"do_resize": False, "do_rescale": True, "do_normalize": True, **HALF}
SOUND = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000, "do_normalize": True}
SOUND = {**SOUND, "feature_size": 1, "padding_value": 0.0, "return_attention_mask": False}
WHISPER_SOUND = {"feature_extractor_type": "WhisperFeatureExtractor", "sampling_rate": 16000, "feature_size": 10}
WHISPER_SOUND = {**WHISPER_SOUND, "processor_class": "WhisperProcessor", "n_fft": 400, "hop_length": 160}
WHISPER_SOUND = {**WHISPER_SOUND, "chunk_length": 0.3, "n_samples": 4800, "nb_max_frames": 30}
SPEECHT5_SOUND = {"feature_extractor_type": "SpeechT5FeatureExtractor", "sampling_rate": 16000, "num_mel_bins": 10}
SPEECHT5_SOUND = {**SPEECHT5_SOUND, "processor_class": "SpeechT5Processor"}
NO_DROPOUT = {"speech_decoder_prenet_dropout": 0.0}
WHISPER_TOKENS = {
    "eos_token_id": "<|endoftext|>",
    "decoder_start_token_id": "<|startoftranscript|>",
    "no_timestamps_token_id": "<|notimestamps|>",
    "is_multilingual": False,
}


def _image(kind: str, **options: Any) -> dict[str, Any]:
    return {"image_processor_type": kind, **IMAGE, **options}


def _see_quarters(model: Any) -> None:
    """Trains a model on the quarters of an image, with the values that `IMAGE` makes of its points."""
    given = quarters(64)["image"]
    points = torch.tensor(given["data"]).reshape(given["height"], given["width"], 3)
    train_on_quarters(model, (points.permute(2, 0, 1)[None] / 255 - 0.5) / 0.5)


CHECKPOINTS: Mapping[str, Checkpoint] = MappingProxyType(
    {
        "bert": Checkpoint("bert", "AutoModel", "wordpiece"),
        "bert masked": Checkpoint("bert", "AutoModelForMaskedLM", "wordpiece"),
        "bert classes": Checkpoint("bert", "AutoModelForSequenceClassification", "wordpiece", sizes={"num_labels": 3}),
        "bert score": Checkpoint("bert", "AutoModelForSequenceClassification", "wordpiece", sizes={"num_labels": 1}),
        "bert tokens": Checkpoint("bert", "AutoModelForTokenClassification", "wordpiece", sizes={"num_labels": 4}),
        "bert answers": Checkpoint("bert", "AutoModelForQuestionAnswering", "wordpiece"),
        "roberta masked": Checkpoint("roberta", "AutoModelForMaskedLM", "with end"),
        "llama": Checkpoint("llama", "AutoModelForCausalLM", "chat"),
        "gpt2": Checkpoint("gpt2", "AutoModelForCausalLM", "chat"),
        "qwen2": Checkpoint("qwen2", "AutoModelForCausalLM", "chat"),
        "t5": Checkpoint("t5", "AutoModelForSeq2SeqLM", "with end"),
        "bart": Checkpoint("bart", "AutoModelForSeq2SeqLM", "with end", sizes={"decoder_attention_heads": 4}),
        "marian": Checkpoint("marian", "AutoModelForSeq2SeqLM", "with end"),
        "whisper": Checkpoint("whisper", "AutoModelForSpeechSeq2Seq", "whisper", WHISPER_SOUND, {}, WHISPER_TOKENS),
        "wav2vec2 letters": Checkpoint("wav2vec2", "AutoModelForCTC", "letters", SOUND, {"vocab_size": 31}),
        "wav2vec2 classes": Checkpoint("wav2vec2", "AutoModelForAudioClassification", "", SOUND, {"num_labels": 3}),
        "vit": Checkpoint("vit", "AutoModelForImageClassification", "", _image("ViTImageProcessor"), {"num_labels": 5}),
        "vision-encoder-decoder": Checkpoint(
            "vision-encoder-decoder", "AutoModelForImageTextToText", "chat", _image("ViTImageProcessor")
        ),
        "clip": Checkpoint("clip", "AutoModel", "clip", _image("CLIPImageProcessor", do_center_crop=False), CLIP_TEXT),
        "detr": Checkpoint("detr", "AutoModelForObjectDetection", "", _image("DetrImageProcessor")),
        "detr segments": Checkpoint(
            "detr", "AutoModelForImageSegmentation", "", _image("DetrImageProcessor"), change=_see_quarters
        ),
        "segformer": Checkpoint("segformer", "AutoModelForSemanticSegmentation", "", _image("SegformerImageProcessor")),
        "depth_anything": Checkpoint("depth_anything", "AutoModelForDepthEstimation", "", _image("DPTImageProcessor")),
        "sam": Checkpoint(
            "sam", "AutoModelForMaskGeneration", "", _image("SamImageProcessor", processor_class="SamProcessor")
        ),
        "vits": Checkpoint("vits", "AutoModelForTextToWaveform", "chat", {}, NO_NOISE),
        "speecht5": Checkpoint("speecht5", "AutoModelForTextToSpectrogram", "with end", SPEECHT5_SOUND, NO_DROPOUT),
    }
)
"""The tiny checkpoints."""

ALONE = " alone"
"""The end of the name of a checkpoint that is the decoder of an encoder-decoder: `mbart alone`."""


def checkpoint(name: str) -> Checkpoint | None:
    """The tiny checkpoint with a name; for a decoder type its plain decoder; None for a real checkpoint."""
    model_type = name.removesuffix(ALONE)
    is_decoder = name in decoders.ROWS or model_type != name
    return CHECKPOINTS.get(name, Checkpoint(model_type, "AutoModelForCausalLM") if is_decoder else None)
