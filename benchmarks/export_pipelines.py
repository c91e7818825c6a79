"""Pipelines of diffusers: whether all their parts are exported, and whether the result of the files is PyTorch's.

    python benchmarks/export_pipelines.py CHECKOUT [--pipelines Flux,Wan] [--left] [--json FILE]

CHECKOUT is a copy of the repository of diffusers: its tests make tiny components and arguments for each pipeline. A
pipeline runs twice while it is watched, the second time with a longer prompt and a larger picture. Then it runs on the
files, at sizes that no run had, or at those of the second run where PyTorch refuses others. All tokenizers are one
small tokenizer of words, since no hub is asked. Parameters are random: those of an untrained module are often zero.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import pkgutil
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from export_real import saved_rows, today
from figures import RESULTS, Required, print_and_save, save
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from onnxfn.programs import assembled, export_pipeline

LIMIT = 900
"""The most seconds of a pipeline."""

TOLERANCE = 2e-3
"""The largest difference from PyTorch, relative to the largest number of the result."""

EXPORTED_LIMIT, EQUAL_LIMIT = 0.1, -60
"""The largest share of pipelines that are not exported; less the fewest whose result is PyTorch's."""

WORDS = "<pad> </s> <unk> a cat dog on the moon red blue tree house of with two painting squirrel"


def tokenizer(*_: Any, **__: Any) -> Any:
    """A tokenizer of few words, with a template for chats."""
    special = {"pad_token": "<pad>", "eos_token": "</s>", "bos_token": "</s>", "unk_token": "<unk>"}
    inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS.split())}, special["unk_token"]))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=77, **special)
    made.chat_template = "{% for each in messages %}{{ each['content'] }} {% endfor %}"
    return made


def without_hub() -> None:
    """Lets the tests of diffusers make what they would load from the hub: tokenizers, and tiny encoders of text."""
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
    config = transformers.T5Config(vocab_size=1103, **sizes)
    transformers.PreTrainedTokenizerBase.from_pretrained = classmethod(tokenizer)
    transformers.AutoTokenizer.from_pretrained = tokenizer
    transformers.AutoConfig.from_pretrained = lambda *_, **__: config
    for encoder in (transformers.T5EncoderModel, transformers.UMT5EncoderModel):
        encoder.from_pretrained = classmethod(lambda cls, *_, **__: cls(cls.config_class(**config.to_dict())))


def takes(function: Any, *names: str) -> bool:
    """Whether a function needs no other arguments than these; False for None."""
    parameters = inspect.signature(function).parameters.values() if function else ()
    return bool(function) and all(each.name in names for each in parameters if each.default is each.empty)


def cases() -> Iterator[tuple[str, Any]]:
    """The name of each pipeline, and the class of its first test that makes components."""
    import tests.pipelines

    seen = set()
    for found in pkgutil.walk_packages(tests.pipelines.__path__, "tests.pipelines."):
        if ".test_" in found.name and "onnx" not in found.name:
            module = importlib.import_module(found.name)
            for case in vars(module).values():
                makes = inspect.isclass(case) and takes(getattr(case, "get_dummy_components", None), "self")
                name = getattr(getattr(case, "pipeline_class", None), "__name__", "")
                if makes and name and case.__module__ == module.__name__ and name not in seen:
                    seen.add(name)
                    yield name, case


def result(pipeline: Any, case: Any, grown: int = 0) -> np.ndarray[Any, Any]:
    """What a pipeline returns in two steps: for a longer prompt and a larger picture if it has grown."""
    torch.manual_seed(0)
    inputs = case.get_dummy_inputs
    arguments = dict(inputs("cpu") if "device" in inspect.signature(inputs).parameters else inputs())
    if "num_inference_steps" in arguments and "strength" not in arguments:  # a low strength leaves no step of two
        arguments["num_inference_steps"] = 2
    for side, step in (("height", 64), ("width", 128)):
        if isinstance(arguments.get(side), int):
            arguments[side] += step * grown
    if isinstance(arguments.get("prompt"), str):
        arguments["prompt"] += " on the moon" * grown
    with torch.no_grad():
        first = next(iter(getattr(returned := pipeline(**arguments), "values", lambda: returned)()))
    parts = first if isinstance(first, (list, tuple)) else [first]
    return np.stack([np.asarray(each.float() if hasattr(each, "float") else each, np.float64) for each in parts])


def randomized(module: Any) -> None:
    """Makes all parameters of a module random."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * 0.1 if parameter.dim() > 1 else parameter + noise * 0.05)


def possible(runs: Sequence[Callable[[], Any]]) -> Iterator[Callable[[], Any]]:
    """The runs that raise no error."""
    for run in runs:
        try:
            run()
        except Exception:  # noqa: BLE001, S112 - PyTorch does not take these sizes
            continue
        yield run


def measured(case: Any) -> dict[str, Any]:
    """The parts of a pipeline, the seconds of their export, and the largest difference of the result."""
    test = case()
    try:
        components = test.get_dummy_components()
        pipeline = case.pipeline_class(**components)
        for module in components.values():
            if isinstance(module, torch.nn.Module):
                randomized(module.eval())
        pipeline.set_progress_bar_config(disable=True)
        result(pipeline, test)
    except Exception as error:  # noqa: BLE001 - the components need a hub, or another library
        return {"not run": problem(error)}
    runs = [*possible([partial(result, pipeline, test, grown) for grown in (0, 1, 2)])]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        try:
            parts = [*export_pipeline(pipeline, f"{folder}/out", run=runs[:2])]
        except Exception as error:  # noqa: BLE001 - whatever the error is, there are no files
            return {"runs": len(runs), "problem": problem(error)}
        row = {"parts": len(parts), "runs": len(runs), "s": time.perf_counter() - start}
        try:
            with assembled(pipeline, f"{folder}/out"):
                found = runs[-1]()
        except Exception as error:  # noqa: BLE001 - the files do not take what the pipeline passes
            return {**row, "result": problem(error)}
    expected = runs[-1]()
    return {**row, "difference": float(np.abs(found - expected).max() / np.abs(expected).max())}


def problem(error: Exception) -> str:
    """An error in one line, without the folders of this machine."""
    line = re.sub(r"/\w+/\S*/", "", " ".join(str(error).split()))
    return f"{type(error).__name__}: {line[:300]}"


def in_process(case: Any) -> dict[str, Any]:
    """The figures of a pipeline, from a copy of this process, which ends after `LIMIT` seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LIMIT)
        os.write(writer, json.dumps(measured(case)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"problem": f"ended, or longer than {LIMIT} s"}


def required(every: Sequence[Mapping[str, Any]]) -> list[Required]:
    """The requirements on pipelines that run in PyTorch."""
    ran = [row for row in every if "not run" not in row]
    failed = sum("problem" in row for row in ran) / max(1, len(ran))
    equal = sum(row.get("difference", np.inf) <= TOLERANCE for row in ran)
    return [
        Required(f"{len(ran)} pipelines of diffusers: share that is not exported", failed, EXPORTED_LIMIT),
        Required("pipelines of diffusers: less those whose result is PyTorch's", -equal, EQUAL_LIMIT),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("checkout", type=Path, help="A copy of the repository of diffusers.")
    arguments.add_argument("--pipelines", help="Measure the pipelines that have one of these words alone.")
    arguments.add_argument("--left", action="store_true", help="Leave out pipelines that have figures.")
    arguments.add_argument("--json", type=Path, default=RESULTS / "export_pipelines.json")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(options.checkout))
    without_hub()
    saved, words = saved_rows(options.json), options.pipelines.split(",") if options.pipelines else [""]
    for name, case in cases():
        if any(word in name for word in words) and not (options.left and name in saved):
            saved[name] = {"model": name, **in_process(case), "date": today()}
            print(saved[name], flush=True)
            every = [*saved.values()]
            save("export_pipelines", every, required(every), options.json, runs=1, packages=("diffusers",))
    every = [*saved.values()]
    print_and_save("export_pipelines", every, required(every), options.json, runs=1, packages=("diffusers",))


if __name__ == "__main__":
    main()
