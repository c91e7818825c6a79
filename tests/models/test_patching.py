"""Patches replace functions of the package that their target names, and of no other."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from operator import methodcaller
from types import ModuleType

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from other_threads import in_another_thread
from refusals import refusal

import onnxfn
from onnxfn.models.patching import applied, original, replaced
from onnxfn.specs.records import Patch


def apply(target, by="attention.alibi_bias"):
    with applied((Patch(target, by=by, why="why"),)):
        pass


def test_a_patch_does_not_reach_through_a_module_that_the_package_imports():
    system = os.system
    message = refusal(onnxfn.InvalidSpec, apply, "torch.serialization:os.system")
    assert message == "the target of the patch 'torch.serialization:os.system' lies in os: name it there"
    assert os.system is system


def test_a_patch_by_an_unknown_function_keeps_its_error_and_leaves_the_target():
    import transformers.models.bert.modeling_bert as module

    before = dict(vars(module))
    assert refusal(onnxfn.UnknownName, apply, f"{module.__name__}.nope", "nope").startswith("no patch 'nope'; known: ")
    assert vars(module) == before


def test_a_patch_of_a_module_that_does_not_exist_is_an_unknown_name():
    message = refusal(onnxfn.UnknownName, apply, "transformers.models.nope.f")
    assert message.startswith("target of a patch 'transformers.models.nope.f': module 'transformers.models.nope' ca")


def zeros(_, tensor):
    return tensor * 0


def test_a_patch_of_a_function_that_the_model_does_not_call_is_refused(tmp_path):
    """The layers hold the function that they were built with, so that a patch of its module does nothing."""
    model = tiny.model("bert", "AutoModel")
    unread = onnxfn.patched("torch.nn.functional:gelu", by=f"{__name__}:zeros", why="a test")
    spec = onnxfn.compose(onnxfn.spec_for("bert", "feature-extraction"), unread)
    message = (
        "the patch of torch.nn.functional:gelu has no effect: BertModel does not call that; patch what it calls, such "
        "as package.module:Class.forward, or a function in the module that imports it"
    )
    assert refusal(onnxfn.InvalidSpec, onnxfn.export, spec, model, tmp_path / "out") == message
    read = onnxfn.patched("transformers.activations:GELUActivation.forward", by=f"{__name__}:zeros", why="a test")
    with pytest.raises(onnxfn.CheckFailed):
        onnxfn.export(onnxfn.compose(onnxfn.spec_for("bert", "feature-extraction"), read), model, tmp_path / "out")


# An attribute that several threads replace: each sees its own, and at the end the original is back

THREADS = 3
STEPS = st.lists(st.tuples(st.integers(0, THREADS - 1), st.booleans()), max_size=24)
"""Which thread moves, and whether it enters a replacement or leaves its last one."""

KINDS = ("function", "method", "static", "inherited", "attribute", "property", "missing", "python", "lazy")


def nothing():
    return ()


def owner_of(kind):
    """A module or class, the name of an attribute, a function that reads it, and what that returns unreplaced."""
    if kind in ("function", "missing", "python", "lazy"):
        module, name = ModuleType("a_module"), "len" if kind == "python" else "f"
        if kind == "function":
            module.f = nothing
        if kind == "lazy":
            module.__getattr__ = {"f": nothing}.__getitem__
        if kind == "python":
            return module, name, partial(eval, "len(())", vars(module)), 0
        return module, name, partial(methodcaller(name), module), AttributeError if kind == "missing" else ()
    bodies = {
        "method": {"f": lambda _: ()},
        "static": {"f": staticmethod(lambda: ())},
        "attribute": {"__init__": lambda self: vars(self).update(f=())},
        "property": {"f": property(lambda _: ())},
    }
    parent = type("Parent", (), {"f": lambda _: ()} if kind == "inherited" else {})
    class_ = type("Class", (parent,), bodies.get(kind, {}))
    return class_, "f", lambda: class_().f if kind in ("attribute", "property") else class_().f(), ()


def replacement(kind, number, before):
    """What returns its number, and after it what a function that it read before returns, as far as there is one."""
    if kind in ("attribute", "property"):
        return property(lambda _: number)
    calls_before = callable(before) and kind in ("function", "lazy")
    return lambda *_: (number, *before()) if calls_before else number


def outcome(call):
    try:
        return call()
    except AttributeError as error:
        return type(error)


def expected(kind, numbers, unreplaced):
    if not numbers:
        return unreplaced
    return tuple(reversed(numbers)) if kind in ("function", "lazy") else numbers[-1]


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
def test_each_thread_sees_its_last_replacement_and_at_the_end_the_original_is_back(kind, steps):
    owner, name, call, unreplaced = owner_of(kind)
    before, is_stored = vars(owner).get(name), name in vars(owner)
    entered = [[] for _ in range(THREADS)]
    with ExitStack() as pools:
        threads = [pools.enter_context(ThreadPoolExecutor(1)) for _ in range(THREADS)]

        def enter(thread, number):
            context = replaced(owner, name, replacement(kind, number, getattr(owner, name, None)))
            context.__enter__()
            entered[thread].append((number, context))

        def leave(thread):
            _, context = entered[thread].pop()
            context.__exit__(None, None, None)

        def check():
            for thread, pool in enumerate(threads):
                numbers = [number for number, _ in entered[thread]]
                assert pool.submit(outcome, call).result() == expected(kind, numbers, unreplaced)
            assert outcome(call) == unreplaced

        for number, (thread, enters) in enumerate(steps):
            if enters or entered[thread]:
                threads[thread].submit(*((enter, thread, number) if enters else (leave, thread))).result()
                check()
        for thread, pool in enumerate(threads):
            while entered[thread]:
                pool.submit(leave, thread).result()
                check()
    assert vars(owner).get(name) is before
    assert (name in vars(owner)) == is_stored


def test_a_stand_in_that_another_function_holds_is_the_original_later():
    owner, _, call, _ = owner_of("function")
    with replaced(owner, "f", lambda: "replaced"):
        held = owner.f
        assert held() == "replaced"
    assert held() == call() == ()


def test_what_a_class_of_other_threads_has_takes_writes_and_deletions():
    class_ = type("Class", (), {})
    instance = class_()
    with replaced(class_, "f", property(lambda _: "replaced")):
        instance.f = "own"
        assert instance.f == "replaced"
        assert in_another_thread(lambda: instance.f) == "own"
        del instance.f
        with pytest.raises(AttributeError):
            del instance.f
    assert not hasattr(instance, "f")


def test_a_property_keeps_its_own_rule_for_writes():
    class_ = type("Class", (), {"f": property(lambda self: self.g, lambda self, value: setattr(self, "g", value))})
    instance = class_()
    with replaced(class_, "f", property(lambda _: "replaced")):
        instance.f = "written"
    assert instance.f == instance.g == "written"


def test_an_attribute_that_the_program_sets_meanwhile_stays():
    owner, _, _, _ = owner_of("function")
    with replaced(owner, "f", lambda: "replaced"):
        owner.f = tuple
    assert owner.f is tuple


def test_the_original_is_known_while_it_is_replaced():
    module, class_ = ModuleType("a_module"), type("Class", (), {"f": staticmethod(len)})
    child = type("Child", (class_,), {})
    module.f = len
    with replaced(module, "f", max), replaced(class_, "f", max), replaced(module, "g", max), replaced(sys, "h", max):
        assert original(module, "f") is len
        assert original(class_, "f") is original(child, "f") is vars(class_)["f"].before[0]
        assert original(module, "g") is original(class_, "g") is None
    assert original(child, "f").__func__ is len
