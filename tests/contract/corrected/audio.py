"""Where a plan differs from Optimum's on purpose: models that hear and speak."""

from __future__ import annotations

from corrected.records import Added, Correction, Excess, NeverMade, Resized


def after(length: str, *convolutions: tuple[int, int]) -> str:
    """The formula of a length after convolutions of these kernels and strides, as Optimum writes it."""
    for kernel, stride in convolutions:
        length = f"( {length} - {kernel} ) // {stride} + 1"
    return length


SEVEN = after("sequence_length", (10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2)
THIRTEEN = after("sequence_length", (10, 5), *[(3, 2), (1, 1)] * 4, *[(2, 2), (1, 1)] * 2)
FRAMES = "one state stands for a frame of many samples, in every task as in automatic-speech-recognition"

CORRECTIONS: tuple[Correction, ...] = (
    *(
        Correction(
            model_type,
            tensors=("last_hidden_state", "logits"),
            axis=1,
            optimum="sequence_length",
            ours=ours,
            why=FRAMES,
            preset=preset,
        )
        for model_type, preset, ours in (
            *((name, "default", SEVEN) for name in ("data2vec-audio", "hubert", "unispeech", "unispeech-sat")),
            *((name, "default", SEVEN) for name in ("wav2vec2", "wav2vec2-conformer", "wavlm")),
            ("wav2vec2", "two_convs", after("sequence_length", (10, 5), (3, 2))),
            *((name, "default", THIRTEEN) for name in ("sew", "sew-d")),
        )
    ),
    *(
        Correction(
            model_type="mctct",
            tensors=tensors,
            axis=1,
            optimum=optimum,
            ours="( sequence_length - 1 ) // 3 + 1",
            why="the same length, without what cancels in it; states are as many as the logits",
        )
        for tensors, optimum in (
            (("last_hidden_state",), "sequence_length"),
            (("logits",), "( ( sequence_length + 2 * 3 - 1 * (7 - 1) - 1 ) // 3 ) + 1"),
        )
    ),
    Correction(
        model_type="audio-spectrogram-transformer",
        tensors=("last_hidden_state",),
        axis=1,
        optimum="sequence_length",
        ours=None,
        why="a spectrogram is of one size, and so is the number of its patches",
    ),
)
NEVER_MADE: tuple[NeverMade, ...] = ()
INPUTS_ADDED: tuple[Added, ...] = ()
TENSORS_DROPPED: tuple[Excess, ...] = ()
SIZES_CORRECTED: tuple[Resized, ...] = ()
