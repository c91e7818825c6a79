"""Runs of PyTorch with ONNX Runtime's answers at thresholds, from the first layer on that such an answer changes.

Where one answer of a large model is a matter of rounding, all of its outputs differ, and exact outputs take several
times as long as the run did. So the first run of ONNX Runtime gives its answers, too. PyTorch then runs once more with
them, and its layers return what they returned before, up to the first answer that differs. For which answers PyTorch
takes, see `thresholds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from onnxfn.check.cases import in_float32_without_cache
from onnxfn.check.choices import picked_positions
from onnxfn.check.layer_calls import restored_forward
from onnxfn.check.precision import precision_of
from onnxfn.check.references import LARGE_ROWS
from onnxfn.check.repeated_calls import Held, held
from onnxfn.check.sections.runs import written_graph
from onnxfn.check.thresholds import compared_values, with_answers
from onnxfn.graphs.capture.forward import torch_outputs
from onnxfn.specs.dummies import Array
from onnxfn.specs.errors import OnnxfnError
from onnxfn.specs.plan.check_cases import cases, has_large_inputs, in_case
from onnxfn.specs.planned import Part


@frozen(eq=False)
class RunInPlace:
    """An ONNX model that runs in place of a file whose weights it reads.

    Attributes:
        content: Its bytes. After the outputs of the file it has what the file chooses: see `choices.py`.
        has_thresholds: Whether answers at thresholds are among that.
    """

    content: bytes
    has_thresholds: bool


def run_in_place(part: Part, file: Path) -> RunInPlace | None:
    """The ONNX model that runs in place of a file on large images; None if the images of all cases are small.

    On small images the file itself runs once more if it is asked what it chooses.
    """
    is_large = any(has_large_inputs(in_case(part.spec, case), LARGE_ROWS) for case in cases(part.spec))
    if not is_large or not in_float32_without_cache(part.spec):
        return None
    written = written_graph(file)
    compared = compared_values(written)
    return RunInPlace(written.with_outputs([*picked_positions(written), *compared]), bool(compared))


@contextmanager
def recorded_results(layers: Mapping[str, Any]) -> Iterator[Callable[[], Mapping[str, Any]]]:
    """A context in which the results of layers are held; it yields a function that gives them by the layers' paths.

    A layer that is called several times is left out, and one whose result is changed later.
    """
    results: dict[str, Held | None] = {}

    def leave(path: str, _: Any, __: Any, result: Any) -> None:
        results[path] = None if path in results else held(result)

    def unchanged() -> dict[str, Any]:
        return {path: each.value for path, each in results.items() if each is not None and each.is_unchanged()}

    with ExitStack() as hooks:
        for path, layer in layers.items():
            hooks.callback(layer.register_forward_hook(partial(leave, path)).remove)
        yield unchanged


@contextmanager
def resumed(model: Any, results: Mapping[str, Any], differs: Callable[[], bool]) -> Iterator[None]:
    """A context in which layers return these results until `differs()` is true."""

    def forward(own_forward: Callable[..., Any], result: Any, *arguments: Any, **named: Any) -> Any:
        return own_forward(*arguments, **named) if differs() else result

    with ExitStack() as restored:
        for path, result in results.items():
            own_forward = model.get_submodule(path).forward
            own = restored.enter_context(restored_forward(model, path))
            own["forward"] = partial(forward, own_forward, result)
        yield


def outputs_with_answers(
    model: Any, part: Part, inputs: Mapping[str, Array], results: Mapping[str, Any], chosen: Mapping[str, Array]
) -> tuple[Array, ...] | None:
    """PyTorch's outputs with the answers at thresholds in `chosen`.

    None if these are PyTorch's own, or others by more than rounding. `results` are those of the layers in its run with
    its own answers.
    """
    answers, precision = [array for array in chosen.values() if array.dtype == bool], precision_of("float32")
    try:
        with with_answers(answers, precision) as used, resumed(model, results, lambda: bool(used)):
            outputs = torch_outputs(model, part, inputs)
    except OnnxfnError:
        return None
    return outputs if used else None
