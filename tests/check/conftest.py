"""What the tests of seeded faults share."""

import pytest
import swept


@pytest.fixture
def assert_found(request, record_property):
    """Asserts that no fault is missed, by no undocumented error; `--record` writes the results under `record_as`."""
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
        not_found = [one for one in results if one.status in (MISSED, RAW)]
        assert verdicts.lines(not_found) == []
        return results

    return run
