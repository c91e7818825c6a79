"""Embeddings in place of tokens: the table of embeddings is a file of its own, and another takes what that gives."""

from __future__ import annotations

from attrs import evolve

from onnxfn.specs.axes import AxisMap, axis_map
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.facts import gives
from onnxfn.specs.getters import either, reads
from onnxfn.specs.records import Edit, ExportSpec, File, Handover, InputSpec

IDS, EMBEDDED = "input_ids", "inputs_embeds"
TABLE = "embed_tokens"
"""The file of the table, as transformers.js calls it."""

WIDTH = either("embedding_size", "word_embed_proj_dim", "input_embedding_size", "emb_dim", "hidden_size")
"""How wide an embedding is: some models widen it afterwards."""


def with_inputs_embeds(spec: ExportSpec) -> ExportSpec:
    """The spec of a model that takes `inputs_embeds` in place of `input_ids`, and of the table that gives them.

    The table is the file `embed_tokens.onnx`. An image or a sound can so stand among the tokens. InvalidSpec for an
    encoder-decoder whose graph is not said yet: `with_behavior(spec, "decoder")`; UnknownName for one that takes no
    tokens.
    """
    if any(one.name == EMBEDDED for one in spec.handovers):
        return spec
    if spec.behaviors:
        raise InvalidSpec(
            f"{spec.name or 'this spec'} has an encoder and a decoder, and both take tokens; "
            'say which is meant: with_inputs_embeds(with_behavior(spec, "decoder"))'
        )
    if not _takes_tokens(spec):
        raise unknown("input", IDS, [one.name for one in spec.inputs], of=spec.name or "this spec")
    files = spec.files or (File("model"),)
    return compose(
        evolve(_embedded(spec), files=(File(TABLE, (Edit("table_alone"),)), *files)),
        generates("embeddings", "normal"),
        reads(embedding_width=WIDTH),
        ExportSpec(handovers=(Handover(EMBEDDED, TABLE, EMBEDDED),)),
    )


def table_alone(spec: ExportSpec) -> ExportSpec:
    """The table of embeddings of a spec that takes them."""
    taken = next(one for one in spec.inputs if one.name == EMBEDDED)
    return compose(
        evolve(
            spec,
            inputs=(_ids(taken),),
            outputs=(),
            states=(),
            builds=(),
            constants=(),
            handovers=(),
            past=None,
            attention=None,
            judged_by=None,
        ),
        gives(EMBEDDED, taken.axes),
        ExportSpec(runs="token_embeddings"),
    )


def by_tokens(spec: ExportSpec) -> ExportSpec:
    """A spec that takes embeddings, as it was before: it takes tokens; any other as it is."""

    def taken(one: InputSpec) -> InputSpec:
        return evolve(_ids(one), path=(*one.place[:-1], str(one.place[-1]).replace(EMBEDDED, IDS)))

    return evolve(spec, inputs=tuple(taken(one) if one.name == EMBEDDED else one for one in spec.inputs))


def _ids(embedded: InputSpec) -> InputSpec:
    return InputSpec(IDS, AxisMap(embedded.axes.axes[:-1]), "token_ids")


def _takes_tokens(spec: ExportSpec) -> bool:
    inner = (_takes_tokens(overlay.spec) for overlay in spec.tasks)
    return any(one.name == IDS for one in spec.inputs) or any(inner)


def _embedded(spec: ExportSpec) -> ExportSpec:
    """The spec, and what its tasks lay over it, with embeddings where tokens were."""

    def taken(one: InputSpec) -> InputSpec:
        if one.name != IDS:
            return one
        path = (*one.place[:-1], str(one.place[-1]).replace(IDS, EMBEDDED))
        axes = AxisMap((*one.axes.axes, *axis_map("embedding_width=").axes))
        return evolve(one, name=EMBEDDED, axes=axes, generator="embeddings", kind="float", path=path)

    laid = (evolve(overlay, spec=_embedded(overlay.spec)) for overlay in spec.tasks)
    return evolve(spec, inputs=tuple(map(taken, spec.inputs)), tasks=tuple(laid))
