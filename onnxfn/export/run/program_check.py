"""The result of a whole program on its files, against that of PyTorch."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.check.verdict.verdict import no_casts_below
from onnxfn.export.derive.sample_runs import errors_dropped
from onnxfn.export.derive.trees import made_of, with_copies
from onnxfn.export.derive.watched import components, replaced_methods
from onnxfn.export.run.assembled import assembled, file_of_part
from onnxfn.models.dtypes import in_dtype_if_small
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.stored.reports import CheckFailed
from onnxfn.weights.layouts import dtype_of_stem

LEAST_ERROR = 1e-6
"""The least error that a part is taken to have, relative to the largest number of an output: rounding in float32."""

RESULT = "the result of the program"

CALLS = 4
"""How many calls of each part are compared. What a part gets in its second call is what a first step has made."""


def check_program(program: Any, folder: Path, run: Callable[[], Any], errors: Mapping[str, float]) -> str:
    """Compares what a program makes on its files, and its parts get in their first calls, with that in PyTorch."""
    expected, again = _numbers(program, run, errors), _numbers(program, run, errors)
    results = [name for name in expected if name.startswith(RESULT)]
    if not results:
        return f"{RESULT} on its files was not compared: it has no tensors, arrays or pictures"
    if any(_distance(array, again.get(name)) for name, array in expected.items()):
        return f"{RESULT} on its files was not compared: it differs from run to run in PyTorch"

    def disturbing(part: str, owner: Any, method: str) -> Callable[..., Any] | None:
        return _off_by(max(errors[part], LEAST_ERROR), owner, method) if part in errors else None

    with assembled(program, folder):
        on_files = _numbers(program, run, errors)
    with replaced_methods(components(program), disturbing):
        disturbed = _numbers(program, run, errors)
    remark, files = "", [file_of_part(folder / part, None) for part in errors]
    has_floors = any(dtype_of_stem(file.stem) != "float32" for file in files if file is not None)
    for name, array in expected.items():
        size, difference = float(np.nanmax(np.abs(array), initial=0)), _distance(array, on_files.get(name))
        rounding = LEAST_ERROR * size if array.dtype.kind in "fc" else 0.003  # of whole numbers, such as pictures
        # The errors of the parts are of one draw: many times the difference that they make in PyTorch is allowed.
        allowed = 30 * (_distance(array, disturbed.get(name)) + rounding)
        if has_floors and name in results:
            remark = f"{name} on its files differs by {difference:.1e} of {size:.1e}: a part has no file in float32"
        elif difference > allowed and not has_floors:
            raise CheckFailed(
                f"each part agrees alone, but {name} differs by {difference:.1e} on the files, and {allowed:.1e} is "
                "allowed; run it within assembled(program, folder) to find where, after an export with check='sections'"
            )
        elif name in results and not allowed < 0.1 * size:  # also where PyTorch has no number
            changed = f"may change it by {allowed:.1e} of {size:.1e}"
            remark = f"{name} on its files proves little: in PyTorch, errors like those of the parts {changed}"
    return remark


def _numbers(program: Any, run: Callable[[], Any], parts: Collection[str]) -> dict[str, Array]:
    """What the parts of a program get in their first calls, and the arrays of its result. Random numbers are equal."""
    import torch

    noted, calls, running = dict[str, Array](), Counter[str](), list[str]()

    def noting(part: str, owner: Any, method: str) -> Callable[..., Any] | None:
        original = getattr(owner, method)

        @wraps(original)
        def call(*arguments: Any, **named: Any) -> Any:
            calls[part] += not running
            if not running and calls[part] <= CALLS:
                noted.update(_arrays(f"an input of {part} in call {calls[part]}", (arguments, named)))
            running.append(part)
            try:
                return original(*arguments, **named)
            finally:
                running.pop()

        return call if part in parts else None

    torch.manual_seed(0)
    with torch.no_grad(), replaced_methods(components(program), noting):
        result = run()
    return noted | _arrays(RESULT, result)


def _arrays(name: str, value: Any) -> dict[str, Array]:
    """Copies of the tensors, arrays and pictures in a value: the program may change them. Each name has a number."""
    leaves = torch_name("pytree").tree_leaves(value)
    tensors = [leaf.detach().cpu() if hasattr(leaf, "detach") else leaf for leaf in leaves]
    plain = [leaf.float() if getattr(leaf, "is_floating_point", bool)() else leaf for leaf in tensors]
    arrays = [leaf for leaf in plain if hasattr(leaf, "__array__") or hasattr(leaf, "__array_interface__")]
    return {f"{name} (array {number})" if number else name: np.array(leaf) for number, leaf in enumerate(arrays)}


def _distance(array: Array, other: Array | None) -> float:
    """The largest difference, the root mean square for whole numbers; infinite if no numbers correspond."""
    if other is None or array.shape != other.shape:
        return np.inf
    same = (array == other) | (np.isnan(array) & np.isnan(other))
    differences = np.nan_to_num(np.abs(np.where(same, 0, np.float64(1) * array - other)), nan=np.inf)
    return float(differences.max(initial=0) if array.dtype.kind in "fc" else np.sqrt(np.mean(differences**2)))


def _off_by(error: float, owner: Any, method: str) -> Callable[..., Any]:
    """A method whose results are off at random by this share of their largest number, and by what rounding makes."""
    import torch

    original, wide = getattr(owner, method), getattr(in_dtype_if_small(owner, "float64"), method)
    generator = torch.Generator().manual_seed(0)

    def moved(tensor: Any, share: float) -> Any:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        return tensor + (2 * torch.rand(tensor.shape, generator=generator).to(tensor) - 1) * share * tensor.abs().max()

    def off(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return moved(leaf.float() if leaf.dtype == torch.float64 else leaf, error)
        parts = made_of(leaf) or {}  # a distribution is made of a tensor
        has_tensors = any(isinstance(each, torch.Tensor) for each in parts.values())
        return type(leaf)(**{name: off(each) for name, each in parts.items()}) if has_tensors else leaf

    def rounded(tensor: Any) -> Any:
        return moved(tensor.double() if tensor.is_floating_point() else tensor, LEAST_ERROR)

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        (order, names), caches = with_copies((arguments, named), rounded)
        result = None
        with errors_dropped(), no_casts_below(torch.float64):  # a module may take one dtype alone
            result = None if caches else wide(*order, **names)  # the program reads what is added to a cache
        return torch_name("pytree").tree_map(off, original(*arguments, **named) if result is None else result)

    return call
