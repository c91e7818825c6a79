import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow and says nothing about the laws, so neither the clock of an example nor of its making judges.
settings.register_profile("laws", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    """No test finds what the command line kept for another, or for the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def pytest_addoption(parser):
    parser.addoption("--left", action="store_true", help="of a sweep, those that the repository has no result of")
