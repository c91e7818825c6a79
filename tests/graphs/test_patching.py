"""Patches replace functions of the package that their target names, and of no other."""

import os

from refusals import refusal

from onnxfn.graphs.capture.patching import applied
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import Patch


def apply(target):
    with applied((Patch(target, by="falcon.alibi_bias", why="why"),)):
        pass


def test_a_patch_does_not_reach_through_a_module_that_the_package_imports():
    system = os.system
    assert refusal(InvalidSpec, apply, "torch.serialization:os.system") == (
        "the target of the patch 'torch.serialization:os.system' lies in os: name it there"
    )
    assert os.system is system
