"""Where a plan differs from Optimum's on purpose: model type -> (what, Optimum's, ours, why)."""

from __future__ import annotations

from attrs import frozen


@frozen
class Correction:
    """One difference: an axis of these tensors, in every task of the model type; None is an axis that does not move."""

    model_type: str
    tensors: tuple[str, ...]
    axis: int
    optimum: str | None
    ours: str | None
    why: str


CORRECTIONS = (
    Correction(
        model_type="markuplm",
        tensors=("xpath_subs_seq", "xpath_tags_seq"),
        axis=2,
        optimum="max_depth",
        ours=None,
        why="the model reads exactly config.max_depth steps of each path, so the axis cannot move",
    ),
)


@frozen
class Added:
    """An input that Optimum leaves out, last in order, in these tasks of these model types."""

    name: str
    model_types: tuple[str, ...]
    tasks: tuple[str, ...]
    axes: tuple[str, ...]
    why: str


INPUTS_ADDED = (
    Added(
        name="position_ids",
        model_types=("gemma", "gemma2", "gemma3", "gemma3_text", "nemotron"),
        tasks=(
            "feature-extraction",
            "feature-extraction-with-past",
            "text-generation",
            "text-generation-with-past",
        ),
        axes=("batch_size", "sequence_length"),
        why="forward takes position_ids, and without them a left-padded batch is numbered from its padding",
    ),
)
