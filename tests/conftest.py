import os

import pytest
import swept
from hypothesis import HealthCheck, settings

# As the command line does: PyTorch's threads, which read this when they are first needed, do not wait by spinning.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A busy machine is slow and says nothing about the laws, so neither the clock of an example nor of its making judges.
settings.register_profile("laws", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    """No test finds what the command line kept for another, or for the user."""
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
