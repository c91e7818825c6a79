"""From a spec and a configuration to a plan: pure, made before any weight is read; everything is decided here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from onnxfn.specs.axes import Axis, AxisMap, fix_symbols, names, resolve_configured, substitute, symbols, terms, value
from onnxfn.specs.compose import compose
from onnxfn.specs.config_values import Snapshot, is_set, read_config, snapshot
from onnxfn.specs.defaults import DEFAULTS
from onnxfn.specs.dummies import Array, dummies
from onnxfn.specs.edits.caches import LAYER, NEXT
from onnxfn.specs.edits.table import edited
from onnxfn.specs.errors import InvalidSpec, MissingValue, unknown
from onnxfn.specs.plan.real_inputs import real_inputs
from onnxfn.specs.records import (
    Carry,
    ExportSpec,
    File,
    Generator,
    Getter,
    InputSpec,
    Made,
    OutputSpec,
    Overlay,
    Part,
    Pin,
    Plan,
    Size,
    Source,
    State,
)
from onnxfn.specs.tasks import DEFAULT_TASK, for_task, task_names
from onnxfn.specs.tensor_paths import Path

SIDES = ("inputs", "outputs")


def plan(spec: ExportSpec, config: Any, *, merge: bool = True, keep_parts: bool = False) -> Plan:
    """What an export of this spec will do for a model with this configuration.

    `config` is a transformers configuration, a model, or a plain dict. A spec that has tasks and is for none of them is
    taken for feature-extraction, or else for the first. MissingValue when the configuration lacks what the spec reads.
    One file stands for several where it can, which takes lengths that move; `keep_parts` also plans those,
    `merge=False` plans those alone.

    >>> from onnxfn import bert_inputs, compose, text_encoder
    >>> made = plan(compose(text_encoder, bert_inputs), {"vocab_size": 99, "type_vocab_size": 2})
    >>> made.parts[0].outputs
    {'last_hidden_state': {0: 'batch_size', 1: 'sequence_length'}}
    """
    told, chosen = snapshot(config), for_some_task(spec)
    files = _files(chosen, merge=merge and not _lengths_fixed(chosen), keep_parts=keep_parts)
    parts = tuple(_part(chosen, told, file) for file in files)
    _shapes_known(chosen, parts)
    return Plan(parts)


def for_some_task(spec: ExportSpec) -> ExportSpec:
    """The spec itself when it is for a task or has none, else for feature-extraction, or else for its first task."""
    return spec if spec.task or not spec.tasks else for_task(spec, _default_task(spec))


def _files(spec: ExportSpec, *, merge: bool, keep_parts: bool) -> tuple[File, ...]:
    replaced = {name for one in spec.files for name in one.replaces} if merge and not keep_parts else set()
    chosen = tuple(one for one in spec.files if one.name not in replaced and (merge or not one.replaces))
    return chosen or (File("model"),)


def _lengths_fixed(spec: ExportSpec) -> bool:
    """Whether a length of what is kept is fixed: then no file serves an empty past and another."""
    rows = (*spec.states, *(row for one in spec.behaviors for row in one.spec.states))
    lengths = {name for row in rows for name in names(row.axes)} - {"batch_size"}
    return any(one.name in lengths for one in spec.shapes)


def _shapes_known(spec: ExportSpec, parts: tuple[Part, ...]) -> None:
    """Each axis that is fixed is one of some part, or it is UnknownName."""
    known = tuple(dict.fromkeys(name for part in parts for one in part.spec.inputs for name in names(one.axes)))
    for one in spec.shapes:
        if one.name not in known:
            raise unknown("axis", one.name, known, of=spec.name or "this spec")


def _part(spec: ExportSpec, config: Snapshot, file: File) -> Part:
    filler = resolved(edited(spec, file.filler), config) if file.filler else ExportSpec()
    inside = (Part(f"{file.name}_filler", filler),) if filler.outputs else ()
    return Part(file.name, resolved(edited(spec, file.edits), config), inside)


def inputs(spec: ExportSpec, config: Any) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of what goes into the first file of the plan."""
    return plan(spec, config).parts[0].inputs


def outputs(spec: ExportSpec, config: Any) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of what comes out of the first file of the plan."""
    return plan(spec, config).parts[0].outputs


def dummy_inputs(
    spec: ExportSpec, config: Any, framework: str = "pt", *, preprocessor: Any = None, seed: int = 0, **sizes: int
) -> dict[str, Any]:
    """Dummy tensors for the first file of the plan, of Optimum's sizes unless said: `sequence_length=8`.

    `framework` is `pt` (torch tensors) or `np` (numpy arrays). `preprocessor` is the model's tokenizer, image
    processor, feature extractor or processor: what it makes of a text, an image or a tone is in place of dummies. A
    size that no input has is UnknownName.
    """
    planned = plan(spec, config).parts[0].spec
    for one in planned.shapes:
        if sizes.get(one.name, one.value) != one.value:
            raise InvalidSpec(f"{one.name!r} is fixed at {one.value} by with_shapes, so no dummy has {sizes[one.name]}")
    if preprocessor is None:
        return as_framework(dummies(planned, sizes, seed=seed), framework)
    return as_framework(real_inputs(planned, preprocessor, sizes, seed=seed), framework)


def as_framework(arrays: Mapping[str, Array], framework: str) -> dict[str, Any]:
    """Arrays as tensors of a framework, `pt` (torch) or `np` (numpy)."""
    if framework == "np":
        return dict(arrays)
    if framework != "pt":
        raise unknown("framework", framework, ("pt", "np"))
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def resolved(spec: ExportSpec, config: Snapshot) -> ExportSpec:
    """The spec with the configuration's facts in place of their names, and the conditions decided."""
    chosen = with_pins(with_states(compose(DEFAULTS, for_some_task(spec)), config), config)
    taken = tuple(_tensor(chosen, config, one) for one in chosen.inputs if is_set(chosen.normalizer, config, one.when))
    promised = tuple(one for one in chosen.outputs if is_set(chosen.normalizer, config, one.when))
    given = tuple(_tensor(chosen, config, one) for each in promised for one in _of_layers(chosen, config, each))
    used = _generators(chosen, {one.generator for one in taken})
    moving = {name for one in taken for name in names(one.axes)}
    fixed_here = {one.name: one.value for one in chosen.shapes if one.name in moving}
    return evolve(
        chosen,
        inputs=taken,
        outputs=tuple(evolve(one, axes=_begun(one.axes, moving, fixed_here)) for one in given),
        shapes=tuple(one for one in chosen.shapes if one.name in moving),
        generators=tuple(_settled(chosen, config, made) for made in chosen.generators if made.name in used),
        sizes=_sizes(chosen, config, chosen.sizes, taken),
        cases=tuple(_case(chosen, config, one, used, taken) for one in chosen.cases),
        handovers=tuple(one for one in chosen.handovers if one.name in {made.name for made in taken}),
        tasks=(),
        behaviors=(),
        files=(),
    )


def with_pins(spec: ExportSpec, config: Snapshot) -> ExportSpec:
    """The spec with the axes fixed that a model of this configuration fixes."""
    sizes = {one.name: int(read_config(spec.normalizer, config, one.value)) for one in _pins(spec, config)}

    def fixed(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(evolve(one, axes=fix_symbols(one.axes, sizes)) for one in tensors)

    return evolve(spec, inputs=fixed(spec.inputs), outputs=fixed(spec.outputs), pins=())


def _pins(spec: ExportSpec, config: Snapshot) -> list[Pin]:
    return [one for one in spec.pins if is_set(spec.normalizer, config, one.when)]


def past_key_values(spec: ExportSpec, config: Any, *, direction: str) -> dict[str, dict[int, str]]:
    """`{name: {axis: symbol}}` of the cache that goes in (`inputs`) or comes out (`outputs`); UnknownName for another.

    What Optimum's `add_past_key_values` filled into a dict that it was given.
    """
    if direction not in SIDES:
        raise unknown("direction", direction, SIDES)
    told, kept = snapshot(config), _keeping(spec)
    rows = state_inputs(kept, told) if direction == "inputs" else state_outputs(kept, told)
    return {one.name: symbols(one.axes) for one in rows}


def _keeping(spec: ExportSpec) -> ExportSpec:
    """The spec with its cache: that of an encoder-decoder is its decoder's."""
    decoder = next((one.spec for one in spec.behaviors if one.name == "decoder"), ExportSpec())
    if not (spec.states or decoder.states):
        raise InvalidSpec(f"{spec.name or 'this spec'} has no cache, so it has no past")
    return spec if spec.states else evolve(spec, states=decoder.states)


def with_states(spec: ExportSpec, config: Snapshot) -> ExportSpec:
    """The spec with a tensor for each row of its cache and each layer, on the sides that its past says."""
    taken = state_inputs(spec, config) if spec.past in ("inputs", "both") else ()
    given = state_outputs(spec, config) if spec.past in ("outputs", "both") else ()
    names = [one.name for one in spec.inputs]
    places = [names.index(row.after) + 1 for row in spec.states if row.after in names]
    at = max(places, default=len(names))
    return evolve(
        spec,
        inputs=(*spec.inputs[:at], *taken, *spec.inputs[at:]),
        outputs=(*spec.outputs, *given),
        states=(),
        builds=tuple(
            one for one in spec.builds if taken or given or one.name in {made.place[0] for made in spec.inputs}
        ),
        carries=state_carries(spec, config) if taken and given else (),
    )


def state_inputs(spec: ExportSpec, config: Snapshot) -> tuple[InputSpec, ...]:
    """The cache as inputs, layer by layer."""
    return tuple(
        InputSpec(
            _in_layer(row.taken, layer), row.axes, "past_states", "float", _path(row.path, layer, str), layer=layer
        )
        for layer, row in _kept(spec, config)
    )


def state_outputs(spec: ExportSpec, config: Snapshot) -> tuple[OutputSpec, ...]:
    """The cache as outputs, layer by layer."""
    return tuple(
        OutputSpec(_in_layer(row.given, layer), row.grown, _path(row.found, layer, int), layer=layer)
        for layer, row in _kept(spec, config)
        if row.given is not None
    )


def state_carries(spec: ExportSpec, config: Snapshot) -> tuple[Carry, ...]:
    """What of the cache a next call is fed from what this call gives, layer by layer."""
    return tuple(
        Carry(_in_layer(row.taken, layer), _in_layer(row.given, layer))
        for layer, row in _kept(spec, config)
        if row.given is not None
    )


def _kept(spec: ExportSpec, config: Snapshot) -> list[tuple[int, State]]:
    rows = [
        (layer, place, row)
        for place, row in enumerate(spec.states)
        for layer in _layers(spec, config, row.layers, row.name)
    ]
    return [(layer, row) for layer, _, row in sorted(rows, key=lambda one: one[:2])]


def _of_layers(spec: ExportSpec, config: Snapshot, one: OutputSpec) -> tuple[OutputSpec, ...]:
    """The outputs that one stands for: itself, or one of each layer."""
    if one.layers is None:
        return (one,)
    layers = _layers(spec, config, one.layers, one.name)
    return tuple(
        evolve(
            one, name=_in_layer(one.name, layer), path=_path(one.path, layer, int), layer=layer, layers=None, when=None
        )
        for layer in layers
    )


def _layers(spec: ExportSpec, config: Snapshot, source: Source, name: str) -> Sequence[int]:
    told = _told(spec, config, source, f"layers of {name!r}")
    return range(told) if isinstance(told, int) else told


def _in_layer(template: str, layer: int) -> str:
    return template.replace(LAYER, str(layer)).replace(NEXT, str(layer + 1))


def _path(path: Path, layer: int, number: Callable[[int], str | int]) -> Path:
    numbers = {LAYER: number(layer), NEXT: number(layer + 1)}
    return tuple(numbers[step] if step in (LAYER, NEXT) else step for step in path)


def _generators(spec: ExportSpec, used: set[str]) -> set[str]:
    """The generators that are used, and those that make arguments of theirs."""
    inner = {
        given.generator
        for made in spec.generators
        if made.name in used
        for _, given in made.arguments
        if isinstance(given, Made)
    }
    return used if inner <= used else _generators(spec, used | inner)


def _default_task(spec: ExportSpec) -> str:
    known = task_names(spec)
    return DEFAULT_TASK if DEFAULT_TASK in known else known[0]


def _tensor(spec: ExportSpec, config: Snapshot, one: Any) -> Any:
    def found(symbol: str) -> Any:
        return _told(spec, config, symbol, f"axis {symbol!r} of {one.name!r}")

    told = {name: found(name) for name in {read.name for read in spec.normalizer.reads} & set(names(one.axes))}
    return evolve(
        one, axes=resolve_configured(substitute(one.axes, told), lambda symbol: int(found(symbol))), when=None
    )


def _settled(spec: ExportSpec, config: Snapshot, made: Generator) -> Generator:
    def settled_argument(name: str, given: Any) -> Any:
        return _told(spec, config, given, f"{name!r} of {made.name}") if isinstance(given, Getter) else given

    return evolve(made, arguments={name: settled_argument(name, given) for name, given in made.arguments})


def _sizes(
    spec: ExportSpec, config: Snapshot, sizes: tuple[Size, ...], taken: tuple[InputSpec, ...]
) -> tuple[Size, ...]:
    """The sizes as numbers; those that the configuration tells only where an input has such an axis."""
    axes = {name for one in taken for name in names(one.axes)}
    return tuple(
        evolve(one, value=int(_told(spec, config, one.value, f"size {one.name!r}")))
        if isinstance(one.value, Getter)
        else one
        for one in sizes
        if not isinstance(one.value, Getter) or one.name in axes
    )


def _case(spec: ExportSpec, config: Snapshot, overlay: Overlay, used: set[str], own: tuple[InputSpec, ...]) -> Overlay:
    """The case with the configuration's facts; the rows of the cache that it says otherwise, as inputs."""
    made = tuple(_settled(spec, config, one) for one in overlay.spec.generators if one.name in used)
    rows = state_inputs(compose(spec, overlay.spec), config) if overlay.spec.states else ()
    taken = tuple(_tensor(spec, config, one) for one in rows)
    sizes = _sizes(spec, config, overlay.spec.sizes, (*own, *taken))
    changed = evolve(overlay.spec, generators=made, sizes=sizes, inputs=(*overlay.spec.inputs, *taken), states=())
    return evolve(overlay, spec=changed)


def _begun(axes: AxisMap, moving: set[str], sizes: Mapping[str, int]) -> AxisMap:
    """The axes of an output where no past goes in: one that is a past and a fixed length has the fixed length."""
    nothing = {name: 0 for name in names(axes) if name not in moving}

    def begun(one: Axis) -> Axis:
        made_of = set(terms(one.symbol)) if one.kind == "dynamic" else set()
        whole = made_of & nothing.keys() and made_of & sizes.keys() and made_of <= {*nothing, *sizes}
        return Axis(str(value(one.symbol, {**sizes, **nothing})), "literal") if whole else one

    return AxisMap(tuple(map(begun, axes.axes)))


def _told(spec: ExportSpec, config: Snapshot, source: Source, where: str) -> Any:
    try:
        return read_config(spec.normalizer, config, source)
    except MissingValue as problem:
        raise MissingValue(f"{where} of {spec.name or 'this spec'}: {problem}") from None
