"""Graphs and weights in files: where they are stored, that they are read back equal, and what is refused."""

import json
import os
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import tiny
import torch
from exported_folders import names
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

import onnxfn
from onnxfn.run.sessions import open_check_session
from onnxfn.specs.errors import CaptureFailed, InvalidSpec, ModelNotFound, OutputExists
from onnxfn.weights import write
from onnxfn.weights.digests import DIGESTS_KEY, sha256_of
from onnxfn.weights.onnx_files import with_weights_in_place
from onnxfn.weights.placement import (
    CACHE_LINE_BYTES,
    MIN_EXTERNAL_BYTES,
    PAGE_BYTES,
    weight_bytes,
    weight_placements,
    write_external_data,
    write_graph,
)

SPEC = onnxfn.spec_for("bert", "fill-mask")
DATA_FILE = "model.onnx_data"
LINKED = onnxfn.WriteOptions(weight_storage="link")
WEB = onnxfn.WriteOptions(layout="transformers.js")
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.int64)


def graph(tensors, op="Identity"):
    values = [ir.Value(name=name, const_value=tensor) for name, tensor in tensors.items()]
    nodes = [ir.node(op, [value]) for value in values]
    for node, value in zip(nodes, values, strict=True):
        (output,) = node.outputs
        output.name, output.shape = f"{value.name}.out", value.const_value.shape
        output.type = ir.TensorType(value.const_value.dtype)
    outputs = [node.outputs[0] for node in nodes]
    main = ir.Graph([], outputs, nodes=nodes, initializers=values, opset_imports={"": 21}, name="main")
    return ir.Model(main, ir_version=10)


def weights(raws):
    return {name: ir.tensor_adapters.TorchTensor(raw) for name, raw in raws.items()}


def write_files(model, folder, **options):
    data_file = folder / DATA_FILE
    places = weight_placements(model, DATA_FILE, **options)
    digests = write_external_data(model, data_file, places)
    stated = {data_file.name: digests[0]} if digests else {}
    assert write_graph(model, folder / "model.onnx", places, stated) == sha256_of(folder / "model.onnx")
    return (folder / "model.onnx", *([data_file] if digests else []))


@st.composite
def raws(draw):
    shape = st.lists(st.integers(1, 60), min_size=1, max_size=3)
    count, tensors = draw(st.integers(1, 5)), {}
    for number in range(count):
        raw = torch.randint(0, 2, draw(shape), dtype=torch.int8).to(draw(st.sampled_from(DTYPES)))
        tensors[f"w{number}"] = raw.permute(draw(st.permutations(range(raw.ndim))))
    return tensors


@settings(max_examples=30)
@given(raws(), st.sampled_from([0, 1 << 30]))
def test_written_weights_are_equal_when_they_are_read(tmp_path_factory, raws, threshold):
    folder = tmp_path_factory.mktemp("files")
    files = write_files(graph(weights(raws)), folder, threshold=threshold)
    large = [raw for raw in raws.values() if raw.nbytes >= MIN_EXTERNAL_BYTES]
    assert [file.name for file in files] == ["model.onnx", *(["model.onnx_data"] if large and not threshold else [])]
    onnx.checker.check_model(str(files[0]), full_check=True)
    by_onnx = {tensor.name: tensor for tensor in onnx.load(files[0]).graph.initializer}
    by_onnx_ir = ir.load(files[0]).graph.initializers
    session = onnxruntime.InferenceSession(files[0])
    for name, raw in raws.items():
        content = ir.tensor_adapters.TorchTensor(raw).tobytes()
        assert by_onnx[name].raw_data == content
        assert by_onnx_ir[name].const_value.tobytes() == content
        assert list(by_onnx[name].dims) == list(raw.shape)
        if raw.dtype is not torch.bfloat16:
            assert np.array_equal(session.run([f"{name}.out"], {})[0], raw.numpy())
    assert list(by_onnx) == list(raws)


@pytest.mark.parametrize("threshold", [0, 1 << 30])
def test_a_written_file_is_what_onnx_ir_would_write(tmp_path, threshold):
    """Except for the location of external data and its digest."""
    model = graph(weights({"a": torch.randn(50, 60).t(), "b": torch.arange(3)}) | {"c": ir.tensor([[1.0, 2.0]])})
    before = ir.to_proto(model)
    (file, *_) = write_files(model, tmp_path, threshold=threshold)
    read = onnx.load(file)
    for tensor in read.graph.initializer:
        tensor.ClearField("data_location")
    read.ClearField("metadata_props")
    assert read == before
    assert ir.to_proto(model) == before


@given(st.lists(st.integers(1024, 3 * PAGE_BYTES), max_size=9))
def test_a_weight_of_a_page_or_more_begins_at_a_page_and_a_file_grows_by_less_than_a_page_for_each(sizes):
    model = graph(weights({f"w{number}": torch.zeros(size, dtype=torch.int8) for number, size in enumerate(sizes)}))
    places = weight_placements(model, DATA_FILE, threshold=0).values()
    assert [each.length for each in places if each.offset % alignment(each.length)] == []
    ends = sorted((each.offset, each.offset + each.length) for each in places)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    bytes_used = max((end for _, end in ends), default=0)
    assert bytes_used <= sum(sizes) + sum(map(alignment, sizes))


def alignment(size):
    return PAGE_BYTES if size >= PAGE_BYTES else CACHE_LINE_BYTES


def test_tied_weights_are_stored_once(tmp_path):
    raw = torch.randn(300, 400)
    tied = weights({"a": raw, "b": raw.view(400, 300), "c": raw.t(), "d": raw.t(), "e": raw.clone()})
    _, data = write_files(graph(tied), tmp_path, threshold=0)
    assert data.stat().st_size <= 3 * (raw.nbytes + PAGE_BYTES)
    stored = [tensor.raw_data for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer]
    assert stored == [tensor.tobytes() for tensor in tied.values()]


def test_the_threshold_counts_all_weights_and_is_at_most_the_limit_of_protobuf():
    model = graph(weights({"a": torch.ones(300), "b": torch.ones(300)}))
    assert weight_bytes(model) == 2400
    assert {place.file for place in weight_placements(model, DATA_FILE, threshold=2400).values()} == {None}
    assert {place.file for place in weight_placements(model, "m.data", threshold=2399).values()} == {"m.data"}
    huge = graph(weights({"a": torch.empty(1).expand(1 << 30)}))
    assert {place.file for place in weight_placements(huge, DATA_FILE, threshold=1 << 40).values()} == {DATA_FILE}


def test_an_invalid_graph_is_refused(tmp_path):
    model = graph(weights({"a": torch.ones(300)}), op="NoSuchOperator")
    message = refusal(CaptureFailed, write_graph, model, tmp_path / "model.onnx", weight_placements(model, DATA_FILE))
    assert message.startswith("model.onnx is not a valid ONNX file: No Op registered for NoSuchOperator")
    assert list(tmp_path.iterdir()) == []


# Through the pipeline


@pytest.fixture(scope="module")
def bert(checkpoint):
    from transformers import AutoModelForMaskedLM

    return AutoModelForMaskedLM.from_pretrained(checkpoint)


def locations(file):
    tensors = [each for each in onnx.load(file, load_external_data=False).graph.initializer if each.external_data]
    return {tensor.name: {entry.key: entry.value for entry in tensor.external_data} for tensor in tensors}


@pytest.fixture(scope="module")
def linked(bert, checkpoint, tmp_path_factory):
    return onnxfn.export(SPEC, bert, tmp_path_factory.mktemp("out") / "bert", checkpoint=checkpoint, write=LINKED)


def test_every_matrix_is_linked(linked, bert):
    external_data = locations(linked.files[0]).items()
    linked_to = {name for name, place in external_data if place["location"] == "model.safetensors"}
    parameters = bert.named_parameters()
    matrices = {name for name, weight in parameters if weight.ndim > 1 and weight.nbytes >= MIN_EXTERNAL_BYTES}
    assert matrices <= linked_to


def test_files_of_the_checkpoint_are_hard_links_and_not_copied(linked, checkpoint):
    file = os.path.join(linked.path, "model.safetensors")
    assert os.path.samefile(file, checkpoint / "model.safetensors")
    assert file in linked.files
    assert len(set(linked.files)) == len(linked.files)
    assert linked.report.passed
    assert "copy" not in dict(linked.seconds)


def test_weights_of_the_checkpoint_are_referred_to_and_others_are_external_data(linked, bert, checkpoint):
    places = locations(linked.files[0])
    assert {place["location"] for place in places.values()} <= {"model.safetensors", "model.onnx_data"}
    embedding = places["bert.embeddings.word_embeddings.weight"]
    content = (checkpoint / "model.safetensors").read_bytes()
    start, length = int(embedding["offset"]), int(embedding["length"])
    assert embedding["location"] == "model.safetensors"
    assert content[start : start + length] == bert.bert.embeddings.word_embeddings.weight.detach().numpy().tobytes()
    sizes = [int(place["length"]) for place in places.values() if place["location"] == "model.onnx_data"]
    stored = os.path.getsize(os.path.join(linked.path, "model.onnx_data")) if sizes else 0
    assert sum(sizes) <= stored <= sum(sizes) + CACHE_LINE_BYTES * len(sizes)


def test_a_linked_export_can_be_overwritten(bert, checkpoint, tmp_path):
    for storage in ("link", "link", "copy"):
        write = onnxfn.WriteOptions(weight_storage=storage)
        onnxfn.export(SPEC, bert, tmp_path / "out", checkpoint=checkpoint, write=write, overwrite=True)
        assert onnxfn.validate(SPEC, bert, tmp_path / "out").passed
    assert os.path.samefile(tmp_path / "out" / "model.safetensors", checkpoint / "model.safetensors")


def test_a_symbolic_link_of_the_hub_cache_is_resolved(bert, checkpoint, tmp_path):
    snapshot, blob = tmp_path / "models--a--b/snapshots/main", tmp_path / "models--a--b/blobs/0123"
    snapshot.mkdir(parents=True)
    blob.parent.mkdir()
    blob.hardlink_to(checkpoint / "model.safetensors")
    (snapshot / "model.safetensors").symlink_to("../../blobs/0123")
    onnxfn.export(SPEC, bert, tmp_path / "out", checkpoint=snapshot, write=LINKED, check=False)
    assert not (tmp_path / "out" / "model.safetensors").is_symlink()
    assert os.path.samefile(tmp_path / "out" / "model.safetensors", checkpoint / "model.safetensors")


def test_a_file_that_cannot_be_linked_is_copied_and_the_copy_is_an_event(bert, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(write.Path, "hardlink_to", Mock(side_effect=OSError(18, "Invalid cross-device link")))
    events = []
    result = onnxfn.export(SPEC, bert, tmp_path / "out", checkpoint=checkpoint, write=LINKED, on_event=events.append)
    assert result.report.passed
    assert ("copy", "model.safetensors") in {(event.stage, event.part) for event in events}
    assert "copy" in dict(result.seconds)
    copy, source = tmp_path / "out" / "model.safetensors", checkpoint / "model.safetensors"
    assert copy.read_bytes() == source.read_bytes()
    assert not copy.samefile(source)


def test_a_link_does_not_replace_another_file(bert, checkpoint, tmp_path):
    (tmp_path / "model.safetensors").write_text("mine")
    options = {"checkpoint": checkpoint, "write": LINKED}
    message = refusal(OutputExists, onnxfn.export, SPEC, bert, tmp_path / "model.onnx", **options)
    taken, source = tmp_path / "model.safetensors", checkpoint / "model.safetensors"
    reason = f"{taken} exists and is not {source}, which would be linked there"
    assert message == f"{reason}; choose another path, or pass overwrite=True (--overwrite)"
    assert (tmp_path / "model.safetensors").read_text() == "mine"


def test_a_graph_without_weights_refers_to_their_files(bert, tmp_path):
    outside = onnxfn.WriteOptions(external_data_threshold=0, external_data_suffix=".weights")
    complete = onnxfn.export(SPEC, bert, tmp_path / "complete.onnx", write=outside, check=False)
    without = onnxfn.WriteOptions(weight_storage="none", external_data_suffix=".weights")
    for check in (True, False):
        folder = tmp_path / f"graph-{check}"
        bare = onnxfn.export(SPEC, bert, folder / "complete.onnx", write=without, check=check)
        assert names(folder) == ["complete.onnx"]
        assert [os.path.basename(file) for file in bare.files] == ["complete.onnx"]
        bare_graph, graph = (onnx.load(result.files[0], load_external_data=False) for result in (bare, complete))
        # Without weights there is no digest of weights.
        (digests,) = (entry for entry in graph.metadata_props if entry.key == DIGESTS_KEY)
        graph.metadata_props.remove(digests)
        assert bare_graph == graph
        assert (bare.report is not None) is check
    assert locations(complete.files[0])
    os.link(tmp_path / "complete.weights", folder / "complete.weights")
    assert onnxfn.validate(SPEC, bert, folder / "complete.onnx").passed


def test_without_weights_and_check_no_weight_is_read(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("onnxfn.weights.placement.chunks", None)
    onnxfn.export(SPEC, bert, tmp_path / "model.onnx", write=onnxfn.WriteOptions(weight_storage="none"), check=False)
    assert names(tmp_path) == ["model.onnx"]


def test_links_need_a_checkpoint_with_safetensors_files(bert, tmp_path):
    message = refusal(InvalidSpec, onnxfn.export, SPEC, bert, tmp_path / "out", write=LINKED)
    assert message == "weight storage 'link' needs a checkpoint with safetensors files; pass its folder: checkpoint=..."
    options = {"write": LINKED, "checkpoint": tmp_path}
    message = refusal(ModelNotFound, onnxfn.export, SPEC, bert, tmp_path / "out", **options)
    assert "weight storage 'link' needs *.safetensors files" in message
    assert names(tmp_path) == []


def seq2seq(dtype="float32"):
    spec = onnxfn.with_dtypes(onnxfn.spec_for("t5", "text2text-generation-with-past"), float=dtype)
    return spec, tiny.model("t5", spec.call.loader, vocab_size=20000)


def sizes(files):
    """The bytes of the graphs and of their weights. The report is left out: it is longer after a check."""
    return sum(os.path.getsize(file) for file in files if "_model" in os.path.basename(file))


@pytest.mark.parametrize(
    ("dtype", "threshold"),
    [
        ("float32", 0),
        pytest.param("float16", 1 << 30, marks=pytest.mark.sweep),
        pytest.param("float32", 1 << 30, marks=pytest.mark.sweep),
        pytest.param("float16", 0, marks=pytest.mark.sweep),
    ],
)
def test_a_shared_weight_is_stored_once_with_the_first_file(dtype, threshold, tmp_path):
    spec, model = seq2seq(dtype)
    write = onnxfn.WriteOptions(external_data_threshold=threshold)
    shared = onnxfn.export(spec, model, tmp_path / "shared", write=write)
    copied = onnxfn.WriteOptions(external_data_threshold=threshold, weight_storage="copy")
    separate = onnxfn.export(spec, model, tmp_path / "separate", write=copied, check=False)
    assert shared.report.passed
    table = model.shared.weight.nbytes // (2 if dtype == "float16" else 1)
    assert abs(sizes(separate.files) - sizes(shared.files) - table) < 2 * PAGE_BYTES
    files = {os.path.basename(file): file for file in shared.files}
    places = {name: locations(files[name]).values() for name in files if name.endswith("onnx")}
    data_files = {name: {place["location"] for place in every} for name, every in places.items()}
    own = set() if threshold else {"decoder_model_merged.onnx_data"}
    decoder = {"encoder_model.onnx_data"} | own
    assert data_files == {"encoder_model.onnx": {"encoder_model.onnx_data"}, "decoder_model_merged.onnx": decoder}
    assert {name for name in files if "_model" in name} == {*data_files, "encoder_model.onnx_data"} | own


def test_a_weight_of_four_files_is_stored_once(tmp_path):
    spec, model = seq2seq()
    separate, shared = (
        onnxfn.export(spec, model, tmp_path / write.weight_storage, decoders="both", write=write, check=False)
        for write in (onnxfn.WriteOptions(weight_storage=storage) for storage in ("copy", "share"))
    )
    graphs = [os.path.basename(file) for file in shared.files if file.endswith(".onnx")]
    assert graphs == list(shared.plan.files)
    assert len(graphs) == 4
    assert abs(sizes(separate.files) - sizes(shared.files) - 3 * model.shared.weight.nbytes) < 4 * PAGE_BYTES


@pytest.mark.parametrize(("weights", "disables_prepacking"), [("share", True), ("copy", False)])
def test_the_check_disables_prepacking_if_files_have_external_data(weights, disables_prepacking, tmp_path):
    spec, model = seq2seq()
    onnxfn.export(spec, model, tmp_path / "out", write=onnxfn.WriteOptions(weight_storage=weights), check=False)
    (tmp_path / "out" / "decoder_model_merged.md").write_text("a text beside the file is no external data")
    options = open_check_session(tmp_path / "out" / "decoder_model_merged.onnx").get_session_options()
    try:
        assert disables_prepacking == (options.get_session_config_entry("session.disable_prepacking") == "1")
    except RuntimeError:  # ONNX Runtime raises it for an entry that is not set
        assert not disables_prepacking


@pytest.mark.parametrize(("dtype", "on_use"), [("float16", True), ("float32", False)])
def test_the_weights_of_a_large_16_bit_file_are_converted_when_they_are_read(dtype, on_use, tmp_path, monkeypatch):
    monkeypatch.setattr("onnxfn.run.sessions.LARGE_HALF_BYTES", 0)
    spec, model = seq2seq()
    write = onnxfn.WriteOptions(external_data_threshold=0)
    exported = onnxfn.export(onnxfn.with_dtypes(spec, float=dtype), model, tmp_path / "out", write=write)
    options = open_check_session(tmp_path / "out" / exported.plan.files[0]).get_session_options()
    assert exported.report.passed
    assert (options.execution_order == onnxruntime.ExecutionOrder.PRIORITY_BASED) == on_use
    assert not options.enable_cpu_mem_arena


@pytest.mark.parametrize("dtype", ["float32", "q4"])
def test_the_check_maps_the_weights_in_a_large_file(dtype, tmp_path, monkeypatch):
    """The same numbers come out, and the file is not read as a whole: it gives ONNX Runtime its graph alone."""
    spec, model = seq2seq()
    exported = onnxfn.export(onnxfn.with_dtypes(spec, float=dtype), model, tmp_path / "out", check=False)
    file = tmp_path / "out" / exported.plan.files[0]
    read = open_check_session(file)
    monkeypatch.setattr("onnxfn.run.sessions.LARGE_FILE_BYTES", 0)
    monkeypatch.setattr("onnxfn.run.sessions.IN_PLACE_BYTES", 64)
    contents = []
    monkeypatch.setattr(
        "onnxfn.run.sessions.with_weights_in_place",
        lambda *arguments: contents.append(with_weights_in_place(*arguments)) or contents[-1],
    )
    mapped = open_check_session(file)
    assert len(contents[0]) < 0.8 * file.stat().st_size
    shapes = {port.name: [size if isinstance(size, int) else 3 for size in port.shape] for port in read.get_inputs()}
    feeds = {name: np.ones(shape, np.int64) for name, shape in shapes.items()}
    for expected, actual in zip(read.run(None, feeds), mapped.run(None, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)  # other optimizations, other roundings


def test_transformers_js_gets_files_that_share_no_weights(tmp_path):
    spec, model = seq2seq()
    write = onnxfn.WriteOptions(layout="transformers.js", external_data_threshold=0)
    result = onnxfn.export(spec, model, tmp_path / "out", write=write)
    assert result.report.passed
    assert onnxfn.validate(spec, model, tmp_path / "out").passed
    read = np.array([[5, 6, 7]])
    texts = onnxfn.generate(tmp_path / "out", read, max_new_tokens=4, start=0)
    assert np.array_equal(texts, onnxfn.generate(result, read, max_new_tokens=4, start=0))
    graphs = [file for file in result.files if file.endswith(".onnx")]
    assert {os.path.dirname(file) for file in graphs} == {str(tmp_path / "out" / "onnx")}
    for file in graphs:
        assert {place["location"] for place in locations(file).values()} == {f"{os.path.basename(file)}_data"}
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["model_type"] == "t5"
    declared = {os.path.basename(file): 1 for file in graphs}
    assert config["transformers.js_config"] == {"use_external_data_format": declared}


def test_a_small_model_has_no_external_data_to_declare(bert, tmp_path):
    result = onnxfn.export(SPEC, bert, tmp_path / "out", write=WEB, check=False)
    names = [os.path.relpath(file, tmp_path) for file in result.files]
    assert names == ["out/onnx/model.onnx", "out/config.json", "out/report.json"]
    assert "transformers.js_config" not in json.loads((tmp_path / "out" / "config.json").read_text())
    bare = onnxfn.export(SPEC, bert, tmp_path / "bare" / "bert.onnx", write=WEB, check=False)
    assert [os.path.relpath(file, tmp_path) for file in bare.files] == ["bare/bert.onnx"]


def test_options_override_the_layout(tmp_path):
    spec, model = seq2seq()
    write = onnxfn.WriteOptions(layout="transformers.js", weight_storage="share", external_data_suffix=".data")
    result = onnxfn.export(spec, model, tmp_path / "out", write=write, check=False)
    files = [os.path.relpath(file, tmp_path / "out") for file in result.files[:2]]
    assert files == ["onnx/encoder_model.onnx", "onnx/encoder_model.data"]
