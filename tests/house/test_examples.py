"""Every example in a docstring says what happens."""

from doctest import DocTestFinder, DocTestRunner
from importlib import import_module
from pathlib import Path

import pytest

import onnxfn

PACKAGE = Path(onnxfn.__file__).parent


def modules():
    """Every module of onnxfn but the one that runs the command line when it is imported as a program."""
    names = (path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py")))
    dotted = (".".join(name.parts).removesuffix(".__init__") for name in names)
    return [import_module(name) for name in dotted if not name.endswith("__main__")]


EXAMPLES = {module.__name__: [one for one in DocTestFinder().find(module) if one.examples] for module in modules()}


def test_examples_are_found():
    assert {"onnxfn.specs.axes", "onnxfn.specs.compose", "onnxfn.specs.plan.planning"} <= {
        name for name, found in EXAMPLES.items() if found
    }


@pytest.mark.parametrize("module", [name for name, found in EXAMPLES.items() if found])
def test_the_examples_of_a_module_say_what_happens(module):
    said = []
    runner = DocTestRunner(verbose=False)
    for example in EXAMPLES[module]:
        runner.run(example, out=said.append)
    assert "".join(said) == ""
    assert runner.tries == sum(len(example.examples) for example in EXAMPLES[module])
