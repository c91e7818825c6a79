"""`compose`: specs as one; sources of values, as fields of a spec.

Laws: `compose()` is EMPTY; `compose(a) == a`; EMPTY changes nothing; the right-most wins.
It is associative where it is defined: if `c` chooses the task, `compose(b, c)` may be allowed and `compose(a, b)` not.

A source is a name, a dotted path, a formula (see config_values.py), or a getter, which a formula stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from attrs import evolve, fields, has
from toolz import groupby

from onnxfn.specs.algebra.spec import ExportSpec, Overlay
from onnxfn.specs.axis_symbols import joined_axes
from onnxfn.specs.errors import InvalidSpec, shortened
from onnxfn.specs.named_records import Named
from onnxfn.specs.quantization import unique_rules
from onnxfn.specs.records import Getter, Normalizer, Patch, Read, Source

EMPTY = ExportSpec()
"""The spec that specifies nothing: `compose(EMPTY, spec) == spec`."""


def compose(*specs: ExportSpec) -> ExportSpec:
    """The specs joined field by field; the right-most wins: "a text encoder, with BERT's inputs".

    Args:
        specs: Specs, from the most general to the most special.

    Returns:
        One spec. Tensors, generators and the like join by name, in the order of first mention, with the value of the
        last. Of an axis, later values win, and a range replaces a fixed size.

    Raises:
        InvalidSpec: an argument is not an ExportSpec. An edit is a function: write `pipe(spec, edit)`. Or a spec
            is for a task, and one to its right adds to a task: that would have no effect. Or two of them patch one
            function in different ways.

    >>> from onnxfn.specs.algebra.spec import Target
    >>> compose(ExportSpec(target=Target(opset=18), name="a"), ExportSpec(target=Target(opset=20))).target.opset
    20
    """
    for spec in specs:
        if not isinstance(spec, ExportSpec):
            name = getattr(spec, "__name__", shortened(spec))
            raise InvalidSpec(
                f"compose joins specs, not the {type(spec).__name__} {name}; an edit changes one: pipe(spec, edit)"
            )
    _refuse_late_tasks(specs)
    return group(*specs) if specs else EMPTY


def _refuse_late_tasks(specs: Sequence[ExportSpec]) -> None:
    """InvalidSpec if a spec adds to a task, and one to its left is for a task already."""
    task = None
    for position, spec in enumerate(specs):
        if task is not None and spec.task is None and spec.tasks:
            left = group(*specs[:position])
            late = next((overlay.name for overlay in spec.tasks if overlay not in left.tasks), None)
            if late is not None:
                raise InvalidSpec(
                    f"{left.name or 'this spec'} is for {task} already, so what is composed onto its task {late!r} "
                    f"would have no effect; choose the task last: for_task(compose(...), {task!r})"
                )
        task = spec.task or task


def named(*tables: Collection[Any]) -> Any:
    """Records joined by name: the order of first mention, the value of last mention."""
    return tuple({record.name: record for record in chain(*tables)}.values())


def patches(*tables: Collection[Patch]) -> Any:
    """Patches joined by target; InvalidSpec if two have different functions for one: the model may need both."""
    functions: dict[str, str] = {}
    for patch in chain(*tables):
        if (other := functions.setdefault(patch.name, patch.by)) != patch.by:
            raise InvalidSpec(
                f"two patches of {patch.name}, by {other} and by {patch.by}; compose one of them, by a function that "
                "does what both do"
            )
    return named(*tables)


def overlays(*tables: Collection[Overlay]) -> tuple[Overlay, ...]:
    """Overlays joined by name; overlays of the same name are composed."""
    alike = groupby(attrgetter("name"), chain(*tables))
    return tuple(each[0] if len(each) == 1 else _one_overlay(*each) for each in alike.values())


def _one_overlay(first: Overlay, *others: Overlay) -> Overlay:
    edits = first.edits
    for other in others:
        edits = (*edits, *(edit for edit in other.edits if edit not in edits))
    return evolve(first, spec=group(first.spec, *(other.spec for other in others)), edits=edits)


def group(*records: Any) -> Any:
    """Records of the same type, joined field by field as their fields say; a default changes nothing."""
    first = records[0]
    if all(record is first for record in records):
        return first
    joined = {}
    for part in fields(type(first)):
        values = [value for record in records if (value := getattr(record, part.name)) is not part.default]
        joined[part.name] = _join(part)(*values) if len(values) > 1 else next(iter(values), part.default)
    return type(first)(**joined)


JOINS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "overlays": overlays,
        "axes": joined_axes,
        "limits": lambda *tables: tuple(dict.fromkeys(chain(*tables))),
        "rules": lambda *tables: unique_rules((*chain(*tables),)),
        "patches": patches,
    }
)
"""The joins that fields name in their metadata."""


def _join(attribute: Any) -> Callable[..., Any]:
    """The join of a field: the one it names, else that of named records, of a group of fields, or of a value."""
    if "join" in attribute.metadata:
        return JOINS[attribute.metadata["join"]]
    if isinstance(attribute.default, Named):
        return named
    if has(type(attribute.default)):
        return group
    return lambda *values: next((value for value in reversed(values) if value is not None), None)


def reads(**sources: Source) -> ExportSpec:
    """A spec that maps the names that axes and generators use to values of the configuration.

    Args:
        sources: For each name, a source: a key of the configuration, a dotted path, a formula, or a getter.

    Returns:
        An ExportSpec with a normalizer and nothing else.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> spec = reads(num_layers="n_layer", head_dim="n_embd // n_head")
    >>> read_config(spec.normalizer, {"n_layer": 2, "n_embd": 64, "n_head": 4}, "head_dim")
    16
    """
    return ExportSpec(normalizer=Normalizer(tuple(Read(name, source) for name, source in sources.items())))


def from_config(source: Source) -> Getter:
    """The value of a source, where a text by itself would be taken literally.

    Args:
        source: A name, a dotted path, a formula or a getter.

    Returns:
        A Getter, for the arguments of a generator and the sizes of dummies: `generates("ids", "integers",
        high=from_config("vocab_size"))`.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> read_config(Normalizer(), {"vocab_size": 99}, from_config("vocab_size"))
    99
    """
    return Getter("from_config", (source,))


def either(*sources: Source) -> Getter:
    """The value of the first source that the configuration has.

    Args:
        sources: Names, dotted paths or getters, in the order in which they are tried.

    Returns:
        A Getter. Reading it raises MissingValue when the configuration has none of the sources.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> read_config(Normalizer(), {"n_head": 4}, either("num_attention_heads", "n_head"))
    4
    """
    return Getter("either", sources)


def quotient(dividend: Source, divisor: Source) -> Getter:
    """One number divided by another, rounded down.

    Args:
        dividend: Source of the number that is divided.
        divisor: Source of the number to divide by.

    Returns:
        A Getter of a whole number.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> read_config(Normalizer(), {"hidden_size": 64, "heads": 4}, quotient("hidden_size", "heads"))
    16
    """
    return Getter("quotient", (dividend, divisor))


def constant(value: float | tuple[int, ...]) -> Getter:
    """A value that does not depend on the configuration.

    Args:
        value: A number, or a tuple of whole numbers.

    Returns:
        A Getter, where a source is expected: a number is no source.

    >>> from onnxfn.specs.algebra.config_values import read_config
    >>> read_config(Normalizer(), {}, either("head_dim", constant(64)))
    64
    """
    return Getter("constant", (value,))
