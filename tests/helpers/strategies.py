"""Strategies for every record. Names come from small pools, so that joins collide."""

from typing import Any

from hypothesis import strategies as st

from onnxfn import AxisFacts, Cache, Call, Check, Dummies, ExportSpec, Overlay, Parts, Target, WeightRule
from onnxfn.specs import records as kinds
from onnxfn.specs.algebra.config_values import GETTERS
from onnxfn.specs.algebra.fills import FILLS
from onnxfn.specs.axes import Axis, AxisMap
from onnxfn.specs.conditions import Condition
from onnxfn.specs.edits.behaviors import BEHAVIORS
from onnxfn.specs.quantization import Within

TENSORS = ("input_ids", "attention_mask", "logits", "last_hidden_state")
AXES = ("batch_size", "sequence_length", "past_sequence_length")
KEYS = ("hidden_size", "num_attention_heads", "text_config.num_layers")
FILLED = ("token_ids", "padding_mask", "pixels")
TASK_NAMES = ("fill-mask", "text-classification", "my-own-task")
CASE_NAMES = ("one", "left-padded")
OPERATORS = ("+", "-", "*", "//")

TRUST = ("m", "p")
"""The packages of the functions that generated patches and calls name."""

# A symbol in its two spellings: packed, as patterns write it, and spaced, as ONNX shows it.
Spelt = tuple[str, str]


def _joined(left: Spelt, operator: str, right: Spelt) -> Spelt:
    return f"{left[0]}{operator}{right[0]}", f"{left[1]} {operator} {right[1]}"


def spelt_symbols(operators: tuple[str, ...] = OPERATORS) -> st.SearchStrategy[Spelt]:
    """Symbols that hold a name: `batch_size`, `2*(past_sequence_length+sequence_length)`."""
    name = st.sampled_from(AXES).map(lambda one: (one, one))
    number = st.integers(1, 9).map(lambda one: (str(one), str(one)))

    def grown(inner: st.SearchStrategy[Spelt]) -> st.SearchStrategy[Spelt]:
        operator = st.sampled_from(operators)
        return (
            st.builds(_joined, inner, operator, inner)
            | st.builds(_joined, number, operator, inner)
            | st.builds(_joined, inner, operator, number)
            | inner.map(lambda one: (f"({one[0]})", f"( {one[1]} )"))
        )

    return st.recursive(name, grown, max_leaves=4)


moving_axes = spelt_symbols().map(lambda spelt: (spelt[0], Axis(spelt[1], "dynamic")))
literal_axes = st.integers(0, 1 << 40).map(lambda size: (str(size), Axis(str(size), "literal")))
configured_axes = st.sampled_from(("head_dim", "num_heads")).map(lambda name: (f"{name}=", Axis(name, "configured")))
unspecified_axes = st.just(("_", Axis("_", "unspecified")))

said_axes = moving_axes | literal_axes | configured_axes | unspecified_axes
"""A word of a pattern and the axis that it says, each made without the other."""

said_axis_maps = st.lists(said_axes, max_size=4).map(
    lambda said: (" ".join(word for word, _ in said), AxisMap(tuple(axis for _, axis in said)))
)
"""A pattern and the AxisMap that it says, each made without the other."""

axis_patterns = said_axis_maps.map(lambda said: said[0])
axis_maps = said_axis_maps.map(lambda said: said[1])

paths = st.lists(st.sampled_from(("past_key_values", "hidden")) | st.integers(0, 2), max_size=3).map(tuple)

trees = st.recursive(
    st.integers(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from((*TENSORS, "keys", "items")), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)
"""What `forward` takes or gives: numbers in tuples and dicts."""

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
"""Texts that JSON and ONNX can hold."""

plain_values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
keys = st.sampled_from(KEYS)
getters = st.deferred(
    lambda: st.builds(kinds.Getter, st.sampled_from(sorted(GETTERS)), st.lists(sources | plain_values, max_size=2))
)
sources = keys | getters
reads_of_names = st.builds(kinds.Read, st.sampled_from(("num_layers", "head_dim", "vocab_size")), sources)


def by_name(records: st.SearchStrategy[Any], *, most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(records, max_size=most, unique_by=lambda one: one.name).map(tuple)


def keywords(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(("low", "high", "value")), values, max_size=2)


normalizers = by_name(reads_of_names).map(kinds.Normalizer)
generators = st.builds(
    kinds.Generator, st.sampled_from(FILLED), st.sampled_from(sorted(FILLS)), keywords(plain_values | getters)
)
inputs = st.builds(
    kinds.InputSpec,
    st.sampled_from(TENSORS),
    axis_maps,
    st.sampled_from(FILLED),
    st.sampled_from(("int", "float", "bool")),
    paths,
    st.none() | sources,
)
outputs = st.builds(
    kinds.OutputSpec,
    st.sampled_from(TENSORS),
    axis_maps,
    paths,
    st.none() | sources,
    layers=st.none() | sources,
    kind=st.sampled_from((None, "int", "float", "bool", "uint8")),
)
axis_symbols, conditions = st.sampled_from(AXES), st.none() | sources
sizes = st.builds(AxisFacts, axis_symbols, st.integers(0, 8) | getters)
limits, new_names = st.sampled_from((None, 2, 5)) | sources, st.sampled_from((None, "N", "T"))
axis_facts = sizes | st.builds(AxisFacts, axis_symbols, st.none(), limits, limits, conditions, new_names)
constants = st.builds(kinds.Constant, st.sampled_from(("return_dict", "use_cache", "past_key_values")), plain_values)
patches = st.builds(kinds.Patch, st.sampled_from(("m:A.f", "m:B.f")), st.sampled_from(("p:f", "p:g")), st.just("why"))
cache_rows = st.builds(
    kinds.CacheRow,
    st.sampled_from(("key", "value")),
    input_name=st.sampled_from(("past_key_values.{layer}.key", "past_conv.{layer}")),
    output_name=st.none() | st.just("present.{layer}.key"),
    input_axes=axis_maps,
    output_axes=axis_maps,
    input_path=paths,
    output_path=paths,
    layers=sources,
)
builders = st.builds(kinds.ArgumentBuilder, st.sampled_from(("past_key_values", "cache")), by=st.just("dynamic_cache"))
links = st.builds(kinds.Link, st.sampled_from(TENSORS), st.just("encoder_model"), st.sampled_from(TENSORS))

opsets = st.integers(18, 23)
tolerances = st.floats(0, 1)
edits = st.one_of(
    st.builds(lambda opset: kinds.Edit("with_opset", {"opset": opset}), opsets),
    st.builds(lambda atol: kinds.Edit("with_tolerance", {"atol": atol}), tolerances),
    st.builds(
        lambda name, axes, path: kinds.Edit("with_output", {"name": name, "axes": axes, "path": path}),
        st.sampled_from(TENSORS),
        axis_patterns,
        paths,
    ),
    st.builds(
        lambda word, at, starting: kinds.Edit("with_axis", {"axis": word, "at": at, "starting": starting}),
        said_axes.map(lambda said: said[0]),
        st.integers(0, 2),
        axis_patterns,
    ),
)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def overlays(
    names: tuple[str, ...], laid_over: st.SearchStrategy[ExportSpec]
) -> st.SearchStrategy[tuple[Overlay, ...]]:
    several = st.lists(edits, max_size=2).map(tuple)
    return by_name(st.builds(Overlay, st.sampled_from(names), laid_over, several), most=2)


some_edits = st.lists(edits, max_size=2).map(tuple)
files = st.builds(
    kinds.File,
    st.sampled_from(("encoder_model", "decoder_model")),
    some_edits,
    replaces=st.lists(st.sampled_from(("encoder_model", "old_model")), max_size=2).map(tuple),
    filler=some_edits,
)

dummies = st.builds(Dummies, generators=by_name(generators, most=2))
checks = st.builds(
    Check, atol=optional(tolerances), rtol=optional(tolerances), mask_input=optional(st.sampled_from(TENSORS))
)
patterns = st.sampled_from(("*", "*lm_head*", "*.mlp.*"))
operators_that_read = st.lists(st.sampled_from(("MatMul", "Gather", "Conv")), max_size=2, unique=True)
limits = st.builds(Within, st.just("bytes"), st.integers(1, 10**12)) | st.builds(
    Within, st.just("kl"), st.sampled_from((1e-6, 0.1, 0.25, 100.0))
)
weight_rules = st.one_of(
    st.builds(
        WeightRule,
        patterns,
        read_by=operators_that_read,
        bits=st.sampled_from((2, 4, 8)),
        block_size=st.sampled_from((16, 32, 128)),
        symmetric=st.booleans(),
        accuracy_level=st.sampled_from((0, 4)),
        within=optional(limits),
    ),
    st.builds(
        WeightRule,
        patterns,
        read_by=operators_that_read,
        bits=st.just(8),
        kind=st.sampled_from(("dynamic", "as is")),
        signed=st.booleans(),
        per_channel=st.booleans(),
    ),
)
targets = st.builds(
    Target,
    opset=optional(opsets),
    int_dtype=optional(st.sampled_from(("int64", "int32"))),
    float_dtype=optional(st.sampled_from(("float32", "float16"))),
    io_dtype=optional(st.sampled_from(("float32", "float16"))),
    input_order=optional(st.lists(st.sampled_from(TENSORS), unique=True, max_size=2).map(tuple)),
    quantization=st.lists(weight_rules, max_size=3).map(tuple),
    adapter_inputs=optional(st.lists(st.sampled_from(("q_proj", "v_proj")), unique=True, max_size=2).map(tuple)),
    shared_cache=optional(st.booleans()),
    static_cache=optional(st.sampled_from((64, 2048))),
)
caches = st.builds(Cache, rows=by_name(cache_rows), past=optional(st.sampled_from(("inputs", "outputs", "both"))))
calls = st.builds(
    Call,
    loader=optional(st.sampled_from(("AutoModel", "AutoModelForMaskedLM"))),
    submodule=optional(st.sampled_from(("encoder", "p:f"))),
    constants=by_name(constants, most=2),
    builders=by_name(builders),
    patches=by_name(patches),
    attention=optional(st.sampled_from(("eager", "sdpa"))),
)

conditions = st.builds(Condition, st.sampled_from(("n % 8 == 0", "n >= 4", "n == m")), st.sampled_from(("", "a.py:1")))

thin_specs = st.builds(
    ExportSpec,
    name=optional(st.sampled_from(("bert", "roberta"))),
    inputs=by_name(inputs, most=2),
    outputs=by_name(outputs, most=2),
    axes=by_name(sizes, most=2),
    target=st.builds(Target, opset=optional(opsets)),
)
"""Specs as overlays hold them."""

thick_specs = st.builds(ExportSpec, outputs=by_name(outputs, most=2), tasks=overlays(TASK_NAMES, thin_specs))
"""Specs with overlays of their own, which an overlay may also hold."""

parts = st.builds(
    Parts, behaviors=overlays(BEHAVIORS, thin_specs | thick_specs), files=by_name(files), links=by_name(links)
)

specs = st.builds(
    ExportSpec,
    name=optional(st.sampled_from(("bert", "roberta"))),
    task=optional(st.sampled_from(TASK_NAMES)),
    derived=optional(st.just("a model")),
    inputs=by_name(inputs),
    outputs=by_name(outputs),
    normalizer=normalizers,
    dummies=dummies,
    axes=by_name(axis_facts),
    limits=st.lists(conditions, unique=True, max_size=2).map(tuple),
    tasks=overlays(TASK_NAMES, thin_specs | thick_specs),
    cases=overlays(CASE_NAMES, thin_specs),
    parts=parts,
    call=calls,
    cache=caches,
    check=checks,
    target=targets,
)

records = st.one_of(
    axis_maps,
    inputs,
    outputs,
    generators,
    normalizers,
    getters,
    axis_facts,
    constants,
    patches,
    cache_rows,
    builders,
    links,
    dummies,
    checks,
    targets,
    caches,
    calls,
    parts,
    files,
    edits,
    specs,
)
