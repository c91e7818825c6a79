"""Own modules: layers of torch.nn and small modules of several, each with a sample of its arguments and axis patterns.

Every module has a dynamic batch; where it has a time axis or an image, these are dynamic too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from attrs import field, frozen
from torch import nn
from torch.nn import functional

SEQUENCE, STEPS, CHANNELS, IMAGE = "batch_size time _", "time batch_size _", "batch_size _ time", "batch_size _ h w"
"""Axis patterns: features by step, the same with the steps first, channels of a signal, an image."""

OTHER = "batch_size other _"
"""The features of a second sequence."""

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@frozen(eq=False)
class Own:
    """What builds a module, a sample of its arguments (a tensor, a tuple or a dict), and the axis patterns of it."""

    build: Callable[[], Any]
    sample: Any
    axes: Mapping[str, str] = field(factory=dict)


def real(*shape: int) -> torch.Tensor:
    """Real numbers, the same for the same shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def ids(*shape: int, high: int = 5) -> torch.Tensor:
    """Integers from 0 up to and without `high`, the same for the same shape."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(sum(shape)))


def sequence(build: Callable[[], Any], size: int = 4, name: str = "input", axes: str = SEQUENCE) -> Own:
    return Own(build, {name: real(3, 6, size)}, {name: axes})


def signal(build: Callable[[], Any], length: int = 12) -> Own:
    return Own(build, {"input": real(3, 4, length)}, {"input": CHANNELS})


def image(build: Callable[[], Any], size: int = 12) -> Own:
    return Own(build, {"input": real(2, 4, size, size + 2)}, {"input": IMAGE})


STATES, QUERY, MEMORY = (real(3, 6, 4), SEQUENCE), (real(3, 6, 8), SEQUENCE), (real(3, 5, 8), OTHER)
TOKENS = ids(3, 6), "batch_size time"
"""Tensors with their axis patterns."""


def given(build: Callable[[], Any], **inputs: tuple[torch.Tensor, str]) -> Own:
    """A module of tensors, each with its axis pattern."""
    sample = {name: tensor.clone() for name, (tensor, _) in inputs.items()}
    return Own(build, sample, {name: axes for name, (_, axes) in inputs.items()})


class Tagger(nn.Module):
    """Tokens and their lengths -> a score for each tag of each token: embedding, bidirectional GRU, linear."""

    def __init__(self):
        super().__init__()
        self.table, self.tags = nn.Embedding(300, 6), nn.Linear(10, 3)
        self.gru = nn.GRU(6, 5, batch_first=True, bidirectional=True)

    def forward(self, tokens, lengths):
        is_token = torch.arange(tokens.shape[1]) < lengths[:, None]
        states, _ = self.gru(self.table(tokens))
        return {"scores": self.tags(states).masked_fill(~is_token[..., None], 0.0), "is_token": is_token}


class Captioner(nn.Module):
    """An image and the tokens before -> scores of the next token, and the state: convolution and LSTM cell by step."""

    def __init__(self):
        super().__init__()
        self.convolution, self.table = nn.Conv2d(3, 5, 3, padding=1), nn.Embedding(40, 5)
        self.lstm, self.head = nn.LSTM(5, 5, batch_first=True), nn.Linear(5, 40)

    def forward(self, batch, state=None):
        start = self.convolution(batch["image"]).mean((2, 3))[None]
        states, (hidden, cell) = self.lstm(self.table(batch["tokens"]), (start, state[0] if state else start * 0))
        return self.head(states), {"hidden": hidden, "cell": (cell,)}


class Packed(nn.Module):
    """A sequence and the lengths of its rows -> the states of a GRU over the packed steps, and the last state."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        steps = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, last = self.gru(steps)
        padded, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return padded, last


class Attentive(nn.Module):
    """Attention of a sequence to another one, with a mask of real zeros and ones and a bool mask."""

    def __init__(self):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8)

    def forward(self, query, memory, is_padding, weight):
        attended, weights = self.attention(query, memory, memory, key_padding_mask=is_padding)
        return self.norm(query + attended) * weight[..., None], weights


class WithBuffers(nn.Module):
    """Positions and scales in buffers, one of them not saved, and a parameter that two layers share."""

    def __init__(self):
        super().__init__()
        self.register_buffer("positions", torch.arange(64.0)[:, None] / 64)
        self.register_buffer("scale", torch.tensor(3.0), persistent=False)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x + self.positions[: x.shape[1]]))) * self.scale


def products(x, y):
    """What torch computes of integers of every dtype: products that wrap around, choices, sums, bits, casts."""
    return x * y, x == y, torch.where(x == y, x, y), x & y, x | y, x ^ y, x.sum(1), x.float(), torch.cat((x, y), 1)


def arithmetic(x, y):
    """The integer operators that wrap around, and those that compare; torch has them up to 64 bits with a sign."""
    return x + y, x - y, -x, x @ y.T, torch.maximum(x, y), torch.minimum(x, y), x > y, x.clamp(2, 9), ~x


def reductions(x):
    """Sums and extremes of integers. No product: it does not wrap around in ONNX Runtime. No order of equal numbers."""
    return x.cumsum(1), x.amax(1), x.amin(1), x.argmax(1), x.float().mean(1), x.sort(1).values


def integer_module(function: Callable[..., Any], dtype: str, count: int) -> Own:
    small = ids(3, 6, high=100).to(getattr(torch, dtype))
    names = ("x", "y")[:count]
    return Own(lambda: function, dict.fromkeys(names, small), dict.fromkeys(names, "batch_size time"))


LAYERS: Mapping[str, Own] = {
    "Linear": sequence(lambda: nn.Linear(4, 3)),
    "Identity": sequence(nn.Identity),
    "Bilinear": given(lambda: nn.Bilinear(4, 5, 3), input1=STATES, input2=(real(3, 6, 5), SEQUENCE)),
    "Embedding": given(lambda: nn.Embedding(300, 4), input=TOKENS),
    "EmbeddingBag": given(lambda: nn.EmbeddingBag(300, 4, mode="sum"), input=TOKENS),
    "GRU": sequence(lambda: nn.GRU(4, 5, batch_first=True)),
    "GRU of two directions": sequence(lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True), axes=STEPS),
    "LSTM": sequence(lambda: nn.LSTM(4, 5, batch_first=True)),
    "LSTM of two directions": sequence(lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True), axes=STEPS),
    "LSTM with a projection": sequence(
        lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True, proj_size=3), axes=STEPS
    ),
    "RNN": sequence(lambda: nn.RNN(4, 5, nonlinearity="relu", batch_first=True)),
    "GRUCell": Own(lambda: nn.GRUCell(4, 5), {"input": real(3, 4), "hx": real(3, 5)}),
    "LSTMCell": Own(lambda: nn.LSTMCell(4, 5), {"input": real(3, 4), "hx": (real(3, 5), real(3, 5))}),
    "RNNCell": Own(lambda: nn.RNNCell(4, 5), {"input": real(3, 4)}),
    "Conv1d": signal(lambda: nn.Conv1d(4, 3, 3, stride=2, padding=1)),
    "Conv2d": image(lambda: nn.Conv2d(4, 3, 3, dilation=2, groups=1, padding="same")),
    "Conv3d": Own(lambda: nn.Conv3d(4, 3, 2), {"input": real(2, 4, 5, 6, 7)}, {"input": "batch_size _ d h w"}),
    "ConvTranspose1d": signal(lambda: nn.ConvTranspose1d(4, 3, 3, stride=2, output_padding=1)),
    "ConvTranspose2d": image(lambda: nn.ConvTranspose2d(4, 3, 2, stride=2)),
    "MaxPool1d": signal(lambda: nn.MaxPool1d(3, 2, padding=1)),
    "MaxPool2d": image(lambda: nn.MaxPool2d(2, ceil_mode=True)),
    "MaxPool2d with indices": image(lambda: nn.MaxPool2d(2, return_indices=True)),
    "AvgPool1d": signal(lambda: nn.AvgPool1d(3, 2, padding=1)),
    "AvgPool2d": image(lambda: nn.AvgPool2d(2, count_include_pad=False)),
    "LPPool1d": signal(lambda: nn.LPPool1d(2, 3)),
    "AdaptiveAvgPool1d": signal(lambda: nn.AdaptiveAvgPool1d(3)),
    "AdaptiveAvgPool2d": image(lambda: nn.AdaptiveAvgPool2d((2, 3))),
    "AdaptiveMaxPool1d": signal(lambda: nn.AdaptiveMaxPool1d(1)),
    "Upsample": image(lambda: nn.Upsample(scale_factor=2, mode="bilinear")),
    "Upsample of a signal": signal(lambda: nn.Upsample(scale_factor=3, mode="nearest")),
    "PixelShuffle": image(lambda: nn.PixelShuffle(2)),
    "PixelUnshuffle": given(lambda: nn.PixelUnshuffle(2), input=(real(2, 4, 12, 14), "batch_size _ 2*h 2*w")),
    "ReflectionPad1d": signal(lambda: nn.ReflectionPad1d(2)),
    "ReplicationPad2d": image(lambda: nn.ReplicationPad2d(1)),
    "ZeroPad2d": image(lambda: nn.ZeroPad2d((1, 2, 0, 3))),
    "CircularPad1d": signal(lambda: nn.CircularPad1d(2)),
    "Unfold": image(lambda: nn.Unfold(3, padding=1)),
    "LayerNorm": sequence(lambda: nn.LayerNorm(4)),
    "RMSNorm": sequence(lambda: nn.RMSNorm(4), name="x"),
    "GroupNorm": signal(lambda: nn.GroupNorm(2, 4)),
    "BatchNorm1d": signal(lambda: nn.BatchNorm1d(4)),
    "BatchNorm2d": image(lambda: nn.BatchNorm2d(4)),
    "InstanceNorm1d": signal(lambda: nn.InstanceNorm1d(4, affine=True)),
    "InstanceNorm2d": image(lambda: nn.InstanceNorm2d(4)),
    "LocalResponseNorm": image(lambda: nn.LocalResponseNorm(2)),
    "MultiheadAttention": given(
        lambda: nn.MultiheadAttention(8, 2, batch_first=True), query=QUERY, key=MEMORY, value=MEMORY
    ),
    "TransformerEncoderLayer": sequence(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 8, "src"),
    "TransformerEncoder": Own(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        {"src": real(3, 6, 8), "src_key_padding_mask": torch.zeros(3, 6, dtype=torch.bool)},
        {"src": SEQUENCE, "src_key_padding_mask": "batch_size time"},
    ),
    "TransformerDecoderLayer": given(
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), tgt=QUERY, memory=MEMORY
    ),
    "Transformer": given(lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), src=QUERY, tgt=MEMORY),
    "CosineSimilarity": given(lambda: nn.CosineSimilarity(-1), x1=STATES, x2=STATES),
    "PairwiseDistance": Own(nn.PairwiseDistance, {"x1": real(3, 4), "x2": real(3, 4)}),
    "Flatten": image(lambda: nn.Flatten(2)),
    "Unflatten": sequence(lambda: nn.Unflatten(2, (2, 2))),
    "ChannelShuffle": image(lambda: nn.ChannelShuffle(2)),
    "Fold": Own(lambda: nn.Fold((4, 5), (2, 2)), {"input": real(3, 8, 12)}),
    "CrossEntropyLoss": Own(lambda: nn.CrossEntropyLoss(reduction="none"), {"input": real(3, 5), "target": ids(3)}),
    "MSELoss": Own(lambda: nn.MSELoss(reduction="none"), {"input": real(3, 4), "target": real(3, 4)}),
    "KLDivLoss": Own(
        lambda: nn.KLDivLoss(reduction="none"), {"input": -real(3, 4).abs(), "target": real(3, 4).sigmoid()}
    ),
    "Sequential": sequence(lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.GELU(), nn.Linear(8, 2))),
    "PReLU": signal(lambda: nn.PReLU(4)),
    "Softmax2d": image(nn.Softmax2d),
}
"""Layers of torch.nn with weights, shapes or several inputs."""

ACTIVATIONS = (
    *("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid"),
    *("LogSoftmax", "Mish", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmin", "Softplus"),
    *("Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold"),
)
"""Layers of torch.nn that compute each element, or along the last axis."""

ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "Threshold": (0.1, 20.0),
    "Softmax": (-1,),
    "Softmin": (-1,),
    "LogSoftmax": (-1,),
}

COMPOSED: Mapping[str, Own] = {
    "tagger": Own(Tagger, {"tokens": ids(3, 6), "lengths": torch.tensor([6, 4, 2])}, {"tokens": "batch_size time"}),
    "captioner": Own(
        Captioner,
        {"batch": {"image": real(2, 3, 6, 6), "tokens": ids(2, 4)}, "state": [real(1, 2, 5)]},
        {"batch.image": IMAGE, "batch.tokens": "batch_size time", "state.0": "_ batch_size _"},
    ),
    "attentive": Own(
        Attentive,
        (real(3, 6, 8), real(3, 5, 8), torch.zeros(3, 5, dtype=torch.bool), torch.ones(3, 6)),
        {"query": SEQUENCE, "memory": OTHER, "is_padding": "batch_size other", "weight": "batch_size time"},
    ),
    "buffers": sequence(WithBuffers, name="x"),
    "gather": Own(
        lambda: lambda states, positions: states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1])),
        (real(3, 6, 4), ids(3, 2)),
        {"states": SEQUENCE},
    ),
    "top k": given(lambda: lambda x: torch.topk(x, 2), x=(real(3, 6), "batch_size time")),
    "one hot": given(lambda: lambda labels: functional.one_hot(labels, 9), labels=TOKENS),
    "einsum": Own(
        lambda: lambda a, b: torch.einsum("bid,bjd->bij", a, b),
        (real(3, 6, 4), real(3, 5, 4)),
        {"a": SEQUENCE, "b": OTHER},
    ),
    "grid sample": Own(
        lambda: lambda picture, grid: functional.grid_sample(picture, grid, align_corners=False),
        (real(2, 3, 6, 7), real(2, 4, 5, 2).tanh()),
        {"picture": IMAGE, "grid": "batch_size rows columns _"},
    ),
    "spectrum and back": Own(lambda: lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[1]), {"x": real(3, 9)}),
    "axes of complex numbers": Own(
        lambda: lambda x: torch.fft.irfft(torch.fft.rfft(x).unsqueeze(1).unsqueeze(-2), n=x.shape[1]), {"x": real(3, 9)}
    ),
    "packed": Own(Packed, (real(3, 6, 4), torch.tensor([6, 2, 4])), {"x": SEQUENCE}),
    "float64": Own(lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh()).double(), {"input": real(3, 4).double()}),
    "float16": Own(lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh()).half(), {"input": real(3, 4).half()}),
    "casts": Own(lambda: lambda x: (x.double() * 3, x.half(), x.to(torch.int8), x > 0), {"x": real(3, 4)}),
}
"""Modules of several layers, with several inputs and outputs, nested."""

INTEGER: Mapping[str, Own] = (
    {f"products in {dtype}": integer_module(products, dtype, 2) for dtype in INTEGERS}
    | {f"arithmetic in {dtype}": integer_module(arithmetic, dtype, 2) for dtype in INTEGERS[:5]}
    | {f"reductions in {dtype}": integer_module(reductions, dtype, 1) for dtype in INTEGERS[:5]}
)
"""Functions of integers, in all widths."""

OWN_MODULES: Mapping[str, Own] = {
    **LAYERS,
    **{name: sequence(lambda name=name: getattr(nn, name)(*ARGUMENTS.get(name, ()))) for name in ACTIVATIONS},
    **COMPOSED,
    **INTEGER,
}
"""Name -> module."""
