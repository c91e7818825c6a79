"""The private names of torch (2.12 to 2.15 were tried) and onnxscript (0.7) that onnxfn uses, and the form of each."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.converters import at_path

_TYPE_PROMOTION = "torch.onnx._internal.fx.passes.type_promotion"

NAMES: Mapping[str, str] = MappingProxyType(
    {
        # torch.export and the ONNX exporter
        "check": "torch:_check",
        "pytree": "torch.utils._pytree",
        "control_flow": "torch._higher_order_ops.utils",
        "conversion_error": "torch.onnx._internal.exporter._errors:ConversionError",
        "functorch": "torch._functorch",
        "dynamo_settings": "torch._dynamo.config",
        "exporter": "torch.onnx._internal.exporter._core",
        "exporter_decompositions": "torch.onnx._internal.exporter._decomp",
        "exporter_registration": "torch.onnx._internal.exporter._registration",
        "type_promotion": _TYPE_PROMOTION,
        "type_promotions": f"{_TYPE_PROMOTION}:_TypePromotionInterpreter",
        "generated_promotion_rules": f"{_TYPE_PROMOTION}:_GENERATED_ATEN_TYPE_PROMOTION_RULE_SET",
        "extra_promotion_rules": f"{_TYPE_PROMOTION}:_EXTRA_TYPE_PROMOTION_RULE_SET",
        "for_export": "torch.onnx._internal.exporter._core:_prepare_exported_program_for_export",
        "as_onnx": "torch.onnx._internal.exporter._core:_exported_program_to_onnx_program",
        # traces
        "proxy_tensor": "torch.fx.experimental.proxy_tensor",
        "tensor_metadata": "torch.fx.experimental.proxy_tensor:_extract_tensor_metadata",
        "make_fx": "torch.fx.experimental.proxy_tensor:make_fx",
        "proxy_mode": "torch.fx.experimental.proxy_tensor:get_proxy_mode",
        "python_dispatcher": "torch._dispatch.python:enable_python_dispatcher",
        "fake_mode_of": "torch._guards:detect_fake_mode",
        "cond": "torch._higher_order_ops.cond:cond_op",
        "scan": "torch._higher_order_ops.scan:scan",
        # tensors without values
        "FakeTensor": "torch._subclasses.fake_tensor:FakeTensor",
        "FakeTensorMode": "torch._subclasses.fake_tensor:FakeTensorMode",
        "as_in_a_trace": "torch._export.utils:_compiling_state_context",
        "fast_functions": "torch._subclasses.fake_impls:get_fast_op_impls",
        "has_unbacked_input": "torch._subclasses.fake_impls:_view_has_unbacked_input",
        "view": "torch._subclasses.fake_impls:_view_meta",
        "broadcast_size": "torch._prims_common:infer_size",
        "is_contiguous": "torch._prims_common:is_contiguous_or_false",
        "memory_format": "torch._prims_common:suggest_memory_format",
        "interpolated_size": "torch._decomp.decompositions:upsample_compute_output_size",
        "convolved_size": "torch._meta_registrations:calc_conv_nd_return_shape",
        "DispatchKey": "torch._C:DispatchKey",
        "DispatchMode": "torch.utils._python_dispatch:TorchDispatchMode",
        "without_dispatch": "torch.utils._mode_utils:no_dispatch",
        # sizes
        "sym_node": "torch.fx.experimental.sym_node",
        "symbolic_shapes": "torch.fx.experimental.symbolic_shapes",
        "size_records": "torch.fx.experimental.recording",
        "builtin_min_max": "torch._export.non_strict_utils",
        "tensor_min_max": "torch._export.non_strict_utils:_tensor_min_max",
        "SymNode": "torch.fx.experimental.sym_node:SymNode",
        "FloorDiv": "torch.utils._sympy.functions:FloorDiv",
        "Max": "torch.utils._sympy.functions:Max",
        "Mod": "torch.utils._sympy.functions:Mod",
        "ToFloat": "torch.utils._sympy.functions:ToFloat",
        "PythonMod": "torch.utils._sympy.functions:PythonMod",
        "PythonPrinter": "torch.utils._sympy.printers:PythonPrinter",
        # onnxscript
        "FoldConstantsPass": "onnxscript.optimizer._constant_folding:FoldConstantsPass",
        "no_op_rules": "onnxscript.rewriter.rules.common._no_op:rules",
        "default_rules": "onnxscript.rewriter:_DEFAULT_REWRITE_RULES",
        "recurrent_functions": "torch:_VF",
    }
)
"""Name in onnxfn -> path. `torch.ops.aten._x` is not a private name: the operators of a trace have such names."""

ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "_modules": "torch.nn:Module",
        "_parameters": "torch.nn:Module",
        "_buffers": "torch.nn:Module",
        "_non_persistent_buffers_set": "torch.nn:Module",
        "_filter_traceback_frames": "torch.fx.proxy:TracerBase",
        "_hop_compile_and_call": "torch._higher_order_ops:utils",
        "_version": "torch:Tensor",
        "_schema": "torch._ops:OpOverload",
        "_dispatch_cache": "torch._ops:OpOverload",
        "_op_dk": "torch._ops:OpOverload",
        "_extract_tensor_metadata": "torch.fx.experimental:proxy_tensor",
        "_torchdynamo_orig_callable": "torch:compile",
        "_orig_mod": "torch._dynamo.eval_frame:OptimizedModule",
        "_pack_padded_sequence": "torch:_VF",
        "_pad_packed_sequence": "torch:_VF",
        "_target_pattern": "onnxscript.rewriter._rewrite_rule:RewriteRule",
    }
)
"""Private attribute of an object -> the path of its class."""


def torch_name(name: str) -> Any:
    """The object at the path of a name."""
    return at_path(NAMES[name])
