"""What all tests share: the marker of fast tests, the profiles of hypothesis, a cache folder of their own, sweeps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import swept
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

FAST = (
    "specs",
    "architectures/test_families.py",
    "export/test_lookup.py",
    "house/test_benchmarks.py",
    "house/test_house.py",
    "house/test_import.py",
)
"""Folders and files whose tests run without torch: those that `-m fast` chooses."""

NEEDS_TORCH = (
    "specs/test_extra_outputs.py",
    "specs/test_fixed_axes.py",
    "specs/test_onnx_feeds.py",
    "specs/test_planning.py",
    "specs/test_real_inputs.py",
    "specs/test_tasks.py",
    "specs/test_token_embeddings.py",
)
"""Files of these folders that need torch or transformers, which imports torch."""

# As the command line does: threads of PyTorch that wait for work do not spin. PyTorch reads it when they start.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# No deadline for an example: a busy machine is slow, and the laws hold all the same.
settings.register_profile("laws", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("laws"), max_examples=25)
settings.register_profile("single", settings.get_profile("laws"), max_examples=1)
settings.load_profile("laws")


def is_fast(path):
    """Whether the tests of a file run without torch."""
    name = path.relative_to(TESTS).as_posix()
    return any(Path(name).is_relative_to(entry) for entry in FAST) and name not in NEEDS_TORCH


def pytest_configure(config):
    if config.option.markexpr == "fast" and not config.getoption("--hypothesis-profile"):
        settings.load_profile("fast")


def pytest_ignore_collect(collection_path, config):
    """With `-m fast`, other test files are not imported: they import torch."""
    chosen = config.option.markexpr == "fast" and collection_path.suffix == ".py"
    return True if chosen and not is_fast(collection_path) else None


def pytest_itemcollected(item):
    if is_fast(item.path):
        item.add_marker("fast")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    """No test reads the cache of another test or of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def pytest_collection_modifyitems(items):
    """Longformer is traced first: once, after five thousand tests in one process, it took over ten minutes.

    Why is not known. Another time it took its usual seconds there; torch's cache of fake results was still used then.
    """
    items.sort(key=lambda item: not ("test_rows" in item.nodeid and "longformer" in item.nodeid))


def pytest_addoption(parser):
    parser.addoption("--left", action="store_true", help="of a sweep, those that the repository has no result of")


@pytest.fixture
def only_left(request):
    """Skips what the repository has a result of, where a sweep goes on after an interruption."""

    def skips(family, model_type, task):
        if request.config.getoption("--left") and (model_type, task) in swept.pairs(family):
            pytest.skip("the repository holds the result of this one, and only those left were asked for")

    return skips


def pytest_sessionfinish(session):
    """After a sweep README tells what is covered."""
    if session.config.getoption("markexpr") == "sweep":
        swept.write()
