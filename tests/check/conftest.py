import pytest
import swept


@pytest.fixture
def assert_found(request, record_property):
    """Asserts that no fault is missed, and that the check raises no error that is not documented."""
    import verdicts
    from verdict_counts import MISSED, RAW

    def run(faults, record_as=None):
        results = [verdicts.verdict(fault) for fault in faults]
        record_property("verdicts", [(one.fault.model, one.fault.kind, one.status) for one in results])
        if record_as and request.config.getoption("--record"):
            name = results[0].fault.model
            line = verdicts.recorded(results)

            def with_line(before):
                return {**before, record_as: {**before.get(record_as, {}), name: line}}

            swept.update("mutants", with_line, (record_as, name))
        assert verdicts.lines([one for one in results if one.status in (MISSED, RAW)]) == []
        return results

    return run
