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


LEAST_STEPS = 0.003
"""The same for whole numbers, such as pictures: the root of the mean square of differences by rounding."""

LARGE_SHARE = 0.1
"""What errors of the parts may make of a result, relative to its largest number, for a comparison to say something."""


RESULT = "the result of the program on its files"


def check_program(program: Any, folder: Path, run: Callable[[], Any], errors: Mapping[str, float]) -> str:
    """Compares the result of a program on its files with that in PyTorch; `errors`: the relative error of each part.

    What is allowed follows from the parts: the program runs in PyTorch once more, and each part is off by its error at
    random. A part without a file in float32 is proven by its floors: then the difference is only stated. Returns a
    remark on what is not proven; an empty text if the results agree.

    CheckFailed if the result differs by more. InvalidSpec if the files do not take what the program passes.
    """
    expected = _numbers(run)
    if not expected:
        return f"{RESULT} was not compared: it has no tensors, arrays or pictures"
    if not _alike(expected, again := _numbers(run)) or any(map(_distance, expected, again)):
        return f"{RESULT} was not compared: it differs from run to run in PyTorch"
    with assembled(program, folder):
        on_files = _numbers(run)
    with _disturbed(program, errors):
        disturbed = _numbers(run)
    if not _alike(expected, on_files):
        raise CheckFailed(f"the result on the files has the shapes {_shapes(on_files)}, in PyTorch {_shapes(expected)}")
    remark, files = "", [file_of_part(folder / part, None) for part in errors]
    has_floors = any(dtype_of_stem(file.stem) != "float32" for file in files if file is not None)
    for number, (of_torch, of_files) in enumerate(zip(expected, on_files, strict=True)):
        size = float(np.nanmax(np.abs(of_torch), initial=0))
        rounding = LEAST_ERROR * size if of_torch.dtype.kind == "f" else LEAST_STEPS
        moved = _distance(of_torch, disturbed[number]) if _alike(expected, disturbed) else np.inf
        allowed, difference = TIMES_DISTURBED * (moved + rounding), _distance(of_torch, of_files)
        if has_floors:
            remark = f"{RESULT} differs by {difference:.1e} of {size:.1e}: not all parts have a file in float32"
        elif difference > allowed:
            raise CheckFailed(
                f"each part agrees alone, but the result of the program differs by {difference:.1e} on the files, and "
                f"{allowed:.1e} is allowed; run it within assembled(program, folder) to find where, after an export "
                "with check='sections'"
            )
        elif not allowed < LARGE_SHARE * size:  # also where PyTorch has no number
            changed = f"may change it by {allowed:.1e} of {size:.1e}"
            remark = f"{RESULT} proves little: in PyTorch, errors like those of the parts {changed}"
    return remark


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
    """The largest difference, infinite where one alone is a number; the root mean square for whole numbers."""
    same = (array == other) | (np.isnan(array) & np.isnan(other))
    differences = np.nan_to_num(np.abs(np.where(same, 0, array.astype(np.float64) - other)), nan=np.inf)
    return float(differences.max(initial=0) if array.dtype.kind == "f" else np.sqrt(np.mean(differences**2)))


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
