"""Fusing: a graph says in one operator what it said in many, and means the same; what was expected is counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
import tiny
import torch
from agreement import assert_agreement
from onnx import parser

import onnxfn
from onnxfn.architectures import decoders
from onnxfn.graphs.capture.expected_operators import EXPECTED_OPERATORS
from onnxfn.graphs.passes.fusing import fuse_operators, fusions, operator_counts
from onnxfn.specs.edits.tensors import with_opset
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, UnknownName
from onnxfn.specs.reports import Fusion
from onnxfn.specs.tasks import TASKS, task_names

PAST = "text-generation-with-past"

# Of each: what is expected of its graph, and found, at opset 23.
DECODERS = {
    "llama": {"Attention": 2, "RMSNormalization": 5, "RotaryEmbedding": 4},
    "gemma2": {"Attention": 2, "RMSNormalization": 9, "RotaryEmbedding": 4, "Gelu": 2},  # softcap
    "qwen3": {"Attention": 2, "RMSNormalization": 9, "RotaryEmbedding": 4},  # norms of queries and keys
    "gpt_neox": {"Attention": 2, "RotaryEmbedding": 4, "Gelu": 2, "LayerNormalization": 5},  # a part is turned
    "phi": {"Attention": 2, "RotaryEmbedding": 4, "Gelu": 2, "LayerNormalization": 3},
    "gptj": {"Attention": 2, "RotaryEmbedding": 4, "Gelu": 2, "LayerNormalization": 3},  # pairs are turned
    "deepseek_v3": {"Attention": 2, "RMSNormalization": 9, "RotaryEmbedding": 4},  # halves are made of pairs
    "cohere": {"Attention": 2, "RotaryEmbedding": 4, "LayerNormalization": 3},  # a norm written by hand
}
ENCODERS = {
    "bert": {"Attention": 2, "Gelu": 2, "LayerNormalization": 5},
    "modernbert": {"Attention": 2, "RotaryEmbedding": 4, "Gelu": 2, "LayerNormalization": 5},
}

# Transformers 5 has no model of InternLM2.
WRITERS = [name for name, row in decoders.ROWS.items() if PAST in task_names(row) and name != "internlm2"]


def kinds(folder, name="model"):
    """How often each operator is in a file."""
    return Counter((node.domain, node.op_type) for node in onnx.load(folder / f"{name}.onnx").graph.node)


def unread(folder):
    """What the nodes of a file name and nobody reads."""
    graph = onnx.load(folder / "model.onnx").graph
    read = {*(name for node in graph.node for name in node.input), *(one.name for one in graph.output)}
    return {name for node in graph.node for name in node.output if name} - read


def exported(model_type, task, loader, folder, **options):
    model = tiny.model(model_type, loader)
    spec = with_opset(onnxfn.spec_for(model_type, task), 23)
    return assert_agreement(onnxfn.export(spec, model, folder, **options), folder)


def found(result, part="model"):
    return {one.operator: one.actual for one in dict(result.fusions)[part] if one.actual}


@pytest.mark.parametrize("model_type", DECODERS)
def test_a_decoder_is_fused_and_right(model_type, tmp_path):
    result = exported(model_type, PAST, "AutoModelForCausalLM", tmp_path)
    assert found(result) == DECODERS[model_type]
    there = kinds(tmp_path)
    assert {domain for domain, _ in there} == {""}
    assert not there["", "Softmax"]


@pytest.mark.sweep
@pytest.mark.parametrize("fuse", ["standard", "onnxruntime"])
@pytest.mark.parametrize("model_type", WRITERS)
def test_every_decoder_is_right_in_the_largest_operators(model_type, fuse, tmp_path):
    exported(model_type, PAST, TASKS["text-generation"].call.loader, tmp_path, fuse=fuse)


def test_keys_and_values_go_in_as_they_are_kept(tmp_path):
    exported("llama", PAST, "AutoModelForCausalLM", tmp_path)
    graph = onnx.load(tmp_path / "model.onnx").graph
    first, second = (node for node in graph.node if node.op_type == "Attention")
    assert list(first.input[4:]) == ["past_key_values.0.key", "past_key_values.0.value"]
    assert list(second.output[1:]) == ["present.1.key", "present.1.value"]
    assert not {"Expand", "Concat", "Transpose"} & {
        reader.op_type
        for reader in graph.node
        for name in reader.input
        if name.startswith("past_key_values") and reader.op_type != "Shape"
    }
    mask = {node.input[3] for node in (first, second)}
    assert len(mask) == 1
    before = [node.op_type for node in graph.node[: list(graph.node).index(first)]]
    assert not {"GatherND", "Expand", "Slice", "Concat"} & set(before)  # masks and tables are as they are read


@pytest.mark.parametrize("model_type", ENCODERS)
def test_an_encoder_is_fused_and_right(model_type, tmp_path):
    assert found(exported(model_type, "feature-extraction", "AutoModel", tmp_path)) == ENCODERS[model_type]


def test_an_encoder_decoder_is_fused_and_right(tmp_path):
    model = tiny.model("t5", "AutoModelForSeq2SeqLM")
    spec = with_opset(onnxfn.spec_for("t5", "text2text-generation-with-past"), 23)
    result = onnxfn.export(spec, model, tmp_path)
    assert result.report.passed
    assert found(result, "encoder_model") == {"Attention": 2, "RMSNormalization": 5}
    assert found(result, "decoder_model_merged") == {"Attention": 4, "RMSNormalization": 7}


@pytest.mark.parametrize(
    ("model_type", "task", "loader", "contrib"),
    [
        ("llama", PAST, "AutoModelForCausalLM", {"SkipSimplifiedLayerNormalization": 4}),
        ("gpt_neox", PAST, "AutoModelForCausalLM", {"SkipLayerNormalization": 2, "BiasGelu": 2}),
        ("phi", PAST, "AutoModelForCausalLM", {"SkipLayerNormalization": 2, "FastGelu": 2}),
        ("bert", "feature-extraction", "AutoModel", {"SkipLayerNormalization": 4, "BiasGelu": 2}),
    ],
)
def test_operators_of_onnx_runtime_are_there_for_who_asks(model_type, task, loader, contrib, tmp_path):
    result = exported(model_type, task, loader, tmp_path, fuse="onnxruntime")
    own = {kind: count for (domain, kind), count in kinds(tmp_path).items() if domain == "com.microsoft"}
    assert own == contrib
    assert not unread(tmp_path)
    assert found(result) == {**DECODERS, **ENCODERS}[model_type]


def test_the_operators_of_layers_that_were_not_traced_are_those_of_the_traced(tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM", num_hidden_layers=7)
    spec = with_opset(onnxfn.spec_for("llama", PAST), 23)
    result = assert_agreement(onnxfn.export(spec, model, tmp_path, fuse="onnxruntime"), tmp_path)
    assert "7 layers" in str(result.repeats)
    there = kinds(tmp_path)
    assert there["com.microsoft", "SkipSimplifiedLayerNormalization"] == 14
    assert (there["", "MatMul"], there["", "Split"]) == (4 * 7 + 1, 2 * 7)
    assert not unread(tmp_path)


def test_what_an_opset_lacks_is_not_in_it(tmp_path):
    model = tiny.model("llama", "AutoModelForCausalLM")
    result = onnxfn.export(onnxfn.spec_for("llama", PAST), model, tmp_path)
    assert result.opset == 18
    assert found(result) == {}
    assert not {"Attention", "RMSNormalization", "RotaryEmbedding"} & {kind for _, kind in kinds(tmp_path)}


def test_a_way_to_fuse_is_known_and_fits_the_opset(tmp_path):
    model = tiny.model("bert")
    spec = onnxfn.spec_for("bert", "feature-extraction")
    with pytest.raises(UnknownName, match="onnxruntime"):
        onnxfn.export(spec, model, tmp_path, fuse="onnxrutime")
    with pytest.raises(InvalidSpec, match=r"opset 23 and the spec says 18; use with_opset\(spec, 23\)"):
        onnxfn.export(spec, model, tmp_path, fuse="onnxruntime")


def attends(**told):
    """A model that is one attention of torch's, of 4 heads on as many or on 2."""
    module, heads = torch.nn.Module(), 2 if "enable_gqa" in told else 4
    module.inner = torch.nn.Linear(8, 4 * heads)

    def forward(q, k):
        query, key = (one.unflatten(-1, (-1, 4)).transpose(1, 2) for one in (q, module.inner(k)))
        return {"y": torch.nn.functional.scaled_dot_product_attention(query, key, key * 2, **told)}

    module.forward = forward
    return module.eval()


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("told", [{}, {"is_causal": True}, {"enable_gqa": True, "is_causal": True, "scale": 0.2}])
def test_attention_is_translated_in_every_case(told, opset, tmp_path):
    spec = onnxfn.compose(
        onnxfn.takes("q", "batch_size queries 16", "numbers", kind="float"),
        onnxfn.takes("k", "batch_size keys 8", "numbers", kind="float"),
        onnxfn.generates("numbers", "uniform"),
        onnxfn.sized(batch_size=2, queries=6, keys=9),
        onnxfn.gives("y", "batch_size 4 queries 4"),
    )
    result = onnxfn.export(with_opset(spec, opset), attends(**told), tmp_path / "model.onnx")
    assert result.report.passed
    assert found(result) == ({"Attention": 1} if opset == 23 else {})


# Graphs written by hand


def read(text, opset=23):
    """A graph from onnx's own notation, with its shapes."""
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{text}')
    return onnx_ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(made, data_prop=True))


def run(model, **feeds):
    """What ONNX Runtime makes of a graph as it stands: its own fusions are off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = onnx_ir.serde.serialize_model(model).SerializeToString()
    return onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def alike(text, opset=23, fuse="standard", **feeds):
    """The graph when it is fused, which answers what it did before."""
    before = run(read(text, opset), **feeds)
    model = fuse_operators(read(text, opset), fuse)
    for one, other in zip(run(model, **feeds), before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return model


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


LOWEST = "-3.4028234663852886e38"
ZEROED = f"""
attention (float[b,6,s,8] q, float[b,6,t,8] k, float[b,6,t,8] v, bool[b,1,s,t] m) => (float[b,6,s,8] y)
<float scale = {{0.25}}, float zero = {{0.0}}, float lowest = {{{LOWEST}}}, int64[1] last = {{-1}}> {{
    scaled = Mul (q, scale)
    turned = Transpose <perm = [0, 1, 3, 2]> (k)
    scores = MatMul (scaled, turned)
    bias = Where (m, zero, lowest)
    masked = Add (scores, bias)
    weights = Softmax <axis = -1> (masked)
    sum = MatMul (weights, v)
    number = Cast <to = 1> (m)
    sees = ReduceMax <keepdims = 1> (number, last)
    y = Mul (sum, sees)
}}"""
BIASED = f"""
attention (float[b,6,s,8] q, float[b,6,t,8] k, float[b,6,t,8] v, bool[b,1,1,t] m, float[1,6,s,t] p)
    => (float[b,6,s,8] y)
<float scale = {{0.25}}, float zero = {{0.0}}, float lowest = {{{LOWEST}}}, float cap = {{3.0}}> {{
    turned = Transpose <perm = [0, 1, 3, 2]> (k)
    scores = MatMul (q, turned)
    scaled = Mul (scores, scale)
    less = Div (scaled, cap)
    bent = Tanh (less)
    capped = Mul (bent, cap)
    bias = Where (m, zero, lowest)
    placed = Add (capped, p)
    masked = Add (placed, bias)
    weights = Softmax <axis = -1> (masked)
    y = MatMul (weights, v)
}}"""


def test_a_query_that_may_look_at_nothing_gets_zero():
    mask = np.random.default_rng(0).random((3, 1, 4, 5)) < 0.6
    mask[1, 0, 2] = False
    model = alike(ZEROED, q=noise(3, 6, 4, 8), k=noise(3, 6, 5, 8, seed=1), v=noise(3, 6, 5, 8, seed=2), m=mask)
    assert [node.op_type for node in model.graph] == ["Attention"]
    assert not run(model, q=noise(3, 6, 4, 8), k=noise(3, 6, 5, 8), v=noise(3, 6, 5, 8), m=mask)[0][1, :, 2].any()


def test_a_mask_of_the_lowest_numbers_answers_the_mean_where_nothing_is_left():
    mask = np.ones((2, 1, 1, 5), bool)
    mask[1] = False
    values = noise(2, 6, 5, 8, seed=2)
    feeds = {"q": noise(2, 6, 4, 8), "k": noise(2, 6, 5, 8, seed=1), "v": values, "m": mask, "p": noise(1, 6, 4, 5)}
    model = alike(BIASED, **feeds)
    assert operator_counts(model) == {"Attention": 1}
    np.testing.assert_allclose(run(model, **feeds)[0][1, :, 0], values[1].mean(axis=1), rtol=1e-5, atol=1e-6)


GROUPED = """
attention (float[b,s,48] q, float[b,s,16] k, float[b,s,16] v, float[b,2,p,8] pk, float[b,2,p,8] pv)
    => (float[b,s,48] y, float[b,2,t,8] nk, float[b,2,t,8] nv)
<int64[4] apart = {0, 0, -1, 8}, int64[1] two = {2}, int64[5] times = {1, 1, 3, 1, 1}, int64[4] joined = {0, 6, -1, 8},
 int64[3] flat = {0, 0, 48}> {
    q4 = Reshape (q, apart)
    qh = Transpose <perm = [0, 2, 1, 3]> (q4)
    k4 = Reshape (k, apart)
    kh = Transpose <perm = [0, 2, 1, 3]> (k4)
    v4 = Reshape (v, apart)
    vh = Transpose <perm = [0, 2, 1, 3]> (v4)
    nk = Concat <axis = 2> (pk, kh)
    nv = Concat <axis = 2> (pv, vh)
    k5 = Unsqueeze (nk, two)
    ke = Expand (k5, times)
    kr = Reshape (ke, joined)
    v5 = Unsqueeze (nv, two)
    ve = Expand (v5, times)
    vr = Reshape (ve, joined)
    turned = Transpose <perm = [0, 1, 3, 2]> (kr)
    scores = MatMul (qh, turned)
    weights = Softmax <axis = -1> (scores)
    sum = MatMul (weights, vr)
    back = Transpose <perm = [0, 2, 1, 3]> (sum)
    y = Reshape (back, flat)
}"""


@pytest.mark.parametrize("past", [0, 5])
@pytest.mark.parametrize("batch", [1, 3])
def test_heads_that_share_keys_read_the_right_ones_and_the_past_comes_first(past, batch):
    feeds = {"q": noise(batch, 4, 48), "k": noise(batch, 4, 16, seed=1), "v": noise(batch, 4, 16, seed=2)}
    kept = {"pk": noise(batch, 2, past, 8, seed=3), "pv": noise(batch, 2, past, 8, seed=4)}
    model = alike(GROUPED, **feeds, **kept)
    (node,) = model.graph
    assert [value.name for value in node.inputs if value is not None] == ["q", "k", "v", "pk", "pv"]
    assert [value.name for value in model.graph.outputs] == ["y", "nk", "nv"]


NORM = """
norm (float[b,s,8] x) => (float[b,s,8] y) <float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float two = {2.0}, float e = {1e-6},
 int64[1] last = {-1}, float one = {1.0}> {
    square = Pow (x, two)
    mean = ReduceMean <keepdims = 1> (square, last)
    safe = Add (mean, e)
    root = Sqrt (safe)
    inverse = Reciprocal (root)
    even = Mul (x, inverse)
    more = Add (w, one)
    y = Mul (even, more)
}"""


def test_the_weight_of_a_norm_is_never_read():
    model = read(NORM)
    weight = model.graph.initializers["w"]
    weight.const_value = None
    assert [node.op_type for node in fuse_operators(model).graph] == ["Add", "RMSNormalization"]


def test_a_norm_means_the_same():
    assert operator_counts(alike(NORM, x=noise(2, 3, 8))) == {"RMSNormalization": 1}
    assert operator_counts(alike(NORM, opset=22, x=noise(2, 3, 8))) == {}


def test_onnx_runtime_knows_a_norm_that_the_opset_has_no_operator_for(tmp_path):
    plain = alike(
        NORM.replace("more = Add (w, one)\n    y = Mul (even, more)", "y = Mul (even, w)"), opset=18, x=noise(2, 3, 8)
    )
    onnx_ir.save(plain, tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "seen.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options)
    assert [node.op_type for node in onnx.load(tmp_path / "seen.onnx").graph.node] == ["SimplifiedLayerNormalization"]


def test_an_inverse_that_others_read_stays():
    inverse = """
    half (float[n] x, float[n] r) => (float[n] y, float[n] z) {
        inverse = Reciprocal (r)
        y = Mul (x, inverse)
        z = Add (inverse, y)
    }"""
    kinds = [node.op_type for node in alike(inverse, opset=18, x=noise(4), r=noise(4, seed=1)).graph]
    assert kinds == ["Reciprocal", "Mul", "Add"]


# A mask as torch gathers it, at every text and every key.
GATHERED = """
gathers (bool[batch, keys] mask, bool[batch, 1, 1, keys] more) => (bool[batch, 1, 1, keys] y)
<int64[1] last = {-1}, int64[3] inner = {1, 2, 3}, int64[3] outer = {0, 1, 2}, int64 start = {0}, int64 one = {1},
 bool always = {1}>
{
    b = Shape <start = 0, end = 1> (mask)
    batch = Squeeze (b)
    k = Shape <start = 1, end = 2> (mask)
    keys = Squeeze (k)
    rows = Range (start, batch, one)
    texts = Unsqueeze (rows, inner)
    columns = Range (start, keys, one)
    places = Unsqueeze (columns, outer)
    larger = Max (texts, places)
    shape = Shape (larger)
    all_texts = Expand (texts, shape)
    all_places = Expand (places, shape)
    at = Unsqueeze (all_texts, last)
    beside = Unsqueeze (all_places, last)
    indices = Concat <axis = -1> (at, beside)
    gathered = GatherND (mask, indices)
    sure = And (gathered, always)
    y = And (sure, more)
}"""


def gathers(text):
    """The kinds of node of the graph of such a mask, its shapes known as torch tells them."""
    model = read(text)
    full = ["batch", 1, 1, "keys"]
    sizes = {
        "rows": ["batch"],
        "columns": ["keys"],
        "texts": ["batch", 1, 1, 1],
        "places": [1, 1, 1, "keys"],
        "gathered": full,
        "sure": full,
    }
    for value in [one for node in model.graph for one in node.outputs if one.name in sizes]:
        value.shape = onnx_ir.Shape(sizes[value.name])
    feeds = {"mask": noise(3, 5) > 0, "more": noise(3, 1, 1, 5, seed=1) > 0}
    before = run(model, **feeds)
    after = fuse_operators(model)
    assert np.array_equal(run(after, **feeds)[0], before[0])
    return [node.op_type for node in after.graph]


def test_a_mask_that_is_gathered_whole_is_itself():
    assert gathers(GATHERED) == ["Unsqueeze", "And"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("indices = Concat <axis = -1> (at, beside)", "indices = Concat <axis = -1> (at, at)"),
        ("columns = Range (start, keys, one)", "c = Sub (keys, one)\n columns = Range (c, less, less)"),
        ("rows = Range (start, batch, one)", "r = Range (start, batch, one)\n rows = Mul (r, start)"),
    ],
)
def test_a_mask_that_is_gathered_otherwise_is_gathered(one, other):
    text = GATHERED.replace(one, other).replace("int64 one = {1},", "int64 one = {1}, int64 less = {-1},")
    assert "GatherND" in gathers(text)


CENTRED = NORM.replace(
    "square = Pow (x, two)", "m = ReduceMean <keepdims = 1> (x, last)\n c = Sub (x, m)\n square = Pow (c, two)"
)


@pytest.mark.parametrize("opset", [18, 23])
def test_a_norm_of_what_its_mean_is_taken_from_is_a_layer_norm(opset):
    text = CENTRED.replace("even = Mul (x, inverse)", "even = Mul (c, inverse)")
    assert operator_counts(alike(text, opset=opset, x=noise(2, 3, 8))) == {"LayerNormalization": 1}


def test_none_found_of_what_was_expected_is_refused():
    model = fuse_operators(read(NORM))
    model.meta[EXPECTED_OPERATORS] = (("RMSNormalization", "a"),)
    assert fusions(model) == (Fusion("RMSNormalization", expected=1, actual=1),)
    model.meta[EXPECTED_OPERATORS] = (("RMSNormalization", "a"), ("Attention", "b"), ("Attention", "c"))
    with pytest.raises(CaptureFailed, match=r"found none of: Attention \(2 expected\)"):
        fusions(model)


def test_what_an_opset_lacks_is_not_expected_of_it():
    model = fuse_operators(read(NORM, opset=18))
    model.meta[EXPECTED_OPERATORS] = (("RMSNormalization", "a"), ("Attention", "b"), ("Attention", "c"))
    assert fusions(model) == ()
