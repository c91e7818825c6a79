"""The plan: all files, names, axes and sizes from a spec and a snapshot of the configuration, without a weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from attrs import evolve

from onnxfn.specs.algebra.compose import compose, named
from onnxfn.specs.algebra.config_values import UNKNOWN, Snapshot, is_set, snapshot, value_or
from onnxfn.specs.algebra.dummies import dummies
from onnxfn.specs.algebra.planned import BATCH, Case, Feedback, Part, Plan, PlannedSpec
from onnxfn.specs.algebra.spec import Dummies, ExportSpec, Overlay, Target
from onnxfn.specs.axes import Axis, AxisMap, names, resolve_configured, substitute, symbols, terms, value
from onnxfn.specs.axis_symbols import AxisFacts, fixed_sizes, new_names, ranges, with_symbols
from onnxfn.specs.errors import InvalidSpec, UnknownName, refuse_unknown, shortened, unknown
from onnxfn.specs.plan.cache_tensors import cache_tensors, in_buffers, needed_value, per_layer, unshared_reason
from onnxfn.specs.plan.check_cases import within_ranges
from onnxfn.specs.plan.real_inputs import real_inputs
from onnxfn.specs.plan.text_cases import TextFacts, text_facts, with_text_cases
from onnxfn.specs.records import Constant, File, Getter, InputSpec, NestedDummy, OutputSpec, Source
from onnxfn.specs.results.printing import has_io_dtype
from onnxfn.specs.runtimes import CLIENTS
from onnxfn.specs.tasks.tasks import edited, for_some_task

DEFAULTS = ExportSpec(target=Target(opset=min(CLIENTS.values()), int_dtype="int64"))
"""Opset and integer type of a spec that specifies none."""

Decoders = Literal["merged", "separate", "both"]
DECODERS: tuple[str, ...] = get_args(Decoders)
"""The decoders of an encoder-decoder with a cache: one merged decoder, the two that it replaces, or all three."""


def plan(spec: ExportSpec, config: Any = None, *, decoders: Decoders = "merged") -> Plan:
    """What an export of a spec will do for a model with this configuration.

    Args:
        spec: A spec. One that has tasks and is for none is planned for feature-extraction, or for its first task.
        config: A transformers configuration, a model, or a dict of the values that the spec reads. When it is left out,
            dummy inputs are not decided, and what else depends on a configuration is a MissingValue.
        decoders: `merged` plans one decoder for prompt and continuation in place of two, where all lengths are dynamic;
            `separate` plans the two; `both` plans all three.

    Returns:
        The plan: `parts[i].name` is the stem of a file; `parts[i].inputs` and `.outputs` are `{name: {axis: symbol}}`.

    Raises:
        MissingValue: the configuration lacks a value that the spec reads, and transformers has no default for it.
        UnknownName: a fixed axis is in no input, or `decoders` is another word.
        InvalidSpec: a file would have no output, or a cache cannot lie in a shared buffer.

    >>> from onnxfn import bert_inputs, compose, text_encoder
    >>> bert = plan(compose(text_encoder, bert_inputs), {"vocab_size": 99, "type_vocab_size": 2})
    >>> bert.parts[0].outputs
    {'last_hidden_state': {0: 'batch_size', 1: 'sequence_length'}}
    """
    planned = planned_axes(spec, config, decoders=decoders)
    for part in planned.parts:
        if not part.spec.outputs:
            of = f"{part.spec.name or 'this spec'} has no output{f' for {part.spec.task}' if part.spec.task else ''}"
            raise InvalidSpec(f"{of}; add one: compose(spec, gives(name, axes))")
        if part.spec.target.shared_cache and (reason := unshared_reason(part.spec)):
            raise InvalidSpec(f"the cache of {part.spec.name or 'this spec'} cannot lie in a shared buffer: {reason}")
        if config is not None:
            refuse_unread_values(spec, snapshot(config), part.spec)
    return planned


def planned_axes(spec: ExportSpec, config: Any, *, decoders: Decoders = "merged") -> Plan:
    """The plan of a spec. Values of dummy inputs that the configuration lacks stay getters."""
    refuse_unknown("choice of decoders", decoders, DECODERS)
    values, new = UNKNOWN if config is None else snapshot(config), new_names(spec)
    chosen = for_some_task(spec)
    if new:  # a later edit may have used the new names
        chosen = with_symbols(chosen, {name: symbol for symbol, name in new.items()})
    files = _files(chosen, "separate" if _has_fixed_length(chosen) else decoders)
    parts = tuple(_part(chosen, values, file) for file in files)
    _refuse_unknown_names(chosen, parts)
    return Plan(tuple(_with_axis_names(part, new) for part in _with_available_links(parts)))


def inputs(spec: ExportSpec, config: Any = None) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of the inputs of the first file of the plan.

    Args:
        spec: A spec.
        config: A transformers configuration, a model, or a dict of the values that the axes depend on. It can be left
            out if there are none.

    Raises:
        MissingValue: the configuration lacks a value that an axis or a condition depends on.

    >>> from onnxfn import takes
    >>> inputs(takes("x", "batch_size 4", "noise"))
    {'x': {0: 'batch_size'}}
    """
    return planned_axes(spec, config).parts[0].inputs


def outputs(spec: ExportSpec, config: Any = None) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of the outputs of the first file of the plan.

    Args:
        spec: A spec.
        config: A transformers configuration, a model, or a dict of the values that the axes depend on. It can be left
            out if there are none.

    Raises:
        MissingValue: the configuration lacks a value that an axis or a condition depends on.

    >>> from onnxfn import gives
    >>> outputs(gives("y", "batch_size _"))
    {'y': {0: 'batch_size'}}
    """
    return planned_axes(spec, config).parts[0].outputs


def dummy_inputs(
    spec: ExportSpec,
    config: Any,
    framework: Literal["pt", "np"] = "pt",
    *,
    preprocessor: Any = None,
    seed: int = 0,
    **sizes: int,
) -> dict[str, Any]:
    """Dummy tensors for the first file of the plan.

    Args:
        spec: A spec.
        config: A transformers configuration, a model, or a dict of the values that the spec reads.
        framework: `pt` for torch tensors, `np` for numpy arrays.
        preprocessor: The model's tokenizer, image processor, feature extractor or processor. What it computes from a
            text, an image or a tone replaces the dummies of those inputs.
        seed: The seed of the random numbers. A dummy depends on seed, name and shape alone.
        sizes: Axis symbol = size; the sizes of Optimum's dummies when left out.

    Returns:
        `{name: tensor}`, in the order of the inputs.

    Raises:
        UnknownName: no input has an axis of that name, or another framework.
        InvalidSpec: the axis is fixed at another size.

    >>> from onnxfn import bert_inputs, compose, text_encoder
    >>> bert = compose(text_encoder, bert_inputs)
    >>> dummy_inputs(bert, {"vocab_size": 99, "type_vocab_size": 2}, "np", sequence_length=8)["input_ids"].shape
    (2, 8)
    """
    refuse_unknown("framework", framework, ("pt", "np"))
    planned = planned_axes(spec, config).parts[0].spec
    refuse_unread_values(spec, snapshot(config), planned)
    for name, size in fixed_sizes(planned).items():
        if sizes.get(name, size) != size:
            raise InvalidSpec(f"{name!r} is fixed at {size} by with_shapes, so no dummy has {sizes[name]}")
    for name, (low, high) in ranges(planned).items():
        if not low <= sizes.get(name, low) <= high:
            raise InvalidSpec(f"{name!r} is {low} to {high} by with_shapes, not {sizes[name]}")
    if preprocessor is None:
        arrays = dummies(planned, sizes, seed=seed)
    else:
        arrays = real_inputs(planned, preprocessor, sizes, seed=seed)
    if framework == "np":
        return arrays
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def resolved(spec: ExportSpec, config: Snapshot) -> PlannedSpec:
    """The planned spec: values of the configuration in place of names, conditions decided, one tensor per layer."""
    complete = in_buffers(compose(DEFAULTS, for_some_task(spec)))
    taken = _inputs(complete, config)
    complete = evolve(complete, axes=_planned_axes(complete, config, complete.axes, taken))
    used = _used_generators(complete, {tensor.generator for tensor in taken})
    places = {tensor.forward_path[0] for tensor in taken}
    has_cache = complete.cache.past is not None and any(cache_tensors(complete, config))
    builders = [each for each in complete.call.builders if has_cache or each.name.split(".")[0] in places]
    fed_back = cache_tensors(complete, config) if complete.cache.past == "both" else ()
    planned = PlannedSpec(
        name=complete.name,
        task=complete.task,
        derived=complete.derived,
        inputs=taken,
        outputs=_outputs(complete, config, {name for tensor in taken for name in names(tensor.axes)}),
        dummies=_planned_dummies(complete, config, complete.dummies, used),
        axes=complete.axes,
        limits=complete.limits,
        cases=tuple(_case(complete, config, overlay, used, taken) for overlay in complete.cases),
        call=evolve(complete.call, constants=_constants(complete, config, taken), builders=tuple(builders)),
        check=complete.check,
        target=complete.target,
        feedback=tuple(Feedback(past.name, present.name) for past, present in fed_back if present is not None),
        links=tuple(link for link in complete.parts.links if link.input in {tensor.name for tensor in taken}),
    )
    facts = text_facts(complete.normalizer, config) if config else TextFacts()
    return _with_io_dtype(within_ranges(with_text_cases(planned, facts)), complete, config)


def _with_io_dtype(planned: PlannedSpec, spec: ExportSpec, config: Snapshot) -> PlannedSpec:
    """The planned spec with the float type that inputs and outputs have, if it is another than that of the graph."""
    io_dtype = spec.target.io_dtype
    if io_dtype is None or not has_io_dtype(spec.target):
        return planned
    caches: set[str] = set()
    if spec.cache.past is not None:
        caches = {tensor.name for pair in cache_tensors(spec, config) for tensor in pair if tensor is not None}
    floats = {tensor.name for tensor in planned.inputs if tensor.kind == "float"} - caches
    outputs = (output.name for output in planned.outputs if output.name not in caches)

    def cast(tensors: Iterable[InputSpec]) -> tuple[InputSpec, ...]:
        return tuple(evolve(tensor, kind=io_dtype) if tensor.name in floats else tensor for tensor in tensors)

    return evolve(
        planned,
        inputs=cast(planned.inputs),
        cases=tuple(evolve(case, inputs=cast(case.inputs)) for case in planned.cases),
        io_names=(*(tensor.name for tensor in planned.inputs if tensor.name in floats), *outputs),
    )


def _files(spec: ExportSpec, decoders: str) -> tuple[File, ...]:
    """The files of a spec: with a merged decoder, the decoders that it replaces, or both."""
    files = spec.parts.files
    replaced = {name for file in files for name in file.replaces} if decoders == "merged" else set()
    chosen = [file for file in files if not (file.replaces and decoders == "separate")]
    return tuple(file for file in chosen if file.name not in replaced) or (File("model"),)


def _has_fixed_length(spec: ExportSpec) -> bool:
    """Whether a length of the cache is fixed: then no one graph takes both an empty cache and a full one."""
    specs = (spec, *(overlay.spec for overlay in spec.parts.behaviors))
    lengths = {name for inner in specs for row in inner.cache.rows for name in names(row.input_axes)} - {"batch_size"}
    return bool(lengths & fixed_sizes(spec).keys())


def _with_axis_names(part: Part, new: Mapping[str, str]) -> Part:
    """The part with new names for axes, if there are any."""
    if not new:
        return part
    spec = evolve(with_symbols(part.spec, new), batch_name=new.get(BATCH))
    return evolve(part, spec=spec, filler=tuple(_with_axis_names(inner, new) for inner in part.filler))


def _refuse_unknown_names(spec: ExportSpec, parts: tuple[Part, ...]) -> None:
    """Raises UnknownName if no part has an axis or an input that the spec fixes, limits or orders."""
    tensors, of = [tensor for part in parts for tensor in part.spec.inputs], spec.name or "this spec"
    axes = dict.fromkeys(name for tensor in tensors for name in names(tensor.axes))
    inputs = dict.fromkeys(tensor.name for tensor in tensors)
    for name in (*fixed_sizes(spec), *ranges(spec)):
        if name not in axes:
            forms = (f"{each.name} {each.axes}" for each in spec.inputs if "=" in str(each.axes))
            fixed = [f"the configuration fixes the axes with = of {form}: see onnxfn guide images" for form in forms]
            raise UnknownName("; ".join((str(unknown("axis", name, axes, of=of)), *fixed[:1])))
    for name in spec.target.input_order or ():
        refuse_unknown("input", name, inputs, of=of)


def refuse_unread_values(spec: ExportSpec, config: Snapshot, planned: PlannedSpec) -> None:
    """Raises MissingValue if dummy inputs of a planned spec depend on a value that the configuration lacks."""
    for entries in (planned.dummies, *(case.dummies for case in planned.cases)):
        for generator in entries.generators:
            for name, argument in generator.arguments:
                if isinstance(argument, Getter):
                    needed_value(spec, config, argument, f"{name!r} of {generator.name}")


def _part(spec: ExportSpec, config: Snapshot, file: File) -> Part:
    filler = resolved(edited(spec, file.filler), config) if file.filler else PlannedSpec()
    inner = (Part(f"{file.name}_filler", filler),) if filler.outputs else ()
    return Part(file.name, resolved(edited(spec, file.edits), config), inner)


def _with_available_links(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts without links to tensors that another part of the plan does not have."""
    tensors = {part.name: {*part.inputs, *part.outputs} for part in parts}
    links = [
        [each for each in part.spec.links if each.output in tensors.get(each.part, [each.output])] for part in parts
    ]
    return tuple(evolve(part, spec=evolve(part.spec, links=own)) for part, own in zip(parts, links, strict=True))


def _inputs(spec: ExportSpec, config: Snapshot) -> tuple[InputSpec, ...]:
    """The inputs, with those of the cache after the last input that a row names."""
    cached = [past for past, _ in cache_tensors(spec, config)] if spec.cache.past in ("inputs", "both") else ()
    order = [tensor.name for tensor in spec.inputs]
    after = max((order.index(row.after) + 1 for row in spec.cache.rows if row.after in order), default=len(order))
    tensors = (*spec.inputs[:after], *cached, *spec.inputs[after:])
    present = [_tensor(spec, config, tensor) for tensor in tensors if is_set(spec.normalizer, config, tensor.when)]
    positions = {name: position for position, name in enumerate(spec.target.input_order or ())}
    return tuple(sorted(present, key=lambda tensor: positions.get(tensor.name, len(positions))))


def _outputs(spec: ExportSpec, config: Snapshot, dynamic: set[str]) -> tuple[OutputSpec, ...]:
    """The outputs, one per layer where there is one per layer, then those of the cache."""
    returned = [present for _, present in cache_tensors(spec, config)] if spec.cache.past in ("outputs", "both") else []
    templates = (*spec.outputs, *filter(None, returned))
    present = (output for output in templates if is_set(spec.normalizer, config, output.when))
    tensors = (_tensor(spec, config, output) for template in present for output in per_layer(spec, config, template))
    return tuple(evolve(output, axes=_without_past(output.axes, dynamic, fixed_sizes(spec))) for output in tensors)


def _without_past(axes: AxisMap, dynamic: set[str], fixed: Mapping[str, int]) -> AxisMap:
    """The axes of an output with `past + n` at the size of a fixed `n` where the graph takes no past."""
    absent = {name: 0 for name in names(axes) if name not in dynamic}

    def without_past(axis: Axis) -> Axis:
        symbols_of = set(terms(axis.symbol)) if axis.kind == "dynamic" else set()
        is_known = symbols_of & absent.keys() and symbols_of & fixed.keys() and symbols_of <= {*absent, *fixed}
        return Axis(str(value(axis.symbol, {**fixed, **absent})), "literal") if is_known else axis

    return AxisMap(tuple(map(without_past, axes.axes)))


def _constants(spec: ExportSpec, config: Snapshot, tensors: Iterable[InputSpec]) -> tuple[Constant, ...]:
    """The constants with numbers in their axes; InvalidSpec if no input has the size of an axis."""
    known = {symbol for tensor in tensors for symbol in symbols(tensor.axes).values()}

    def planned(constant: Constant) -> Constant:
        filled: Constant = constant if constant.axes is None else _tensor(spec, config, constant)
        missing = next((name for name in names(filled.axes or AxisMap(())) if name not in known), None)
        if missing is not None:
            raise InvalidSpec(f"{constant.name!r} cannot be a constant: no other input has its axis {missing!r}")
        return filled

    return tuple(map(planned, spec.call.constants))


def _planned_axes(
    spec: ExportSpec, config: Snapshot, axes: Iterable[AxisFacts], tensors: Iterable[InputSpec]
) -> tuple[AxisFacts, ...]:
    """The axes with numbers. An axis that no input has keeps no more than a size that is a number already."""
    nested = (value for each in spec.dummies.generators for _, value in each.arguments)
    every_map = (each.axes for each in (*tensors, *nested) if hasattr(each, "axes"))
    used = {name for axis_map in every_map for name in names(axis_map)}
    every = [_planned_axis(spec, config, axis, is_used=axis.name in used) for axis in axes]
    return tuple(axis for axis in every if axis != AxisFacts(axis.name))


def _planned_axis(spec: ExportSpec, config: Snapshot, axis: AxisFacts, *, is_used: bool) -> AxisFacts:
    ends = (axis.low, axis.high) if is_set(spec.normalizer, config, axis.when) else (None, None)
    low, high = (None if end is None else _size(spec, config, end, f"axis {axis.name!r}") for end in ends)
    size = axis.size
    if isinstance(size, Getter):
        size = _size(spec, config, size, f"size {axis.name!r}") if is_used else None
    return AxisFacts(axis.name, size, *((low, high) if is_used else ()))


def _used_generators(spec: ExportSpec, used: set[str]) -> set[str]:
    """The names of the generators that are used, and of those that make their arguments."""
    arguments = [value for each in spec.dummies.generators if each.name in used for _, value in each.arguments]
    nested = {value.generator for value in arguments if isinstance(value, NestedDummy)}
    return used if nested <= used else _used_generators(spec, used | nested)


def _tensor(spec: ExportSpec, config: Snapshot, tensor: Any) -> Any:
    """The tensor with the configuration's numbers in its axes."""

    def where(symbol: str) -> str:
        return f"axis {symbol!r} of {tensor.name!r}"

    read_names = {read.name for read in spec.normalizer.reads} & set(names(tensor.axes))
    axes = substitute(tensor.axes, {name: needed_value(spec, config, name, where(name)) for name in read_names})
    resolved_axes = resolve_configured(axes, lambda symbol: _size(spec, config, symbol, where(symbol)))
    return evolve(tensor, axes=resolved_axes, **({"when": None} if hasattr(tensor, "when") else {}))


def _planned_dummies(spec: ExportSpec, config: Snapshot, entries: Dummies, used: set[str]) -> Dummies:
    """The used generators, with the configuration's values as arguments; a value that it lacks stays a getter."""

    def read(argument: Any) -> Any:
        return value_or(spec.normalizer, config, argument, argument) if isinstance(argument, Getter) else argument

    generators = (
        evolve(generator, arguments={name: read(argument) for name, argument in generator.arguments})
        for generator in entries.generators
        if generator.name in used
    )
    return Dummies(generators=tuple(generators))


def _case(spec: ExportSpec, config: Snapshot, overlay: Overlay, used: set[str], tensors: tuple[InputSpec, ...]) -> Case:
    """The planned case; rows of the cache that it replaces become inputs."""
    rows = cache_tensors(evolve(spec, cache=overlay.spec.cache), config)
    cached = tuple(_tensor(spec, config, past) for past, _ in rows)
    sizes = (AxisFacts(axis.name, axis.size) for axis in overlay.spec.axes)
    return Case(
        overlay.name,
        _planned_dummies(spec, config, overlay.spec.dummies, used),
        named(overlay.spec.inputs, cached),
        _planned_axes(spec, config, sizes, (*tensors, *cached)),
    )


def _size(spec: ExportSpec, config: Snapshot, source: int | Source, where: str) -> int:
    """The whole number that a source reads; InvalidSpec if it reads another value."""
    number = needed_value(spec, config, source, where)
    try:
        return int(number)
    except (TypeError, ValueError, OverflowError):
        raise InvalidSpec(f"{where} is {shortened(number)}; a size is a whole number") from None
