"""Token embeddings: a model with `inputs_embeds` in place of `input_ids`, and a file that computes them."""

from __future__ import annotations

from attrs import evolve

from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import gives, links
from onnxfn.specs.algebra.planned import PlannedSpec
from onnxfn.specs.algebra.spec import Cache, ExportSpec, each_spec, inner_specs
from onnxfn.specs.axes import AxisMap, axis_map
from onnxfn.specs.edits.as_edit import as_edit
from onnxfn.specs.errors import InvalidSpec, unknown
from onnxfn.specs.records import Edit, File, InputSpec, Kind

IDS, EMBEDS = "input_ids", "inputs_embeds"
EMBEDDING_FILE = "embed_tokens"
"""The stem of the file that looks up embeddings, as transformers.js names it."""

WIDTH = "embedding_size or word_embed_proj_dim or input_embedding_size or emb_dim or hidden_size"
"""The width of an embedding: some models project it to another width afterwards."""


@as_edit
def with_inputs_embeds(spec: ExportSpec) -> ExportSpec:
    """The spec of a model with `inputs_embeds`, and of a file `embed_tokens.onnx` from tokens to these embeddings.

    Embeddings of an image or a sound can then stand among those of tokens.

    Args:
        spec: A spec that takes `input_ids`. An encoder-decoder needs a behavior first:
            `with_behavior(spec, "decoder")`.

    Raises:
        InvalidSpec: the spec is an encoder-decoder without a chosen behavior.
        UnknownName: the spec takes no tokens.

    >>> from onnxfn import bert_inputs
    >>> [tensor.name for tensor in with_inputs_embeds(bert_inputs).inputs]
    ['inputs_embeds', 'attention_mask', 'token_type_ids']
    """
    if any(link.input == EMBEDS for link in spec.parts.links):
        return spec
    if spec.parts.behaviors:
        raise InvalidSpec(
            f"{spec.name or 'this spec'} has an encoder and a decoder, and both take tokens; "
            'choose one: with_inputs_embeds(with_behavior(spec, "decoder"))'
        )
    ids = next((inner.inputs[IDS] for inner in inner_specs(spec) if IDS in inner.inputs), None)
    if ids is None:
        raise unknown("input", IDS, [tensor.name for tensor in spec.inputs], of=spec.name or "this spec")
    files = spec.parts.files or (File("model"),)
    options = {"kind": ids.kind, "generator": ids.generator}
    unusual = {name: value for name, value in options.items() if value != getattr(_ids(ids), name)}
    lookup = File(EMBEDDING_FILE, (Edit("embedding_lookup", unusual),))
    changed = each_spec(spec, lambda inner: evolve(inner, inputs=tuple(map(_embeds_of, inner.inputs))))
    return compose(
        evolve(changed, parts=evolve(spec.parts, files=(lookup, *files))),
        generates("embeddings", "normal"),
        reads(embedding_width=WIDTH),
        links(EMBEDS, part=EMBEDDING_FILE, output=EMBEDS),
    )


def embedding_lookup(spec: ExportSpec, *, kind: Kind = "int", generator: str = "token_ids") -> ExportSpec:
    """The spec of the embedding lookup of a spec: `input_ids`, of this kind and generator, -> `inputs_embeds`."""
    embeds = spec.inputs[EMBEDS]
    call = evolve(spec.call, submodule="token_embeddings", builders=(), constants=(), attention=None)
    return compose(
        evolve(
            spec,
            inputs=(evolve(_ids(embeds), kind=kind, generator=generator),),
            outputs=(),
            cache=Cache(),
            parts=evolve(spec.parts, links=()),
            call=call,
            check=evolve(spec.check, mask_input=None),
        ),
        gives(EMBEDS, embeds.axes),
    )


def by_tokens(spec: PlannedSpec) -> PlannedSpec:
    """The spec with `input_ids` in place of `inputs_embeds`, and of what else their part computes from tokens."""
    tables = {link.part for link in spec.links if link.input == EMBEDS}
    computed = {link.input for link in spec.links if link.part in tables} - {EMBEDS}

    def tokens(tensor: InputSpec) -> InputSpec:
        if tensor.name != EMBEDS:
            return tensor
        return evolve(_ids(tensor), path=(*tensor.forward_path[:-1], str(tensor.forward_path[-1]).replace(EMBEDS, IDS)))

    return evolve(spec, inputs=tuple(tokens(each) for each in spec.inputs if each.name not in computed))


def _ids(embeds: InputSpec) -> InputSpec:
    return InputSpec(IDS, AxisMap(embeds.axes.axes[:-1]), "token_ids")


def _embeds_of(tensor: InputSpec) -> InputSpec:
    """The embeddings in place of the tokens; any other input unchanged."""
    if tensor.name != IDS:
        return tensor
    path = (*tensor.forward_path[:-1], str(tensor.forward_path[-1]).replace(IDS, EMBEDS))
    axes = AxisMap((*tensor.axes.axes, *axis_map("embedding_width=").axes))
    return evolve(tensor, name=EMBEDS, axes=axes, generator="embeddings", kind="float", path=path)
