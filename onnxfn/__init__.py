"""Export PyTorch models to ONNX: specs are values, edits are functions, every export is checked."""

from __future__ import annotations

from inspect import isfunction

from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.families import (
    audio,
    bert_inputs,
    positions,
    speech_seq2seq,
    text_and_vision,
    text_decoder,
    text_encoder,
    text_inputs,
    text_seq2seq,
    time_series,
    vision,
    vision_of_any_size,
)
from onnxfn.check.bisect import Divergence
from onnxfn.check.generation import generate
from onnxfn.check.matching import TensorPair
from onnxfn.export.batch.job_files import read_jobs
from onnxfn.export.batch.many import batch_preview, export_many
from onnxfn.export.batch.records import BatchEvent, BatchResult, JobLimits, JobResult
from onnxfn.export.bisect import bisect
from onnxfn.export.diffusers import export_pipeline, pipeline_parts
from onnxfn.export.fingerprint import fingerprint
from onnxfn.export.jobs import ExportJob
from onnxfn.export.loaded import Loaded, load
from onnxfn.export.lookup.class_tasks import task_of
from onnxfn.export.lookup.lookup import derived, spec_for, tasks_for
from onnxfn.export.lookup.model_info import (
    framework_of,
    library_of,
    model_class,
    model_files,
    model_for,
    model_types_for,
    supported_task,
    task_at,
)
from onnxfn.export.pipeline import export, validate
from onnxfn.export.progress import progress
from onnxfn.export.spec_edits import SpecEdits
from onnxfn.export.verify import Verification, verify
from onnxfn.export.weight_sizes import weight_bytes
from onnxfn.graphs.build import BuildOptions, trace_all_layers
from onnxfn.specs.axes import AxisMap, axis_map
from onnxfn.specs.changes import Change, Changes
from onnxfn.specs.compose import EMPTY, compose
from onnxfn.specs.diff import diff
from onnxfn.specs.digest import digest
from onnxfn.specs.dummies import generates, padded, sized
from onnxfn.specs.edits.adapter_inputs import with_adapter_inputs
from onnxfn.specs.edits.axis_names import with_axis_names
from onnxfn.specs.edits.behaviors import behaves, split, with_behavior
from onnxfn.specs.edits.caches import cache_row, cross_cache, kv_cache, state_row, with_past
from onnxfn.specs.edits.expanded_cache import with_expanded_cache
from onnxfn.specs.edits.extra_outputs import with_outputs
from onnxfn.specs.edits.inputs import with_constants, with_generator, with_input_order
from onnxfn.specs.edits.mrope import with_mrope
from onnxfn.specs.edits.new_axes import with_axis
from onnxfn.specs.edits.optional_inputs import with_input
from onnxfn.specs.edits.quantize import quantize
from onnxfn.specs.edits.renaming import renamed
from onnxfn.specs.edits.shared_cache import with_shared_cache
from onnxfn.specs.edits.tensors import (
    only_tasks,
    with_dtypes,
    with_opset,
    with_output,
    with_shapes,
    with_tolerance,
    without,
)
from onnxfn.specs.edits.token_embeddings import with_inputs_embeds
from onnxfn.specs.edits.whisper_for_genai import whisper_for_genai
from onnxfn.specs.errors import (
    CaptureFailed,
    InvalidSpec,
    LoadFailed,
    MissingValue,
    ModelNotFound,
    OnnxfnError,
    OutputExists,
    TimedOut,
    UnknownName,
    WriteFailed,
)
from onnxfn.specs.facts import always, builds, case, checks, fixes, gives, links, loads, patched, runs, serves, takes
from onnxfn.specs.getters import (
    constant,
    either,
    from_config,
    quotient,
    reads,
)
from onnxfn.specs.measurements import Floors, Measurement
from onnxfn.specs.plan.onnx_feeds import flatten_outputs, ort_inputs
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.plan.questions import dummy_inputs, inputs, outputs, past_key_values
from onnxfn.specs.planned import Case, LeftOut, Part, Plan, PlannedSpec
from onnxfn.specs.public_calls import public
from onnxfn.specs.quantization import AllOf, AnyOf, NameMatches, NoneOf, ReadBy, ReadLastBy, WeightRule
from onnxfn.specs.quantized_dtypes import LAST_LAYER_8_BITS, QUANTIZED_DTYPES, QuantizedDtype
from onnxfn.specs.records import (
    CacheRow,
    Edit,
    File,
    FixedAxis,
    Generator,
    Getter,
    InputSpec,
    NestedDummy,
    Normalizer,
    OutputSpec,
)
from onnxfn.specs.reports import CheckFailed, Difference, Event, Exported, NotQuantized, Report
from onnxfn.specs.section_errors import SectionError
from onnxfn.specs.serialize import from_json, to_json
from onnxfn.specs.spec import Cache, Call, Check, Dummies, ExportSpec, Overlay, Parts, Target
from onnxfn.specs.tasks import SYNONYMS, TASKS, canonical, for_task, synonyms, tasked
from onnxfn.specs.version import VERSION
from onnxfn.weights.adapter_files import write_adapter
from onnxfn.weights.write import WriteOptions

__all__ = (
    "ARCHITECTURES",
    "EMPTY",
    "LAST_LAYER_8_BITS",
    "QUANTIZED_DTYPES",
    "SYNONYMS",
    "TASKS",
    "VERSION",
    "AllOf",
    "AnyOf",
    "AxisMap",
    "BatchEvent",
    "BatchResult",
    "BuildOptions",
    "Cache",
    "CacheRow",
    "Call",
    "CaptureFailed",
    "Case",
    "Change",
    "Changes",
    "Check",
    "CheckFailed",
    "Difference",
    "Divergence",
    "Dummies",
    "Edit",
    "Event",
    "ExportJob",
    "ExportSpec",
    "Exported",
    "File",
    "FixedAxis",
    "Floors",
    "Generator",
    "Getter",
    "InputSpec",
    "InvalidSpec",
    "JobLimits",
    "JobResult",
    "LeftOut",
    "LoadFailed",
    "Loaded",
    "Measurement",
    "MissingValue",
    "ModelNotFound",
    "NameMatches",
    "NestedDummy",
    "NoneOf",
    "Normalizer",
    "NotQuantized",
    "OnnxfnError",
    "OutputExists",
    "OutputSpec",
    "Overlay",
    "Part",
    "Parts",
    "Plan",
    "PlannedSpec",
    "QuantizedDtype",
    "ReadBy",
    "ReadLastBy",
    "Report",
    "SectionError",
    "SpecEdits",
    "Target",
    "TensorPair",
    "TimedOut",
    "UnknownName",
    "Verification",
    "WeightRule",
    "WriteFailed",
    "WriteOptions",
    "always",
    "audio",
    "axis_map",
    "batch_preview",
    "behaves",
    "bert_inputs",
    "bisect",
    "builds",
    "cache_row",
    "canonical",
    "case",
    "checks",
    "compose",
    "constant",
    "cross_cache",
    "derived",
    "diff",
    "digest",
    "dummy_inputs",
    "either",
    "export",
    "export_many",
    "export_pipeline",
    "fingerprint",
    "fixes",
    "flatten_outputs",
    "for_task",
    "framework_of",
    "from_config",
    "from_json",
    "generate",
    "generates",
    "gives",
    "inputs",
    "kv_cache",
    "library_of",
    "links",
    "load",
    "loads",
    "model_class",
    "model_files",
    "model_for",
    "model_types_for",
    "only_tasks",
    "ort_inputs",
    "outputs",
    "padded",
    "past_key_values",
    "patched",
    "pipeline_parts",
    "plan",
    "positions",
    "progress",
    "quantize",
    "quotient",
    "read_jobs",
    "reads",
    "renamed",
    "runs",
    "serves",
    "sized",
    "spec_for",
    "speech_seq2seq",
    "split",
    "state_row",
    "supported_task",
    "synonyms",
    "takes",
    "task_at",
    "task_of",
    "tasked",
    "tasks_for",
    "text_and_vision",
    "text_decoder",
    "text_encoder",
    "text_inputs",
    "text_seq2seq",
    "time_series",
    "to_json",
    "trace_all_layers",
    "validate",
    "verify",
    "vision",
    "vision_of_any_size",
    "weight_bytes",
    "whisper_for_genai",
    "with_adapter_inputs",
    "with_axis",
    "with_axis_names",
    "with_behavior",
    "with_constants",
    "with_dtypes",
    "with_expanded_cache",
    "with_generator",
    "with_input",
    "with_input_order",
    "with_inputs_embeds",
    "with_mrope",
    "with_opset",
    "with_output",
    "with_outputs",
    "with_past",
    "with_shapes",
    "with_shared_cache",
    "with_tolerance",
    "without",
    "write_adapter",
)

__version__ = VERSION

globals().update({name: public(value) for name, value in globals().items() if name in __all__ and isfunction(value)})


def __dir__() -> list[str]:
    """The public names, for completion: the folders and what this file imports are left out."""
    return sorted((*__all__, "__all__", "__doc__", "__version__"))
