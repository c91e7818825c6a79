"""What onnxfn needs of the private names of other packages: a version that lacks it fails here."""

import inspect

import pytest
import torch
import transformers

from onnxfn.architectures.private import torch_names, transformers_names
from onnxfn.specs.converters import at_path

MODULES = (torch_names, transformers_names)
PATHS = [path for module in MODULES for path in module.NAMES.values()]
ATTRIBUTES = [(name, path) for module in MODULES for name, path in module.ATTRIBUTES.items()]

INSTANCES = {
    "torch.nn:Module": lambda: torch.nn.Linear(1, 1),
    "torch._ops:OpOverload": lambda: torch.ops.aten.relu.default,
    "torch._dynamo.eval_frame:OptimizedModule": lambda: torch.compile(torch.nn.Linear(1, 1), backend="eager"),
    "torch:compile": lambda: torch.compile(lambda x: x, backend="eager"),
    "onnxscript.rewriter._rewrite_rule:RewriteRule": lambda: next(iter(torch_names.torch_name("default_rules"))),
    "transformers:PretrainedConfig": transformers.BertConfig,
}
"""An object of each class whose attributes are not in the class."""

PARAMETERS = {
    "make_fx": ("decomposition_table", "tracing_mode", "_allow_non_fake_inputs"),
    "tensor_metadata": ("include_contiguity",),
    "for_export": ("registry",),
    "as_onnx": ("registry",),
    "FakeTensorMode": ("allow_non_fake_inputs",),
    "scan": ("combine_fn", "init", "xs"),
}
"""Name of a function of torch -> the parameters that onnxfn passes to it."""


@pytest.mark.parametrize("path", PATHS)
def test_a_name_has_its_path(path):
    assert at_path(path) is not None


@pytest.mark.parametrize(("name", "path"), ATTRIBUTES)
def test_an_object_has_its_attribute(name, path):
    assert hasattr(INSTANCES[path]() if path in INSTANCES else at_path(path), name)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_function_takes_what_is_passed(name):
    assert set(PARAMETERS[name]) <= set(inspect.signature(torch_names.torch_name(name)).parameters)


def test_the_table_of_fast_functions_can_be_changed():
    assert isinstance(torch_names.torch_name("fast_functions")(), dict)


def test_the_rules_of_type_promotion_name_their_operators():
    rules = torch_names.torch_name("generated_promotion_rules") | torch_names.torch_name("extra_promotion_rules")
    assert {"aten::add"} <= {f"{rule.namespace}::{rule.op_name}" for rule in rules}


def test_folding_takes_its_limits():
    parameters = inspect.signature(torch_names.torch_name("FoldConstantsPass")).parameters
    assert {"shape_inference", "input_size_limit", "output_size_limit", "should_fold"} <= set(parameters)
