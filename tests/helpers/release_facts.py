"""What onnxfn uses of a version of transformers, torch or onnxruntime: names, signatures and fields, from its sources.

Facts are `{group: {name: items}}`; the items of a function are its parameters, those of a class its fields. Nothing of
the version is imported: an unpacked wheel is enough. Onnxruntime is compiled, and `ONNXRUNTIME` asks it instead.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MODELS = "transformers.models."
NAMES = "names in onnxfn"

ONNXRUNTIME = """
import json, onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

def public(value):
    return [name for name in sorted(dir(value)) if not name.startswith("_")]

values = {name: getattr(onnxruntime, name) for name in public(onnxruntime)}
newest = {}
for operator in state.get_all_operator_schema():
    name = f"{operator.domain or 'ai.onnx'}:{operator.name}"
    newest[name] = max((operator.since_version, [x.name for x in operator.inputs]), newest.get(name, (0, [])))
kernels = {}
for kernel in state.get_all_opkernel_def():
    name = f"{kernel.provider} {kernel.domain or 'ai.onnx'}:{kernel.op_name} of version {kernel.version_range[0]}"
    types = [f"{name}: {type}" for name, types in kernel.type_constraints.items() for type in types]
    kernels[name] = sorted({*kernels.get(name, ()), *types})
print(json.dumps({
    "attributes": {name: public(value) if isinstance(value, type) else [] for name, value in values.items()},
    "operators": {name: [f"version {version}", *inputs] for name, (version, inputs) in newest.items()},
    "kernels": kernels,
    "providers": {name: [] for name in state.get_all_providers()},
}))
"""
"""A program that prints the facts of the onnxruntime that it imports."""


def sources(folder):
    """{module: text} of a package of Python."""
    files = sorted(path for suffix in ("*.pyi", "*.py") for path in folder.rglob(suffix))
    return {module_name(path.relative_to(folder.parent)): path.read_text(errors="replace") for path in files}


def module_name(path):
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def parameters(function):
    """The names of the parameters of a function, with the stars of those that have one."""
    arguments = function.args
    starred = [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    last = [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return [*named, *starred, *(argument.arg for argument in arguments.kwonlyargs), *last]


def methods(class_):
    return {node.name: parameters(node) for node in class_.body if isinstance(node, FUNCTIONS)}


def fields(class_):
    return [node.target.id for node in class_.body if isinstance(node, ast.AnnAssign)]


def items(node):
    """The parameters of a function, or of how an object of a class is made; nothing of another value."""
    if isinstance(node, ast.ClassDef):
        return methods(node).get("__init__") or fields(node)
    return parameters(node) if isinstance(node, FUNCTIONS) else []


def statements(node):
    """The statements of a module, those within `if` and `try` too."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, (ast.If, ast.Try, ast.ExceptHandler)):
            yield from statements(child)


def definitions(text):
    """{name: node} of what a module defines, imports excepted."""
    nodes = list(statements(ast.parse(text)))
    named = {node.name: node for node in nodes if isinstance(node, (ast.ClassDef, *FUNCTIONS))}
    assigned = [(target, node) for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    assigned += [(node.target, node) for node in nodes if isinstance(node, ast.AnnAssign)]
    return {target.id: node for target, node in assigned if isinstance(target, ast.Name)} | named


# The names that onnxfn uses


def chain(node):
    """`("torch", "nn", "Module")` of `torch.nn.Module`; nothing of another expression."""
    if isinstance(node, ast.Name):
        return (node.id,)
    above = chain(node.value) if isinstance(node, ast.Attribute) else ()
    return (*above, node.attr) if above else ()


def names_in(text, package):
    """The names of a package that a source uses: `torch.nn.Module`, whatever the source calls it."""
    nodes, local = list(ast.walk(ast.parse(text))), {}
    for node in nodes:
        if isinstance(node, ast.Import):
            local |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names if each.asname}
            local |= {each.name.partition(".")[0]: each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            local |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    chains = [chain(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute))]
    used = {".".join((local[first], *rest)) for first, *rest in filter(None, chains) if first in local}
    return {name for name in used if name.startswith(f"{package}.") and not name.startswith("torch.ops.")}


def paths_in_specs(package):
    """The paths `package.module:name` that rows, patches of derived specs and the tables of private names hold."""
    from declared_specs import specs_for_derivation, specs_of_rows

    from onnxfn.architectures.patch_table import PATCHES
    from onnxfn.architectures.private import torch_names, transformers_names

    specs = [*specs_of_rows(), *specs_for_derivation()]
    paths = {patch.name for spec in specs for patch in spec.call.patches} | {name for name in PATCHES if ":" in name}
    for module in (torch_names, transformers_names):
        paths |= {*module.NAMES.values(), *(f"{path}.{name}" for name, path in module.ATTRIBUTES.items())}
    return {path.replace(":", ".") for path in paths if path.startswith((f"{package}.", f"{package}:"))}


def used_names(package):
    texts = sources(ROOT / "onnxfn").values()
    return set().union(paths_in_specs(package), *(names_in(text, package) for text in texts))


def owners(texts):
    """{name: modules} of what the modules of a package define: some name it lazily elsewhere."""
    found = {}
    for module, text in texts.items():
        for name in re.findall(r"^(?:class|def|async def) (\w+)|^(\w+)\s*[:=]", text, re.MULTILINE):
            found.setdefault(name[0] or name[1], []).append(module)
    return found


def found_names(names, texts):
    owner_of, known = owners(texts), {}
    for name in sorted(names):
        parts = name.split(".")
        module = next(".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in texts)
        if module == name:
            known[name] = []
            continue
        first, *rest = name.removeprefix(f"{module}.").split(".")
        for owner in (module, *(other for other in owner_of.get(first, ()) if other != module)):
            definition = definitions(texts[owner]).get(first) if first in texts[owner] else None
            if definition is not None:
                known |= members(name, definition, rest, texts)
                break
    return known


def members(name, definition, rest, texts):
    """{name: items} of a definition, or of a member; a member that the class does not define is somewhere above it."""
    if not rest:
        return {name: items(definition)}
    own = methods(definition) if isinstance(definition, ast.ClassDef) else {}
    if rest[0] in own:
        return {name: own[rest[0]]}
    return {name: []} if any(re.search(rf"\b{rest[0]}\b", text) for text in texts.values()) else {}


# Facts


def models(texts):
    modules = filter(re.compile(r"\.(modeling|configuration)_\w+$").search, texts)
    defined = [(module, node) for module in modules for node in definitions(texts[module]).values()]
    classes = {(module, node.name): node for module, node in defined if isinstance(node, ast.ClassDef)}
    named = {name: node for (_, name), node in classes.items()}
    forward, outputs, configurations = {}, {}, {}
    for (module, name), node in classes.items():
        kept = configurations if ".configuration_" in module else outputs if "Output" in name else {}
        kept[f"{short(module)}.{name}"] = list(dict.fromkeys(chain_of(node, named, fields)))
        forward[f"{short(module)}.{name}"] = chain_of(
            node, named, lambda each: methods(each).get("forward", []), first=True
        )
    groups = {"`forward`": forward, "fields of outputs": outputs, "fields of configurations": configurations}
    return {group: {name: got for name, got in each.items() if got} for group, each in groups.items()}


def chain_of(class_, named, items_of, *, first=False, above=()):
    """The items of a class after those of the classes above it; with `first`, of the first class that has some."""
    own = items_of(class_)
    if first and own:
        return own
    names = [chain(base)[-1] for base in class_.bases if chain(base)]
    bases = [named[name] for name in names if name in named and name not in above]
    inherited = [chain_of(base, named, items_of, first=first, above=(*above, class_.name)) for base in bases]
    return next(filter(None, inherited), []) if first else [*(item for each in inherited for item in each), *own]


def short(module):
    """`bert` of `transformers.models.bert.modeling_bert`."""
    return re.sub(r"^transformers\.(models\.)?|\.(modeling|configuration)_\w+$", "", module)


def patched_functions(texts):
    """{name: parameters} of the functions that patches of derived specs replace, in each module that defines one."""
    from onnxfn.architectures.patch_table import PATCHES

    names = {name.rpartition(":")[2] for name in PATCHES}
    word = re.compile(rf"^\s*def ({'|'.join({name.rpartition('.')[2] for name in names})})\(", re.MULTILINE)
    named = [module for module, text in texts.items() if ".modular_" not in module and word.search(text)]
    found = {name: got for module in named for name, got in members_of([module], texts).items()}
    return {name: got for name, got in found.items() if name.partition(".")[2] in names}


def tables(texts):
    """{table: model types with their classes} of transformers' auto classes."""
    found = {}
    for module in ("auto_mappings", "configuration_auto", "modeling_auto"):
        for name, node in definitions(texts.get(f"{MODELS}auto.{module}", "")).items():
            pairs = [pair.elts for pair in ast.walk(node) if isinstance(pair, ast.Tuple) and len(pair.elts) == 2]
            written = [each for each in ast.walk(node) if isinstance(each, ast.Dict)]
            pairs += [pair for each in written for pair in zip(each.keys, each.values, strict=True)]
            words = [": ".join(map(ast.unparse, pair)) for pair in pairs if isinstance(pair[0], ast.Constant)]
            found |= {f"{name} {word}".replace("'", ""): [] for word in words if name.endswith("MAPPING_NAMES")}
    return found


def members_of(modules, texts):
    """{name: parameters} of the functions and methods of some modules."""
    found = {}
    for module in modules:
        for name, node in definitions(texts.get(module, "")).items():
            found[f"{short(module)}.{name}"] = items(node)
            own = methods(node) if isinstance(node, ast.ClassDef) else {}
            found |= {f"{short(module)}.{name}.{method}": got for method, got in own.items()}
    return found


def facts(package, folder):
    texts = sources(folder)
    found = {NAMES: found_names(used_names(package), texts)}
    if package != "transformers":
        return found
    caches = members_of(("transformers.cache_utils", "transformers.masking_utils"), texts)
    patched = {"functions in PATCHES": patched_functions(texts)}
    return {**found, **patched, **models(texts), "caches and masks": caches, "auto tables": tables(texts)}
