"""Models of timm, sentence-transformers and diffusers go to ONNX as those of transformers do.

What needs a library that is not installed is skipped; test_contract.py holds its specs to the contract all the same.
The sweep ran with X on PYTHONPATH, after `pip install --no-deps --target X diffusers importlib_metadata zipp
lazy-importer pillow timm torchvision==0.28.0`.
"""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import onnxruntime
import others
import pytest
import swept
import tiny
import torch
from agreement import assert_agreement, assert_axis_sizes
from refusals import refusal

import onnxfn
from onnxfn.architectures.libraries import ROWS
from onnxfn.export.demo import SENTENCES, minilm
from onnxfn.export.lookup.other_libraries import COMPONENT_ROWS, row_name
from onnxfn.specs.config_values import snapshot
from onnxfn.specs.errors import UnknownName
from onnxfn.specs.fixed_axes import graph_axes
from onnxfn.specs.tasks import task_names

WITHOUT = ("diffusers.clip-text", "diffusers.gemma2-text-encoder", "diffusers.t5-encoder")
POOLINGS = ("cls", "lasttoken", "max", "mean_sqrt_len_tokens", "weightedmean")
TABLE = {(name, task) for name, row in ROWS.items() for task in task_names(row)}


def ran(file, feeds):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    wanted = [one.name for one in session.get_inputs()]
    return dict(zip(names, session.run(names, {name: feeds[name] for name in wanted}), strict=True))


def agrees(row, preset, folder):
    model = others.MODELS[row][preset]()
    told = snapshot(model)
    config = {**told, **others.TOLD.get((row, preset), {})}
    return assert_axis_sizes(
        assert_agreement(onnxfn.export(onnxfn.spec_for(row), model, folder, config=config), folder)
    )


# Sentences


def test_minilm_embeds_sentences_as_sentence_transformers_does(tmp_path):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm()))
    made = onnxfn.export(onnxfn.spec_for(model), model, tmp_path / "out")
    assert list(made.outputs) == ["token_embeddings", "sentence_embedding"]
    tokens = {name: one.numpy() for name, one in model.preprocess(list(SENTENCES)).items() if hasattr(one, "numpy")}
    found = ran(tmp_path / "out" / "model.onnx", tokens)["sentence_embedding"]
    np.testing.assert_allclose(found, model.encode(list(SENTENCES)), atol=1e-6)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "bert"


@pytest.mark.parametrize(("model_type", "pooling"), [("mistral", "mean"), ("bert", "lasttoken")])
def test_sentences_are_embedded_and_their_tokens_too(model_type, pooling, tmp_path):
    model = others.sentences(tmp_path / "from", model_type, pooling)
    made = assert_agreement(onnxfn.export(onnxfn.spec_for(model), model, tmp_path / "out"), tmp_path / "out")
    assert made.outputs == {
        "token_embeddings": {0: "batch_size", 1: "sequence_length"},
        "sentence_embedding": {0: "batch_size"},
    }


def test_texts_and_images_are_embedded_any_number_of_each(tmp_path):
    made = onnxfn.export(onnxfn.spec_for("sentence_transformers.clip"), others.pair(), tmp_path / "out")
    assert made.report.passed
    assert made.outputs == {"text_embeds": {0: "text_batch_size"}, "image_embeds": {0: "batch_size"}}


# Which row


def of_library(module, name, **attributes):
    return type(name, (SimpleNamespace,), {"__module__": module})(**attributes)


def test_the_row_of_a_model_is_told_by_its_library_and_class():
    assert row_name(of_library("timm.models.resnet", "ResNet")) == "timm.default-timm-config"
    unet = of_library("diffusers.models.unets", "UNet2DConditionModel")
    assert row_name(unet) == "diffusers.unet-2d-condition"
    told = refusal(UnknownName, lambda: row_name(of_library("diffusers.models", "AutoencoderKL")))
    parts = "diffusers.vae-encoder, diffusers.vae-decoder"
    assert told == f"AutoencoderKL has several parts; pass the name of one row: {parts}"
    assert row_name(of_library("diffusers.models", "Unheard")) is None
    assert row_name(of_library("transformers.models.bert", "BertModel")) is None
    seeing = SimpleNamespace(model_type="clip")
    assert row_name(of_library("sentence_transformers.x", "X", config=seeing)) == "sentence_transformers.clip"
    assert row_name(of_library("sentence_transformers.x", "X", config=None)) == "sentence_transformers.transformer"
    assert {row for rows in COMPONENT_ROWS.values() for _, row in rows} == {
        name for name in ROWS if "diffusers" in name
    }


def test_an_image_is_of_one_size_where_a_model_of_timm_says_so():
    config = {"input_size": (3, 224, 160), "fixed_input_size": False}
    made = onnxfn.plan(ROWS["timm.default-timm-config"], config)
    assert made.parts[0].inputs == {"pixel_values": {0: "batch_size", 2: "height", 3: "width"}}
    fixed = onnxfn.plan(ROWS["timm.default-timm-config"], config | {"fixed_input_size": True})
    assert fixed.parts[0].inputs == {"pixel_values": {0: "batch_size"}}
    spec = fixed.parts[0].spec
    assert str(graph_axes(spec, spec.inputs[0])) == "[batch_size, 3, 224, 160]"


def test_the_width_of_second_texts_follows_from_what_a_unet_is_made_of():
    config = {"cross_attention_dim": 8, "in_channels": 4, "addition_embed_type": "text_time"}
    config |= {"projection_class_embeddings_input_dim": 2816, "addition_time_embed_dim": 256}
    made = onnxfn.plan(ROWS["diffusers.unet-2d-condition"], config).parts[0].spec
    assert [str(one.axes) for one in made.inputs[-2:]] == ["[batch_size, 1280]", "[batch_size, 6]"]


# Pipelines


def pipeline(**more):
    """What a pipeline of diffusers tells of itself, with text encoders alone, which are of transformers."""
    saved = SimpleNamespace(save_pretrained=lambda folder: (folder.mkdir(), (folder / "it.json").write_text("{}")))
    components = {
        "text_encoder": others.MODELS["diffusers.clip-text"]["default"](),
        "text_encoder_2": others.MODELS["diffusers.clip-text-with-projection"]["default"](),
        "text_encoder_3": others.MODELS["diffusers.t5-encoder"]["default"](),
        "safety_checker": torch.nn.Linear(1, 1),
        "image_encoder": None,
        "scheduler": saved,
        **more,
    }
    return SimpleNamespace(components=components, config={}, to_json_string=lambda: '{"_class_name": "It"}')


def test_each_part_of_a_pipeline_goes_to_a_folder_of_its_own(tmp_path):
    made = onnxfn.export_pipeline(pipeline(), tmp_path / "out")
    assert list(made) == ["text_encoder", "text_encoder_2", "text_encoder_3"]
    files = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.*"))
    assert [file for file in files if file.endswith(".onnx")] == [f"{name}/model.onnx" for name in made]
    assert {"model_index.json", "scheduler/it.json", "text_encoder/config.json"} <= set(files)
    assert list(made["text_encoder_2"].outputs) == ["text_embeds", "last_hidden_state"] + [
        f"hidden_states.{layer}" for layer in range(3)
    ]
    assert all((tmp_path / "out" / name / "model.onnx").samefile(one.files[0]) for name, one in made.items())
    assert all(one.report.passed for one in made.values())


def test_a_pipeline_that_fails_leaves_nothing(tmp_path):
    broken = pipeline(scheduler=SimpleNamespace(save_pretrained=lambda _: 1 / 0))
    broken.components = {name: one for name, one in broken.components.items() if name in ("text_encoder", "scheduler")}
    with pytest.raises(ZeroDivisionError):
        onnxfn.export_pipeline(broken, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_pipeline_replaces_all_parts_of_an_earlier_one_and_nothing_else(tmp_path):
    index = '{"_class_name": "It", "text_encoder": ["", ""], "text_encoder_2": ["", ""], "text_encoder_3": ["", ""]}'
    first, second = pipeline(), pipeline()
    first.to_json_string = second.to_json_string = lambda: index
    second.components = {name: each for name, each in second.components.items() if name != "text_encoder_3"}
    onnxfn.export_pipeline(first, tmp_path, check=False)
    (tmp_path / "mine").mkdir()
    shutil.copy(tmp_path / "text_encoder_3" / "model.onnx", tmp_path / "mine" / "model.onnx")
    onnxfn.export_pipeline(second, tmp_path, check=False, overwrite=True)
    assert sorted(file.parent.name for file in tmp_path.rglob("*.onnx")) == ["mine", "text_encoder", "text_encoder_2"]
    assert (tmp_path / "text_encoder_3" / "config.json").exists()


def test_a_part_that_no_row_is_of_is_refused_before_anything_is_done(tmp_path):
    told = refusal(UnknownName, lambda: onnxfn.export_pipeline(pipeline(prior=torch.nn.ReLU()), tmp_path / "out"))
    assert told.startswith("no spec for prior (ReLU) of SimpleNamespace; known classes: ")


def test_a_stable_diffusion_draws_the_same_picture(tmp_path):
    """Two steps from a text to a picture, each part by ONNX Runtime, against the pipeline's own."""
    made = drawing(others.library("diffusers"))
    onnxfn.export_pipeline(made, tmp_path / "out")
    parts = ("text_encoder", "unet", "vae_decoder", "vae_encoder")
    assert sorted(file.parent.name for file in (tmp_path / "out").rglob("*.onnx")) == sorted(parts)
    ids = torch.randint(0, 127, (1, 9), generator=torch.Generator().manual_seed(1))
    start = torch.randn((1, 4, 12, 20), generator=torch.Generator().manual_seed(2))

    def by_torch(part, **given):
        one = made.components[part.partition("_de")[0]]
        given = {name: torch.as_tensor(value) for name, value in given.items()}
        if part == "vae_decoder":
            return one.decode(given["latent_sample"]).sample
        return one(**given)[0]

    def by_onnx(part, **given):
        feeds = {name: np.asarray(value) for name, value in given.items()}
        return torch.from_numpy(next(iter(ran(tmp_path / "out" / part / "model.onnx", feeds).values())))

    with torch.no_grad():
        ours, theirs = (drawn(made.scheduler, part, ids, start) for part in (by_onnx, by_torch))
    assert float(theirs.std()) > 0.1
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-4)


def drawing(diffusers):
    return diffusers.StableDiffusionPipeline(
        vae=others.MODELS["diffusers.vae-decoder"]["default"](),
        text_encoder=tiny.model("clip_text_model", "CLIPTextModel", hidden_size=24),
        tokenizer=None,
        unet=others.MODELS["diffusers.unet-2d-condition"]["default"](),
        scheduler=diffusers.DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def drawn(scheduler, part, ids, latents):
    states = part("text_encoder", input_ids=ids)
    scheduler.set_timesteps(2)
    for step in scheduler.timesteps:
        noise = part("unet", sample=latents, timestep=step.float(), encoder_hidden_states=states)
        latents = scheduler.step(noise, step, latents).prev_sample
    return part("vae_decoder", latent_sample=latents)


# All


@pytest.mark.parametrize("row", WITHOUT)
def test_a_text_encoder_of_a_pipeline_agrees_with_pytorch(row, tmp_path):
    agrees(row, "default", tmp_path / "out")


@pytest.mark.sweep
@pytest.mark.parametrize("row", ROWS)
def test_every_row_agrees_with_pytorch(row, tmp_path, only_left, record):
    (task,) = task_names(ROWS[row])
    only_left("libraries", row, task)
    if row == "sentence_transformers.transformer":
        models = {one: others.sentences(tmp_path / one, pooling=one) for one in POOLINGS}
        models |= {one: others.sentences(tmp_path / one, one) for one in ("bert", "mpnet", "mistral")}
    elif row == "sentence_transformers.clip":
        models = {"clip": others.pair()}
    else:
        models = others.MODELS[row]
    results = []
    for preset in models:
        folder = tmp_path / f"{preset}-out"
        if row in others.MODELS:
            results.append(agrees(row, preset, folder))
        else:
            results.append(assert_agreement(onnxfn.export(onnxfn.spec_for(row), models[preset], folder), folder))
    worst = max(results, key=lambda made: max(one.max_abs for one in made.report.differences))
    more = [f"{len(models)} models"] if len(models) > 1 else []
    record("libraries", row, task, swept.line(worst, *more), TABLE)


def test_the_last_sweep_in_the_repository_is_of_this_table():
    assert swept.pairs("libraries") == TABLE
