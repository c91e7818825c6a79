"""How onnxfn is built: no inheritance, no state, imports in one direction, short functions, few imports, few lines."""

import ast
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "onnxfn"
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}

ROOMS = ("specs", "architectures", "weights", "models", "graphs", "run", "check", "export")
"""The folders of the package. Each imports only from itself and from those before it."""

PUBLIC = (
    *("batch", "edits", "errors", "facts", "families"),
    *("optimum", "programs", "quantization", "records", "results", "sources"),
)
"""The modules of public names. Each is a list of names."""

OUTSIDE = ("__init__", "__main__", *PUBLIC)
"""The files at the top of the package: they import from any folder, and no folder imports from them."""

TEXTS = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", ".gitignore"}
TOP_LEVEL = {"pyproject.toml", "onnxfn", "tests", "benchmarks", ".ci", *TEXTS}
LONGEST_FUNCTION, MOST_IMPORTS, MOST_FILES = 60, 25, 20

BUDGET = {
    "specs": 9_812,
    "architectures": 8_055,
    "weights": 2_894,
    "models": 1_815,
    "graphs": 8_503,
    "run": 1_329,
    "check": 6_118,
    "export": 12_121,
}
"""The most lines of Python of each folder. It only goes down: who needs more finds what to merge."""

EXCEPTION_ENDINGS = ("Error", "Exception", "Warning")
EXCEPTIONS = {node.name for node in ast.walk(ast.parse(SOURCES["specs/errors.py"])) if isinstance(node, ast.ClassDef)}
MUTABLE = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
MUTABLE_CONSTRUCTORS = {"dict", "list", "set", "bytearray", "sorted", "defaultdict", "deque", "Counter", "OrderedDict"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def nodes(source):
    return tuple(ast.walk(ast.parse(source)))


def last_name(node):
    """`c` of `a.b.c`, of `c`, and of `a.c[int]`."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(value=value):
            return last_name(value)
    return ""


def classes(source):
    return [node for node in nodes(source) if isinstance(node, ast.ClassDef)]


def is_exception(base):
    return last_name(base).endswith(EXCEPTION_ENDINGS) or last_name(base) in EXCEPTIONS


# The rules: (name of the file, its source) -> what is wrong with it


def inheritance(name, source):
    """No class has a base, exception types excepted."""
    for class_ in classes(source):
        for base in (*class_.bases, *(keyword.value for keyword in class_.keywords)):
            if not is_exception(base):
                yield f"{name}:{class_.lineno}: class {class_.name} inherits from {ast.unparse(base)}"
    for node in nodes(source):
        if isinstance(node, ast.Call) and last_name(node.func) == "type" and len(node.args) > 1:
            yield f"{name}:{node.lineno}: a class is created by a call of type"


def unfrozen(name, source):
    """Every class is a frozen record of attrs, by `frozen` or `record`, exception types excepted."""
    froms = [node for node in nodes(source) if isinstance(node, ast.ImportFrom)]
    known = {alias.name for node in froms if node.module in ("attrs", "onnxfn.specs.record") for alias in node.names}
    for class_ in classes(source):
        decorators = [getattr(node, "func", node) for node in class_.decorator_list]
        names = [getattr(node, "id", "") for node in decorators]
        frozen = names in (["frozen"], ["record"]) and known.issuperset(names)
        if not frozen and not (class_.bases and all(map(is_exception, class_.bases))):
            yield f"{name}:{class_.lineno}: class {class_.name} is not attrs.frozen, and that alone"


def global_statements(name, source):
    """No function rebinds a name of its module."""
    for node in nodes(source):
        if isinstance(node, ast.Global):
            yield f"{name}:{node.lineno}: global {', '.join(node.names)}"


def outside_functions(tree):
    """The statements that run at import, also those in class bodies and branches."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, FUNCTIONS):
            yield node
            yield from outside_functions(node)


def is_mutable(value):
    match value:
        case ast.BinOp(left=left, right=right):
            return is_mutable(left) or is_mutable(right)
        case ast.IfExp(body=body, orelse=other):
            return is_mutable(body) or is_mutable(other)
        case ast.Tuple(elts=several) | ast.BoolOp(values=several):
            return any(map(is_mutable, several))
        case ast.Call(func=function):
            return last_name(function) in MUTABLE_CONSTRUCTORS
    return isinstance(value, MUTABLE)


def mutable_values(name, source):
    """No module and no class has a mutable value."""
    for node in outside_functions(nodes(source)[0]):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and is_mutable(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield f"{name}:{node.lineno}: {', '.join(map(ast.unparse, targets))} is mutable"


def room(name):
    """The folder of a file, or the file itself at the top of the package: `graphs` for graphs/passes/naming.py."""
    return name.removesuffix(".py").split("/")[0]


def imported(node):
    """The folders that a statement imports from: `__init__` where it takes a name of the package itself."""
    match node:
        case ast.Import(names=names):
            paths = [alias.name.split(".") for alias in names]
        case ast.ImportFrom(module="onnxfn", names=names, level=0):
            paths = [["onnxfn", alias.name] if alias.name in ROOMS else ["onnxfn"] for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            paths = [module.split(".")]
        case ast.ImportFrom():
            paths = [["onnxfn", "a relative import"]]
        case _:
            paths = []
    return [(*path, "__init__")[1] for path in paths if path[0] == "onnxfn"]


def downward_imports(name, source):
    """A module imports only from its own folder and those before it, under `if TYPE_CHECKING` and in functions too."""
    own = room(name)
    if own not in (*ROOMS, *OUTSIDE):
        yield f"{name}: {own} is not one of the folders {', '.join(ROOMS)}"
        return
    allowed = (*ROOMS, "__init__") if own in OUTSIDE else ROOMS[: ROOMS.index(own) + 1]
    for node in nodes(source):
        for other in imported(node):
            if other not in allowed:
                yield f"{name}:{node.lineno}: {own} imports {other}, which is not before it"


def module_name(name):
    """`onnxfn.graphs.passes.naming` for graphs/passes/naming.py, `onnxfn.specs` for specs/__init__.py."""
    return ".".join(["onnxfn", *name.removesuffix(".py").removesuffix("__init__").strip("/").split("/")]).rstrip(".")


def imported_modules(source):
    """The modules of the package that a source imports, also inside functions."""
    modules = {module_name(name) for name in SOURCES}
    for node in nodes(source):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def cycle(graph):
    """The modules of an import cycle of `{module: the modules that it imports}`; empty if there is none."""
    visited, path = set(), []

    def visit(module):
        if module in path:
            return path[path.index(module) :]
        if module in visited:
            return ()
        path.append(module)
        inner = next(filter(None, map(visit, graph.get(module, ()))), ())
        path.pop()
        visited.add(module)
        return inner

    return tuple(next(filter(None, map(visit, graph)), ()))


def long_functions(name, source):
    """No function is longer than a screen, its docstring excepted."""
    for node in nodes(source):
        if isinstance(node, FUNCTIONS):
            lines = node.end_lineno - node.lineno + 1 - docstring_lines(node)
            if lines > LONGEST_FUNCTION:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines"


def docstring_lines(node):
    first = node.body[0]
    return first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0


def many_imports(name, source):
    """No file imports more modules than a reader can look up."""
    count = len({module for module in imported_modules(source) if module != "__future__"})
    if count > MOST_IMPORTS:
        yield f"{name}: imports {count} modules"


VAGUE = frozenset(
    {"one", "made", "told", "said", "kept", "found", "beside", "given", "asked", "there", "done", "place"}
)
"""Words that do not say what a value is. `zero, one` in translations.py are the numbers."""


def vague_names(name, source):
    """No variable, parameter or function has a name that does not say what it holds."""
    for node in nodes(source):
        match node:
            case ast.Name(id=word, ctx=ast.Store()) | ast.arg(arg=word):
                pass
            case ast.FunctionDef(name=word):
                word = word.lstrip("_")
            case _:
                continue
        if word in VAGUE and not name.endswith("graphs/translations/translations.py"):
            yield f"{name}:{node.lineno}: {word} does not say what it is"


BROAD = {"Exception", "BaseException", "INPUT_REFUSALS"}
"""The names of exceptions that MemoryError is one of, or the RuntimeError of torch's allocator."""

REPORTS_ANY_ERROR = ("export/cli/flags.py", "export/batch/server.py", "export/batch/many.py", "export/run/events.py")
"""Files that tell the caller about every error, MemoryError too."""


def swallowed_memory_errors(name, source):
    """What catches every exception raises it again, or asks first whether memory is short."""
    for node in nodes(source):
        is_broad = isinstance(node, ast.ExceptHandler) and (
            node.type is None or BROAD & {last_name(each) for each in ast.walk(node.type)}
        )
        is_suppressed = isinstance(node, ast.Call) and last_name(node.func) == "suppress"
        if is_suppressed and BROAD & {last_name(each) for each in node.args}:
            yield f"{name}:{node.lineno}: memory errors are suppressed"
        if not is_broad or name in REPORTS_ANY_ERROR:
            continue
        first, last = node.body[0], node.body[-1]
        asks = isinstance(first, ast.Expr) and isinstance(first.value, ast.Call)
        asks = asks and last_name(first.value.func) == "raise_no_memory"
        if not asks and not (isinstance(last, ast.Raise) and last.exc is None):
            yield f"{name}:{node.lineno}: memory errors do not come through"


def strays(paths):
    return sorted({path.split("/")[0] for path in paths} - TOP_LEVEL)


def test_the_sources_are_all_files_of_the_package():
    assert {"specs/axes.py", "graphs/passes/naming.py", "architectures/text.py"} <= set(SOURCES)


@pytest.mark.parametrize("folder", ROOMS)
def test_a_folder_keeps_to_its_budget_of_lines_and_the_budget_follows_it_down(folder):
    lines = sum(len(source.splitlines()) for name, source in SOURCES.items() if room(name) == folder)
    assert BUDGET[folder] - 300 <= lines <= BUDGET[folder]


def test_the_package_has_at_most_8_folders_two_modules_and_lists_of_names():
    others = {"__pycache__", "py.typed", "README.md", "__init__.pyi", "guide"}
    assert {path.name for path in PACKAGE.iterdir()} - others == {*ROOMS, *(f"{name}.py" for name in OUTSIDE)}
    assert len(ROOMS) <= 8


def test_no_module_imports_itself_through_others():
    assert cycle({module_name(name): set(imported_modules(source)) for name, source in SOURCES.items()}) == ()


def test_no_folder_imports_itself_through_others():
    folders = {module_name(name): module_name(f"{Path(name).parent}/") for name in SOURCES if room(name) not in OUTSIDE}
    imports = {}
    for name, source in SOURCES.items():
        if module_name(name) in folders:
            own = folders[module_name(name)]
            others = {folders[module] for module in imported_modules(source) if module in folders}
            imports.setdefault(own, set()).update(others - {own})
    assert cycle(imports) == ()


def test_a_folder_has_at_most_20_files():
    folders = Counter(Path(name).parent for name in SOURCES if not name.endswith("__init__.py"))
    assert {str(folder): count for folder, count in folders.items() if count > MOST_FILES} == {}


def test_a_cycle_is_found():
    assert set(cycle({"a": ["b"], "b": ["c"], "c": ["d", "b"], "d": []})) == {"b", "c"}
    assert cycle({"a": ["b", "c"], "b": ["c"], "c": []}) == ()


@pytest.mark.parametrize("folder", sorted({path.parent for path in PACKAGE.rglob("*.py")}), ids=lambda path: path.name)
def test_a_folder_of_more_than_five_files_has_a_short_readme(folder):
    files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    if len(files) > 5 or (folder != PACKAGE and folder.parent == PACKAGE):
        assert len((folder / "README.md").read_text().splitlines()) <= 40


def test_there_is_no_stray_entry_at_the_top_of_the_repository():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, text=True)
    assert strays(tracked.stdout.splitlines()) == []
    assert "pyproject.toml" in tracked.stdout


# The rules hold, and find what they forbid

UNFROZEN, LATER = "is not attrs.frozen, and that alone", ", which is not before it"
SWALLOWED = ": memory errors do not come through"
VIOLATIONS = {
    inheritance: [
        ("class A(B): ...", "axes.py:1: class A inherits from B"),
        ("class A(torch.nn.Module): ...", "axes.py:1: class A inherits from torch.nn.Module"),
        ("class A(Generic[T]): ...", "axes.py:1: class A inherits from Generic[T]"),
        ("class A(metaclass=Meta): ...", "axes.py:1: class A inherits from Meta"),
        ("def f():\n  class A(B): ...", "axes.py:2: class A inherits from B"),
        ("A = type('A', (B,), {})", "axes.py:1: a class is created by a call of type"),
    ],
    unfrozen: [
        ("class A: ...", f"axes.py:1: class A {UNFROZEN}"),
        ("from attrs import define\n@define\nclass A: ...", f"axes.py:3: class A {UNFROZEN}"),
        ("from attrs import frozen\n@frozen\n@final\nclass A: ...", f"axes.py:4: class A {UNFROZEN}"),
        ("from dataclasses import dataclass as frozen\n@frozen\nclass A: ...", f"axes.py:3: class A {UNFROZEN}"),
    ],
    global_statements: [("def f():\n  global a, b", "axes.py:2: global a, b")],
    mutable_values: [
        ("A = {}", "axes.py:1: A is mutable"),
        ("A: object = []", "axes.py:1: A is mutable"),
        ("a = b = {1}", "axes.py:1: a, b is mutable"),
        ("A = dict(a=1)", "axes.py:1: A is mutable"),
        ("A = collections.defaultdict(int)", "axes.py:1: A is mutable"),
        ("A = [b for b in c]", "axes.py:1: A is mutable"),
        ("A = B | {'c': 1}", "axes.py:1: A is mutable"),
        ("A = (1, [])", "axes.py:1: A is mutable"),
        ("if a:\n  A = {}", "axes.py:2: A is mutable"),
        ("class A:\n  b = {}", "axes.py:2: b is mutable"),
    ],
    downward_imports: [
        ("from onnxfn.weights.chunks import chunks", f"specs/axes.py:1: specs imports weights{LATER}"),
        (
            "if TYPE_CHECKING:\n  from onnxfn.graphs.build_options import BuildOptions",
            f"specs/axes.py:2: specs imports graphs{LATER}",
        ),
        ("def f():\n  import onnxfn.graphs.passes.naming", f"weights/chunks.py:2: weights imports graphs{LATER}"),
        ("from onnxfn import export, specs", f"specs/axes.py:1: specs imports export{LATER}"),
        ("from onnxfn import compose", f"export/cli/commands.py:1: export imports __init__{LATER}"),
        ("import onnxfn", f"export/cli/commands.py:1: export imports __init__{LATER}"),
        ("from . import errors", f"specs/axes.py:1: specs imports a relative import{LATER}"),
        ("", "utils.py: utils is not one of the folders " + ", ".join(ROOMS)),
    ],
    long_functions: [
        ("def f():" + "\n  a" * 60, "axes.py:1: f has 61 lines"),
        ("def g():\n async def f():" + "\n  a" * 60, "axes.py:1: g has 62 lines", "axes.py:2: f has 61 lines"),
    ],
    vague_names: [
        ("one = 1", "axes.py:1: one does not say what it is"),
        ("def f(told): ...", "axes.py:1: told does not say what it is"),
        ("def _made(): ...", "axes.py:1: made does not say what it is"),
    ],
    many_imports: [("".join(f"import a{n}\n" for n in range(26)), "axes.py: imports 26 modules")],
    swallowed_memory_errors: [
        (
            "try: a()\nexcept Exception as error: b(error)\ntry: a()\nexcept: pass",
            f"axes.py:2{SWALLOWED}",
            f"axes.py:4{SWALLOWED}",
        ),
        ("with suppress(Exception): a()", "axes.py:1: memory errors are suppressed"),
        ("try: a()\nexcept (A, Exception):\n  if b: raise", f"axes.py:2{SWALLOWED}"),
    ],
}
"""The rules, and from each to sources that break it, with its complaints, which start with the name of the file."""


@pytest.mark.parametrize("rule", VIOLATIONS, ids=lambda rule: rule.__name__)
def test_a_rule_holds(rule):
    assert [complaint for name, source in SOURCES.items() for complaint in rule(name, source)] == []


@pytest.mark.parametrize(
    ("rule", "violation"),
    [pytest.param(rule, case, id=f"{rule.__name__}-{case[0]}") for rule, cases in VIOLATIONS.items() for case in cases],
)
def test_a_rule_finds_a_violation(rule, violation):
    source, *complaints = violation
    assert list(rule(complaints[0].partition(":")[0], source)) == complaints


def test_a_stray_entry_is_found():
    assert strays(["onnxfn/axes.py", "docs/index.md", "setup.cfg", ".ci/run"]) == ["docs", "setup.cfg"]
