"""What the layers of a model return in a run, so that another run need not compute those before a changed weight."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from attrs import frozen

from onnxfn.models.model_state import model_copy


@frozen(eq=False)
class LayerResults:
    """When each module of a model was first called in a run, and when each layer that ran once returned which value."""

    calls: Mapping[str, int]
    results: Mapping[str, tuple[int, Any]]


def layer_results(model: Any, run: Callable[[Any], Any]) -> LayerResults:
    """The results of the layers in a run of a model, which are the modules of its lists."""
    import torch

    watched, calls, results, count = model_copy(model), dict[str, int](), dict[str, tuple[int, Any]](), Counter[str]()

    def called(name: str) -> None:
        calls.setdefault(name, count.total())
        count[name] += 1

    def returned(name: str, result: Any) -> None:
        results[name] = count.total(), result

    with ExitStack() as hooks:
        for name, module in watched.named_modules():
            hooks.callback(module.register_forward_pre_hook(lambda *_, name=name: called(name)).remove)
            if isinstance(watched.get_submodule(name.rpartition(".")[0]), torch.nn.ModuleList):
                add = module.register_forward_hook
                hooks.callback(add(lambda *values, name=name: returned(name, values[2])).remove)
        run(watched)
    return LayerResults(calls, {name: result for name, result in results.items() if count[name] == 1})


def first_call(known: LayerResults, weights: Iterable[str]) -> int:
    """When a module with one of some weights ran first; 0 if a module that did not run has one."""
    return min(known.calls.get(name.rpartition(".")[0], 0) for name in weights)


def with_results(model: Any, known: LayerResults, weights: Iterable[str]) -> Any:
    """Lets the layers of a copy of a model that returned before modules with some weights ran return the same again."""
    first = first_call(known, weights)
    for name, (end, result) in known.results.items():
        if end <= first:
            model.get_submodule(name).forward = lambda *_, result=result, **__: result
    return model
