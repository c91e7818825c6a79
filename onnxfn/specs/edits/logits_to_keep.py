"""`num_logits_to_keep`: an input of a decoder that says for how many of the last tokens it computes logits."""

from attrs import evolve

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import builds, case, takes
from onnxfn.specs.algebra.planned import AnySpec
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.axes import Axis, AxisMap, names

NUM_LOGITS_TO_KEEP = "num_logits_to_keep"
"""The name of the input, as transformers.js 4.3.1 gives it to a decoder that has it: int64, without axes."""

LOGITS_TO_KEEP = "logits_to_keep"
"""The argument of `forward` in transformers 5.23, and the generator of its dummies."""

NUM_LOGITS = "num_logits"
"""The symbol of the axis of logits that are computed for the last tokens alone."""

_KEPT = compose(
    takes(NUM_LOGITS_TO_KEEP, "", LOGITS_TO_KEEP, kind="int64", path=(LOGITS_TO_KEEP,)),
    generates(LOGITS_TO_KEEP, "constant", value=0),
    builds(LOGITS_TO_KEEP, "last_positions"),
    case("last logit", sized(batch_size=1, past_sequence_length=0, sequence_length=7), padded("none")),
    case("last logit", generates(LOGITS_TO_KEEP, "constant", value=1)),
    case("last logits", sized(batch_size=2, past_sequence_length=0, sequence_length=10), padded("left")),
    case("last logits", generates(LOGITS_TO_KEEP, "constant", value=3)),
    case("more logits than tokens", sized(batch_size=1, past_sequence_length=0, sequence_length=4), padded("none")),
    case("more logits than tokens", generates(LOGITS_TO_KEEP, "constant", value=9)),
)
"""The input, and cases of the check. In all other cases it is 0, which keeps the logits of all tokens."""


def computes_logits(spec: ExportSpec) -> bool:
    """Whether a spec is of a decoder with logits of each token."""
    return spec.call.loader == "AutoModelForCausalLM" and "logits" in spec.outputs


def has_last_logits(spec: AnySpec) -> bool:
    """Whether a spec has logits of the last tokens alone."""
    return "logits" in spec.outputs and NUM_LOGITS in names(spec.outputs["logits"].axes)


def with_logits_to_keep(spec: ExportSpec) -> ExportSpec:
    """The spec of a decoder with the input `num_logits_to_keep`; any other spec unchanged."""
    # The graph drops the hidden states of the other tokens before the last layer, which is as wide as the vocabulary.
    if not computes_logits(spec):
        return spec
    logits = spec.outputs["logits"]
    batch, _, *rest = logits.axes.axes
    of_last_tokens = evolve(logits, axes=AxisMap((batch, Axis(NUM_LOGITS, "dynamic"), *rest)))
    return compose(spec, ExportSpec(outputs=(of_last_tokens,)), _KEPT)
