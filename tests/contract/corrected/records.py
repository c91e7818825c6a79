"""The records of corrections: where a plan differs from Optimum's on purpose, and why."""

from __future__ import annotations

from attrs import frozen


@frozen
class Correction:
    """One axis of some tensors has another symbol.

    Attributes:
        model_type: The model type.
        tensors: The names of the tensors.
        axis: The index of the axis.
        optimum: The symbol that Optimum declares, None for a static axis.
        ours: The symbol here, None for a static axis.
        why: The reason.
        task: The task of the correction, None for every task.
        preset: The preset of the correction, None for every preset.
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
class WithoutModel:
    """Tasks that Optimum declares for a model type, and that no class of transformers has."""

    model_type: str
    tasks: tuple[str, ...]
    why: str


@frozen
class DynamicAxis:
    """An axis that Optimum fixes in decoders with a past and that is dynamic here.

    Attributes:
        optimum: The size that Optimum declares.
        ours: The symbol here.
        size: The size of the axis in dummy inputs.
        why: The reason.
    """

    optimum: str
    ours: str
    size: int
    why: str


@frozen
class AddedInput:
    """An input that Optimum does not declare. It is the last one in some tasks of some model types."""

    name: str
    model_types: tuple[str, ...]
    tasks: tuple[str, ...]
    axes: tuple[str, ...]
    why: str


@frozen
class AbsentTensors:
    """Tensors that Optimum declares for a preset and that no model has.

    Attributes:
        model_type: The model type.
        preset: The preset of its configuration.
        starts: The first letters of the names of the tensors.
        why: The reason.
        tasks: The tasks of which this is true, all tasks if empty.
    """

    model_type: str
    preset: str
    starts: tuple[str, ...]
    why: str
    tasks: tuple[str, ...] = ()


@frozen
class CorrectedSize:
    """A size that differs in the dummy inputs of a preset, for all tensors whose names have these endings."""

    model_type: str
    preset: str
    endings: tuple[str, ...]
    axis: int
    optimum: int
    ours: int
    why: str


@frozen
class RepeatedPreset:
    """A preset that is not planned, because its configuration is that of another preset."""

    model_type: str
    preset: str
    same_as: str
    why: str
