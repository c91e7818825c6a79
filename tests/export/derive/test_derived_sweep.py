"""Every model type of transformers that has a model and no row: what became of a spec derived from it."""

import re
import sys
from importlib.metadata import version

import pytest
import shrunk
import swept
from agreement import assert_agreement
from time_limits import limited
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import onnxfn
from onnxfn.export.load.class_tasks import task_of

SECONDS = 240
"""The limit of processor time for each model of the sweep."""

LARGEST = 30_000_000
"""The largest number of parameters of a model that the sweep tries."""

MAPPING = re.compile(r"MODEL_.*MAPPING_NAMES")


# transformers' tables name a class that cannot be built from the configuration of this model type.
BUILT_BY = {"musicgen_melody": "MusicgenMelodyForConditionalGeneration"}


def classes():
    """{model type: a class of transformers with that type} for all that have a class and no row."""
    tables = [getattr(modeling_auto, name) for name in sorted(vars(modeling_auto)) if MAPPING.fullmatch(name)]
    tables.sort(key=lambda table: table is not modeling_auto.MODEL_MAPPING_NAMES)
    names = {}
    for model_type in CONFIG_MAPPING:
        entry = next((table[model_type] for table in tables if model_type in table), None)
        if entry and model_type not in onnxfn.ARCHITECTURES:
            names[model_type] = entry if isinstance(entry, str) else entry[0]
    return names | BUILT_BY


CLASSES = classes()


def versions_of_timm():
    if not {"timm", "torchvision"} <= sys.modules.keys():
        return ""
    return ", with " + " and ".join(f"{name} {version(name).partition('+')[0]}" for name in ("timm", "torchvision"))


def attempt(model_type, name, folder):
    """The task, and the line of the sweep: how far the export is from PyTorch, or why there is none."""
    import torch

    task = task_of(name) or "feature-extraction"
    try:
        with limited(SECONDS):
            with torch.device("meta"):
                shapes = shrunk.kind(model_type, name)(shrunk.config(model_type))
            if (size := sum(tensor.numel() for tensor in shapes.parameters())) > LARGEST:
                return task, f"not: no small configuration is known, this one has {size / 1e6:.0f} million parameters"
            model = shrunk.model(model_type, name)
            spec = onnxfn.derived(model)
            result = assert_agreement(onnxfn.export(spec, model, folder))
            return spec.task, swept.line(result, f"of {', '.join(result.plan.parts[0].inputs)}{versions_of_timm()}")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - the result of the sweep is the error
        first = next((line.strip() for line in str(problem).splitlines() if line.strip()), "")
        return task, f"{swept.NOT}{type(problem).__name__}: {first}"[:300]


@pytest.mark.sweep
@pytest.mark.parametrize("model_type", CLASSES)
def test_a_model_type_without_a_row_agrees_with_pytorch_where_it_did(model_type, tmp_path, request, record):
    before = swept.seen("derived").get(model_type, {})
    if before and request.config.getoption("--left") and swept.is_current("derived", model_type, *before):
        pytest.skip("the repository has a result of this type with these versions, and --left chooses the others")
    task, line = attempt(model_type, CLASSES[model_type], tmp_path / "out")
    if line.startswith(f"{swept.NOT}ImportError") and swept.validated(before):
        pytest.skip("it validated with a package that is not installed here")
    others = {pair for pair in swept.pairs("derived") if pair[0] in CLASSES and pair[0] != model_type}
    record("derived", model_type, task, line, others | {(model_type, task)})
    assert swept.validated({task: line}) or not swept.validated(before), line
