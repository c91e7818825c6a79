"""Packed sequences, as torch has them, without a size of the sample: the lengths stay a tensor of the graph.

torch packs the steps of all sequences one after the other, so that no step is padding, and reads the lengths in Python.
A trace of that would hold the lengths of the sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import field, frozen

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.models.patching import replaced


@frozen(eq=False)
class PackedSizes:
    """What stands for the `batch_sizes` of a packed sequence while a model is traced.

    Attributes:
        lengths: The number of steps of each sequence.
        time: The number of steps of the padded tensor that was packed.
        longest: The largest of the lengths.
        device: As torch asks for it.
    """

    lengths: Any
    time: Any
    longest: Any = field(repr=False)
    device: Any = field(repr=False)

    def __getitem__(self, step: int) -> Any:
        """The number of sequences, which is the first of torch's batch sizes; IndexError for the others."""
        if step != 0:
            raise IndexError(step)
        return self.lengths.shape[0]

    def size(self, axis: int = 0) -> Any:  # noqa: ARG002 - torch's own signature
        """The number of torch's batch sizes: the longest length."""
        return self.longest


@contextmanager
def packed_by_lengths() -> Iterator[None]:
    """Replaces the functions that pack and pad sequences, in this thread while it lasts."""
    import torch

    check = torch.nn.RNNBase.check_forward_args

    def check_padded(layer: Any, steps: Any, hidden: Any, sizes: Any) -> None:
        if not isinstance(sizes, PackedSizes):
            check(layer, steps, hidden, sizes)

    with ExitStack() as undo:
        undo.enter_context(replaced(torch.nn.RNNBase, "check_forward_args", check_padded))
        functions = torch_name("recurrent_functions")
        undo.enter_context(replaced(functions, "_pack_padded_sequence", _pack))
        undo.enter_context(replaced(functions, "_pad_packed_sequence", _pad))
        yield


def packed(steps: Any, sizes: PackedSizes) -> Any:
    """The steps of a tensor `[time, batch, ...]` that are no padding, one after the other."""
    positions = _is_step(steps.shape[0], sizes.lengths).flatten().nonzero().squeeze(1)
    return steps.flatten(0, 1).index_select(0, positions)


def padded(data: Any, sizes: PackedSizes, time: Any, padding: float = 0.0) -> Any:
    """The steps of packed sequences as a tensor `[time, batch, ...]`, which is `padding` after the last of each."""
    is_step = _is_step(time, sizes.lengths)
    ranks = (is_step.flatten().long().cumsum(0) - 1).clamp(min=0)
    steps = data.index_select(0, ranks).unflatten(0, is_step.shape)
    return steps.where(is_step.reshape(*is_step.shape, *[1] * (data.dim() - 1)), padding)


def _pack(tensor: Any, lengths: Any, batch_first: bool) -> tuple[Any, PackedSizes]:  # noqa: FBT001 - torch's own
    """What `pack_padded_sequence` returns: the data, and what stands for the batch sizes."""
    steps = tensor.transpose(0, 1) if batch_first else tensor
    longest = lengths.max().item()
    check = torch_name("check")
    check(longest <= steps.shape[0])
    check(longest >= 1)
    sizes = PackedSizes(lengths, steps.shape[0], longest, lengths.device)
    return packed(steps, sizes), sizes


def _pad(data: Any, sizes: PackedSizes, batch_first: bool, padding: float, time: Any) -> tuple[Any, Any]:  # noqa: FBT001
    """What `pad_packed_sequence` returns: the padded tensor, and the lengths."""
    steps = padded(data, sizes, time, padding)
    return steps.transpose(0, 1) if batch_first else steps, sizes.lengths


def _is_step(time: Any, lengths: Any) -> Any:
    """Whether a step of a sequence is no padding: `[time, batch]`."""
    import torch

    return torch.arange(time, device=lengths.device)[:, None] < lengths
