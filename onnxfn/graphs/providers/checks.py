"""Checks of a finished graph by the profile of the program that runs it: what is outside its operators, what moves."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onnxfn.specs.algebra.planned import BATCH, Plan
from onnxfn.specs.edits.providers import PROVIDERS, GraphCheck, Provider
from onnxfn.specs.errors import InvalidSpec

SHOWN = 3
"""The nodes, or axes, that a line names of each kind."""


@cache
def table_of(name: str) -> Mapping[str, Any]:
    """A table of this folder: of a provider its source, version and operators; `advice`: what to do without one."""
    return MappingProxyType(json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8")))


def provider_lines(plan: Plan, graphs: Sequence[Any]) -> tuple[str, ...]:
    """Remarks on the graphs of a plan for its provider. InvalidSpec for what the provider refuses."""
    profile = PROVIDERS[plan.parts[0].spec.target.provider or ""]
    lines = []
    for check in profile.checks:
        for part, graph in zip(plan.parts, graphs, strict=True):
            for subject, advice in CHECKS[check.check](graph, check, profile):
                line = f"{part.name} in {profile.runtime}: {subject} {check.otherwise}; {advice}"
                if check.is_error:
                    raise InvalidSpec(f"{line}, or leave out the provider {profile.name!r}")
                lines.append(line)
    return tuple(lines)


def _outside_operators(graph: Any, _: GraphCheck, profile: Provider) -> Iterator[tuple[str, str]]:
    """The operators of a graph that are not in the table of a provider, with nodes, and what to do without them."""
    table, outside = table_of(profile.name), dict[str, list[str]]()
    bodies = {(function.domain, function.name) for function in graph.functions.values()}
    for node in chain(graph.graph.all_nodes(), *(function.all_nodes() for function in graph.functions.values())):
        if node.op_type == "Constant" or (node.domain, node.op_type) in bodies:
            continue
        schema = _schema(node.domain, node.op_type, graph.opset_imports.get(node.domain, 1))
        name = ".".join(filter(None, (node.domain, node.op_type)))
        since, types = (schema.since_version, [*_types(node, schema)]) if schema else (1, [])
        lacking = _lacking(table["operators"].get(name, ()), since, types)
        if lacking is not None:
            outside.setdefault(f"{name}-{since}{lacking}", []).append(_node_name(node))
    if outside:
        advice = (
            text
            for name, text in table_of("advice").items()
            if any(each.startswith((f"{name}-", f"com.microsoft.{name}-")) for each in outside)
        )
        operators = ", ".join(f"{name} ({_some(nodes)})" for name, nodes in outside.items())
        yield (
            f"the operators {operators}",
            "; ".join((f"its operators are those of {table['version']}", *dict.fromkeys(advice))),
        )


def _node_name(node: Any) -> str:
    return str(node.name or node.outputs[0].name)


@cache
def _schema(domain: str, op_type: str, opset: int) -> Any:
    """The definition of an operator of ONNX in an opset; None for an operator of another domain."""
    from onnx import defs

    return defs.get_schema(op_type, opset, domain) if defs.has(op_type, opset, domain) else None


def _types(node: Any, schema: Any) -> Iterator[tuple[str, str]]:
    """The names of the type constraints of a node, each with the type of a tensor, where it is known."""
    for formals, values in ((schema.inputs, node.inputs), (schema.outputs, node.outputs)):
        # The last parameter may stand for several tensors.
        for formal, value in zip(chain(formals, repeat(formals[-1])) if formals else (), values, strict=False):
            if value is not None and value.dtype is not None:
                yield formal.type_str, value.dtype.name


def _lacking(rows: Iterable[Any], since: int, types: Sequence[tuple[str, str]]) -> str | None:
    """None if a row of an operator has this version and these types; else the type that it lacks, or no text."""
    allowed = [dict(*row[2:]) for row in rows if row[0] <= since <= (row[1] or since)]
    lacking = [next((kind for name, kind in types if kind not in row.get(name, kind).split()), "") for row in allowed]
    return None if "" in lacking else f" of {lacking[0].lower()}" if lacking else ""


def _dynamic_axes(graph: Any, *_: Any) -> Iterator[tuple[str, str]]:
    """The dynamic axes of the inputs of a graph, and how they become static."""
    axes = {str(dim) for value in graph.graph.inputs for dim in value.shape or () if not isinstance(dim, int)}
    if axes:
        sizes = [f"{name}={1 if name == BATCH else 128}" for name in sorted(axes) if name.isidentifier()]
        flags = " ".join(f"--shape {size}" for size in sizes)
        fixed = f"with_shapes(spec, {', '.join(sizes)}) ({flags})"
        yield f"the dynamic axes {', '.join(sorted(axes))}", f"fix them: {fixed}"


def _large_ranks(graph: Any, check: GraphCheck, _: Provider) -> Iterator[tuple[str, str]]:
    """The operators of a graph with tensors of more axes than a provider takes."""
    most = check.limit or 0
    nodes = [
        node
        for node in graph.graph.all_nodes()
        if any(len(value.shape or ()) > most for value in (*node.inputs, *node.outputs) if value is not None)
    ]
    if nodes:
        yield f"nodes with more than {most} axes ({_some([*map(_node_name, nodes)])})", "the others run there"


def _some(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


CHECKS: Mapping[str, Callable[[Any, GraphCheck, Provider], Iterator[tuple[str, str]]]] = MappingProxyType(
    {"operators": _outside_operators, "dynamic_axes": _dynamic_axes, "rank": _large_ranks}
)
"""The name of a check -> from a graph, the check and its profile to what does not fit, and what to do."""
