"""The records of corrections: where a plan differs from Optimum's on purpose, and why."""

from __future__ import annotations

from attrs import frozen


@frozen
class Correction:
    """One difference: an axis of these tensors, wherever Optimum calls it so; None is an axis that does not move.

    It is of one task, and of one preset of the model type, where these are said, else of all.
    """

    model_type: str
    tensors: tuple[str, ...]
    axis: int
    optimum: str | None
    ours: str | None
    why: str
    task: str | None = None
    preset: str | None = None


@frozen
class NeverMade:
    """Tasks of a model type that Optimum declares files of, and that no class of transformers has a model for."""

    model_type: str
    tasks: tuple[str, ...]
    why: str


@frozen
class Moved:
    """An axis that Optimum fixes in the decoder that takes a past, and that moves here: its name, its dummy's size."""

    optimum: str
    ours: str
    size: int
    why: str


@frozen
class Added:
    """An input that Optimum leaves out, last in order, in these tasks of these model types."""

    name: str
    model_types: tuple[str, ...]
    tasks: tuple[str, ...]
    axes: tuple[str, ...]
    why: str


@frozen
class Excess:
    """Tensors that Optimum declares of a preset, by what their names start with, and that no model has.

    `tasks` are those of which it is so; all when there are none.
    """

    model_type: str
    preset: str
    starts: tuple[str, ...]
    why: str
    tasks: tuple[str, ...] = ()


@frozen
class Resized:
    """An axis that does not move and that Optimum gives another size, in the cache of a preset of a model type."""

    model_type: str
    preset: str
    endings: tuple[str, ...]
    axis: int
    optimum: int
    ours: int
    why: str


@frozen
class Left:
    """A preset of a model type that is not planned, whose configuration is that of another."""

    model_type: str
    preset: str
    same_as: str
    why: str
