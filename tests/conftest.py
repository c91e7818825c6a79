"""What all tests share: the marker of fast tests, the profiles of hypothesis, a cache folder of their own, sweeps."""

import gc
import os
import sys
from functools import cache
from pathlib import Path
from unittest import mock
from uuid import uuid4

import pytest
import swept
from hypothesis import HealthCheck, settings
from slow_tests import SLOW, is_left_to_sweeps

TESTS = Path(__file__).parent

OF_HOUSE = ("house", "import", "private_names")
FAST = ("specs", "architectures/test_families.py", *(f"house/test_{name}.py" for name in OF_HOUSE))
"""Folders and files whose tests run without torch: those that `-m fast` chooses."""

NOT_FAST = (
    *("extra_outputs", "fixed_axes", "hostile_json", "input_edits"),
    *("planning", "real_inputs", "tasks", "token_embeddings"),
)
"""Tests of specs that need torch, or transformers, which imports torch; or that take several seconds."""

# As the command line does: threads of PyTorch that wait for work do not spin. PyTorch reads it when they start.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# It collects garbage more seldom, too: nearly all objects of a trace are in use. Three files took 163 s, not 172.
gc.set_threshold(100_000)

# No deadline for an example: a busy machine is slow, and the laws hold all the same.
settings.register_profile("laws", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("laws"), max_examples=5)
settings.register_profile("many", settings.get_profile("laws"), max_examples=300)
settings.register_profile("single", settings.get_profile("laws"), max_examples=1)
settings.load_profile("laws")


@pytest.fixture(autouse=True)
def seeded():
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def is_fast(path):
    name = path.relative_to(TESTS).as_posix()
    is_slow = name in {f"specs/test_{each}.py" for each in NOT_FAST}
    return any(Path(name).is_relative_to(entry) for entry in FAST) and not is_slow


def pytest_addoption(parser):
    parser.addoption("--left", action="store_true", help="of the sweeps, the pairs without a current result")
    parser.addoption("--record", action="store_true", help="write the results of sweeps to tests/sweeps")
    parser.addoption("--sample", type=int, metavar="N", help="N tests of the sweeps, chosen by the seed")
    parser.addoption("--slow", type=int, metavar="N", help="N of the slow tests, chosen by the seed; all with a path")
    parser.addoption("--seed", default=swept.default_seed(), help="of the sample; the commit unless given")


def pytest_configure(config):
    if config.getoption("--sample") is not None:
        config.option.markexpr = "sweep"
    without_path = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if hasattr(config, "workerinput"):
        config.option.slow = config.workerinput["slow"]
    elif without_path and config.getoption("--slow") is None:
        config.option.slow = 10  # a sample
    if config.option.markexpr == "fast" and not config.getoption("--hypothesis-profile"):
        settings.load_profile("fast")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """A worker gets paths from the run that starts it, also if that has none."""
    node.workerinput["slow"] = node.config.getoption("--slow")


def pytest_report_header(config):
    if config.getoption("--sample") is not None:
        return f"sample of the sweeps: --sample {config.getoption('--sample')} --seed {config.getoption('--seed')}"
    return None


def pytest_ignore_collect(collection_path, config):
    """With `-m fast`, other test files are not imported: they import torch."""
    chosen = config.option.markexpr == "fast" and collection_path.suffix == ".py"
    return True if chosen and not is_fast(collection_path) else None


def pytest_itemcollected(item):
    name = item.nodeid.removeprefix("tests/")
    if is_left_to_sweeps(name):
        item.add_marker("sweep")
    if name in SLOW:
        item.add_marker("slow")
    if is_fast(item.path) and not item.get_closest_marker("sweep"):
        item.add_marker("fast")


def pytest_collection_modifyitems(config, items):
    """Keeps a sample of the sweeps and of the slow tests: over many commits, all of them run."""
    for marker, count in (("sweep", config.getoption("--sample")), ("slow", config.getoption("--slow"))):
        if count is not None:
            marked = {item.nodeid for item in items if item.get_closest_marker(marker)}
            left = marked - swept.sampled(marked, count, config.getoption("--seed"))
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
            items[:] = [item for item in items if item.nodeid not in left]


def pytest_terminal_summary(terminalreporter):
    """How many seeded faults the check found, for each model and for each kind."""
    reports = [report for status in ("passed", "failed") for report in terminalreporter.stats.get(status, ())]
    properties = [value for report in reports for name, value in report.user_properties if name == "verdicts"]
    if every := [tuple(verdict) for several in properties for verdict in several]:
        import verdict_counts

        terminalreporter.section("seeded faults")
        for line in verdict_counts.summary(every):
            terminalreporter.line(line)


@pytest.fixture(scope="module", autouse=True)
def _cache_of_the_module(tmp_path_factory):
    """No fixture of a module reads the cache of another module or of the user: it is made before `_own_environment`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _own_environment(_cache_of_the_module, tmp_path_factory):
    """No test reads the cache of another test or of the user, or a variable that another test set."""
    with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(tmp_path_factory.getbasetemp() / f"cache-{uuid4()}")):
        yield


@pytest.fixture(scope="module")
def exports(request, tmp_path_factory):
    """From a name to `spec_and_model(name)` of the module and the folder of the export, which is made once."""
    import onnxfn

    @cache
    def exported(name):
        spec, model = request.module.spec_and_model(name)
        folder = tmp_path_factory.mktemp("export") / "out"
        onnxfn.export(spec, model, folder, check=False)
        return spec, model, folder

    return exported


def tiny_fixture(model_type, loader):
    """A fixture with a tiny model: one for all tests of a module."""

    def model():
        import tiny

        return tiny.model(model_type, loader)

    return pytest.fixture(scope="module")(model)


bert = tiny_fixture("bert", "AutoModelForMaskedLM")
classifier = tiny_fixture("bert", "AutoModelForSequenceClassification")
llama = tiny_fixture("llama", "AutoModelForCausalLM")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    import tiny

    folder = tmp_path_factory.mktemp("checkpoint")
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def llava():
    import every_part

    return every_part.tiny_model("llava", "image-text-to-text-with-past")


@pytest.fixture(scope="module")
def wide_llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_hidden_layers=2, initializer_range=0.15)).eval()


@pytest.fixture
def only_left(request):
    """With `--left`, skips a pair that has a recorded result: a sweep goes on after an interruption."""

    def skip_recorded(family, model_type, task):
        if request.config.getoption("--left") and swept.is_current(family, model_type, task):
            pytest.skip("the repository has a result of this pair with these versions, and --left chooses the others")

    return skip_recorded


@pytest.fixture
def record(request):
    """`swept.record` with `--record`; without it nothing is written."""
    return swept.record if request.config.getoption("--record") else lambda *_: None
