"""Tiny random models of the rows are exported and agree with PyTorch at sizes that were not traced."""

import pytest
import swept
import tiny
from agreement import assert_agreement, assert_axis_sizes
from command_line import exported_checkpoint
from sizes import SPECIAL
from warm import warm

import onnxfn
from onnxfn.architectures import audio, detection, multimodal, series, text, vision
from onnxfn.specs.tasks.tasks import task_names

FAMILIES = {"text": text, "vision": vision, "detection": detection, "multimodal": multimodal, "audio": audio}
FAMILIES |= {"series": series}
WITHOUT_A_MODEL = ("mctct",)
"""Rows of which transformers 5 has no model."""

NEAR, FAR = SPECIAL["zoedepth"]["bin_configurations"]
FEATURES = "feature-extraction"
SAMPLE = (
    *(("albert", task) for task in task_names(text.ROWS["albert"])),
    *(("vit", task) for task in task_names(vision.ROWS["vit"])),
    *(
        (name, FEATURES)
        for name in ("big_bird", "canine", "fnet", "layoutlm", "nomic_bert", "roc_bert", "tapas", "yoso")
    ),
    *((name, FEATURES) for name in ("convnext", "dinov2", "maskformer-swin", "mgp-str", "pixio", "vit_mae", "yolos")),
    *((name, FEATURES) for name in ("clip", "siglip2_vision_model", "xclip_text_model", "audioflamingo3_encoder")),
    *((name, FEATURES) for name in ("clap_text_model", "glmasr_encoder", "patchtsmixer", "time_series_transformer")),
    *(("deberta-v2", "multiple-choice"), ("longformer", "multiple-choice"), ("modernbert", "token-classification")),
    *(("markuplm", "question-answering"), ("splinter", "question-answering"), ("xlm", "question-answering")),
    *(("xlm", "fill-mask"), ("perceiver", "fill-mask"), ("perceiver", "text-classification")),
    *(("timesformer", "video-classification"), ("clip", "image-classification"), ("clipseg", "image-segmentation")),
    *(("depth_anything", "depth-estimation"), ("detr", "object-detection"), ("yolos", "object-detection")),
    *(("sapiens2", "normal-estimation"), ("segformer", "semantic-segmentation"), ("vitpose", "keypoint-detection")),
    *(("blip", "image-text-retrieval"), ("clip", "zero-shot-image-classification")),
    *(("layoutlmv3", "document-question-answering"), ("lxmert", "visual-question-answering")),
    *(("owlv2", "zero-shot-object-detection"), ("audio-spectrogram-transformer", "audio-classification")),
    *(("fastspeech2_conformer_hifigan", "text-to-audio"), ("wav2vec2", "automatic-speech-recognition")),
    *(("wav2vec2", "audio-frame-classification"), ("wav2vec2", "audio-xvector")),
    *(("decision_transformer", "reinforcement-learning"), ("patchtsmixer", "time-series-forecasting")),
    ("timesfm", "time-series-forecasting"),
)
"""What the default run exports: each task once at least, and layers of many kinds.

Most take one or two seconds of a processor. The other rows, up to thirty seconds each, are left to the sweep.
"""

SLOW_TASKS = {"image-matting", "image-to-image", "keypoint-matching", "text-recognition"}
"""Tasks of which every row takes more than five seconds."""

PAIRS = [
    pytest.param(family, model_type, task, id=f"{family}-{model_type}-{task}")
    for family, table in FAMILIES.items()
    for model_type, row in table.ROWS.items()
    if model_type not in WITHOUT_A_MODEL
    for task in task_names(row)
]
TABLES = {family: {pair.values[1:] for pair in PAIRS if pair.values[0] == family} for family in FAMILIES}


def export_checked(model_type, task, folder, **overrides):
    """The export of a tiny model, whose files agree with PyTorch and have the names and axes of the plan."""
    spec, model = tiny.spec_and_model(model_type, task, **overrides)
    return assert_axis_sizes(assert_agreement(onnxfn.export(spec, model, folder)))


@pytest.mark.parametrize(("model_type", "task"), SAMPLE)
def test_a_model_agrees_with_pytorch(model_type, task, tmp_path):
    export_checked(model_type, task, tmp_path / "out")


def test_a_deberta_with_segments_has_an_input_for_them(tmp_path):
    result = export_checked("deberta", "feature-extraction", tmp_path / "out", type_vocab_size=2)
    assert "token_type_ids" in result.inputs


@pytest.mark.parametrize(
    ("model_type", "loader", "first"),
    [
        ("clip_text_model", "CLIPTextModelWithProjection", "text_embeds"),
        ("clip_vision_model", "CLIPVisionModelWithProjection", "image_embeds"),
        ("clap_text_model", "ClapTextModelWithProjection", "text_embeds"),
        ("metaclip_2_vision_model", "MetaClip2VisionModelWithProjection", "image_embeds"),
    ],
)
def test_a_class_that_projects_returns_its_embeddings_and_states(model_type, loader, first, tmp_path):
    model = tiny.model(model_type, loader, projection_dim=16)
    result = assert_axis_sizes(assert_agreement(onnxfn.export(onnxfn.spec_for(model), model, tmp_path / "out")))
    assert list(result.outputs) == [first, "last_hidden_state"]
    for words in ((), ("--dry-run",)):
        assert f"  {first} " in exported_checkpoint(model, tmp_path / f"folder{len(words)}", *words).stdout


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", ["mask2former", "maskformer", "oneformer"])
def test_a_model_with_swin_takes_images_of_any_size(model_type, tmp_path):
    swin = {"model_type": "swin", "image_size": 64, "embed_dim": 16, "depths": [1, 1, 1, 1], "window_size": 4}
    backbone = {**swin, "num_heads": [2, 2, 4, 4], "out_features": ["stage1", "stage2", "stage3", "stage4"]}
    export_checked(model_type, "image-segmentation", tmp_path / "out", backbone_config=backbone)


@pytest.mark.sweep
@pytest.mark.parametrize(("ranges", "bins"), [((NEAR,), "softplus"), ((NEAR, FAR), "normed")])
def test_depths_of_one_range_or_of_bounded_bins_agree(ranges, bins, tmp_path):
    options = {"bin_configurations": list(ranges), "bin_centers_type": bins}
    result = export_checked("zoedepth", "depth-estimation", tmp_path / "out", **options)
    assert ("domain_logits" in result.outputs) is (len(ranges) > 1)


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", ["d_fine", "rt_detr", "rt_detr_v2"])
def test_a_detector_of_300_positions_is_checked_with_larger_images(model_type, tmp_path):
    spec, model = tiny.spec_and_model(model_type, "object-detection", num_queries=300)
    result = onnxfn.export(spec, model, tmp_path / "out")
    assert result.report.passed
    (height, width), multiples = [str(limit) for limit in result.limits[:2]], [*map(str, result.limits[2:])]
    assert multiples == ["height % 32 == 0", "width % 32 == 0"]
    # The smallest images have 300 positions in maps of an eighth, a sixteenth and a 32nd; where ties decide, more.
    height, width = int(height.removeprefix("height >= ")), int(width.removeprefix("width >= "))
    assert sum((height // step) * (width // step) for step in (8, 16, 32)) >= 300
    assert max(height, width) <= 224


def test_the_sample_has_every_task_but_the_slow_ones():
    every = set().union(*TABLES.values())
    assert set(SAMPLE) <= every
    assert {task for _, task in SAMPLE} | SLOW_TASKS == {task for _, task in every}


@pytest.mark.sweep
@pytest.mark.parametrize(("family", "model_type", "task"), PAIRS)
def test_every_task_of_every_row_agrees_with_pytorch(family, model_type, task, tmp_path, only_left, record):
    only_left(family, model_type, task)
    warm()
    result, seconds = swept.timed(export_checked, model_type, task, tmp_path / "out")
    record(family, model_type, task, swept.line(result), TABLES[family], seconds)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_recorded_results_are_of_this_table(family):
    """A row or a task that was added since the last sweep has no result yet."""
    assert swept.pairs(family) == TABLES[family]
