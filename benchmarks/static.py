"""Static int8 (QDQ) of small trained vision models and of a text encoder, by onnxfn and by ONNX Runtime's quantizer.

    python benchmarks/static.py

ResNet-50, MobileNetV2 1.0 and DeiT-tiny learn from pictures of 64 x 64 pixels which of ten shapes each shows. onnxfn
calibrates with its own pictures, without these shapes; ONNX Runtime's quantizer with the same. Agreement with PyTorch
is measured on pictures of other seeds, that nothing else reads. `onnxruntime.quantization.qdq_loss_debug` must match
each weight and each activation of onnxfn's files, without an error.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from answers import session
from figures import Required, print_and_save
from options import parsed_options

import onnxfn
from onnxfn.specs.plan.real_inputs import DEVIATION, MEAN, picture, picture_inputs

SIZE, CLASSES, BATCH = 64, 10, 32
HELD_OUT = 500
STEPS = MappingProxyType({"ResNet-50": 320, "MobileNetV2 1.0": 120, "DeiT-tiny": 250})
LEAST = 0.98
"""The least share of held-out pictures with PyTorch's class."""

RUNS, RUN_PICTURES = 8, 4
"""The pictures that ONNX Runtime's quantizer calibrates with: as many as onnxfn's."""

DTYPES = ("int8-static", "uint8-static")
TASK = "image-classification"
INTEGERS = ("QLinearConv", "QLinearAdd", "QLinearMatMul", "MatMulIntegerToFloat", "QGemm")
"""The kernels of integers that ONNX Runtime puts in place of operators between DequantizeLinear and QuantizeLinear."""


def shape_mask(kind: int, y: Any, x: Any) -> Any:
    """Where a shape is, around 0 in a square from -1 to 1."""
    radius, side, sum_ = np.hypot(y, x), np.maximum(abs(y), abs(x)), abs(y) + abs(x)
    masks = (
        *(radius < 1, side < 0.9, sum_ < 1, (radius < 1) & (radius > 0.6), (side < 0.9) & (side > 0.55)),
        *((side < 1) & (np.minimum(abs(y), abs(x)) < 0.25), (side < 1) & (abs(abs(y) - abs(x)) < 0.3)),
        *((side < 1) & (np.sin(9 * y) > 0), (side < 1) & (np.sin(9 * x) > 0), (abs(x) < (y + 1) / 2) & (side < 1)),
    )
    return masks[kind]


def labelled(seed: int, count: int) -> tuple[Any, Any]:
    """Pictures with a shape in each, `[count, 3, height, width]`, and the kinds of these shapes."""
    random = np.random.default_rng(seed)
    grid = np.meshgrid(*[np.arange(SIZE)] * 2, indexing="ij")
    images, labels = np.empty((count, SIZE, SIZE, 3)), random.integers(CLASSES, size=count)
    for image, kind in zip(images, labels, strict=True):
        size = random.uniform(0.25, 0.4) * SIZE
        y, x = ((axis - random.uniform(size, SIZE - size)) / size for axis in grid)
        ground = picture(random, SIZE, SIZE)
        image[:] = np.where(shape_mask(kind, y, x)[..., None], 150 + 0.4 * ground, 0.4 * ground)
    return ((images / 255 - MEAN) / DEVIATION).transpose(0, 3, 1, 2).astype(np.float32), labels


def untrained() -> Mapping[str, Any]:
    """The models with random weights."""
    import transformers

    common = {"num_labels": CLASSES}
    vit = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768, "image_size": SIZE, "patch_size": 16}
    configs = {
        "ResNet-50": transformers.ResNetConfig(**common),
        "MobileNetV2 1.0": transformers.MobileNetV2Config(image_size=SIZE, classifier_dropout_prob=0.0, **common),
        "DeiT-tiny": transformers.ViTConfig(**vit, **common),
    }
    return {name: transformers.AutoModelForImageClassification.from_config(each) for name, each in configs.items()}


def train(model: Any, file: Path, steps: int) -> None:
    """Trains a model on pictures of seed 1, or gives it the weights in a file that an earlier run has written."""
    import torch

    model.eval()
    if file.is_file():
        model.load_state_dict(torch.load(file))
        return
    images, labels = labelled(1, 40 * BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, steps)
    order = np.random.default_rng(1)
    model.train()
    for _ in range(steps):
        chosen = order.integers(len(images), size=BATCH)
        batch = images[chosen][..., :: order.choice([-1, 1])].copy()  # a mirror image shows the same shape
        logits = model(torch.from_numpy(batch)).logits
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[chosen]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    torch.save(model.state_dict(), file)


def stock_file(source: Path, part: Any, out: Path) -> Path:
    """The static file that ONNX Runtime's quantizer writes: uint8 activations, int8 weights for each channel."""
    from onnxruntime.quantization import QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Pictures:
        def __init__(self) -> None:
            seeds = range(1, RUNS + 1)
            self.rest = iter([picture_inputs(part.spec, count=RUN_PICTURES, seed=seed) for seed in seeds])

        def get_next(self) -> Any:
            return next(self.rest, None)

    quant_pre_process(str(source), str(out / "prepared.onnx"), skip_symbolic_shape=True)
    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    file = out / "stock.onnx"
    quantize_static(str(out / "prepared.onnx"), str(file), Pictures(), per_channel=True, **types)
    return file


def optimized_operators(file: Path, out: Path) -> Counter[str]:
    """The operators of a file after the optimizations of ONNX Runtime."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(out / "optimized.onnx")
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(out / "optimized.onnx").graph.node)


def matched(source: Path, file: Path, arrays: Any, out: Path) -> str:
    """How many weights and activations the tools of ONNX Runtime match. AssertionError unless these are all."""
    import onnx
    from onnxruntime.quantization import qdq_loss_debug

    errors = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: errors.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    weights = qdq_loss_debug.create_weight_matching(str(source), str(file))
    logging.getLogger().removeHandler(handler)
    qdq_loss_debug.modify_model_output_intermediate_tensors(str(file), str(out / "watched.onnx"))
    values = qdq_loss_debug.collect_activations(str(out / "watched.onnx"), [arrays])
    activations = qdq_loss_debug.create_activation_matching(values)
    operators = Counter(node.op_type for node in onnx.load(file).graph.node)
    assert not errors, errors
    assert len(activations) == operators["QuantizeLinear"]
    assert len(weights) == operators["DequantizeLinear"] - operators["QuantizeLinear"]
    pairs = {name: {**each, "float": each["pre_qdq"]} for name, each in activations.items()}
    noise = min(each["qdq_err"] for each in qdq_loss_debug.compute_activation_error(pairs).values())
    return f"{len(weights)} weights; {len(activations)} activations, {noise:.0f} dB or more"


def rows_of(name: str, model: Any) -> list[dict[str, Any]]:
    """The rows of the files of a trained model."""
    import torch

    images, labels = labelled(2, HELD_OUT)
    with torch.no_grad():
        expected = model(torch.from_numpy(images)).logits.numpy().argmax(-1)
    accuracy = float((expected == labels).mean())
    spec = onnxfn.spec_for(model, TASK)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        exported = onnxfn.export(spec, model, out / "own", dtypes=("float32", *DTYPES))
        source = out / "own" / "model.onnx"
        files = {dtype: out / "own" / f"model_{dtype.replace('-', '_')}.onnx" for dtype in DTYPES}
        files["ONNX Runtime's quantizer"] = stock_file(source, onnxfn.plan(spec, model.config).parts[0], out)
        of_report = {(each.part, each.measure): each.value for each in exported.report.measurements}
        for kind, file in files.items():
            (logits,) = session(file).run(["logits"], {"pixel_values": images})
            operators = optimized_operators(file, out)
            is_own = kind in DTYPES
            rows.append(
                {
                    "model": name,
                    "file": kind,
                    "accuracy of PyTorch": accuracy,
                    "agreement": f"{(logits.argmax(-1) == expected).mean():.3f}",
                    "same": float((logits.argmax(-1) == expected).mean()),
                    "report": f"{of_report[file.stem, 'cosine']:.5f}" if is_own else None,
                    "MB": file.stat().st_size / 1e6,
                    "MB / float32": file.stat().st_size / source.stat().st_size,
                    "kernels of integers": ", ".join(
                        f"{operators[each]} {each}" for each in INTEGERS if operators[each]
                    ),
                    "left in floats": sum(operators[each] for each in ("Conv", "FusedConv", "Gemm", "MatMul")),
                    "qdq_loss_debug": matched(source, file, {"pixel_values": images[:2]}, out) if is_own else None,
                }
            )
            print(rows[-1])
    return rows


def main() -> None:
    import torch

    options = parsed_options(__doc__.splitlines()[0], "static", "smollm2")
    torch.manual_seed(0)
    rows = []
    for name, model in untrained().items():
        train(model, options.cache / f"static {name}.pt", STEPS[name])
        rows.extend(rows_of(name, model))
    own = [each for each in rows if each["file"] in DTYPES]
    required = [
        Required(
            f"share of pictures with another class, {each['model']} in {each['file']}", 1 - each["same"], 1 - LEAST
        )
        for each in own
    ]
    print_and_save("static", rows, required, options.json, runs=1)


if __name__ == "__main__":
    main()
