"""The largest difference of two values in terms of JSON; what is not a number must be equal."""

from collections.abc import Mapping
from typing import Any


def largest_difference(given: Any, expected: Any, path: str = "result") -> float:
    """The largest difference of numbers at the same places. AssertionError where anything else differs.

    A mapping may have more keys than the expected one.

    >>> largest_difference({"label": "A", "score": 0.5, "more": 1}, {"label": "A", "score": 0.75})
    0.25
    """
    if isinstance(expected, Mapping):
        missing = expected.keys() - given.keys()
        assert not missing, f"{path} has no {', '.join(sorted(missing))}"
        places = [(given[key], value, f"{path}.{key}") for key, value in expected.items()]
        return max((largest_difference(*place) for place in places), default=0.0)
    if isinstance(expected, (list, tuple)):
        assert len(given) == len(expected), f"{path} has {len(given)} elements, PyTorch {len(expected)}"
        places = [(one, other, f"{path}[{i}]") for i, (one, other) in enumerate(zip(given, expected, strict=True))]
        return max((largest_difference(*place) for place in places), default=0.0)
    if isinstance(expected, float):
        return abs(given - expected)
    assert given == expected, f"{path} is {given!r}, PyTorch's {expected!r}"
    return 0.0
