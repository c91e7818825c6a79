"""Inputs that a plan leaves out: arguments of the model that a processor gives and that no graph takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from onnxfn.specs.algebra.planned import LeftOut, Plan
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.inner_specs import inner_specs
from onnxfn.specs.edits.optional_inputs import can_take
from onnxfn.specs.results.modalities import MAIN_INPUTS, MODALITY_OF, NOUNS

OPTIMUM_OMITS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "attention_mask": frozenset(
            {
                *("audio-spectrogram-transformer", "data2vec-audio", "hubert", "mctct", "sew", "sew-d", "siglip"),
                *("siglip-text", "siglip-text-with-projection", "unispeech", "unispeech-sat"),
                *("wav2vec2", "wav2vec2-conformer", "wavlm"),
            }
        ),
        "pixel_mask": frozenset({"d_fine", "detr", "maskformer", "rt_detr", "rt_detr_v2", "table-transformer"}),
    }
)
"""Input -> the model types whose contract in Optimum 2.1.0 has no such input (tests/contract)."""


def left_out(
    spec: ExportSpec, planned: Plan, parameters: Collection[str], processed: Collection[str]
) -> tuple[LeftOut, ...]:
    """The arguments of a model that a processor gives and that no part of a plan takes, in the order of `forward`.

    A decoder that reads an encoder's output has no left-out inputs.

    Args:
        spec: The spec of the plan.
        planned: The plan.
        parameters: The parameters of the model's `forward`.
        processed: The names that a processor of the model gives.
    """
    taken = planned.arguments
    if "encoder_outputs" in taken and taken.isdisjoint(name for names in MAIN_INPUTS.values() for name in names):
        return ()
    missing = (name for name in parameters if name in processed and name not in taken)
    return tuple(LeftOut(name, _reason(spec, name, planned.modalities), _edit(spec, name)) for name in missing)


def _reason(spec: ExportSpec, name: str, present: Collection[str]) -> str:
    """Why no part takes an argument: its modality is not in the plan, its condition is false, or the spec has none."""
    modality = MODALITY_OF.get(name)
    if modality is not None and modality not in present:
        line = f"; to try, derive a spec from a sample: derived(model, sample={{{name!r}: tensor, ...}})"
        return f"the plan has no {NOUNS[modality]}{line if name in MAIN_INPUTS[modality] else ''}"
    same = (tensor for inner in inner_specs(spec) for tensor in inner.inputs if tensor.forward_path[0] == name)
    condition = next((tensor.when for tensor in same if tensor.when is not None), None)
    if condition is not None:
        return f"the configuration does not set {condition}"
    if spec.derived is None and spec.name in OPTIMUM_OMITS.get(name, ()):
        return "Optimum's contract has no such input"
    return f"the spec of {spec.name or 'this model'} has no such input"


def _edit(spec: ExportSpec, name: str) -> str:
    """The call that changes the spec so that its graph takes an argument; an empty text if there is none."""
    return f'with_input(spec, "{name}")' if can_take(spec, name) else ""
