"""What the shapes of weights decide: the bytes of each file, and the longest static cache."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.export.load.loading import load_configuration, model_without_weights
from onnxfn.export.load.part_weights import part_weights
from onnxfn.export.run.planned_files import plan_of_variants
from onnxfn.specs.algebra.config_values import config_of, snapshot, value_or
from onnxfn.specs.algebra.planned import Plan, WeightBytes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.errors import InvalidSpec, write_errors
from onnxfn.specs.plan.planning import Decoders, plan
from onnxfn.specs.plan.text_cases import UNUSED_POSITIONS, position_counts
from onnxfn.specs.records import Normalizer
from onnxfn.weights.layouts import OPTIMUM, LayoutName, layout_of


def weight_bytes(
    spec: ExportSpec,
    model: Any,
    dtypes: Iterable[str] = (),
    *,
    decoders: Decoders = "merged",
    layout: LayoutName = OPTIMUM,
) -> dict[str, int]:
    """The most bytes that the weights of each ONNX file of an export take. No weight is read, nothing is written.

    Only weights are counted: a file is larger by its nodes, names and constants, by 0.3 MB for a Llama of 30 layers.
    The bytes of float dtypes are those of the model's own weights. The bytes of quantized dtypes follow from the rules
    and the modules that own a weight; they are within 2 %. Weights that a file does not need count, too: the pooler
    of BERT for feature-extraction, and in each file of a model in parts those of the other parts. A weight that several
    files share (`weight_storage="share"`) is stored once, but counted for each of them.

    Args:
        spec: The spec of the export.
        model: A model, also one on the meta device, or the folder of a checkpoint of transformers: its configuration
            is read, its weights are not.
        dtypes: Names of dtypes, as for `export`. Empty: that of the spec, or that of the model.
        decoders: The decoder files, as for `export`.
        layout: The layout, which gives files their names.

    Returns:
        From the name of each ONNX file to the bytes of its weights.

    Raises:
        MissingValue: The configuration lacks a value that the spec reads.
        UnknownName: One of `dtypes`, `decoders` or `layout` is not a known value.

    >>> import torch
    >>> from onnxfn import derived
    >>> model = torch.nn.Linear(4, 2)
    >>> spec = derived(model, sample={"input": torch.randn(3, 4)})
    >>> weight_bytes(spec, model, ("float32", "float16"))
    {'model.onnx': 40, 'model_fp16.onnx': 20}
    """
    is_model = hasattr(model, "state_dict")
    config = config_of(model) if is_model else load_configuration(Path(model))
    planned = plan_of_variants(
        spec, dtypes, lambda each: plan(each, config or {}, decoders=decoders), layout_of(layout)
    )
    known = model if is_model else model_without_weights(config, planned.parts[0].spec)
    return {f"{size.part}.onnx": size.bytes for size in with_weight_bytes(planned, known).weight_bytes}


def sized_write_errors(path: Path, planned: Plan | None = None, model: Any = None) -> AbstractContextManager[None]:
    """`write_errors`, which for a full disk names the bytes of the weights of a plan."""
    return write_errors(
        path, lambda: sum(size.bytes for size in with_weight_bytes(planned, model).weight_bytes) if planned else 0
    )


def with_weight_bytes(planned: Plan, model: Any) -> Plan:
    """A plan with the size of the weights of each part, in its dtype."""
    weights = {part.name: part_weights(planned, part, model) for part in planned.parts}
    sizes = (WeightBytes(name, sum(each.bytes_by(each.rule) for each in own)) for name, own in weights.items())
    return evolve(planned, weight_bytes=tuple(sizes))


def with_checked_buffers(model: Any, planned: Plan) -> Plan:
    """The plan; a static cache longer than the positions is a remark; InvalidSpec if the model has a table of them."""
    length = planned.parts[0].spec.target.static_cache
    if not length:
        return planned
    every = position_counts(partial(value_or, Normalizer(), snapshot(config_of(model) or {}), default=None))
    counts = {path: count for path, count in every.items() if "encoder" not in path and count < length}
    for name, module in model.named_modules() if counts else ():
        rows = getattr(module, "num_embeddings", 0)
        most = min((each for each in counts.values() if each <= rows <= each + UNUSED_POSITIONS), default=None)
        if most and re.search(r"(pos|wpe)[^.]*$", name) and "encoder" not in name.split("."):
            raise InvalidSpec(
                f"{name} has {most} positions, and a static cache of {length} tokens is longer; write "
                f"with_static_cache(spec, {most}) (--static-cache {most})"
            )
    remarks = (f"the static cache has {length} tokens, and {path} is {count}" for path, count in counts.items())
    return evolve(planned, remarks=dict.fromkeys((*planned.remarks, *remarks)))
