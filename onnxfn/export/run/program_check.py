"""The result of a whole program on its files, against that of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.export.derive.watched import components, methods_of, part_name, replaced_method
from onnxfn.export.run.assembled import assembled, file_of_part
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import CheckFailed
from onnxfn.weights.layouts import dtype_of_stem

LEAST_ERROR = 1e-6
"""The least error that a part is taken to have, relative to the largest number of an output: rounding in float32."""

TIMES_DISTURBED = 30
"""How many times the difference that errors of the parts make in PyTorch is allowed: they are of one draw."""


def check_program(program: Any, folder: Path, run: Callable[[], Any], errors: Mapping[str, float]) -> None:
    """Compares the result of a program on its files with that in PyTorch; `errors`: the relative error of each part.

    What is allowed follows from the parts: the program runs in PyTorch once more, and each part is off by its error at
    random. Nothing is compared if the result has no numbers or differs from run to run in PyTorch, or a part has
    files of other dtypes alone: their floors say what these cost.

    CheckFailed if the result differs by more. InvalidSpec if the files do not take what the program passes.
    """
    files = [file_of_part(folder / part, None) for part in errors]
    if any(dtype_of_stem(file.stem) != "float32" for file in files if file is not None):
        return
    expected = _numbers(run)
    if not expected or not _alike(expected, again := _numbers(run)) or any(map(_distance, expected, again)):
        return
    with assembled(program, folder):
        on_files = _numbers(run)
    with _disturbed(program, errors):
        disturbed = _numbers(run)
    if not _alike(expected, on_files):
        raise CheckFailed(f"the result on the files has the shapes {_shapes(on_files)}, in PyTorch {_shapes(expected)}")
    for number, (of_torch, of_files) in enumerate(zip(expected, on_files, strict=True)):
        rounding = LEAST_ERROR * float(np.nanmax(np.abs(of_torch), initial=0)) + (of_torch.dtype.kind != "f")
        moved = _distance(of_torch, disturbed[number]) if _alike(expected, disturbed) else np.inf
        allowed, difference = TIMES_DISTURBED * (moved + rounding), _distance(of_torch, of_files)
        if not (difference <= allowed or np.isnan(allowed)):  # where small errors make NaN, nothing is known
            raise CheckFailed(
                f"each part agrees alone, but the result of the program differs by {difference:.1e} on the files, and "
                f"{allowed:.1e} is allowed; run it within assembled(program, folder) to find where, after an export "
                "with check='sections'"
            )


def _numbers(run: Callable[[], Any]) -> list[Array]:
    """The tensors, arrays and images in the result of a run, as arrays. Random numbers are the same in each run."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        leaves = torch_name("pytree").tree_leaves(run())
    tensors = [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    plain = [leaf.float() if getattr(leaf, "is_floating_point", bool)() else leaf for leaf in tensors]
    return [np.asarray(leaf) for leaf in plain if hasattr(leaf, "__array__") or hasattr(leaf, "__array_interface__")]


def _shapes(arrays: Sequence[Array]) -> list[tuple[int, ...]]:
    return [array.shape for array in arrays]


def _alike(arrays: Sequence[Array], others: Sequence[Array]) -> bool:
    return _shapes(arrays) == _shapes(others)


def _distance(array: Array, other: Array) -> float:
    """The largest difference of two arrays; NaN where only one is a number."""
    same = (array == other) | (np.isnan(array) & np.isnan(other))
    return float(np.abs(np.where(same, 0, array.astype(np.float64) - other)).max(initial=0))


@contextmanager
def _disturbed(program: Any, errors: Mapping[str, float]) -> Iterator[None]:
    """Within it, the results of each part are off by its error at random."""
    with ExitStack() as undo:
        for name, owner in components(program).items():
            for method in methods_of(owner):
                if (error := errors.get(part_name(name, method))) is not None:
                    off = _off_by(max(error, LEAST_ERROR), getattr(owner, method))
                    undo.enter_context(replaced_method(owner, method, off))
        yield


def _off_by(error: float, original: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose results are off at random, by this share of their largest number at most."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def off(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        noise = 2 * torch.rand(leaf.shape, generator=generator).to(leaf) - 1
        return leaf + noise * error * leaf.abs().max() if leaf.numel() else leaf

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        return torch_name("pytree").tree_map(off, original(*arguments, **named))

    return call
