"""The default configuration of every row: real sizes, random weights, exported and checked in a process of its own.

    python tests/helpers/real_sizes.py rt_detr object-detection

`tests/sweeps/real_sizes.json` holds for each model type the task, the millions of parameters, the line of the result,
the seconds of the export with its check, those of the processor (on a busy machine they say more), and the largest
memory of the process in GB.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import swept

NAME = "real_sizes"
"""The file of the results in tests/sweeps."""

MOST_PARAMETERS = 400
"""Millions of parameters of the largest model that is exported."""

MOST_TERAFLOPS = 10
"""10^12 operations on real numbers that PyTorch takes for a single input of the largest model that is exported."""

LONGEST = 900
"""Seconds of the processor after which an export is ended: other processes on the machine change them little."""

LONGEST_WAIT = 4 * LONGEST
"""Seconds after which an export is ended that waits."""

PENDING = "not: no result yet"
"""The line of a row whose model fits, and that was not exported yet."""

TOO_LARGE = "not: too large"
NO_MODEL = "not: no default model"
"""Lines of rows that are no part of the sweep, as their default configuration has no model that fits."""

RESNET: Mapping[str, Any] = MappingProxyType({"model_type": "resnet", "out_features": ["stage4"]})
STAGES: Mapping[str, Any] = MappingProxyType(
    {"model_type": "resnet", "out_features": ["stage2", "stage3", "stage4"]},
)

# A row of text is 48 pixels high. The default backbone makes 2 of them, and the model averages over 3.
ROWS_OF_TEXT: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "pp_lcnet_v3",
        "scale": 0.75,
        "divisor": 16,
        "out_features": ["stage2", "stage3", "stage4", "stage5"],
        "block_configs": [
            [[3, 16, 32, 1, False]],
            [[3, 32, 64, 1, False], [3, 64, 64, 1, False]],
            [[3, 64, 128, [2, 1], False], [3, 128, 128, 1, False]],
            [[3, 128, 256, [1, 2], False], *[[5, 256, 256, 1, False]] * 4],
            [
                [5, 256, 512, [2, 1], True],
                [5, 512, 512, 1, True],
                [5, 512, 512, [2, 1], False],
                [5, 512, 512, 1, False],
            ],
        ],
    }
)
"""The backbone of PP-OCRv5 for rows of text: its strides keep the width."""

KEYPOINTS: Mapping[str, Any] = MappingProxyType({"model_type": "superpoint", "initializer_range": 0.15})
"""A keypoint detector whose scores differ. By default, those of two pixels differ by 1e-5 of a score: by rounding."""

SMALL_VITDET: Mapping[str, Any] = MappingProxyType(
    {"model_type": "vitdet", "hidden_size": 384, "num_attention_heads": 6, "out_features": ["stage12"]}
)
FOUR_STAGES: Mapping[str, Any] = MappingProxyType(
    {
        "model_type": "pp_lcnet_v4",
        "out_features": [f"stage{number}" for number in range(1, 5)],
        "block_configs": [
            [[3, 96, 96, 1, True]],
            [[3, 96, 96, 2, False], [3, 96, 96, 1, False]],
            [[3, 96, 192, 2, False], [3, 192, 192, 1, True], *[[3, 192, 192, 1, False]] * 5],
            [[3, 192, 384, 2, False], [3, 384, 384, 1, True], [3, 384, 384, 1, False]],
        ],
    }
)
BRIDGES: Mapping[str, Any] = MappingProxyType(
    {"model_type": "uvdoc_backbone", "out_features": [f"stage{number}" for number in range(1, 7)]}
)
"""Backbones whose channels and strides are those that the model reads; the default ones have others."""

OVERRIDES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "conditional_detr": {"use_timm_backbone": False, "backbone_config": RESNET},
        "dab-detr": {"use_timm_backbone": False, "backbone_config": RESNET},
        "deformable_detr": {"use_timm_backbone": False, "backbone_config": STAGES},
        "detr": {"use_timm_backbone": False, "backbone_config": RESNET},
        "table-transformer": {"use_timm_backbone": False, "backbone_config": RESNET},
        "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
        "lw_detr": {"projector_scale_factors": [1.0]},
        "levit": {"architectures": ["LevitForImageClassification"]},
        "pp_ocrv5_mobile_rec": {"backbone_config": ROWS_OF_TEXT},
        "pp_doclayout_v2": {"class_thresholds": [0.5] * 25, "class_order": [*range(25)]},
        "pp_ocrv6_small_det": {"backbone_config": FOUR_STAGES, "layer_list_out_channels": [96, 96, 192, 384]},
        "perceiver": {"architectures": ["PerceiverForMaskedLM"]},
        "superglue": {"keypoint_detector_config": KEYPOINTS},
        "superpoint": {"initializer_range": KEYPOINTS["initializer_range"]},
        "time_series_transformer": {"prediction_length": 24},
        "uvdoc": {"backbone_config": BRIDGES},
        "wav2vec2-conformer": {"vocab_size": 32},
        "vitmatte": {"backbone_config": SMALL_VITDET, "fusion_hidden_sizes": [256, 128, 64, 32]},
    }
)
"""What a default configuration lacks: ResNet-50 in place of timm's, and values whose defaults do not run."""

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "depth_pro": "an image of 1536 x 1536 takes 25.6 TFLOP, about 290 s of a core in PyTorch and as many in ONNX "
        "Runtime, and the check runs 3 in both; it takes no smaller ones, so the sweep leaves it out",
        "lightglue": "it stops early by default, which no graph can; the error says how to switch that off",
        "mamba": "the default random weights amplify rounding 17,000 times: embeddings that move by a unit roundoff "
        "move the logits by 0.02, and ONNX Runtime differs by 0.01",
    }
)
"""Why rows whose model fits do not pass."""

SMALL_HEADS = ("feature-extraction",)
"""Tasks that are chosen if a row has no other."""

WITH_PAST = "-with-past"


def chosen_task(tasks: tuple[str, ...]) -> str:
    """The task of a row that the sweep exports: the first one with a head, with a past if there is one."""
    heads = [task for task in tasks if not task.startswith(SMALL_HEADS)] or list(tasks)
    return heads[0] + WITH_PAST if heads[0] + WITH_PAST in tasks else heads[0]


def seen() -> dict[str, dict[str, Any]]:
    """The recorded results, {model type: result}."""
    return swept.recorded(NAME)["results"]


def is_swept(result: Mapping[str, Any] | None) -> bool:
    """Whether a row is part of the sweep: its result is of an export, or is not known yet."""
    return result is None or not result["line"].startswith((TOO_LARGE, NO_MODEL))


def is_left(result: Mapping[str, Any] | None) -> bool:
    """Whether a row has no result yet."""
    return result is None or result["line"] == PENDING


def passed(result: Mapping[str, Any]) -> bool:
    """Whether the export agreed with PyTorch."""
    return not result["line"].startswith(swept.NOT)


def record(model_type: str, result: Mapping[str, Any]) -> None:
    """Adds the result of a row to the file."""
    swept.update(NAME, lambda results: {**results, model_type: dict(result)})


def measured(model_type: str, task: str) -> dict[str, Any]:
    """The result of a row, exported in a process of its own; one process at a time."""
    command = [sys.executable, __file__, model_type, task]
    environment = {**os.environ, "PYTHONPATH": str(swept.ROOT), "HF_HUB_OFFLINE": "1"}
    with swept.locked(NAME + " process"):
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=LONGEST_WAIT, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return {"task": task, "line": f"not: no result after {LONGEST_WAIT} s"}
    if run.returncode == -signal.SIGXCPU:
        return {"task": task, "line": f"not: no result after {LONGEST} s of the processor"}
    lines = [line for line in run.stdout.splitlines() if line.startswith('{"task"')]
    reason = (run.stderr.strip().splitlines() or [""])[-1]
    return json.loads(lines[-1]) if lines else {"task": task, "line": f"not: exit {run.returncode}: {reason}"[:300]}


# In the process


def model(model_type: str, loader: str) -> Any:
    """A model of the default configuration of a type, in evaluation mode."""
    import transformers

    overrides = {name: dict(value) if isinstance(value, Mapping) else value for name, value in _overrides(model_type)}
    config = transformers.AutoConfig.for_model(model_type, **overrides)
    kind = getattr(transformers, loader)
    built = getattr(kind, "from_config", kind)(config).eval()
    if model_type == "speecht5":
        built.vocoder = transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig()).eval()
    return built


def _overrides(model_type: str) -> Iterable[tuple[str, Any]]:
    return OVERRIDES.get(model_type, {}).items()


def millions(model_type: str, loader: str) -> float:
    """The parameters of a model in millions, without its memory."""
    import torch

    with torch.device("meta"):
        return sum(weight.numel() for weight in model(model_type, loader).parameters()) / 1e6


def teraflops(model_type: str, spec: Any) -> float:
    """10^12 operations that a model takes for a single input, without its memory; 0 if it does not run without values.

    Operations on the elements of a single tensor, such as an activation, are not counted.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    import onnxfn
    from onnxfn.graphs.capture.forward import flat_forward, tensors_for
    from onnxfn.specs.dummies import dummies, known_sizes

    counted = FlopCounterMode(display=False)
    try:
        with torch.device("meta"), torch.no_grad(), counted:
            built = model(model_type, spec.call.loader)
            for part in onnxfn.plan(spec, built.config).parts:
                arrays = dummies(part.spec, {name: 1 for name in known_sizes(part.spec, {}) if name == part.spec.batch})
                flat_forward(built, part.spec)(tensors_for(built, part.spec, arrays))
    except Exception:  # noqa: BLE001 - a model may read values anywhere
        return 0.0
    return counted.get_total_flops() / 1e12


def result_of(model_type: str, task: str) -> dict[str, Any]:
    """The result of a row, exported in this process."""
    import torch
    import transformers

    import onnxfn

    transformers.logging.set_verbosity_error()
    spec = onnxfn.spec_for(model_type, task)
    try:
        size = round(millions(model_type, spec.call.loader), 1)
    except Exception as error:  # noqa: BLE001 - a configuration without sizes fails anywhere
        return {"task": task, "line": f"{NO_MODEL}: {reason_of(error)}"}
    if size > MOST_PARAMETERS:
        return {"task": task, "parameters": size, "line": TOO_LARGE}
    operations = teraflops(model_type, spec)
    if operations > MOST_TERAFLOPS:
        return {"task": task, "parameters": size, "line": f"not: {operations:.1f} TFLOP for a single input"}
    torch.manual_seed(0)
    built = model(model_type, spec.call.loader)
    start, processor = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        try:
            line = swept.line(onnxfn.export(spec, built, Path(folder) / "out"))
        except Exception as error:  # noqa: BLE001 - each reason is a line of the table
            line = swept.NOT + reason_of(error)
    seconds, processor = round(time.perf_counter() - start, 1), round(time.process_time() - processor, 1)
    memory = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1)
    figures = {"seconds": seconds, "processor": processor, "memory": memory}
    return {"task": task, "parameters": size, "line": line, **figures}


def reason_of(error: Exception) -> str:
    """An error in one line of 300 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 1))
    print(json.dumps(result_of(*sys.argv[1:])))
