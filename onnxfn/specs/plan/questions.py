"""Questions that a plan answers without a weight: names and axes of tensors, dummy inputs."""

from __future__ import annotations

from typing import Any, Literal

from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axis_symbols import fixed_sizes, ranges
from onnxfn.specs.errors import InvalidSpec, refuse_unknown
from onnxfn.specs.plan.planning import planned_axes, refuse_unread_values
from onnxfn.specs.plan.real_inputs import real_inputs


def inputs(spec: ExportSpec, config: Any = None) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of the inputs of the first file of the plan.

    Args:
        spec: A spec.
        config: A transformers configuration, a model, or a dict of the values that the axes depend on. It can be left
            out if there are none.

    Raises:
        MissingValue: the configuration lacks a value that an axis or a condition depends on.

    >>> from onnxfn import takes
    >>> inputs(takes("x", "batch_size 4", "noise"))
    {'x': {0: 'batch_size'}}
    """
    return planned_axes(spec, config).parts[0].inputs


def outputs(spec: ExportSpec, config: Any = None) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of the outputs of the first file of the plan.

    Args:
        spec: A spec.
        config: A transformers configuration, a model, or a dict of the values that the axes depend on. It can be left
            out if there are none.

    Raises:
        MissingValue: the configuration lacks a value that an axis or a condition depends on.

    >>> from onnxfn import gives
    >>> outputs(gives("y", "batch_size _"))
    {'y': {0: 'batch_size'}}
    """
    return planned_axes(spec, config).parts[0].outputs


def dummy_inputs(
    spec: ExportSpec,
    config: Any,
    framework: Literal["pt", "np"] = "pt",
    *,
    preprocessor: Any = None,
    seed: int = 0,
    **sizes: int,
) -> dict[str, Any]:
    """Dummy tensors for the first file of the plan.

    Args:
        spec: A spec.
        config: A transformers configuration, a model, or a dict of the values that the spec reads.
        framework: `pt` for torch tensors, `np` for numpy arrays.
        preprocessor: The model's tokenizer, image processor, feature extractor or processor. What it computes from a
            text, an image or a tone replaces the dummies of those inputs.
        seed: The seed of the random numbers. A dummy depends on seed, name and shape alone.
        sizes: Axis symbol = size; the sizes of Optimum's dummies when left out.

    Returns:
        `{name: tensor}`, in the order of the inputs.

    Raises:
        UnknownName: no input has an axis of that name, or another framework.
        InvalidSpec: the axis is fixed at another size.

    >>> from onnxfn import bert_inputs, compose, text_encoder
    >>> bert = compose(text_encoder, bert_inputs)
    >>> dummy_inputs(bert, {"vocab_size": 99, "type_vocab_size": 2}, "np", sequence_length=8)["input_ids"].shape
    (2, 8)
    """
    refuse_unknown("framework", framework, ("pt", "np"))
    planned = planned_axes(spec, config).parts[0].spec
    refuse_unread_values(spec, snapshot(config), planned)
    for name, size in fixed_sizes(planned).items():
        if sizes.get(name, size) != size:
            raise InvalidSpec(f"{name!r} is fixed at {size} by with_shapes, so no dummy has {sizes[name]}")
    for name, (low, high) in ranges(planned).items():
        if not low <= sizes.get(name, low) <= high:
            raise InvalidSpec(f"{name!r} is {low} to {high} by with_shapes, not {sizes[name]}")
    if preprocessor is None:
        arrays = dummies(planned, sizes, seed=seed)
    else:
        arrays = real_inputs(planned, preprocessor, sizes, seed=seed)
    if framework == "np":
        return arrays
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}
