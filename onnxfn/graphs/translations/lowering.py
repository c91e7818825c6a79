"""A torch graph in operators that have a translation and write into no memory; the tables of translations.

torch decomposes an operator without a translation by a second trace of the whole program, which costs as much as the
first. Here each such operator is traced alone, on the fake tensors of the first trace. Few graphs need more.

A write through a view, as in `x[..., 0] /= width`, becomes a new view, and a new `x` that holds it, for later nodes:

    view = select(x, -1, 0); div_(view, width)
    view = select(x, -1, 0); new_view = div(view, width); new_x = select_scatter(x, new_view, -1, 0)
"""

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch
from toolz import memoize
from torch.fx import map_arg

from onnxfn.architectures.private.torch_names import torch_name
from onnxfn.graphs.sizes.size_factors import factors
from onnxfn.models.patching import replaced
from onnxfn.specs.errors import raise_no_memory


def operator_name(node: Any) -> str:
    """The name of the operator that a node calls, with its overload: `aten::add.Tensor`."""
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else str(node.target)


def is_mutable(node: Any) -> bool:
    """Whether the operator of a node writes into one of its inputs."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def has_translation(node: Any, registry: Any) -> bool:
    """Whether the operator of a node is in torch's table of translations, and returns a new tensor."""
    return registry.is_registered(node.target) and not is_mutable(node)


def may_be_view(node: Any) -> bool:
    """Whether the result of a node shares memory with its input; True for an operator without a schema."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(result.alias_info is not None for result in schema.returns)


def input_tensors(node: Any) -> Iterator[Any]:
    """The fake tensors that a node reads."""
    for input_ in node.all_input_nodes:
        tensor = input_.meta.get("val")
        if hasattr(tensor, "dtype"):
            yield tensor


def signatures_read_once() -> AbstractContextManager[None]:
    """A context in which torch reads the signature of an ONNX operator once, not at each node: 4 % of an export."""
    from onnx_ir.schemas import OpSignature

    def key(schemas: Sequence[Any], _: Any) -> tuple[Any, ...]:
        return schemas[0].domain, schemas[0].name, schemas[0].since_version

    return replaced(OpSignature, "from_op_schema", staticmethod(memoize(OpSignature.from_op_schema, key=key)))


def onnx_registry(opset: int) -> Any:
    """Torch's table from operators to ONNX functions, with onnxfn's own translations for an opset; built once.

    It has the operators of torchvision, such as `nms`, if that is imported: then it is built once more.
    """
    return _registry(opset, "torchvision" in sys.modules)


@cache
def _registry(opset: int, _has_torchvision: bool) -> Any:
    from onnxscript.values import TracedOnnxFunction

    from onnxfn.graphs.translations.tensor_translations import complex_translations, tensor_translations
    from onnxfn.graphs.translations.translations import translations

    exporter, real = torch_name("exporter_registration"), tensor_translations() | translations(opset)
    # onnxscript would parse the source of each function for its domain, and torch would read the annotations of each.
    unparsed = replaced(TracedOnnxFunction, "function_ir", SimpleNamespace(domain=""))
    with unparsed, replaced(exporter.OnnxDecompMeta, "__post_init__", lambda _: None):
        registry = exporter.ONNXRegistry.from_torchlib()
        for is_complex, table in ((False, real), (True, complex_translations(real))):
            for overload, function in table.items():
                registry.register_op(overload, function, is_complex)
    return registry


def watched_registry(registry: Any, tick: Callable[[], Any], looked_up: list[Any]) -> Any:
    """A copy of torch's table that calls `tick` when the translations of an operator are looked up, and notes it."""
    translations_of = registry.get_decomps

    def look_up(operator: Any) -> Any:
        tick()
        looked_up.append(operator)
        return translations_of(operator)

    watched = copy(registry)
    watched.get_decomps = look_up
    return watched


@cache
def decompositions() -> Mapping[Any, Any]:
    """From an operator without a translation to the function of torch that computes it; built once (0.2 s)."""
    # It lacks operators that are registered later. torch's own second trace decomposes these: it reads the table anew.
    tables = torch_name("exporter_decompositions")
    translated = set(tables.get_onnx_implemented_overloads(onnx_registry(18)))
    return MappingProxyType(tables.create_onnx_friendly_decomposition_table(translated))


def decompose_in_place(graph: Any, nodes: Sequence[Any], registry: Any) -> bool:
    """Replaces nodes of a program's graph by nodes that compute the same; returns whether it could.

    None of the nodes writes into memory. An operator in `registry`, torch's table of translations, is not decomposed.
    """
    untranslated = set(nodes)
    sizes: dict[Any, Any] = {}
    for node in list(graph.nodes):
        if node in untranslated:
            traced = _trace(node)
            inner = [] if traced is None else list(traced.nodes)
            has_constant = any(each.op == "get_attr" for each in inner)  # of that trace
            if not inner or has_constant or not all(has_translation(each, registry) for each in _calls(inner)):
                return False
            _inline(graph, node, traced, sizes)
        elif (size := _size(node)) is not None:
            sizes.setdefault(size, node)
    return True


def _trace(node: Any) -> Any:
    """The graph of an operator on fake tensors of its inputs' sizes; None if torch has no decomposition of it."""
    # Its placeholders are the nodes that the operator reads, in their order.
    inputs = node.all_input_nodes
    values = [input_.meta.get("val") for input_ in inputs]
    mode = torch_name("fake_mode_of")(values)
    if mode is None or any(value is None for value in values):
        return None

    def call(*arguments: Any) -> Any:
        known = dict(zip(inputs, arguments, strict=True))
        return node.target(*map_arg(node.args, known.__getitem__), **map_arg(node.kwargs, known.__getitem__))

    options = {"decomposition_table": decompositions(), "tracing_mode": "real", "_allow_non_fake_inputs": True}
    try:
        with mode, torch_name("python_dispatcher")():  # torch's own formulas in C++ refuse dynamic sizes
            return torch_name("make_fx")(call, **options)(*values).graph
    except Exception as error:  # noqa: BLE001 - whatever torch cannot trace alone, it may trace with the whole program
        raise_no_memory(error)
        return None


def _calls(nodes: Iterable[Any]) -> list[Any]:
    """The nodes that call an operator."""
    return [node for node in nodes if node.op == "call_function"]


def _size(node: Any) -> Any:
    """The formula of a node that is a size, from the sizes of the inputs; None for other nodes."""
    value = node.meta.get("val")
    return value.node.expr if node.op == "call_function" and hasattr(value, "node") else None


def _inline(graph: Any, node: Any, traced: Any, sizes: dict[Any, Any]) -> None:
    """Replaces a node by the nodes of a traced graph, which belong to the same module of the model."""
    placeholders = [inner for inner in traced.nodes if inner.op == "placeholder"]
    copies = dict(zip(placeholders, node.all_input_nodes, strict=True))
    module = {key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}
    with graph.inserting_before(node):
        for inner in traced.nodes:
            # No size is computed twice: `sizes` has the earlier nodes that are sizes, by their formulas.
            if inner.op == "call_function" and (size := _size(inner)) in sizes:
                copies[inner] = sizes[size]
            elif inner.op == "call_function":
                copies[inner] = graph.node_copy(inner, copies.__getitem__)
                copies[inner].meta = {**inner.meta, **module}
                sizes.update({size: copies[inner]} if size is not None else {})
    result = traced.output_node().args[0]
    if isinstance(result, (list, tuple)):
        for user in [user for user in node.users if user.target is operator.getitem]:
            user.replace_all_uses_with(copies[result[user.args[1]]])
            graph.erase_node(user)
    else:
        node.replace_all_uses_with(copies[result])
    graph.erase_node(node)


SCATTERS = MappingProxyType({"aten::select.int": "select_scatter", "aten::slice.Tensor": "slice_scatter"})
"""Operator that returns a view -> operator that writes a view of this kind into a new tensor, by the same arguments."""


def write_out_of_place(graph: Any, node: Any) -> bool:
    """Replaces a node that writes into its first argument; returns whether it could.

    It can if the memory is that of an intermediate result; of the views of it, only the written one and those that it
    is a view of are read after the write; and the new tensor has the shape and the dtype of the old one.
    """
    operator, views = _out_of_place(node), _views(node.args[0])
    order = {other: index for index, other in enumerate(graph.nodes)}
    readers = [[user for user in view.users if order[user] > order[node]] for view in views]
    last = max((index for index, users in enumerate(readers) if users), default=0)
    can_be_scattered = all(operator_name(view) in SCATTERS for view in views[:last])
    if operator is None or not can_be_scattered or not _keeps_dtype_and_shape(node) or _is_hidden(node, views, order):
        return False
    node.target = operator
    new = node
    for index, users in enumerate(readers[: last + 1]):
        new = _scattered(graph, views[index - 1], views[index], new) if index else new
        for user in users:
            user.replace_input_with(views[index], new)
    return True


def _out_of_place(node: Any) -> Any:
    """The out-of-place form of a node's operator: `aten::relu` for `aten::relu_`; None if there is none."""
    packet = operator_name(node).removeprefix("aten::").partition(".")[0]
    if not packet.endswith("_") or packet.startswith("_"):
        return None
    return _overload(getattr(torch.ops.aten, packet.removesuffix("_"), None), _types(node.target))


def _types(operator: Any) -> list[str]:
    """The types of the arguments of an operator, such as `Tensor` and `number`."""
    return [str(argument.type) for argument in operator._schema.arguments]


def _overload(packet: Any, types: list[str]) -> Any:
    """The overload with arguments of these types, under any name: `Tensor_Scalar` for `pow_.Scalar`; else None."""
    overloads = [getattr(packet, name) for name in (packet.overloads() if packet else ())]
    return next((overload for overload in overloads if _types(overload) == types), None)


def _views(written: Any) -> list[Any]:
    """The written node, the node that it is a view of, and so on up to a node that is not a view."""
    views = [written]
    while views[-1].op == "call_function" and may_be_view(views[-1]):
        views.append(views[-1].args[0])
    return views


def _keeps_dtype_and_shape(node: Any) -> bool:
    """Whether the operator that returns a new tensor returns one of the dtype and the shape of the old one."""
    old, tensors = node.args[0].meta["val"], list(input_tensors(node))
    if operator_name(node) == "aten::index_put_":
        tensors = [node.args[2].meta["val"]]  # the others are the indices
    # `copy_` also repeats a smaller tensor, which `copy` does not say.
    repeats = operator_name(node) == "aten::copy_" and str(tensors[-1].shape) != str(old.shape)
    return not repeats and all(torch.promote_types(old.dtype, tensor.dtype) == old.dtype for tensor in tensors)


def _is_hidden(node: Any, views: Sequence[Any], order: Mapping[Any, int]) -> bool:
    """Whether memory of an input is written, or another view of it, created before the write, is read after it."""
    others = (view for view in _with_views(views[-1]) if view not in views and order[view] < order[node])
    return views[-1].op != "call_function" or any(order[user] > order[node] for view in others for user in view.users)


def _with_views(base: Any) -> Iterator[Any]:
    """A node, its views, and the views of these."""
    yield base
    for user in base.users:
        if user.op == "call_function" and may_be_view(user):
            yield from _with_views(user)


def _scattered(graph: Any, view: Any, source: Any, new: Any) -> Any:
    """A node for the source of a view, with a new value for the view; it is inserted after that value."""
    if str(view.meta["val"].shape) == str(source.meta["val"].shape):  # a slice that takes everything
        return new
    operator = getattr(torch.ops.aten, SCATTERS[operator_name(view)]).default
    with graph.inserting_after(new):
        scattered = graph.call_function(operator, (source, new, *view.args[1:]), dict(view.kwargs))
    scattered.meta = {**new.meta, "val": source.meta["val"]}
    return scattered


def _without_single_parts(graph: Any) -> None:
    """Replaces the only part of a tensor that is split into one by the tensor: ONNX has no sequence of one part."""
    splits = operator.attrgetter("chunk.default", "split.Tensor", "split_with_sizes.default")(torch.ops.aten)
    for node in graph.nodes:
        if node.target in splits and len(node.meta["val"]) == 1:
            for part in node.users:
                part.replace_all_uses_with(node.args[0])


def lower_in_place(program: Any, registry: Any) -> bool:
    """Rewrites an exported program; returns whether each operator then has a translation and none writes in place.

    The program computes the same before and after, so one for which this is false can still be traced again by torch.
    """
    graph, signature = program.graph_module.graph, program.graph_signature
    if len(signature.output_specs) != len(signature.user_outputs):
        return False  # it writes into a buffer or an input of the model
    modules = (str(getattr(node.target, "__module__", "")) for node in graph.nodes)
    has_vmap = any(module.startswith(torch_name("functorch").__name__) for module in modules)
    if has_vmap or any(node.op == "get_attr" for node in graph.nodes):
        return False  # torch traces what lies in a `torch.vmap` once more, in other operators
    for node in graph.nodes:  # torch.export can miss a user (the last norm of jina_embeddings_v3)
        for input_ in node.all_input_nodes:
            input_.users.setdefault(node, None)
    _without_single_parts(graph)
    for node in _calls(graph.nodes):
        _rewrite(graph, node)
    for node in reversed(_calls(graph.nodes)):
        # torch keeps random operators and `item`, since these have effects. In ONNX they have none.
        if not node.users and not is_mutable(node):
            graph.erase_node(node)
    untranslated = [node for node in _calls(graph.nodes) if not has_translation(node, registry)]
    is_lowered = not any(map(is_mutable, untranslated)) and decompose_in_place(graph, untranslated, registry)
    for spec, output in zip(signature.output_specs, graph.output_node().args[0], strict=True):
        if hasattr(output, "name"):
            spec.arg.name = output.name  # some outputs are other nodes now
    return is_lowered


def insert_type_promotions(program: Any, registry: Any) -> Any:
    """Inserts a cast at each implicit type promotion, by torch's rules."""
    # torch's pass runs the whole graph once more on fake tensors. Here only the nodes that promote are run.
    module, operators = program.graph_module, _promoting_operators()
    if promoting := [node for node in _calls(module.graph.nodes) if _promotes(node, operators)]:
        values = {node: node.meta["val"] for node in module.graph.nodes if "val" in node.meta}
        pass_ = torch_name("type_promotions")(module, _promotion_table())
        pass_.env.update(values)
        with torch_name("fake_mode_of")(list(values.values())):
            for node in promoting:
                pass_.run_node(node)
                node.target = _translated_overload(node, registry)
    return program


def _translated_overload(node: Any, registry: Any) -> Any:
    """The operator of a node; for tensors alone if it has no translation, or reads a number computed from sizes."""
    types = _types(node.target)
    numbers = [argument for argument, type_ in zip(node.args, types, strict=False) if type_ == "number"]
    if has_translation(node, registry) and not any(hasattr(number, "meta") for number in numbers):
        return node.target
    # That number is a tensor in ONNX: `remainder.Scalar`, whose translation reads a constant, is `remainder.Tensor`.
    of_tensors = ["Tensor" if type_ == "number" else type_ for type_ in types]
    return _overload(node.target.overloadpacket, of_tensors) or node.target


def _rewrite(graph: Any, node: Any) -> None:
    """Replaces a node by one with a translation, or removes it, where this module knows how."""
    name = operator_name(node)
    if name.startswith(("aten::_assert_", "aten::sym_constrain_range")):  # it only checks its inputs
        graph.erase_node(node)
    elif name in ("aten::alias", "aten::detach", "aten::detach_", "aten::lift_fresh_copy"):  # it returns its input
        _replace(graph, node, node.args[0])
    elif name in ("aten::to.device", "aten::to.dtype", "aten::to.dtype_layout", "aten::to.other", "aten::type_as"):
        source, dtype = node.args[0], node.meta["val"].dtype
        if source.meta["val"].dtype == dtype:
            _replace(graph, node, source)
        else:
            node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (source,), {"dtype": dtype}
    elif "upsample_nearest" in name and name.endswith(".vec") and node.args[1] is not None:
        node.args = _by_factors(*node.args)
    elif is_mutable(node):
        write_out_of_place(graph, node)


def _by_factors(image: Any, sizes: Any, *others: Any) -> tuple[Any, ...]:
    """The arguments of a resized image: factors in place of its sizes if each is a known multiple of the old size."""
    new = [getattr(size, "meta", {}).get("val", size) for size in sizes]
    pairs = zip(new, image.meta["val"].shape[2:], strict=True)
    quotients = [factors(after).without(factors(before)) for after, before in pairs]
    numbers = [float(quotient.number) for quotient in quotients if quotient and not quotient.powers]
    return (image, None, numbers) if len(numbers) == len(new) else (image, sizes, *others)


def _replace(graph: Any, node: Any, by: Any) -> None:
    """Replaces a node by another. The program knows its outputs by name: a node that is an output becomes a copy."""
    if any(user.op == "output" for user in node.users):
        node.target, node.args, node.kwargs = torch.ops.aten.clone.default, (by,), {}
    else:
        node.replace_all_uses_with(by)
        graph.erase_node(node)


def _promotes(node: Any, operators: frozenset[str]) -> bool:
    """Whether a node may promote: its tensors are not all of the dtype of its result, or it reads a float or a size."""
    result, name = node.meta.get("val"), operator_name(node).partition(".")[0]
    conditions = {torch.bool} if name == "aten::where" else set()  # a condition takes no part in the promotion
    dtypes = {tensor.dtype for tensor in input_tensors(node)} - conditions
    if name not in operators or not dtypes or not hasattr(result, "dtype"):
        return False
    has_size = any(hasattr(input_.meta.get("val"), "node") for input_ in node.all_input_nodes)
    float_argument = any(isinstance(argument, float) for argument in (*node.args, *node.kwargs.values()))
    floating = any(dtype.is_floating_point for dtype in dtypes)
    return dtypes != {result.dtype} or has_size or (float_argument and not floating)


@cache
def _promoting_operators() -> frozenset[str]:
    """The operators whose inputs are promoted, by torch's own table and `_promotion_table`."""
    rules = torch_name("generated_promotion_rules") | torch_name("extra_promotion_rules")
    return frozenset(f"{rule.namespace}::{rule.op_name}" for rule in rules) | {"aten::pow"}


def _promotion_table() -> Any:
    """Torch's table of rules of type promotion, and the rule of powers, which it lacks: that of remainders."""
    table = torch_name("type_promotion").TypePromotionTable()
    (rule,) = (copy(each) for each in torch_name("generated_promotion_rules") if each.op_name == "remainder")
    rule.op_name = "pow"
    table.add_rule(rule)
    return table
