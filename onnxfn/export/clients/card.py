"""The card of a folder: a `README.md` for a repository on the hub, written from `report.json`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from attrs import frozen

from onnxfn.export.report.report_file import recorded
from onnxfn.specs.tasks.tasks import WITH_PAST
from onnxfn.weights.digests import sha256_of
from onnxfn.weights.layouts import dtype_of_stem


@frozen
class ClientCode:
    """How a program loads a folder and runs it.

    Attributes:
        client: The name of the program, as `Layout.clients` has it.
        language: The language of the lines.
        lines: The lines; `{task}`, `{dtype}` and `{example}` are filled in. FOLDER is the folder of the card, or its
            repository on the hub.
        examples: The task -> the call in the lines. The program is named for these tasks alone.
        needs: A file of the folder without which the program is not named; empty for none.
        dtypes: From a dtype of onnxfn to the program's word for it; empty if it does not choose among dtypes.
    """

    client: str
    language: str
    lines: str
    examples: Mapping[str, str]
    needs: str = ""
    dtypes: Mapping[str, str] = MappingProxyType({})


PIPELINE_EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("feature-extraction", "text-classification", "token-classification", "text-generation"), '"Hello, world"'
        ),
        "fill-mask": "`Paris is the ${run.tokenizer.mask_token} of France.`",
        "question-answering": '"Who wrote it?", "Ada Lovelace wrote it."',
        "text2text-generation": '"translate English to German: Good morning."',
        "automatic-speech-recognition": '"speech.wav"',
        "audio-classification": '"sound.wav"',
        **dict.fromkeys(
            ("image-classification", "object-detection", "image-segmentation", "depth-estimation", "image-to-text"),
            '"image.jpg"',
        ),
        "zero-shot-image-classification": '"image.jpg", ["a cat", "a dog"]',
    }
)
"""A task with a pipeline of the same name -> what it is called with."""

ORT_MODELS: Mapping[str, str] = MappingProxyType(
    {
        "feature-extraction": "ORTModelForFeatureExtraction",
        "fill-mask": "ORTModelForMaskedLM",
        "question-answering": "ORTModelForQuestionAnswering",
        "text-classification": "ORTModelForSequenceClassification",
        "token-classification": "ORTModelForTokenClassification",
    }
)
"""A task -> the class of Optimum for it."""

ORT_WRITERS: Mapping[str, str] = MappingProxyType(
    {"text-generation": "ORTModelForCausalLM", "text2text-generation": "ORTModelForSeq2SeqLM"}
)
"""A task that writes text -> the class of Optimum for it."""

ORT_LINES = """from optimum.onnxruntime import {example}
from transformers import AutoTokenizer
model, tokenizer = {example}.from_pretrained("FOLDER"), AutoTokenizer.from_pretrained("FOLDER")
tokens = tokenizer("Hello, world", return_tensors="pt")
"""

JS_DTYPES: Mapping[str, str] = MappingProxyType(
    {"float32": "fp32", "float16": "fp16"} | {name: name for name in ("q8", "int8", "uint8", "q4", "q4f16", "bnb4")}
)
"""A dtype -> its name in transformers.js."""

CLIENT_CODE = (
    ClientCode(
        "transformers.js",
        "js",
        """import { pipeline } from "@huggingface/transformers";
const run = await pipeline("{task}", "FOLDER", { dtype: "{dtype}" });
console.log(await run({example}));""",
        PIPELINE_EXAMPLES,
        dtypes=JS_DTYPES,
    ),
    ClientCode(
        "onnxruntime-genai",
        "python",
        """import onnxruntime_genai as og
model = og.Model("FOLDER")
tokenizer, params = og.Tokenizer(model), og.GeneratorParams(model)
params.set_search_options(max_length=64)
generator = og.Generator(model, params)
generator.append_tokens(tokenizer.encode({example}))
while not generator.is_done():
    generator.generate_next_token()
print(tokenizer.decode(generator.get_sequence(0)))""",
        MappingProxyType({"text-generation": '"Hello, world"'}),
        needs="genai_config.json",
    ),
    ClientCode(
        "ORTModel",
        "python",
        ORT_LINES + "print(model(**tokens))",
        ORT_MODELS,
    ),
    ClientCode(
        "ORTModel",
        "python",
        ORT_LINES + "print(tokenizer.batch_decode(model.generate(**tokens)))",
        ORT_WRITERS,
    ),
    ClientCode(
        "sentence-transformers",
        "python",
        """from sentence_transformers import SentenceTransformer
model = SentenceTransformer("FOLDER", backend="onnx")
print(model.encode(["Hello, world"]).shape)""",
        MappingProxyType(dict.fromkeys(("feature-extraction", "sentence-similarity"), "")),
        needs="modules.json",
    ),
)
"""The clients, in the order of the card."""

ONNXFN_LINES = """import onnxfn
model = onnxfn.load("FOLDER")
print(model.inputs, model.outputs)"""


def client_lines(task: str, dtype: str, files: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """The client, the language and the lines of each client that has a use for a task and a folder's files.

    >>> [client for client, _, _ in client_lines("text-generation", "q4", {"genai_config.json"})]
    ['transformers.js', 'onnxruntime-genai', 'ORTModel', 'onnxfn']
    >>> next(client_lines("fill-mask", "float16", ()))[2].splitlines()[1]
    'const run = await pipeline("fill-mask", "FOLDER", { dtype: "fp16" });'
    """
    for code in CLIENT_CODE:
        has_dtype = not code.dtypes or dtype in code.dtypes
        if task in code.examples and (not code.needs or code.needs in files) and has_dtype:
            words = {"task": task, "dtype": code.dtypes.get(dtype, ""), "example": code.examples[task]}
            yield code.client, code.language, _filled(code.lines, words)
    yield "onnxfn", "python", ONNXFN_LINES


def _filled(lines: str, words: Mapping[str, str]) -> str:
    """Lines with their words. `str.format` would read the brackets of JavaScript."""
    for key, word in words.items():
        lines = lines.replace(f"{{{key}}}", word)
    return lines


CARD = "README.md"

MEASURES = ("agreement", "kl", "cosine", "iou", "cases")
"""What is measured of a quantized file, the most telling first."""


def card_text(report: Mapping[str, Any]) -> str:
    """The card of a folder: what it was made of, its files with their measured errors, and code for each client.

    Args:
        report: The content of `report.json`; of `files`, the card names the graphs and the files with their weights.
    """
    task = (report["task"] or "").removesuffix(WITH_PAST)
    sections = (
        _front_matter(report, task),
        f"# {_title(report, task)}",
        _origin(report),
        f"```\n{command(report)}\n```",
        "## Files",
        _file_table(report),
        _check_words(report["check"]),
        *_client_sections(report, task),
        *_remark_section(report),
    )
    return "\n\n".join(filter(None, sections)) + "\n"


def write_card(report: Mapping[str, Any], staging: Path, folder: Path) -> tuple[Path, ...]:
    """Writes the card of an export to a staging folder; returns its path.

    Nothing is written if the folder of the export has a `README.md` that no earlier export wrote, or that was changed.
    """
    earlier = recorded(folder)
    facts = earlier.files.get(CARD) if earlier else None
    if (folder / CARD).exists() and (facts is None or sha256_of(folder / CARD) != facts.sha256):
        return ()
    (staging / CARD).write_text(card_text(report), encoding="utf-8")
    return (staging / CARD,)


def command(report: Mapping[str, Any]) -> str:
    """The command that writes such a folder.

    >>> options = {"layout": "hub"}
    >>> graphs = {"onnx/model.onnx": {"dtype": "float16", "opset": 18}}
    >>> command({"task": "fill-mask", "options": options, "graphs": graphs})
    'onnxfn export MODEL OUT --task fill-mask --layout hub --dtype float16 --opset 18'
    >>> command({"task": None, "options": options, "graphs": {}, "variants": {"float32": [], "q4": []}})
    'onnxfn export MODEL OUT --layout hub --dtype float32 --dtype q4'
    """
    options, graphs = report["options"], [*report["graphs"].values()]
    dtypes = report.get("variants") or {graph["dtype"]: () for graph in graphs[:1] if graph["dtype"]}
    words = [
        "onnxfn export MODEL OUT",
        f"--task {report['task']}" if report["task"] else "",
        f"--layout {options['layout']}",
        *(f"--dtype {dtype}" for dtype in dtypes),
        f"--opset {graphs[0]['opset']}" if graphs else "",
    ]
    return " ".join(filter(None, words))


def _front_matter(report: Mapping[str, Any], task: str) -> str:
    """The block of metadata that the hub reads."""
    lines = ["library_name: onnx", *([f"pipeline_tag: {task}"] if task else []), "tags:", "- onnx", "- onnxfn"]
    return "\n".join(("---", *lines, *([f"- {report['name']}"] if report["name"] else []), "---"))


def _title(report: Mapping[str, Any], task: str) -> str:
    """The title: it names no folder, so that equal exports have equal cards."""
    words = (report["name"] or "A model", f"for {task}" if task else "")
    return f"{' '.join(filter(None, words))}, in ONNX"


def _origin(report: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in report["versions"].items() if version)
    model = f"a PyTorch model of the type `{report['name']}`" if report["name"] else "a PyTorch model"
    source = f" Its weights come from {report['weights_from']}." if report["weights_from"] else ""
    return f"ONNX files of {model}.{source} Written with {versions}:"


def _file_table(report: Mapping[str, Any]) -> str:
    rows = [_file_row(path, graph, report) for path, graph in report["graphs"].items()]
    return "\n".join(("| file | dtype | MB | measured against PyTorch |", "| --- | --- | --- | --- |", *rows))


def _file_row(path: str, graph: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    stem = PurePosixPath(path).stem
    dtype = dtype_of_stem(stem) if report.get("variants") else graph["dtype"]
    data = path.removesuffix(".onnx") + report["options"]["external_data_suffix"]
    size = sum(facts["bytes"] for file, facts in report["files"].items() if file == path or file.startswith(data))
    return f"| `{path}` | {dtype or ''} | {size / 10**6:.1f} | {_measured(stem, report['check'])} |"


def _measured(part: str, check: Mapping[str, Any]) -> str:
    """What the check found of a file: measures of its first output, else its largest difference."""
    measured = [each for each in check["measurements"] if each["part"] == part and each["value"] is not None]
    first = [each for each in measured if each["output"] == measured[0]["output"]]
    words = [f"{name} {each['value']:.3g}" for name in MEASURES for each in first if each["measure"] == name]
    differences = [each["max_abs"] for each in check["outputs"] if each["part"] == part]
    if not words and differences:
        words = [f"largest difference {max(differences):.1e}"]
    return ", ".join(words) or "not checked"


def _check_words(check: Mapping[str, Any]) -> str:
    """How the files were compared."""
    if not check["cases"]:
        return "The files were not compared with PyTorch."
    return f"The files were compared with PyTorch in {len(check['cases'])} cases, at sizes that were not traced."


def _client_sections(report: Mapping[str, Any], task: str) -> Iterator[str]:
    """A section with code for each client that loads the folder."""
    remarks = report.get("remarks", ())
    dtypes = [*report.get("variants", ())] or [_only_dtype(report["graphs"])]
    paths = {*report["files"]}
    for client, language, lines in client_lines(task, dtypes[0], paths):
        if not any(remark.startswith(client) for remark in remarks):
            yield f"## {client}\n\n```{language}\n{lines}\n```"


def _only_dtype(graphs: Iterable[str]) -> str:
    """The dtype that the ending of the first graph names."""
    return next((dtype_of_stem(PurePosixPath(path).stem) for path in graphs), "float32")


def _remark_section(report: Mapping[str, Any]) -> Iterator[str]:
    """What a client cannot load, and what no graph takes."""
    lines = [
        *report.get("remarks", ()),
        *(f"left out: {each['name']} ({each['reason']})" for each in report["left_out"]),
    ]
    if lines:
        yield "## Limits\n\n" + "\n".join(f"- {line}" for line in lines)
