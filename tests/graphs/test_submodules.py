"""What of a model a part runs."""

import pytest
from refusals import refusal

from onnxfn.graphs.capture.submodules import submodule_of
from onnxfn.specs.errors import UnknownName


class Model:
    def get_encoder(self):
        return "the encoder"


def own(model):
    return f"of {type(model).__name__}"


def test_nothing_said_is_the_model():
    model = Model()
    assert submodule_of(model, None) is model


@pytest.mark.parametrize(("runs", "found"), [("encoder", "the encoder"), (f"{__name__}:own", "of Model")])
def test_a_name_tells_a_part_of_the_model(runs, found):
    assert submodule_of(Model(), runs) == found


def test_an_unknown_name_is_refused():
    told = refusal(UnknownName, submodule_of, Model(), "encodr")
    assert told.startswith("no submodule 'encodr'; known: encoder, token_embeddings, ")
    assert told.endswith("did you mean 'encoder'?; any other function is written 'package.module:function'")
