import pytest
from refusals import refusal

from onnxfn.models.submodules import submodule_of
from onnxfn.specs.errors import UnknownName


class Model:
    def get_encoder(self):
        return "the encoder"


def of_this_file(model):
    return f"of {type(model).__name__}"


def test_no_name_is_the_model():
    model = Model()
    assert submodule_of(model, None) is model


@pytest.mark.parametrize(("name", "submodule"), [("encoder", "the encoder"), (f"{__name__}:of_this_file", "of Model")])
def test_a_name_selects_a_submodule(name, submodule):
    assert submodule_of(Model(), name) == submodule


def test_an_unknown_name_is_refused():
    message = refusal(UnknownName, submodule_of, Model(), "encodr")
    assert message.startswith("no submodule 'encodr'; known: encoder, token_embeddings, ")
    assert message.endswith("did you mean 'encoder'?; any other function is written 'package.module:function'")
