"""Every pair of a model type and a task beyond decoders in transformers.js: tiny models, what PyTorch gives."""

import json
import shutil

import client_results
import numpy as np
import pytest
import torch
from comparing import largest_difference
from every_head import tiny_model
from exporting import export_folder
from pairs import GENERATES, GENERATION, QUIET, pairs, tensors
from running import ClientError

import onnxfn
from onnxfn.check.cases.references import check_cases
from onnxfn.specs.algebra.dummies import dummies

FLAGS = ("--no-check",)
"""What the client gives is the check."""

WITHOUT_MASKS = ("--without=attention_mask", "--without=encoder_attention_mask")
FLAGS_OF = {"moonshine": WITHOUT_MASKS, "cohere_asr": WITHOUT_MASKS}
"""Model type -> the flags that the remark of a plan without them names."""

WRITING = {"max_new_tokens": 8, "do_sample": False, "num_beams": 1}
ENDLESS = {"threshold": 10.0, "maxlenratio": 4.0}
"""A speech of full length: the client compares each probability of an end with the threshold, PyTorch their sum."""

TOLERANCE = 1e-4
CLIENT = "transformers.js"
VOCODER, SPEAKER = "decoder_postnet_and_vocoder", "speaker_embeddings"
REMARKED = "as the plan says: "


@pytest.mark.clients_sweep
@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair.kind} {pair.model_type}")
def test_a_pair_gives_what_pytorch_gives(pair, program, tmp_path, request):
    if request.config.getoption("--left") and client_results.has_result(CLIENT, kind_of(pair), pair.model_type):
        pytest.skip("the pair has a result")
    line = line_of(pair, program, tmp_path)
    if request.config.getoption("--record"):
        client_results.record(CLIENT, kind_of(pair), pair.model_type, line)
    shutil.rmtree(tmp_path)
    assert not line.startswith(client_results.NOT) or REMARKED in line


def kind_of(pair):
    return client_results.PAIRS + pair.kind


def line_of(pair, program, root):
    """The line of a pair: the difference, or why the client cannot load it, in the words of the plan if it has some."""
    try:
        torch.manual_seed(0)
        model = quiet_model(pair)
        folder = export_of(model, pair, root)
    except Exception as error:  # noqa: BLE001 - no client has run, and the next pair is to be tried
        return client_results.line_of({}, f"no client has run: {client_results.shortened(error)}")
    remarks = [text for text in json.loads((folder / "report.json").read_text())["remarks"] if CLIENT in text]
    try:
        difference = compared(pair, model, folder, program)
        wrong = f"the plan says: {remarks[0]}" if remarks else ""
    except (ClientError, AssertionError) as error:
        difference, wrong = 0.0, f"{REMARKED}{remarks[0]}" if remarks else client_results.shortened(error)
    far = f"max abs diff {difference:.0e}" if difference > TOLERANCE else ""
    notes = {"difference": difference, "flags": FLAGS_OF.get(pair.model_type)}
    return client_results.line_of(notes, wrong or far)


def quiet_model(pair):
    model = tiny_model(pair.model_type, pair.task).eval()
    for name, value in QUIET.get(pair.model_type, {}).items():
        setattr(model.config, name, value)
        setattr(model, name, value)
    for name, value in GENERATION.get(pair.model_type, {}).items():
        setattr(model.generation_config, name, value)
    return model


def export_of(model, pair, root):
    """The folder of an export by the command line; from Python for a model whose vocoder is in no checkpoint."""
    model.save_pretrained(root / "checkpoint")
    if not hasattr(model, "vocoder"):
        flags = FLAGS_OF.get(pair.model_type, ())
        return export_folder(root / "checkpoint", root / "export", pair.task, (*FLAGS, *flags))
    options = onnxfn.WriteOptions(layout="hub")
    onnxfn.export(onnxfn.spec_for(model, pair.task), model, root / "export", check=False, write=options)
    return root / "export"


def compared(pair, model, folder, program):
    """The largest difference between what the client and PyTorch give for a pair."""
    feeds = inputs_of(model, pair.task)
    values = {name: torch.from_numpy(each) for name, each in feeds.items()}
    job = {"folder": str(folder), "classes": pair.classes, "feeds": tensors(feeds)}
    if hasattr(model, "vocoder"):
        expected = model.generate_speech(**values, **ENDLESS, vocoder=model.vocoder)
        given = program({**job, "vocoder": VOCODER, "options": ENDLESS})["result"]["waveform"]
        return largest_difference(given, array(expected))
    if pair.kind in GENERATES and not (folder / "onnx" / "model.onnx").is_file():
        given = program({**job, "options": WRITING})["result"]
        expected = array(model.generate(**values, **WRITING))
        return largest_difference(*(last(each, len(expected["data"])) for each in (given, expected)))
    given, expected = program(job)["result"], model(**values)
    places = {output.name: output.path for part in planned(model, pair.task) for output in part.spec.outputs}
    found = {name: at(expected, places.get(name) or (name,)) for name in given}
    arrays = {name: array(each) for name, each in found.items() if torch.is_tensor(each)}
    assert arrays, f"outputs are {', '.join(given)}, PyTorch's {', '.join(expected)}"
    return largest_difference(given, arrays)


def planned(model, task):
    return onnxfn.plan(onnxfn.spec_for(model, task), model.config)


def at(given, path):
    """The value at a place of PyTorch's outputs: names and numbers. None if there is none."""
    for step in path:
        given = given.get(step) if isinstance(step, str) else given[step]
    return given


def last(given, count):
    """The last numbers of an array: PyTorch's Whisper gives no tokens that are given to it."""
    return given["data"][len(given["data"]) - count :]


def array(given):
    numbers = np.asarray(given.float()).flatten().tolist()
    return {"dims": list(given.shape), "data": [each if np.isfinite(each) else None for each in numbers]}


def inputs_of(model, task):
    """Inputs of the files of an export that no file gives, at sizes that are not traced."""
    first, *others = every = planned(model, task).parts
    parts = [first, *(part for part in others if not part.spec.feedback)]
    parts = parts[:1] if any(part.name == VOCODER for part in parts) or model.config.model_type == "musicgen" else parts
    given = {output.name for part in parts for output in part.spec.outputs}
    linked = given | {link.input for part in parts for link in part.spec.links}
    feeds = [dummies(check_cases(part)[0].spec, {}, seed=1) for part in reversed(parts)]
    speaker = [dummies(part.spec, {}) for part in every if SPEAKER in part.spec.inputs]
    named = {name: value for each in feeds for name, value in each.items() if name not in linked}
    return {**named, **({SPEAKER: speaker[0][SPEAKER]} if speaker else {})}
