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
