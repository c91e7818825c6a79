"""Edits: functions of a spec that return a changed spec."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import for_task as for_task
    from onnxfn import quantize as quantize
    from onnxfn import renamed as renamed
    from onnxfn import split as split
    from onnxfn import with_behavior as with_behavior
    from onnxfn import with_dtypes as with_dtypes
    from onnxfn import with_opset as with_opset
    from onnxfn import with_output as with_output
    from onnxfn import with_outputs as with_outputs
    from onnxfn import with_past as with_past
    from onnxfn import with_shapes as with_shapes
    from onnxfn import with_tolerance as with_tolerance
    from onnxfn import without as without
    from onnxfn.specs.edits.axes import with_axis as with_axis
    from onnxfn.specs.edits.axes import with_axis_names as with_axis_names
    from onnxfn.specs.edits.optional_inputs import with_input as with_input
    from onnxfn.specs.edits.optional_inputs import with_mrope as with_mrope
    from onnxfn.specs.edits.providers import for_provider as for_provider
    from onnxfn.specs.edits.tensors import only_tasks as only_tasks
    from onnxfn.specs.edits.tensors import with_constants as with_constants
    from onnxfn.specs.edits.tensors import with_generator as with_generator
    from onnxfn.specs.edits.tensors import with_input_order as with_input_order
    from onnxfn.specs.edits.token_embeddings import with_inputs_embeds as with_inputs_embeds
    from onnxfn.specs.edits.weights import with_adapter_inputs as with_adapter_inputs
    from onnxfn.specs.edits.whisper_for_genai import whisper_for_genai as whisper_for_genai
    from onnxfn.specs.tasks.caches import with_expanded_cache as with_expanded_cache
    from onnxfn.specs.tasks.caches import with_shared_cache as with_shared_cache
    from onnxfn.specs.tasks.caches import with_static_cache as with_static_cache

__all__, __getattr__, __dir__ = public_names(__name__)
