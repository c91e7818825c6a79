"""`embedding.onnx` for onnxruntime-genai: the graph of the table, with features in the places of placeholder tokens."""

import json

import every_part
import numpy as np
import onnx
import onnxruntime
import pytest

import onnxfn
from onnxfn.export.clients.folder import Folder
from onnxfn.export.clients.side_files import with_side_files
from onnxfn.run.merged_embeddings import merged_embeddings

TASK = "image-text-to-text-with-past"
HUB = onnxfn.WriteOptions(layout="hub")


@pytest.fixture(scope="module")
def model():
    return every_part.tiny_model("qwen2_5_vl", TASK)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("qwen") / "out"
    onnxfn.export(onnxfn.spec_for(model, TASK), model, folder, check=False, write=HUB)
    return folder


def session(folder, stem):
    return onnxruntime.InferenceSession(folder / "onnx" / f"{stem}.onnx")


@pytest.mark.parametrize("texts", [[[5, 6, 7]], [[5, -1, -1, 6]], [[-1, 5, 6], [7, 8, -1]]])
def test_features_stand_in_the_places_of_placeholder_tokens(model, folder, texts):
    placeholder = model.config.image_token_id
    ids = np.where(np.array(texts) < 0, placeholder, texts)
    (embeddings,) = session(folder, "embed_tokens").run(None, {"input_ids": ids})
    count = int((ids == placeholder).sum())
    features = np.random.default_rng(0).normal(size=(count, embeddings.shape[-1])).astype(np.float32)
    (merged,) = session(folder, "embedding").run(["inputs_embeds"], {"input_ids": ids, "image_features": features})
    assert np.array_equal(merged, merged_embeddings(embeddings, ids, {placeholder: features}))


def test_a_placeholder_token_for_which_there_is_no_row_keeps_its_own_embedding(model, folder):
    """After the prompt the runtime gives no rows, and a model may write the token."""
    ids = np.array([[5, model.config.image_token_id, 6]])
    (embeddings,) = session(folder, "embed_tokens").run(None, {"input_ids": ids})
    given = {"input_ids": ids, "image_features": np.zeros((0, embeddings.shape[-1]), np.float32)}
    (merged,) = session(folder, "embedding").run(["inputs_embeds"], given)
    assert np.array_equal(merged, embeddings)


def test_genai_config_names_the_files_and_their_tensors(model, folder):
    config = json.loads((folder / "genai_config.json").read_text())["model"]
    assert config["type"] == "qwen2_5_vl"
    assert config["image_token_id"] == model.config.image_token_id
    for block in ("embedding", "vision", "decoder"):
        graph = onnx.load(folder / config[block]["filename"], load_external_data=False).graph
        names = {each.name for each in (*graph.input, *graph.output)}
        stated = {*config[block]["inputs"].values(), *config[block]["outputs"].values()}
        assert {name % 0 if "%d" in name else name for name in stated} <= names
    assert config["vision"]["spatial_merge_size"] == model.config.vision_config.spatial_merge_size


def test_genai_config_names_the_inputs_that_a_tower_has(tmp_path):
    """The tower of Mistral 3 takes no grids, and the number of patches that become one is not in the vision section."""
    mistral = every_part.tiny_model("mistral3", TASK)
    onnxfn.export(onnxfn.spec_for(mistral, TASK), mistral, tmp_path / "out", check=False, write=HUB)
    vision = json.loads((tmp_path / "out" / "genai_config.json").read_text())["model"]["vision"]
    assert vision["inputs"] == {"pixel_values": "pixel_values"}
    assert vision["spatial_merge_size"] == mistral.config.spatial_merge_size
    assert vision["patch_size"] == mistral.config.vision_config.patch_size


def test_the_files_are_part_of_the_report(folder):
    assert onnxfn.verify(folder).passed
    assert "onnx/embedding.onnx" in json.loads((folder / "report.json").read_text())["files"]


def test_both_files_share_one_table_of_weights(model, tmp_path):
    model.resize_token_embeddings(40_000)
    spec = onnxfn.spec_for(model, TASK)
    write = onnxfn.WriteOptions(layout="hub", external_data_threshold=1000)
    onnxfn.export(spec, model, tmp_path / "out", check=False, write=write)
    paths = [tmp_path / "out" / "onnx" / f"{stem}.onnx" for stem in ("embed_tokens", "embedding")]
    tables = [onnx.load(path, load_external_data=False) for path in paths]
    stored = [
        {entry.key: entry.value for each in table.graph.initializer for entry in each.external_data} for table in tables
    ]
    assert stored[0] == stored[1]
    assert stored[0]["location"] == "embed_tokens.onnx_data"


def test_a_model_that_the_runtime_does_not_know_gets_no_such_file(tmp_path):
    llava = every_part.tiny_model("llava", TASK)
    result = onnxfn.export(onnxfn.spec_for(llava, TASK), llava, tmp_path / "out", check=False, write=HUB)
    assert not (tmp_path / "out" / "genai_config.json").exists()
    assert not (tmp_path / "out" / "onnx" / "embedding.onnx").exists()
    assert "onnxruntime-genai gets no genai_config.json for llava with images" in result.plan.remarks


PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "size": {"shortest_edge": 256, "longest_edge": 4096},
    "patch_size": 8,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "resample": 3,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.2, 0.1],
    "rescale_factor": 0.25,
}


@pytest.fixture(scope="module")
def of_pictures(model, tmp_path_factory):
    """A function from the keys of an image processor to the side files of a folder."""
    plan = onnxfn.plan(onnxfn.spec_for(model, TASK), model)

    def side_files(processor, name="processor_config.json"):
        inner = {"image_processor": processor} if name == "processor_config.json" else processor
        texts = {"config.json": model.config.to_json_string(), name: json.dumps(inner)}
        folder = Folder(plan, texts, frozenset(texts), "onnx")
        return with_side_files(folder, ("vision_processor", "genai_config")).texts

    return side_files


@pytest.mark.parametrize("name", ["processor_config.json", "preprocessor_config.json"])
def test_genai_gets_the_steps_from_a_picture_to_patches(of_pictures, name):
    texts = of_pictures(PROCESSOR, name)
    assert json.loads(texts["genai_config.json"])["model"]["vision"]["config_filename"] == "vision_processor.json"
    steps = [each["operation"] for each in json.loads(texts["vision_processor.json"])["processor"]["transforms"]]
    kinds = ["DecodeImage", "ConvertRGB", "Resize", "Rescale", "Normalize", "PatchImage"]
    assert [step["type"] for step in steps] == kinds
    attributes = {step["type"]: step.get("attrs", {}) for step in steps}
    assert (attributes["Resize"]["min_pixels"], attributes["Resize"]["max_pixels"]) == (256, 4096)
    assert attributes["Resize"]["interpolation"] == "CUBIC"
    assert attributes["Normalize"]["mean"] == PROCESSOR["image_mean"]
    assert attributes["PatchImage"] == {"patch_size": 8, "temporal_patch_size": 2, "merge_size": 2}


@pytest.mark.parametrize("other", [{"do_rescale": False}, {"size": {"height": 8, "width": 8}}, {"patch_size": None}])
def test_genai_gets_no_steps_for_an_image_processor_of_another_kind(of_pictures, other):
    texts = of_pictures({**PROCESSOR, **other})
    assert "vision_processor.json" not in texts
    assert "config_filename" not in json.loads(texts["genai_config.json"])["model"]["vision"]
