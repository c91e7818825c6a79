"""Lines of code for each client, as the card of a folder shows them: data, and one function that chooses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from attrs import frozen


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
