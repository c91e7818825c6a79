"""Models of timm, sentence-transformers and diffusers are exported and agree with PyTorch.

A test that needs a library which is not installed is skipped; test_contract.py compares its specs with Optimum's in any
case. The sweep ran with X on PYTHONPATH, after `pip install --no-deps --target X diffusers importlib_metadata zipp
lazy-importer pillow timm torchvision==0.28.0`.
"""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import onnxruntime
import other_sizes
import others
import pytest
import swept
import tiny
import torch
from agreement import assert_agreement, assert_axis_sizes
from refusals import refusal
from session_outputs import outputs_of
from warm import warm

import onnxfn
from onnxfn.architectures.libraries import ROWS
from onnxfn.check.check import check
from onnxfn.export.cli.demo import SENTENCES, minilm
from onnxfn.export.find.other_libraries import COMPONENT_ROWS, row_name
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.axis_symbols import graph_axes
from onnxfn.specs.tasks.tasks import task_names

TEXT_ENCODERS = ("diffusers.clip-text", "diffusers.gemma2-text-encoder", "diffusers.t5-encoder")
POOLINGS = ("cls", "lasttoken", "max", "mean_sqrt_len_tokens", "weightedmean")
TABLE = {(name, task) for name, row in ROWS.items() for task in task_names(row)}


def run(file, feeds):
    """`{name: output}` of an ONNX file that takes those of the feeds that it has inputs for."""
    return outputs_of(onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"]), feeds)


def export_checked(row, preset, folder):
    """The export of a tiny model, whose files agree with PyTorch and have the names and axes of the plan."""
    model = others.MODELS[row][preset]()
    config = {**snapshot(model), **others.EXTRA_CONFIG.get((row, preset), {})}
    return assert_axis_sizes(assert_agreement(onnxfn.export(onnxfn.spec_for(row), model, folder, config=config)))


# Sentences


def test_minilm_embeds_sentences_as_sentence_transformers_does(tmp_path):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm()))
    result = onnxfn.export(onnxfn.spec_for(model), model, tmp_path / "out")
    assert list(result.outputs) == ["token_embeddings", "sentence_embedding"]
    features = model.preprocess(list(SENTENCES))
    feeds = {name: tensor.numpy() for name, tensor in features.items() if hasattr(tensor, "numpy")}
    embeddings = run(tmp_path / "out" / "model.onnx", feeds)["sentence_embedding"]
    np.testing.assert_allclose(embeddings, model.encode(list(SENTENCES)), atol=1e-6)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "bert"


@pytest.mark.parametrize(("model_type", "pooling"), [("mistral", "mean"), ("bert", "lasttoken")])
def test_sentences_and_their_tokens_have_embeddings(model_type, pooling, tmp_path):
    model = others.sentence_transformer(tmp_path / "checkpoint", model_type, pooling)
    result = assert_agreement(onnxfn.export(onnxfn.spec_for(model), model, tmp_path / "out"))
    tokens = {0: "batch_size", 1: "sequence_length"}
    assert result.outputs == {"token_embeddings": tokens, "sentence_embedding": {0: "batch_size"}}


def test_texts_and_images_have_embeddings_and_their_numbers_may_differ(tmp_path):
    model = others.clip_of_sentence_transformers()
    result = onnxfn.export(onnxfn.spec_for("sentence_transformers.clip"), model, tmp_path / "out")
    assert result.report.passed
    assert result.outputs == {"text_embeds": {0: "text_batch_size"}, "image_embeds": {0: "batch_size"}}


# The row of a model


def of_library(module, name, **attributes):
    return type(name, (SimpleNamespace,), {"__module__": module})(**attributes)


def test_library_and_class_decide_the_row_of_a_model():
    assert row_name(of_library("timm.models.resnet", "ResNet")) == "timm.default-timm-config"
    assert row_name(of_library("diffusers.models.unets", "UNet2DConditionModel")) == "diffusers.unet-2d-condition"
    message = refusal(onnxfn.UnknownName, row_name, of_library("diffusers.models", "AutoencoderKL"))
    parts = "diffusers.vae-encoder, diffusers.vae-decoder"
    assert message == f"AutoencoderKL has several parts; pass the name of one row: {parts}"
    assert row_name(of_library("diffusers.models", "Unheard")) is None
    assert row_name(of_library("transformers.models.bert", "BertModel")) is None
    clip = SimpleNamespace(model_type="clip")
    assert row_name(of_library("sentence_transformers.x", "X", config=clip)) == "sentence_transformers.clip"
    assert row_name(of_library("sentence_transformers.x", "X", config=None)) == "sentence_transformers.transformer"
    rows = {row for rows in COMPONENT_ROWS.values() for _, row in rows}
    assert rows == {each for each in ROWS if "diffusers" in each}


def test_a_model_in_windows_agrees_at_odd_sizes(tmp_path):
    """The model takes sides whose number of patches, rounded up, is a multiple of 8: few odd ones are."""
    model, folder = others.MODELS["timm.default-timm-config"]["windows"](), tmp_path / "out"
    result = onnxfn.export(onnxfn.spec_for("timm.default-timm-config"), model, folder, config=snapshot(model))
    (part,) = result.plan.parts
    cases = tuple(
        onnxfn.Case(f"{height} x {width}", axes=sized(height=height, width=width).axes)
        for height, width in ((61, 157), (191, 223), (127, 253))
    )
    assert check(model, other_sizes.with_cases(part, cases), folder / "model.onnx", result.plan).passed


def test_the_image_size_is_fixed_where_the_configuration_of_timm_fixes_it():
    config = {"input_size": (3, 224, 160), "fixed_input_size": False}
    planned = onnxfn.plan(ROWS["timm.default-timm-config"], config)
    assert planned.parts[0].inputs == {"pixel_values": {0: "batch_size", 2: "height", 3: "width"}}
    fixed = onnxfn.plan(ROWS["timm.default-timm-config"], config | {"fixed_input_size": True})
    assert fixed.parts[0].inputs == {"pixel_values": {0: "batch_size"}}
    spec = fixed.parts[0].spec
    assert str(graph_axes(spec, spec.inputs[0])) == "[batch_size, 3, 224, 160]"


def test_the_width_of_the_second_text_embedding_follows_from_the_sizes_of_a_unet():
    config = {"cross_attention_dim": 8, "in_channels": 4, "addition_embed_type": "text_time"}
    config |= {"projection_class_embeddings_input_dim": 2816, "addition_time_embed_dim": 256}
    spec = onnxfn.plan(ROWS["diffusers.unet-2d-condition"], config).parts[0].spec
    assert [str(input_.axes) for input_ in spec.inputs[-2:]] == ["[batch_size, 1280]", "[batch_size, 6]"]


# Pipelines


def pipeline(**more):
    """What onnxfn reads of a pipeline of diffusers. Its models are text encoders, which are models of transformers."""
    scheduler = SimpleNamespace(save_pretrained=lambda folder: (folder.mkdir(), (folder / "it.json").write_text("{}")))
    components = {
        "text_encoder": others.MODELS["diffusers.clip-text"]["default"](),
        "text_encoder_2": others.MODELS["diffusers.clip-text-with-projection"]["default"](),
        "text_encoder_3": others.MODELS["diffusers.t5-encoder"]["default"](),
        "safety_checker": torch.nn.Linear(1, 1),
        "image_encoder": None,
        "scheduler": scheduler,
        **more,
    }
    return SimpleNamespace(components=components, config={}, to_json_string=lambda: '{"_class_name": "It"}')


def test_each_component_of_a_pipeline_has_a_folder(tmp_path):
    results = onnxfn.export_pipeline(pipeline(), tmp_path / "out")
    assert list(results) == ["text_encoder", "text_encoder_2", "text_encoder_3"]
    files = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.*"))
    assert [file for file in files if file.endswith(".onnx")] == [f"{name}/model.onnx" for name in results]
    assert {"model_index.json", "scheduler/it.json", "text_encoder/config.json"} <= set(files)
    states = [f"hidden_states.{layer}" for layer in range(3)]
    assert list(results["text_encoder_2"].outputs) == ["text_embeds", "last_hidden_state", *states]
    assert all((tmp_path / "out" / name / "model.onnx").samefile(result.files[0]) for name, result in results.items())
    assert all(result.report.passed for result in results.values())


def test_a_pipeline_is_not_written_to_a_file(tmp_path):
    message = refusal(onnxfn.InvalidSpec, onnxfn.export_pipeline, pipeline(), tmp_path / "out.onnx")
    assert message == "a pipeline has several files; name a folder, not one file"
    assert list(tmp_path.iterdir()) == []


def test_a_pipeline_that_fails_leaves_no_files(tmp_path):
    broken = pipeline(scheduler=SimpleNamespace(save_pretrained=lambda _: 1 / 0))
    broken.components = {name: broken.components[name] for name in ("text_encoder", "scheduler")}
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
    assert not (tmp_path / "text_encoder_3").exists()
    assert onnxfn.verify(tmp_path).checks == ("the export was not checked",) * 2
    assert onnxfn.verify(tmp_path).passed


def test_a_component_without_a_row_is_refused_before_any_export(tmp_path):
    message = refusal(onnxfn.UnknownName, onnxfn.export_pipeline, pipeline(prior=torch.nn.ReLU()), tmp_path / "out")
    assert message.startswith("no spec for prior (ReLU) of SimpleNamespace; pass run=, a function that runs it; known ")


def test_a_stable_diffusion_draws_the_same_image(tmp_path):
    """Two steps from a text to an image: each component in ONNX Runtime, against the pipeline in PyTorch."""
    diffusers = others.library("diffusers")
    diffusion = diffusers.StableDiffusionPipeline(
        vae=others.MODELS["diffusers.vae-decoder"]["default"](),
        text_encoder=tiny.model("clip_text_model", "CLIPTextModel", hidden_size=24),
        tokenizer=None,
        unet=others.MODELS["diffusers.unet-2d-condition"]["default"](),
        scheduler=diffusers.DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    onnxfn.export_pipeline(diffusion, tmp_path / "out")
    names = ("text_encoder", "unet", "vae_decoder", "vae_encoder")
    assert sorted(file.parent.name for file in (tmp_path / "out").rglob("*.onnx")) == sorted(names)
    ids = torch.randint(0, 127, (1, 9), generator=torch.Generator().manual_seed(1))
    start = torch.randn((1, 4, 12, 20), generator=torch.Generator().manual_seed(2))

    def by_torch(name, **arguments):
        component = diffusion.components[name.partition("_de")[0]]
        tensors = {argument: torch.as_tensor(value) for argument, value in arguments.items()}
        if name == "vae_decoder":
            return component.decode(tensors["latent_sample"]).sample
        return component(**tensors)[0]

    def by_onnx(name, **arguments):
        feeds = {argument: np.asarray(value) for argument, value in arguments.items()}
        return torch.from_numpy(next(iter(run(tmp_path / "out" / name / "model.onnx", feeds).values())))

    with torch.no_grad():
        actual, expected = (image(diffusion.scheduler, component, ids, start) for component in (by_onnx, by_torch))
    assert float(expected.std()) > 0.1
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), atol=1e-4)


def image(scheduler, component, ids, latents):
    states = component("text_encoder", input_ids=ids)
    scheduler.set_timesteps(2)
    for step in scheduler.timesteps:
        noise = component("unet", sample=latents, timestep=step.float(), encoder_hidden_states=states)
        latents = scheduler.step(noise, step, latents).prev_sample
    return component("vae_decoder", latent_sample=latents)


# Rows


@pytest.mark.parametrize("row", TEXT_ENCODERS)
def test_a_text_encoder_of_a_pipeline_agrees_with_pytorch(row, tmp_path):
    export_checked(row, "default", tmp_path / "out")


@pytest.mark.sweep
@pytest.mark.parametrize("row", ROWS)
def test_every_row_agrees_with_pytorch(row, tmp_path, only_left, record):
    (task,) = task_names(ROWS[row])
    only_left("libraries", row, task)
    warm()
    if row == "sentence_transformers.transformer":
        models = {pooling: others.sentence_transformer(tmp_path / pooling, pooling=pooling) for pooling in POOLINGS}
        models |= {name: others.sentence_transformer(tmp_path / name, name) for name in ("bert", "mpnet", "mistral")}
    elif row == "sentence_transformers.clip":
        models = {"clip": others.clip_of_sentence_transformers()}
    else:
        models = others.MODELS[row]
    results, seconds = [], []
    for preset, model in models.items():
        folder = tmp_path / f"{preset}-out"
        if row in others.MODELS:
            result, of_export = swept.timed(export_checked, row, preset, folder)
        else:
            result, of_export = swept.timed(onnxfn.export, onnxfn.spec_for(row), model, folder)
            assert_agreement(result)
        results.append(result)
        seconds.append(of_export)
    worst = max(results, key=lambda result: max(difference.max_abs for difference in result.report.differences))
    more = [f"{len(models)} models"] if len(models) > 1 else []
    record("libraries", row, task, swept.line(worst, *more), TABLE, max(seconds))


def test_the_recorded_results_are_of_this_table():
    assert swept.pairs("libraries") == TABLE
