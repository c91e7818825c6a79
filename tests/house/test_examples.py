from doctest import DocTestFinder, DocTestRunner
from importlib import import_module
from pathlib import Path

import pytest

import onnxfn

PACKAGE = Path(onnxfn.__file__).parent


def modules():
    """All modules of onnxfn, where its functions are defined; not `__main__`, whose import runs the command line."""
    names = (path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py")))
    dotted = (".".join(name.parts).removesuffix(".__init__") for name in names)
    return [import_module(name) for name in dotted if name not in ("onnxfn", "onnxfn.__main__")]


FINDER = DocTestFinder()
EXAMPLES = {module.__name__: [test for test in FINDER.find(module) if test.examples] for module in modules()}
"""The docstrings with examples, by module."""


def test_modules_have_examples():
    with_examples = {name for name, tests in EXAMPLES.items() if tests}
    assert {"onnxfn.specs.axes", "onnxfn.specs.algebra.compose", "onnxfn.specs.plan.planning"} <= with_examples


@pytest.mark.parametrize("module", [name for name, tests in EXAMPLES.items() if tests])
def test_the_examples_of_a_module_are_right(module):
    failures = []
    runner = DocTestRunner(verbose=False)
    for test in EXAMPLES[module]:
        runner.run(test, out=failures.append)
    assert "".join(failures) == ""
    assert runner.tries == sum(len(test.examples) for test in EXAMPLES[module])
