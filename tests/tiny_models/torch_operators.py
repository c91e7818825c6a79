"""Operators of torch, each as a function of tensors with a sample: all that a user may call with real numbers."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from attrs import frozen
from own_modules import real
from torch.nn import functional


@frozen(eq=False)
class Operator:
    """A function of torch with a sample of its arguments, whose first axis is the batch."""

    function: Callable[..., Any]
    sample: Any


WHOLE = torch.arange(24).reshape(6, 4)
ROWS, ROWS_OF_MATRICES, SQUARES = real(3, 6), real(3, 5, 4), real(3, 4, 4) + 3 * torch.eye(4)


def ties(x: torch.Tensor) -> torch.Tensor:
    return (2 * x).round()


def positive(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + torch.eye(x.shape[-1])


def whole(x: torch.Tensor) -> torch.Tensor:
    return (5 * x).round().long()


EXPORTED: Mapping[str, Operator] = {
    "addmm": Operator(lambda x: torch.addmm(x[:, :1], x, WHOLE.float(), beta=x.shape[0], alpha=1 / x.shape[0]), ROWS),
    "addmm of integers": Operator(lambda x: torch.addmm(whole(x)[:, :1], whole(x), WHOLE, beta=2, alpha=3), ROWS),
    "conv1d, same": Operator(lambda x: functional.conv1d(x, real(2, 5, 2), padding="same"), real(3, 5, 7)),
    "conv2d, valid": Operator(lambda x: functional.conv2d(x, real(1, 1, 2, 3), None, 2, "valid"), real(3, 1, 5, 7)),
    "amax": Operator(lambda x: (x + x.amax() * x.amin(), x.amax(1, keepdim=True)), ROWS),
    "bucketize": Operator(lambda x: torch.bucketize(ties(x), torch.tensor([-1.0, 0, 1])), ROWS),
    "bucketize right": Operator(
        lambda x: torch.bucketize(ties(x), torch.tensor([-1.0, 0, 1]), right=True, out_int32=True), ROWS
    ),
    "cdist": Operator(torch.cdist, (ROWS_OF_MATRICES, real(3, 7, 4))),
    "cdist of many rows": Operator(lambda x: torch.cdist(x, x + 1), real(30, 4)),
    "cdist, p=0": Operator(lambda x: torch.cdist(ties(x), ties(x), p=0), ROWS_OF_MATRICES),
    "cdist, p=1": Operator(lambda x: torch.cdist(x, x + 1, p=1), ROWS_OF_MATRICES),
    "cdist, p=3": Operator(lambda x: torch.cdist(x, x + 1, p=3), ROWS_OF_MATRICES),
    "cdist, p=inf": Operator(lambda x: torch.cdist(x, x + 1, p=float("inf")), ROWS_OF_MATRICES),
    "cond": Operator(lambda x: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y.cos(), (x,)), ROWS),
    "cummax": Operator(lambda x: ties(x).cummax(1), ROWS),
    "cummax of the batch": Operator(lambda x: ties(x).cummax(0), ROWS),
    "cummax of integers": Operator(lambda x: ties(x).long().cummax(-1), ROWS),
    "cummin": Operator(lambda x: ties(x).cummin(1), ROWS),
    "cumprod": Operator(lambda x: x.cumprod(1), ROWS),
    "cumprod of integers": Operator(lambda x: ties(x).int().cumprod(0), ROWS),
    "hypot": Operator(lambda x: torch.hypot(x * 1e30, x * 3e30), ROWS),
    "kthvalue": Operator(lambda x: x.kthvalue(2, 1), ROWS),
    "kthvalue of the batch": Operator(lambda x: ties(x).kthvalue(1, 0, keepdim=True).values, ROWS),
    "logcumsumexp": Operator(lambda x: (x * 90).logcumsumexp(1), ROWS),
    "median": Operator(lambda x: x.median(1), ROWS),
    "median of all": Operator(lambda x: x.median(), ROWS),
    "median of ties": Operator(lambda x: ties(x).median(0, keepdim=True).values, ROWS),
    "median of integers": Operator(lambda x: ties(x).long().median(1).values, ROWS),
    "median of NaN": Operator(lambda x: torch.where(x > 1, torch.nan, x).median(1).values, ROWS),
    "modulo a size": Operator(lambda x: (whole(x) % x.shape[0], x.shape[0] % (whole(x).abs() + 1)), ROWS),
    "numbers from sizes": Operator(
        lambda x: (x ** x.shape[0], whole(x) % (x.shape[0] / 2), whole(x) & x.shape[0], whole(x) * (x.shape[0] / 2)),
        ROWS,
    ),
    "linear layer of integers": Operator(lambda x: functional.linear(whole(x), WHOLE.T, WHOLE[0]), ROWS),
    "nanmedian": Operator(lambda x: torch.where(x > 0, torch.nan, x).nanmedian(1).values, ROWS),
    "pdist": Operator(torch.pdist, ROWS),
    "pow_": Operator(lambda x: (x + 1).pow_(2.0), ROWS),
    "pow of integers": Operator(lambda x: (whole(x) ** (x + 3).abs().round(), whole(x) // 2.5), ROWS),
    "put": Operator(lambda x: x.put(torch.tensor([0, -4]), torch.tensor([1.0, 2.0])), ROWS),
    "renorm": Operator(lambda x: x.renorm(2, 0, 1.0), ROWS),
    "roll by a size": Operator(lambda x: x.roll((x.shape[0] // 2, -9), (0, 1)) + x.roll(3 * x.shape[0] + 1), ROWS),
    "searchsorted": Operator(lambda x, y: torch.searchsorted(ties(x).sort(1).values, ties(y)), (ROWS, real(3, 4))),
    "sort, stable": Operator(lambda x: ties(x).sort(stable=True, dim=1, descending=True), ROWS),
    "searchsorted right": Operator(
        lambda x, y: torch.searchsorted(ties(x).sort(1).values, ties(y), side="right"), (ROWS, real(3, 4))
    ),
    "searchsorted in one row": Operator(lambda x: torch.searchsorted(torch.tensor([-1.0, 0, 1, 1]), ties(x)), ROWS),
    "trapz": Operator(lambda x: torch.trapz(x, dim=1), ROWS),
    "unique": Operator(lambda x: ties(x).unique(return_inverse=True, return_counts=True), ROWS),
    "vmap": Operator(torch.vmap(torch.dot), (ROWS, ROWS + 1)),
    "vmap in vmap": Operator(
        lambda x, y: torch.vmap(lambda a: torch.vmap(lambda b: (a * b).softmax(-1))(y))(x), (ROWS, real(5, 6))
    ),
    "while_loop": Operator(
        lambda x: torch.while_loop(lambda n, _: n < 3, lambda n, y: (n + 1, y * 2), (torch.tensor(0), x))[1], ROWS
    ),
}
"""Operators that are exported: those of translations of our own, with ties and NaN, and those that run functions."""

REFUSED: Mapping[str, tuple[Operator, str]] = {
    "split": (Operator(lambda x: x.split(x.shape[0] // 2)[0], ROWS), "aten.split, which .*: the size of the parts"),
    "eigh": (Operator(lambda x: torch.linalg.eigvalsh(positive(x)), SQUARES), "aten._linalg_eigh, .*; compute it f"),
    "fake_quantize": (
        Operator(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), ROWS),
        "fake_quantize_per_tensor_affine.*; compute it from other operators",
    ),
    "grad": (Operator(torch.func.grad(lambda y: (y**2).sum()), ROWS), "write the formula of the grad"),
    "histc": (
        Operator(lambda x: torch.histc(x, 5), ROWS),
        "aten.histc, .*; compute it from other operators of torch, outside the model, or",
    ),
    "inverse": (Operator(torch.inverse, SQUARES), "aten.(inverse|linalg_inv_ex), .*; compute it f"),
    "lgamma": (Operator(torch.lgamma, ROWS), "prims.lgamma, which Module calls; compute it from other operators"),
    "matrix_exp": (Operator(torch.matrix_exp, SQUARES), "aten.linalg_matrix_exp, .*; compute it from"),
    "mode": (Operator(lambda x: x.mode(1), ROWS), r"aten.mode, which Module calls at torch_operators.py:\d+ \("),
    "numpy": (Operator(lambda x: torch.from_numpy(x.numpy() * 2), ROWS), "use the function of torch in "),
    "qr": (Operator(lambda x: torch.linalg.qr(x)[1], SQUARES), "aten.linalg_qr, .*; compute it from other op"),
    "svd": (Operator(torch.linalg.svdvals, SQUARES), "aten._linalg_svd, .*; compute it f"),
    "view": (Operator(lambda x: x.view(torch.int32), ROWS), r"aten.view, .*; compute it from other operators"),
}
"""Operators that are refused, each with a part of the message."""

PLACES = (torch, torch.special, torch.fft, torch.linalg, functional, torch.Tensor)
"""Where functions of a tensor are."""

NO_FUNCTIONS_OF_NUMBERS = frozenset(
    {
        *("abs_", "share_memory_", "requires_grad_", "backward", "register_hook", "retain_grad", "pin_memory", "cuda"),
        *("data_ptr", "storage", "untyped_storage", "get_device", "is_shared", "module_load", "set_", "xpu", "mtia"),
        *("ipu", "hpu", "unsafe_chunk", "from_numpy", "save", "load", "to_sparse", "to_mkldnn", "quantize"),
    }
)
"""Functions of one tensor that compute no numbers from it, or that need other devices. Those named `set_...` and
`use_...` change the state of torch.
"""


def functions_of_one_tensor() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function of torch that takes one tensor of real numbers, returns one, and is not random or in place."""
    for owner in PLACES:
        known = {*dir(torch)} if owner is torch.Tensor else set()  # most methods are functions too
        for name in sorted({*dir(owner)} - NO_FUNCTIONS_OF_NUMBERS - known):
            function = getattr(owner, name)
            is_public = not name.startswith(("_", "set_", "use_")) and not name.endswith("_")
            if is_public and callable(function) and not inspect.isclass(function) and _is_function_of_rows(function):
                yield f"{owner.__name__}.{name}", function


def _is_function_of_rows(function: Callable[..., Any]) -> bool:
    """Whether a function returns the same tensor twice for the rows, and leaves these as they are."""
    try:
        first, rows = function(ROWS.clone()), ROWS.clone()
        second = function(rows)
    except Exception:  # noqa: BLE001 - it takes other arguments
        return False
    is_dense = isinstance(first, torch.Tensor) and first.layout == torch.strided and not first.is_quantized
    return bool(is_dense and rows.equal(ROWS) and torch.allclose(first, second, equal_nan=True))
