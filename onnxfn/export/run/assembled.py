"""A program whose modules are replaced by sessions of ONNX Runtime."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.architectures.wrappers.modules import module
from onnxfn.export.derive.sample_arguments import sample_arguments
from onnxfn.export.derive.watched import components, given_arguments, methods_of, part_name, replaced_method
from onnxfn.export.run.loaded import Loaded, load
from onnxfn.models.forward import COMMON_ARGUMENTS
from onnxfn.specs.conditions import SEPARATOR
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, listed


@contextmanager
def assembled(program: Any, folder: str | Path) -> Iterator[tuple[str, ...]]:
    """Within it, a program runs on the ONNX files of its parts: torch tensors go in and come out as before.

    A method of a module is replaced if the folder has its part; the others run in PyTorch. Results have the form that
    the method gives them: it runs without values. Afterwards the program is as it was, also after an error.

    Args:
        program: A dict of modules by their names, a module with children, or an object with `components`, such as a
            pipeline of diffusers.
        folder: The folder of `export_pipeline`.

    Returns:
        A context that gives the names of the parts that are replaced.

    Raises:
        ModelNotFound: The folder has no part of the program.
        InvalidSpec: A call has arguments that the file of its part does not take, or sizes outside of its limits; or it
            gives another number of tensors than the file.

    Example:
        >>> import tempfile, torch
        >>> from onnxfn.programs import assembled, export_pipeline
        >>> program = {"double": torch.nn.Linear(4, 4), "half": torch.nn.Linear(4, 2)}
        >>> def run(rows=2):
        ...     return program["half"](program["double"](torch.ones(rows, 4)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = export_pipeline(program, folder + "/out", run=run)
        ...     with assembled(program, folder + "/out") as parts:
        ...         result = run(3)
        >>> parts, torch.allclose(result, run(3), atol=1e-5)
        (('double', 'half'), True)
    """
    found = {}
    for name, owner in components(program).items():
        for method in methods_of(owner):
            file = Path(folder) / part_name(name, method) / "model.onnx"
            if file.is_file():
                found[part_name(name, method)] = (owner, method, load(file))
    if not found:
        parts = listed([part_name(name, "forward") for name in components(program)])
        raise ModelNotFound(f"no part of the program in {folder}; its parts would be folders such as {parts}")
    with ExitStack() as undo:
        for name, (owner, method, loaded) in found.items():
            undo.enter_context(replaced_method(owner, method, _by_session(getattr(owner, method), name, loaded)))
        yield tuple(found)


def _by_session(original: Callable[..., Any], name: str, loaded: Loaded) -> Callable[..., Any]:
    """A method that a file computes; its result has the form of the original's."""
    signature, taker = inspect.signature(original), module(original)

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        tensors, read = sample_arguments(taker, given_arguments(signature, arguments, named))
        numbers = {each.name: each.value for each in read.constants if each.name not in COMMON_ARGUMENTS}
        outputs = loaded(**_inputs({each.name: each.tensor for each in tensors}, numbers, loaded, name))
        return _with_leaves(_without_values(original, arguments, named), outputs, name)

    return call


def _inputs(tensors: Mapping[str, Any], constants: Mapping[str, Any], loaded: Loaded, name: str) -> dict[str, Any]:
    """The inputs of a file from the tensors and the other arguments of a call, by name or its last word.

    InvalidSpec if the file lacks one of them, or was traced with another constant.
    """
    import torch

    session = loaded.session_for(next(iter(loaded.graphs.values())))
    ports, traced = {port.name for port in session.get_inputs()}, session.get_modelmeta().custom_metadata_map
    fixed = dict(each.split("=", 1) for each in traced.get("onnxfn.constants", "").split(SEPARATOR) if each)
    every = {**{each: torch.tensor(value) for each, value in constants.items() if each not in fixed}, **tensors}
    short = {each.rpartition(".")[2]: value for each, value in every.items()}
    strange = [each for each, value in constants.items() if fixed.get(each, repr(value)) != repr(value)]
    strange += [each for each in every if not {each, each.rpartition(".")[2]} & ports]
    missing = [port for port in ports if port not in every and port not in short]
    if strange or missing:
        of_file = listed([*ports, *(f"{each}={value}" for each, value in fixed.items())])
        raise InvalidSpec(f"{name} was called with {listed(strange or every)}, and its file takes {of_file}")
    return {port: every.get(port, short.get(port)) for port in ports}


def _without_values(original: Callable[..., Any], arguments: Any, named: Any) -> Any:
    """The result of a call whose tensors have shapes alone."""
    import torch

    mode, pytree = torch_name("FakeTensorMode")(allow_non_fake_inputs=True), torch_name("pytree")

    def fake(leaf: Any) -> Any:
        return mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

    with torch.no_grad(), mode:
        return original(*pytree.tree_map(fake, arguments), **pytree.tree_map(fake, named))


def _with_leaves(result: Any, outputs: Mapping[str, Any], name: str) -> Any:
    """A result with the outputs of a file in place of its tensors, in their order."""
    import torch

    pytree = torch_name("pytree")
    leaves, form = pytree.tree_flatten(result)
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if len(places) != len(outputs):
        raise InvalidSpec(f"a call of {name} gives {len(places)} tensors, and its file has {listed(outputs)}")
    for at, array in zip(places, outputs.values(), strict=True):
        leaves[at] = torch.from_numpy(array).to(leaves[at].dtype)
    return pytree.tree_unflatten(leaves, form)
