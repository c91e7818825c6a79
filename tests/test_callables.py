"""What of a model a part runs."""

import pytest
from refusals import refusal

from onnxfn.callables import callable_of
from onnxfn.errors import UnknownName


class Model:
    def get_encoder(self):
        return "the encoder"


def own(model):
    return f"of {type(model).__name__}"


def test_nothing_said_is_the_model():
    model = Model()
    assert callable_of(model, None) is model


@pytest.mark.parametrize(("runs", "found"), [("encoder", "the encoder"), (f"{__name__}:own", "of Model")])
def test_a_name_tells_a_part_of_the_model(runs, found):
    assert callable_of(Model(), runs) == found


def test_an_unknown_name_is_refused():
    assert refusal(UnknownName, callable_of, Model(), "encodr") == (
        "no callable 'encodr' for Model; known: encoder; did you mean 'encoder'?"
    )
