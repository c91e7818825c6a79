from collections.abc import Callable
from typing import Any

import pytest

from onnxfn.specs.errors import OnnxfnError


def refusal(kind: type[OnnxfnError], call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    assert type(caught.value) is kind
    return str(caught.value)
