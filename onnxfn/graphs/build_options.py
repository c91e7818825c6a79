"""The options for building the graph of a part."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen

from onnxfn.graphs.layers.repeated_layers import LayerStack, stacks_worth_a_proof
from onnxfn.graphs.templates.template_cache import MAX_CACHE_BYTES
from onnxfn.specs.algebra.planned import Part
from onnxfn.specs.conditions import Condition
from onnxfn.specs.errors import InvalidSpec, is_possible_path
from onnxfn.specs.record import typed_fields
from onnxfn.specs.short_repr import short_repr


def _as_path(path: str | PathLike[str] | None) -> Path | None:
    """A text or a path as a path; InvalidSpec for anything else, and for a text that cannot be a path."""
    if path is not None and not (isinstance(path, str | PathLike) and is_possible_path(path)):
        raise InvalidSpec(f"{path!r} is not a path; pass the path of a folder, or None for no cache")
    return None if path is None else Path(path)


def _check_find_repeats(_: Any, __: Any, find_repeats: Any) -> None:
    if not callable(find_repeats):
        raise InvalidSpec(f"find_repeats is {find_repeats!r}; pass a function, such as trace_all_layers")


def trace_all_layers(model: Any) -> tuple[LayerStack, ...]:  # noqa: ARG001 - a value of BuildOptions.find_repeats
    """Finds no repeated layers, so that every layer is traced; a value of `BuildOptions.find_repeats`.

    Args:
        model: A PyTorch model.

    Returns:
        An empty tuple.

    Example:
        >>> BuildOptions(find_repeats=trace_all_layers).find_repeats("any model")
        ()
    """
    return ()


def with_functions(model: Any) -> Any:
    """A copy of a finished graph with functions for layers: see `with_layer_functions`."""
    from onnxfn.graphs.layers.layer_functions import with_layer_functions

    return with_layer_functions(model)


@frozen(kw_only=True, field_transformer=typed_fields)
class BuildOptions:
    """The options for building the graph of a part from a model.

    Attributes:
        find_repeats: Function from a model to its stacks of repeated layers. Of each stack a few layers are traced,
            and the graph repeats them. `trace_all_layers` finds none, so that every layer is traced. The default finds
            them where that saves time. The graph is the same either way; only the time differs. An export without a
            check traces every layer.
        template_cache: Folder, a path or a string, where graphs are saved without weights, and loaded from for the next
            model that differs in weight values alone. None saves and loads nothing.
        template_cache_bytes: Bytes that the files of `template_cache` may have together. The least recently used files
            are deleted when there are more.
        pretranspose: Whether weights that a graph transposes are stored transposed. False stores them as the checkpoint
            does, so that a file can be linked to it. `export` decides this from its `WriteOptions`.
        joins_traces: Whether the model is traced at several fixed sizes, and the numbers that differ become formulas of
            sizes. False traces once, with symbols. An export of a derived spec does it if the file of a single trace
            has fixed sizes, or is wrong at some.
        float16_overflow: What is done if values of a float16 graph overflow, or nearly. `mend` keeps them in float32;
            `refuse` raises CheckFailed, with the values.
        source_lines: Whether nodes have the line of the model's source that computes them, as metadata
            `onnxfn.source`: `transformers/models/bert/modeling_bert.py:175`. No template is then loaded or saved.
        other_sides: For parts whose graph is valid on one side of a condition, the part at sizes of the other side. The
            file has the graphs of both, and an If on the condition.

    Raises:
        InvalidSpec: `find_repeats` is not a function, or `template_cache` is not a path.

    Example:
        >>> BuildOptions(pretranspose=False).pretranspose
        False
    """

    __repr__ = short_repr

    find_repeats: Callable[[Any], tuple[LayerStack, ...]] = field(
        default=stacks_worth_a_proof, validator=_check_find_repeats
    )
    template_cache: Path | None = field(default=None, converter=_as_path)
    template_cache_bytes: int = MAX_CACHE_BYTES
    pretranspose: bool = True
    joins_traces: bool = False
    float16_overflow: Literal["mend", "refuse"] = "mend"
    source_lines: bool = False
    other_sides: tuple[tuple[Condition, Part], ...] = ()
