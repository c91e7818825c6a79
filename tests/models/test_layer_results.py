import torch

from onnxfn.models.layer_results import layer_results, with_results
from onnxfn.models.model_state import model_copy


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(4))

    def forward(self, values):
        for layer in (*self.layers, self.layers[-1]):
            values = layer(values).relu()
        return values


def test_layers_before_a_changed_weight_do_not_run_again():
    torch.manual_seed(0)
    model, inputs, ran = Stack().eval(), torch.randn(3, 4), []
    known = layer_results(model, lambda model: model(inputs))
    assert {*known.results} == {"layers.0", "layers.1", "layers.2"}
    changed = model_copy(model)
    changed.layers[2].weight = torch.nn.Parameter(torch.randn(4, 4))
    expected = changed(inputs)
    replayed = with_results(model_copy(changed), known, ["layers.2.weight"])
    for index, layer in enumerate(replayed.layers):
        layer.register_forward_hook(lambda _, __, result, index=index: ran.append((index, result.data_ptr())))
    assert replayed(inputs).equal(expected)
    old = {known.results[f"layers.{index}"][1].data_ptr() for index in (0, 1)}
    assert {pointer for index, pointer in ran if index < 2} == old
    assert old.isdisjoint(pointer for index, pointer in ran if index >= 2)


def test_a_weight_of_a_module_that_no_call_shows_lets_all_layers_run():
    model, inputs = Stack().eval(), torch.randn(3, 4)
    replayed = with_results(model_copy(model), layer_results(model, lambda model: model(inputs)), ["other.weight"])
    assert all("forward" not in vars(layer) for layer in replayed.layers)
