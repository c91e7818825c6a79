"""Musicgen without what a trace would fix: slices that are written into, places looked for, sizes that are tensors."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def delay_pattern_mask(decoder: Any, input_ids: Tensor, pad_token_id: Tensor, max_length: int) -> tuple[Tensor, Tensor]:
    """The codes given, each codebook one later than the one before, and the rule of them all, -1 where one is to write.

    The first place to write is the one after the codes given: it is looked for in the first codebook, which comes no
    later than it is (MusicgenForCausalLM.build_delay_pattern_mask, transformers 5.23). A rule that is too short for all
    codebooks to come is no rule: the codes stay as they are, and all is to write.
    """
    import torch

    torch._check(max_length >= 0)
    books, rows = decoder.num_codebooks, decoder.num_codebooks // decoder.config.audio_channels
    codes = input_ids.reshape(-1, books, input_ids.shape[-1])
    given = codes.shape[-1]
    late = (torch.arange(books) // decoder.config.audio_channels)[:, None]
    rule = _placed(codes, torch.arange(max_length), late, given, pad_token_id, max_length - rows)
    begun = _placed(codes, torch.arange(given), late, given, pad_token_id, max_length - rows)
    none = torch.full((1,), max_length) < 2 * rows - 1
    return (
        torch.where(none, codes, begun).reshape(-1, given),
        torch.where(none, -1, rule).reshape(input_ids.shape[0], -1),
    )


def _placed(codes: Tensor, places: Tensor, late: Tensor, given: int, padding: Tensor, last: int) -> Tensor:
    """At each place the code that is given for it, -1 where none is, padding where no code of its codebook may be."""
    import torch

    index = (places - late).clamp(0, given - 1)
    shifted = codes.gather(2, index.expand(codes.shape[0], -1, -1))
    written = torch.where((places >= late) & (places < given + late), shifted, -1)
    return torch.where((places <= late) | (places > late + last), padding, written)


def conv1d_output(layer: Any, hidden_states: Tensor) -> Tensor:
    """EncodecConv1d.forward (modeling_encodec, transformers 5.23), which keeps its strides in tensors.

    Longer than its padding: a shorter text is padded otherwise there.
    """
    from torch.nn import functional

    stride = layer.conv.stride[0]
    around = (layer.conv.kernel_size[0] - 1) * layer.conv.dilation[0] + 1 - stride
    right = 0 if layer.causal else around // 2
    padding = (around - right, right + -hidden_states.shape[-1] % stride)
    made = layer.conv(functional.pad(hidden_states, padding, layer.pad_mode))
    convolved: Tensor = layer.norm(made) if layer.norm_type == "time_group_norm" else made
    return convolved


def lstm_output(layer: Any, hidden_states: Tensor) -> Tensor:
    """EncodecLSTM.forward `[batch, size, length]` as ONNX's operator: a trace would have a step for each place."""
    import torch

    steps = hidden_states.permute(2, 0, 1)
    made, size = steps, layer.lstm.hidden_size
    for number in range(layer.lstm.num_layers):
        weights = (
            _as_onnx(getattr(layer.lstm, f"{kind}_l{number}"))
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        read, kept, *biases = weights
        answer = torch.onnx.ops.symbolic(
            "LSTM",
            (made, read[None], kept[None], torch.cat(biases)[None]),
            {"hidden_size": size},
            dtype=made.dtype,
            shape=(made.shape[0], 1, made.shape[1], size),
        )
        made = answer[:, 0]
    return (made + steps).permute(1, 2, 0)


def _as_onnx(weights: Tensor) -> Tensor:
    """The four gates in the order of ONNX, input, output, forget, cell; torch has input, forget, cell, output."""
    import torch

    taken, forgotten, cell, given = weights.chunk(4)
    return torch.cat((taken, given, forgotten, cell))
