"""Where a plan differs from Optimum's on purpose: audio models."""

from __future__ import annotations

from corrected.records import AbsentTensors, AddedInput, CorrectedSize, Correction, WithoutModel


def convolved(length: str, *convolutions: tuple[int, int]) -> str:
    """The formula of a length after convolutions with these kernels and strides, as Optimum writes it."""
    for kernel, stride in convolutions:
        length = f"( {length} - {kernel} ) // {stride} + 1"
    return length


SEVEN = convolved("sequence_length", (10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2)
THIRTEEN = convolved("sequence_length", (10, 5), *[(3, 2), (1, 1)] * 4, *[(2, 2), (1, 1)] * 2)
FRAMES = "there is one state per frame of many samples, in every task as in automatic-speech-recognition"

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
            ("wav2vec2", "two_convs", convolved("sequence_length", (10, 5), (3, 2))),
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
            why="the same formula, simplified; there are as many states as logits",
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
        why="a spectrogram has a fixed size, and so has the number of its patches",
    ),
)
WITHOUT_MODEL: tuple[WithoutModel, ...] = ()
ADDED_INPUTS: tuple[AddedInput, ...] = ()
ABSENT_TENSORS: tuple[AbsentTensors, ...] = ()
CORRECTED_SIZES: tuple[CorrectedSize, ...] = ()
