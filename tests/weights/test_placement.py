"""Graph and weights to files: what is read back, where it lies, and what is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

import onnxfn
from onnxfn.check.sessions import open_check_session
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, ModelNotFound, OutputExists, UnknownName
from onnxfn.weights import write
from onnxfn.weights.placement import (
    CACHE_LINE_BYTES,
    EXTERNAL_DATA_SUFFIX,
    MIN_EXTERNAL_BYTES,
    MIN_PAGE_ALIGNED_BYTES,
    PAGE_BYTES,
    placements,
    weight_bytes,
    write_external_data,
    write_graph,
)
from onnxfn.weights.safetensors import entries

SPEC = onnxfn.spec_for("bert", "fill-mask")
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.int64)


def graph(tensors, op="Identity"):
    """A graph that gives its weights."""
    values = [ir.Value(name=name, const_value=tensor) for name, tensor in tensors.items()]
    nodes = [ir.node(op, [value]) for value in values]
    for node, value in zip(nodes, values, strict=True):
        made = node.outputs[0]
        made.name, made.shape, made.type = (
            f"{value.name}.out",
            value.const_value.shape,
            ir.TensorType(value.const_value.dtype),
        )
    outputs = [node.outputs[0] for node in nodes]
    made = ir.Graph([], outputs, nodes=nodes, initializers=values, opset_imports={"": 21}, name="main")
    return ir.Model(made, ir_version=10)


def weights(raws):
    return {name: ir.tensor_adapters.TorchTensor(raw) for name, raw in raws.items()}


def written(model, folder, **options):
    places = placements(model, "model", **options)
    sidecar = folder / f"model{options.get('suffix', EXTERNAL_DATA_SUFFIX)}"
    return (write_graph(model, folder / "model.onnx", places), *write_external_data(model, sidecar, places))


@st.composite
def raws(draw):
    shape = st.lists(st.integers(1, 60), min_size=1, max_size=3)
    count, made = draw(st.integers(1, 5)), {}
    for number in range(count):
        raw = torch.randint(0, 2, draw(shape), dtype=torch.int8).to(draw(st.sampled_from(DTYPES)))
        made[f"w{number}"] = raw.permute(draw(st.permutations(range(raw.ndim))))
    return made


@settings(max_examples=30)
@given(raws(), st.sampled_from([0, 1 << 30]))
def test_what_is_read_back_is_what_was_given(tmp_path_factory, raws, threshold):
    folder = tmp_path_factory.mktemp("files")
    model = graph(weights(raws))
    files = written(model, folder, threshold=threshold)
    large = [raw for raw in raws.values() if raw.nbytes >= MIN_EXTERNAL_BYTES]
    assert [file.name for file in files] == ["model.onnx", *(["model.onnx_data"] if large and not threshold else [])]
    onnx.checker.check_model(str(files[0]), full_check=True)
    read = {one.name: one for one in onnx.load(files[0]).graph.initializer}
    again = ir.load(files[0]).graph.initializers
    run = onnxruntime.InferenceSession(files[0])
    for name, raw in raws.items():
        whole = ir.tensor_adapters.TorchTensor(raw).tobytes()
        assert read[name].raw_data == whole
        assert again[name].const_value.tobytes() == whole
        assert list(read[name].dims) == list(raw.shape)
        if raw.dtype is not torch.bfloat16:
            assert np.array_equal(run.run([f"{name}.out"], {})[0], raw.numpy())
    assert list(read) == list(raws)


@pytest.mark.parametrize("threshold", [0, 1 << 30])
def test_the_file_says_what_onnx_ir_would_say(tmp_path, threshold):
    """But for where in the sidecar the weights lie."""
    model = graph(weights({"a": torch.randn(50, 60).t(), "b": torch.arange(3)}) | {"c": ir.tensor([[1.0, 2.0]])})
    before = ir.to_proto(model)
    (file, *_) = written(model, tmp_path, threshold=threshold)
    read = onnx.load(file)
    for tensor in read.graph.initializer:
        tensor.ClearField("data_location")
    assert read == before
    assert ir.to_proto(model) == before


def test_places_in_a_sidecar_can_be_used_where_they_are(tmp_path):
    raws = {
        "odd": torch.ones(1031, dtype=torch.int8),
        "line": torch.ones(300),
        "page": torch.ones(MIN_PAGE_ALIGNED_BYTES // 4),
    }
    places = placements(graph(weights(raws)), "model", threshold=0)
    assert [(one.file, one.offset) for one in places.values()] == [
        ("model.onnx_data", 0),
        ("model.onnx_data", -(-1031 // CACHE_LINE_BYTES) * CACHE_LINE_BYTES),
        ("model.onnx_data", PAGE_BYTES),
    ]


def test_one_tensor_is_stored_once(tmp_path):
    raw = torch.randn(300, 400)
    tied = weights({"a": raw, "b": raw.view(400, 300), "c": raw.t(), "d": raw.t(), "e": raw.clone()})
    _, data = written(graph(tied), tmp_path, threshold=0)
    assert data.stat().st_size <= 3 * (raw.nbytes + PAGE_BYTES)
    assert [one.raw_data for one in onnx.load(tmp_path / "model.onnx").graph.initializer] == [
        one.tobytes() for one in tied.values()
    ]


def test_the_threshold_is_of_all_weights_and_never_above_what_a_file_holds():
    model = graph(weights({"a": torch.ones(300), "b": torch.ones(300)}))
    assert weight_bytes(model) == 2400
    assert {one.file for one in placements(model, "m", threshold=2400).values()} == {None}
    assert {one.file for one in placements(model, "m", threshold=2399, suffix=".data").values()} == {"m.data"}
    huge = graph(weights({"a": torch.empty(1).expand(1 << 30)}))
    assert {one.file for one in placements(huge, "m", threshold=1 << 40).values()} == {"m.onnx_data"}


def test_a_graph_that_is_no_valid_onnx_is_refused(tmp_path):
    model = graph(weights({"a": torch.ones(300)}), op="NoSuchOperator")
    told = refusal(CaptureFailed, write_graph, model, tmp_path / "model.onnx", placements(model, "model"))
    assert told.startswith("model.onnx is not a valid ONNX file: No Op registered for NoSuchOperator")
    assert list(tmp_path.iterdir()) == []


# Through the pipeline


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(checkpoint):
    from transformers import AutoModelForMaskedLM

    return AutoModelForMaskedLM.from_pretrained(checkpoint)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def locations(file):
    tensors = onnx.load(file, load_external_data=False).graph.initializer
    return {one.name: {entry.key: entry.value for entry in one.external_data} for one in tensors if one.external_data}


@pytest.fixture(scope="module")
def linked(bert, checkpoint, tmp_path_factory):
    return onnxfn.export(SPEC, bert, tmp_path_factory.mktemp("out") / "bert", checkpoint=checkpoint, weights="link")


def test_every_matrix_is_linked_as_it_stands(linked, bert):
    linked_to = {name for name, at in locations(linked.files[0]).items() if at["location"] == "model.safetensors"}
    matrices = {name for name, one in bert.named_parameters() if one.ndim > 1 and one.nbytes >= MIN_EXTERNAL_BYTES}
    assert matrices <= linked_to


def test_links_are_hard_and_nothing_of_the_checkpoint_is_copied(linked, checkpoint):
    file = os.path.join(linked.path, "model.safetensors")
    assert os.path.samefile(file, checkpoint / "model.safetensors")
    assert file in linked.files
    assert len(set(linked.files)) == len(linked.files)
    assert linked.report.passed
    assert "copy" not in dict(linked.seconds)


def test_what_lies_in_the_checkpoint_is_pointed_to_and_the_rest_stands_beside(linked, bert, checkpoint):
    places = locations(linked.files[0])
    assert {one["location"] for one in places.values()} <= {"model.safetensors", "model.onnx_data"}
    embedding = places["bert.embeddings.word_embeddings.weight"]
    content = (checkpoint / "model.safetensors").read_bytes()
    start, length = int(embedding["offset"]), int(embedding["length"])
    assert embedding["location"] == "model.safetensors"
    assert content[start : start + length] == bert.bert.embeddings.word_embeddings.weight.detach().numpy().tobytes()
    sizes = [int(one["length"]) for one in places.values() if one["location"] == "model.onnx_data"]
    stored = os.path.getsize(os.path.join(linked.path, "model.onnx_data")) if sizes else 0
    assert sum(sizes) <= stored <= sum(sizes) + CACHE_LINE_BYTES * len(sizes)


def test_a_linked_export_is_repeated_in_its_place(bert, checkpoint, tmp_path):
    for weights in ("link", "link", "copy"):
        onnxfn.export(SPEC, bert, tmp_path / "out", checkpoint=checkpoint, weights=weights, overwrite=True)
        assert onnxfn.validate(SPEC, bert, tmp_path / "out").passed
    assert os.path.samefile(tmp_path / "out" / "model.safetensors", checkpoint / "model.safetensors")


def test_an_export_can_stand_in_the_checkpoint_itself(bert, tmp_path):
    bert.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    result = onnxfn.export(SPEC, bert, tmp_path, checkpoint=tmp_path, weights="link", overwrite=True, check=False)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert str(tmp_path / "model.safetensors") in result.files


def test_a_link_from_a_link_of_the_hubs_cache_is_to_the_file(bert, checkpoint, tmp_path):
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "model.safetensors").symlink_to(checkpoint / "model.safetensors")
    onnxfn.export(SPEC, bert, tmp_path / "out", checkpoint=tmp_path / "snapshot", weights="link", check=False)
    assert not (tmp_path / "out" / "model.safetensors").is_symlink()
    assert os.path.samefile(tmp_path / "out" / "model.safetensors", checkpoint / "model.safetensors")


def test_where_no_link_is_possible_the_file_is_copied_and_that_is_said(bert, checkpoint, tmp_path, monkeypatch):
    def no_link(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(write.Path, "hardlink_to", no_link)
    told = []
    result = onnxfn.export(SPEC, bert, tmp_path / "out", checkpoint=checkpoint, weights="link", on_event=told.append)
    assert result.report.passed
    assert ("copy", "model.safetensors") in {(one.stage, one.part) for one in told}
    assert "copy" in dict(result.seconds)
    copied, there = tmp_path / "out" / "model.safetensors", checkpoint / "model.safetensors"
    assert copied.read_bytes() == there.read_bytes()
    assert not copied.samefile(there)


def test_another_file_is_not_replaced_by_a_link(bert, checkpoint, tmp_path):
    (tmp_path / "model.safetensors").write_text("mine")
    told = refusal(
        OutputExists, onnxfn.export, SPEC, bert, tmp_path / "model.onnx", checkpoint=checkpoint, weights="link"
    )
    taken, source = tmp_path / "model.safetensors", checkpoint / "model.safetensors"
    what = f"{taken} is another file than {source}, to be linked there"
    assert told == f"{what}; choose another path, or pass overwrite=True (--overwrite)"
    assert (tmp_path / "model.safetensors").read_text() == "mine"


def test_the_graph_alone_points_to_where_the_weights_would_be(bert, tmp_path):
    whole = onnxfn.export(SPEC, bert, tmp_path / "whole.onnx", threshold=0, sidecar=".weights", check=False)
    for check in (True, False):
        folder = tmp_path / f"alone-{check}"
        alone = onnxfn.export(SPEC, bert, folder / "whole.onnx", weights="none", sidecar=".weights", check=check)
        assert names(folder) == ["whole.onnx"]
        assert [os.path.basename(file) for file in alone.files] == ["whole.onnx"]
        assert (folder / "whole.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()
        assert (alone.report is not None) is check
    assert locations(whole.files[0])
    os.link(tmp_path / "whole.weights", folder / "whole.weights")
    assert onnxfn.validate(SPEC, bert, folder / "whole.onnx").passed


def test_without_check_the_graph_alone_reads_no_weight(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("onnxfn.weights.placement.chunks", None)
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx", weights="none", check=False)
    assert names(tmp_path) == ["model.onnx"]


def test_a_sidecar_is_never_written_over_a_file_of_the_checkpoint(checkpoint):
    told = refusal(InvalidSpec, placements, graph({}), "model", suffix=".safetensors", entries=entries(checkpoint))
    assert (
        told
        == "model.safetensors is a file of the checkpoint; choose another suffix of external data than '.safetensors'"
    )


def test_links_need_a_checkpoint_and_its_safetensors(bert, tmp_path):
    told = refusal(InvalidSpec, onnxfn.export, SPEC, bert, tmp_path / "out", weights="link")
    assert told == "weights='link' is into a checkpoint's safetensors files; say where: checkpoint=<its folder>"
    assert "weights='link' needs *.safetensors files" in refusal(
        ModelNotFound, onnxfn.export, SPEC, bert, tmp_path / "out", weights="link", checkpoint=tmp_path
    )
    told = refusal(UnknownName, onnxfn.export, SPEC, bert, tmp_path / "out", weights="lnk")
    assert told == "no weight storage 'lnk'; known: copy, share, link, none; did you mean 'link'?"
    assert names(tmp_path) == []


def test_a_layout_finds_what_a_checkpoint_holds(tmp_path):
    from safetensors.torch import save_file

    raw = torch.randn(300, 400)
    save_file({"w": raw}, tmp_path / "model.safetensors")
    places = placements(graph(weights({"w": raw, "turned": raw.t()})), "model", threshold=0, entries=entries(tmp_path))
    assert places["w"].source == tmp_path / "model.safetensors"
    assert (places["turned"].file, places["turned"].source) == ("model.onnx_data", None)


def seq2seq(dtype="float32"):
    spec = onnxfn.with_dtypes(onnxfn.spec_for("t5", "text2text-generation-with-past"), float=dtype)
    return spec, tiny.model("t5", spec.call.loader, vocab_size=20000)


def sizes(files):
    return sum(os.path.getsize(file) for file in files)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("threshold", [1 << 30, 0])
def test_what_several_files_read_is_stored_once_beside_the_first(dtype, threshold, tmp_path):
    spec, model = seq2seq(dtype)
    shared = onnxfn.export(spec, model, tmp_path / "shared", threshold=threshold)
    apart = onnxfn.export(spec, model, tmp_path / "apart", threshold=threshold, weights="copy", check=False)
    assert shared.report.passed
    table = model.shared.weight.nbytes // (2 if dtype == "float16" else 1)
    assert abs(sizes(apart.files) - sizes(shared.files) - table) < 2 * PAGE_BYTES
    files = {os.path.basename(file): file for file in shared.files}
    told = {name: {at["location"] for at in locations(files[name]).values()} for name in files if name.endswith("onnx")}
    own = set() if threshold else {"decoder_model_merged.onnx_data"}
    assert told == {
        "encoder_model.onnx": {"encoder_model.onnx_data"},
        "decoder_model_merged.onnx": {"encoder_model.onnx_data"} | own,
    }
    assert {name for name in files if "_model" in name} == {*told, "encoder_model.onnx_data"} | own


def test_four_files_hold_what_all_read_once(tmp_path):
    spec, model = seq2seq()
    apart, shared = (
        onnxfn.export(spec, model, tmp_path / weights, decoders="both", weights=weights, check=False)
        for weights in ("copy", "share")
    )
    graphs = [os.path.basename(file) for file in shared.files if file.endswith(".onnx")]
    assert graphs == list(shared.plan.files)
    assert len(graphs) == 4
    assert abs(sizes(apart.files) - sizes(shared.files) - 3 * model.shared.weight.nbytes) < 4 * PAGE_BYTES


@pytest.mark.parametrize(("weights", "where_it_lies"), [("share", True), ("copy", False)])
def test_the_check_repacks_no_weights_that_lie_beside_another_file(weights, where_it_lies, tmp_path):
    spec, model = seq2seq()
    onnxfn.export(spec, model, tmp_path / "out", weights=weights, check=False)
    told = open_check_session(tmp_path / "out" / "decoder_model_merged.onnx").get_session_options()
    try:
        assert where_it_lies == (told.get_session_config_entry("session.disable_prepacking") == "1")
    except RuntimeError:  # how ONNX Runtime says that nothing was told
        assert not where_it_lies


def test_for_a_browser_each_file_comes_with_all_it_reads(tmp_path):
    spec, model = seq2seq()
    done = onnxfn.export(spec, model, tmp_path / "out", layout="transformers.js", threshold=0)
    assert done.report.passed
    assert onnxfn.validate(spec, model, tmp_path / "out").passed
    read = np.array([[5, 6, 7]])
    written = onnxfn.generate(tmp_path / "out", read, max_new_tokens=4, start=0)
    assert np.array_equal(written, onnxfn.generate(done, read, max_new_tokens=4, start=0))
    graphs = [file for file in done.files if file.endswith(".onnx")]
    assert {os.path.dirname(file) for file in graphs} == {str(tmp_path / "out" / "onnx")}
    for file in graphs:
        assert {at["location"] for at in locations(file).values()} == {f"{os.path.basename(file)}_data"}
    told = json.loads((tmp_path / "out" / "config.json").read_text())
    assert told["model_type"] == "t5"
    assert told["transformers.js_config"] == {
        "use_external_data_format": {os.path.basename(file): 1 for file in graphs},
    }


def test_a_small_model_has_no_sidecar_to_be_told_of(bert, tmp_path):
    done = onnxfn.export(SPEC, bert, tmp_path / "out", layout="transformers.js", check=False)
    assert [os.path.relpath(file, tmp_path) for file in done.files] == ["out/onnx/model.onnx", "out/config.json"]
    assert "transformers.js_config" not in json.loads((tmp_path / "out" / "config.json").read_text())
    alone = onnxfn.export(SPEC, bert, tmp_path / "alone" / "bert.onnx", layout="transformers.js", check=False)
    assert [os.path.relpath(file, tmp_path) for file in alone.files] == ["alone/bert.onnx"]


def test_what_is_asked_for_comes_before_what_the_layout_says(tmp_path):
    spec, model = seq2seq()
    done = onnxfn.export(
        spec, model, tmp_path / "out", layout="transformers.js", weights="share", sidecar=".data", check=False
    )
    assert [os.path.relpath(file, tmp_path / "out") for file in done.files[:2]] == [
        "onnx/encoder_model.onnx",
        "onnx/encoder_model.data",
    ]


def test_an_unknown_layout_is_refused(bert, tmp_path):
    told = refusal(UnknownName, onnxfn.export, SPEC, bert, tmp_path / "out", layout="transformersjs")
    assert told == "no layout 'transformersjs'; known: optimum, transformers.js; did you mean 'transformers.js'?"
    assert names(tmp_path) == []
