"""What a process of the command line imports later, and that it finds everything there."""

import subprocess
import sys

import pytest

from onnxfn.export.deferred_imports import DEFERRED


def run(program):
    """What a program prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


DEFER = "from onnxfn.export.deferred_imports import defer_imports; defer_imports(); import sys;"


HEAVY = {
    "transformers.loss.loss_for_object_detection": "scipy.linalg",
    "torch._functorch.partitioners": "networkx.algorithms",
    "transformers.distributed.checkpoint": "torch.distributed.checkpoint.default_planner",
}
"""From a module that is needed to one that its import needs."""


def test_the_importers_do_not_import_the_modules():
    seen = f"import {', '.join(HEAVY)}; print([each in sys.modules for each in {[*HEAVY.values()]}])"
    assert run(DEFER + seen) == "[False, False, False]"
    assert run("import sys;" + seen) == "[True, True, True]"


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("from scipy.optimize import linear_sum_assignment as f; print(*f([[1, 0], [0, 1]]))", "[0 1] [1 0]"),
        ("import scipy.optimize; print(round(scipy.optimize.brentq(lambda x: x - 2, 0, 5)))", "2"),
        ("import scipy.optimize._zeros_py as z; print(round(z.brentq(lambda x: x - 2, 0, 5)))", "2"),
        ("from networkx import DiGraph; print(len(DiGraph([(1, 2)])))", "2"),
        (
            "import networkx; print(type(networkx.path_graph(3)).__name__, networkx is sys.modules['networkx'])",
            "Graph False",
        ),
    ],
)
def test_what_is_used_is_imported(program, printed):
    assert run(DEFER + program) == printed


def test_a_stand_in_gives_way_to_its_module():
    stands = "sys.modules['networkx'].__spec__.loader is None"
    assert run(f"{DEFER} import networkx; print({stands}); networkx.Graph; print({stands})").split() == [
        "True",
        "False",
    ]


def test_a_module_that_is_imported_or_not_installed_stays_as_it_is():
    assert run("import networkx;" + DEFER + "print(networkx is sys.modules['networkx'])") == "True"
    missing = "from onnxfn.export.deferred_imports import defer_imports as d; d({'no_such_package.part': ('f',)});"
    assert run(missing + "import sys; print('no_such_package.part' in sys.modules)") == "False"


def test_the_names_exist():
    missing = f"print([name for name, names in {dict(DEFERRED)}.items() if not set(names) <= set(dir(i(name)))])"
    assert run(f"from importlib import import_module as i; {missing}") == "[]"
