"""A program whose modules are replaced by sessions of ONNX Runtime."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.architectures.wrappers.modules import module
from onnxfn.export.derive.sample_arguments import sample_arguments
from onnxfn.export.derive.trees import Copies, all_tensors, begin, with_copies
from onnxfn.export.derive.watched import PART_NAMES, components, given_arguments, numbered, part_name, replaced_methods
from onnxfn.export.find.lookup import spec_for
from onnxfn.export.find.other_libraries import COMPONENT_ROWS, argument_names
from onnxfn.export.run.loaded import Loaded, load
from onnxfn.models.forward import COMMON_ARGUMENTS
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.torch_modes import shapes_alone
from onnxfn.run.greedy_decoding import numpy_dtype
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.conditions import SEPARATOR
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, listed, raise_no_memory
from onnxfn.weights.layouts import dtype_of_stem


@contextmanager
def assembled(program: Any, folder: str | Path, dtype: str | None = None) -> Iterator[tuple[str, ...]]:
    """Within it, a program runs on the ONNX files of its parts: torch tensors go in and come out as before.

    A method of a module is replaced if the folder has its part; the others run in PyTorch. Results have the form that
    the method gives them: it runs without values, and with them if sizes depend on these. Afterwards the program is as
    it was, also after an error.

    Args:
        program: A dict of modules by name, a module with children, or one with `components`: a pipeline of diffusers.
        folder: The folder of `export_pipeline`.
        dtype: Which of the `dtypes` of the export, for parts that have it. None: the first.

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
        ...     _ = export_pipeline(program, folder + "/out", run=[run, lambda: run(4)])
        ...     with assembled(program, folder + "/out") as parts:
        ...         result = run(3)
        >>> parts, torch.allclose(result, run(3), atol=1e-5)
        (('double', 'half'), True)
    """
    modules, replaced = components(program), list[str]()

    def by_files(part: str, owner: Any, method: str) -> Callable[..., Any] | None:
        names = (numbered(part, at) for at in count())
        files = [*takewhile(lambda each: each[1], ((name, file_of_part(Path(folder) / name, dtype)) for name in names))]
        replaced.extend(name for name, _ in files)
        row = dict(COMPONENT_ROWS.get(type(owner).__name__, ())).get(PART_NAMES.get(method, method))
        inputs = argument_names(spec_for(row), snapshot(owner)) if row and files else {}
        return _by_sessions(owner, method, part, [load(file) for _, file in files if file], inputs) if files else None

    with replaced_methods(modules, by_files):
        if not replaced:
            parts = listed([part_name(name, "forward") for name in modules])
            raise ModelNotFound(f"no part of the program in {folder}; its parts would be folders such as {parts}")
        yield tuple(replaced)


def file_of_part(folder: Path, dtype: str | None) -> Path | None:
    """The ONNX file of a part, in a dtype if it has that; None if there is none."""
    files = sorted(folder.glob("model*.onnx"))
    return next(iter([*(file for file in files if dtype_of_stem(file.stem) == dtype), *files]), None)


def _by_sessions(
    owner: Any, method: str, part: str, files: Sequence[Loaded], names: Mapping[str, str]
) -> Callable[..., Any]:
    """The method on the first file that takes the arguments, in the form of its result; `names`: `argument_names`."""
    original = getattr(owner, method)
    signature, taker = inspect.signature(original), module(original)

    @wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        form, caches = _without_values(owner, original, arguments, named)
        for after, cache in caches:
            begin(cache, after)
        tensors, read = sample_arguments(taker, given_arguments(signature, arguments, named))
        others = {each.name: each.value for each in read.constants if each.name not in COMMON_ARGUMENTS}
        values, refusals = {each.name: each.tensor for each in tensors} | others, list[InvalidSpec]()
        for loaded in files:
            try:
                outputs = loaded(**_inputs(values, names, loaded, part))
            except InvalidSpec as error:
                refusals.append(error)
            else:
                return _with_leaves(form, caches, outputs, part)
        raise refusals[0]

    return call


def _inputs(arguments: Mapping[str, Any], names: Mapping[str, str], loaded: Loaded, part: str) -> dict[str, Any]:
    """The inputs of a file from the arguments of a call, in its dtypes. InvalidSpec for one that it cannot take."""
    session = loaded.session_for(next(iter(loaded.graphs.values())))
    ports, traced = {port.name: port for port in session.get_inputs()}, session.get_modelmeta().custom_metadata_map
    fixed = dict(each.split("=", 1) for each in traced.get("onnxfn.constants", "").split(SEPARATOR) if each)
    values = {name if name in ports else names.get(name, name): value for name, value in arguments.items()}
    strange = [each for each, value in values.items() if each not in ports and fixed.get(each) != repr(value)]
    if strange or {*ports, *fixed} - {*values, *COMMON_ARGUMENTS}:
        of_file = listed([*ports, *(f"{each}={value}" for each, value in fixed.items())])
        raise InvalidSpec(f"{part} was called with {listed(strange or values)}, and its file takes {of_file}")

    def array(port: Any) -> Any:
        values_of = np.asarray(values[port.name], numpy_dtype(port.type))
        return values_of.reshape(-1) if values_of.ndim < len(port.shape) else values_of

    return {name: array(port) for name, port in ports.items()}


def _without_values(owner: Any, original: Callable[..., Any], arguments: Any, named: Any) -> tuple[Any, Copies]:
    """The result of a call, without values unless a size depends on them, and copies of its caches afterwards."""
    import torch

    try:
        with torch.no_grad(), unchanged_eval(owner), shapes_alone() as mode:
            (by_order, by_name), caches = with_copies((arguments, named), mode.from_tensor)
            return original(*by_order, **by_name), caches
    except Exception as error:  # noqa: BLE001 - whatever torch says of sizes that it does not know
        raise_no_memory(error)
        (by_order, by_name), caches = with_copies((arguments, named), lambda tensor: tensor)
        return original(*by_order, **by_name), caches


def _with_leaves(result: Any, caches: Copies, outputs: Mapping[str, Any], name: str) -> Any:
    """A result with the outputs of a file in place of its tensors, in their order. Caches of the program get theirs."""
    import torch

    pytree, of_program = torch_name("pytree"), {id(after): cache for after, cache in caches}
    leaves, form = pytree.tree_flatten(result)
    places = [at for at, leaf in enumerate(leaves) if hasattr(leaf, "shape") or id(leaf) in of_program]
    if len(leaves) == len(outputs) == 1 and not places:  # a distribution, which is made of one tensor
        return pytree.tree_unflatten([type(leaves[0])(*map(torch.from_numpy, outputs.values()))], form)
    count = len(all_tensors([leaves[at] for at in places], caches=True))
    if not {*of_program} <= {*map(id, leaves)}:
        raise InvalidSpec(f"a call of {name} adds to a cache and does not give it back, so its file cannot; return it")
    if count != len(outputs):
        raise InvalidSpec(f"a call of {name} gives {count} tensors, and its file has {listed(outputs)}")
    remaining = iter(outputs.values())

    def computed(leaf: Any) -> Any:
        array = next(remaining)
        return array.astype(leaf.dtype) if isinstance(leaf, np.ndarray) else torch.from_numpy(array).to(leaf.dtype)

    for at in places:
        if (cache := of_program.get(id(leaves[at]))) is not None:
            cache.layers = with_copies(leaves[at], computed)[0].layers
        leaves[at] = computed(leaves[at]) if cache is None else cache
    return pytree.tree_unflatten(leaves, form)
