"""Where a plan differs from Optimum's on purpose: models of time series and decisions."""

from __future__ import annotations

from corrected.records import Added, Correction, Excess, NeverMade, Resized

CORRECTIONS: tuple[Correction, ...] = (
    Correction(
        model_type="decision_transformer",
        tensors=("last_hidden_state",),
        axis=1,
        optimum="sequence_length",
        ours="sequence_length * 3",
        why="each step is three states: what is to be won, what is seen, and what is done",
    ),
    *(
        Correction(
            model_type=model_type,
            tensors=("past_values",),
            axis=1,
            optimum="sequence_length",
            ours=None,
            why="the model has patches for config.context_length steps, and refuses others",
        )
        for model_type in ("patchtsmixer", "patchtst")
    ),
)
NEVER_MADE: tuple[NeverMade, ...] = ()
INPUTS_ADDED: tuple[Added, ...] = ()
TENSORS_DROPPED: tuple[Excess, ...] = ()
SIZES_CORRECTED: tuple[Resized, ...] = ()
