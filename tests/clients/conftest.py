"""What tests of clients share: folders of exports, clients that cannot be installed, the record of results."""

import client_results
import pytest
from client_environments import NotInstalledError
from comparing import largest_difference
from running import client_process

LONGEST_ERROR = 200


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def program(request):
    """One process of the client of a file, its CLIENT, for all its tests."""
    with client_process(request.module.CLIENT) as answered:
        yield answered


@pytest.fixture
def note(request):
    """Notes what the record of a test says: client, kind, case, and perhaps flags of the export."""
    noted = {}
    request.node.user_properties.append(("client", noted))
    return noted.update


@pytest.fixture
def assert_close(note):
    """Asserts that a client gives what PyTorch gives, and notes the largest difference."""

    def difference_is_small(given, expected, tolerance=1e-5):
        difference = largest_difference(given, expected)
        note({"difference": difference})
        assert difference <= tolerance

    return difference_is_small


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """A program or a model that is not here and cannot be installed is a reason to skip a test."""
    try:
        return (yield)
    except NotInstalledError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With `--record`, writes the line of a test that noted its client."""
    report = yield
    notes = dict(item.user_properties).get("client")
    is_result = report.when == "call" and notes and (not report.skipped or hasattr(report, "wasxfail"))
    if item.config.getoption("--record") and is_result:
        error = getattr(report, "wasxfail", "") or (first_line(call.excinfo) if report.failed else "")
        line = client_results.line_of(notes, error)
        client_results.record(notes["client"], notes["kind"], notes["case"], line)
    return report


def first_line(caught):
    return str(caught.value).strip().splitlines()[0][:LONGEST_ERROR]


@pytest.fixture(autouse=True)
def _no_gradients():
    import torch

    with torch.no_grad():
        yield
