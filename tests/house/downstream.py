"""A typed program that embeds onnxfn. Type checkers accept it in their strict modes (test_types.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import onnxfn
from onnxfn import (
    ARCHITECTURES,
    BuildOptions,
    CheckFailed,
    Exported,
    ExportSpec,
    OnnxfnError,
    Plan,
    Report,
    WriteOptions,
    bert_inputs,
    compose,
    for_task,
    from_json,
    generates,
    gives,
    kv_cache,
    reads,
    sized,
    takes,
    text_decoder,
    text_encoder,
    to_json,
    with_dtypes,
    with_opset,
    with_shapes,
    without,
)
from onnxfn.families import positions
from onnxfn.records import Generator, InputSpec, OutputSpec
from onnxfn.results import Event

if TYPE_CHECKING:
    from torch.nn import Module

CLASSIFIER = for_task(compose(text_encoder, bert_inputs), "text-classification")
"""The spec of a family."""


def composed() -> ExportSpec:
    decoder = compose(
        text_decoder,
        positions,
        kv_cache(heads="heads", key="width", value="width"),
        reads(num_layers="n_layer", heads="n_head", width=onnxfn.sources.quotient("n_embd", "n_head")),
    )
    newer = with_opset(for_task(decoder, "text-generation-with-past"), 21)
    return with_dtypes(with_shapes(newer, batch_size=1), int="int32", float="float16")


def boxed() -> ExportSpec:
    return compose(
        without(CLASSIFIER, "token_type_ids"),
        takes("bbox", "batch_size sequence_length 4", "boxes", kind="float"),
        generates("boxes", "uniform", low=0.0, high=1.0),
        gives("scores", "batch_size _", path=("scores",)),
        sized(batch_size=2, sequence_length=16),
    )


def by_name(spec: ExportSpec) -> tuple[InputSpec, OutputSpec, Generator]:
    first: tuple[InputSpec, ...] = spec.inputs[:1]
    changed = ExportSpec(inputs=[*first, spec.inputs[-1]], outputs=tuple(spec.outputs))
    return changed.inputs["input_ids"], changed.outputs["logits"], spec.dummies.generators["token_ids"]


def stages(events: list[Event]) -> Iterator[tuple[str, float]]:
    return ((event.stage, event.seconds) for event in events if event.seconds is not None)


def exported(model: Module, folder: Path) -> Exported | None:
    events: list[Event] = []
    build = BuildOptions(template_cache=folder / "cache")
    write = WriteOptions(layout="transformers.js", weight_storage="copy")
    try:
        return onnxfn.export(
            CLASSIFIER, model, folder / "out", decoders="separate", build=build, write=write, on_event=events.append
        )
    except CheckFailed as failed:
        print([difference.output for difference in failed.report.differences if not difference.passed])
    except OnnxfnError as error:
        print(f"{error} after {dict(stages(events))}")
    return None


def stored(path: Path) -> ExportSpec:
    path.write_text(to_json(composed()), encoding="utf-8")
    return from_json(path.read_text(encoding="utf-8"), trust=("my_package",))


def summary(result: Exported, config: dict[str, int]) -> tuple[Plan, bool, int]:
    plan = onnxfn.plan(stored(Path("spec.json")), config, decoders="merged")
    report: Report | None = result.report
    texts = onnxfn.generate(result, [[1, 5, 9], [2, 4, 6]], max_new_tokens=4)
    axes = {name: tuple(symbols.values()) for name, symbols in result.inputs.items()}
    print(axes, ARCHITECTURES["bert"].name, [part.name for part in plan.parts])
    return plan, report is not None and report.passed, int(texts.shape[1])
