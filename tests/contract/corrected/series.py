"""Where a plan differs from Optimum's on purpose: models of time series and decisions."""

from __future__ import annotations

from corrected.records import AbsentTensors, AddedInput, CorrectedSize, Correction, WithoutModel

CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        model_type="decision_transformer",
        tensors=("last_hidden_state",),
        axis=1,
        optimum="sequence_length",
        ours="sequence_length * 3",
        why="each time step has three states: return, observation and action",
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("past_values",),
            axis=1,
            optimum="sequence_length",
            ours=None,
            why="the model takes exactly config.context_length time steps",
        )
        for model_type in ("patchtsmixer", "patchtst")
    ),
)
WITHOUT_MODEL: tuple[WithoutModel, ...] = ()
ADDED_INPUTS: tuple[AddedInput, ...] = ()
ABSENT_TENSORS: tuple[AbsentTensors, ...] = ()
CORRECTED_SIZES: tuple[CorrectedSize, ...] = ()
