"""`generate`: the texts that the files of an export decode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
from attrs import evolve

from onnxfn.architectures.placeholders import PLACES, Placeholders, placeholders, with_placeholders
from onnxfn.run import prompts
from onnxfn.run.greedy_decoding import Decoder, encoder_feeds, greedy, input_names
from onnxfn.run.sessions import open_session
from onnxfn.run.towers import TOWERS, argument_of, embedded, with_features
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.edits.behaviors import DECODER, DECODER_WITH_PAST, ENCODER, MERGED_DECODER
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, EMBEDS, IDS
from onnxfn.specs.errors import InvalidSpec, ModelNotFound, first_line, listed
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.checkpoint_files import checkpoint_files
from onnxfn.weights.layouts import dtype_of_stem, dtype_suffix, graphs_of_dtype, onnx_folder

DECODERS = ((MERGED_DECODER,), (DECODER, DECODER_WITH_PAST))
"""The decoder files of an encoder-decoder: one file, or one for the first token and one for the others."""


@overload
def generate(
    exported: Exported | str | PathLike[str],
    input_ids: str,
    *,
    images: Sequence[Any] = (),
    audio: Sequence[Any] = (),
    max_new_tokens: int = 16,
    stop: Iterable[int] = (),
    dtype: str | None = None,
) -> str: ...
@overload
def generate(
    exported: Exported | str | PathLike[str],
    input_ids: Array | Sequence[Sequence[int]] | Mapping[str, Any],
    attention_mask: Array | Sequence[Sequence[int]] | None = None,
    *,
    max_new_tokens: int = 16,
    stop: Iterable[int] = (),
    start: int | None = None,
    dtype: str | None = None,
) -> Array: ...
def generate(
    exported: Exported | str | PathLike[str],
    input_ids: Array | Sequence[Sequence[int]] | Mapping[str, Any] | str,
    attention_mask: Array | Sequence[Sequence[int]] | None = None,
    *,
    images: Sequence[Any] = (),
    audio: Sequence[Any] = (),
    max_new_tokens: int = 16,
    stop: Iterable[int] = (),
    start: int | None = None,
    dtype: str | None = None,
) -> Array | str:
    """Decodes texts greedily with ONNX Runtime; for a model that sees or hears, texts with images or sounds.

    Args:
        exported: A decoder with past or an encoder-decoder: the result of `export` or of `load`, the folder of an
            export, or the ONNX file of a decoder.
        input_ids: Token ids, `[batch, length]`, as an array or as lists of one length: the prompts of a decoder, or the
            texts of an encoder. For an encoder of sound or images, its features. Or a text, for the processor or the
            tokenizer in the folder. Or all outputs of a processor, by name: `input_ids`, `attention_mask`,
            `pixel_values`.
        attention_mask: `[batch, length]`, 0 for padding and 1 for tokens. Prompts of different lengths are padded on
            the left. The default has no padding.
        images: Images that belong to a text, in order: images of PIL, arrays or paths of files. A text without
            placeholders gets them in front, or in a message of the chat template.
        audio: Sounds that belong to a text: samples at the sampling rate of the processor, or paths of files.
        max_new_tokens: The largest number of tokens that are decoded, 0 or more.
        stop: Token ids that end a text. An ended text is filled with its last token until all texts have ended. The
            answer to a text also ends at the end token of the configuration in the folder.
        start: The first token that the decoder of an encoder-decoder gets. The default is `decoder_start_token_id` of
            the configuration in the folder. A decoder without an encoder has none.
        dtype: Which of the `dtypes` of the export runs. None: that of the result of `load`, the first of the export, or
            that of all files in a folder; of several the files without an ending.

    Returns:
        Token ids, int64: `[batch, length + new]` for a decoder, its prompts included; `[batch, 1 + new]` for an
        encoder-decoder, `start` included. For a text, its continuation: `generate(folder, "Once upon a")`; or, if the
        tokenizer has a chat template, the reply to it as a message. Token ids get no template.

    Raises:
        ModelNotFound: There is no such file, no decoder with past in the folder, or no processor for a text.
        LoadFailed: A file in the folder is a link out of it, or no regular file.
        InvalidSpec: `generate` has no value for an input of the decoder. `start` is missing, or is given without an
            encoder. `max_new_tokens` is below 0. The prompts do not fit the model: an unknown token, a mask of another
            shape, no tokens. Images come without a text, or to a model that does not see. A text has another number of
            placeholder tokens than images have rows of features. Or a configuration in the folder is no JSON.
        CheckFailed: ONNX Runtime cannot load a file, or the folder holds files of two exports.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from onnx import parser, save
        >>> counter = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
        ...     counter (int64[batch_size, length] input_ids, int64[batch_size, n] past)
        ...         => (float[batch_size, length, 10] logits, int64[batch_size, n] present)
        ...     <int64 one = {1}, int64 ten = {10}, float[2] off_and_on = {0.0, 1.0}>
        ...     { next = Add (input_ids, one)  logits = OneHot (next, ten, off_and_on)  present = Identity (past) }''')
        >>> with TemporaryDirectory() as folder:
        ...     save(counter, f"{folder}/model.onnx")
        ...     generate(folder, np.array([[3, 4], [0, 1]]), max_new_tokens=3).tolist()
        [[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]]
    """
    path, stop_ids = prompts.export_path(exported), prompts.stop_tokens(stop)
    steps = prompts.number_of_tokens(max_new_tokens)
    if path.is_dir():
        checkpoint_files(path)
    folder = onnx_folder(path)
    suffix = _suffix(exported, dtype, [path] if path.suffix == ".onnx" else graphs_of_dtype(folder, None))
    graphs_of_dtype(folder, dtype_of_stem(suffix))  # raises ModelNotFound
    is_encoded = (folder / f"{ENCODER}{suffix}.onnx").is_file()
    if isinstance(input_ids, str):
        processor = prompts.saved_processor(path)
        prompt = prompts.processed(processor, input_ids, images, audio)
        texts = generate(exported, prompt, max_new_tokens=steps, stop=(*stop_ids, *_end_tokens(path)), dtype=dtype)
        new_ids = texts[0, 1 if is_encoded else prompt[IDS].shape[1] :]  # after `start`, or after the prompt
        return str(processor.decode(new_ids, skip_special_tokens=True))
    if len(images) or len(audio):
        raise InvalidSpec('images and audio belong to a text: generate(folder, "What is this?", images=[...])')
    arguments: Mapping[str, Any] = input_ids if isinstance(input_ids, Mapping) else {IDS: input_ids}
    inputs = prompts.encoder_array(arguments[IDS])
    mask = prompts.token_mask(arguments.get("attention_mask") if attention_mask is None else attention_mask, inputs)
    if is_encoded:
        ids = np.full((len(inputs), 1), _start_token(path) if start is None else start, dtype=np.int64)
        decoder = _decoder_of_encoded(path, suffix, {**arguments, IDS: inputs}, mask)
        with prompts.run_errors(inputs):
            return greedy(decoder, ids, np.ones_like(ids), steps=steps, stop=stop_ids)
    if start is not None:
        raise InvalidSpec(f"start is {start!r}, and a decoder without an encoder starts with input_ids; leave it out")
    ids, decoder = prompts.token_ids(inputs), _decoder(_decoder_file(exported, folder, suffix), suffix)
    with prompts.run_errors(ids):
        values: Mapping[str, Array] = {**prompts.arrays_of(arguments), IDS: ids}
        if PLACES in values:
            values = with_placeholders(values, _known_tokens(path))
        if towers := _towers(folder, suffix, values):
            decoder = with_features(decoder, towers, _known_tokens(path), values)
        return greedy(decoder, values[IDS], mask, steps=steps, stop=stop_ids)


def _end_tokens(folder: Path) -> tuple[int, ...]:
    """`eos_token_id` of the first configuration in a folder that has it: one token, or several."""
    configured = (config.get("eos_token_id") for config in _configurations(folder))
    ends = next((each for each in configured if each is not None), ())
    return tuple(ends) if isinstance(ends, (list, tuple)) else (ends,)


def _suffix(exported: Exported | str | PathLike[str], dtype: str | None, files: Sequence[Path]) -> str:
    """The ending of the files in a dtype; None: the first of an export, that of `load`, or that of all files."""
    first = exported.plan.parts[0].dtype if isinstance(exported, Exported) else getattr(exported, "dtype", None)
    stored = {dtype_of_stem(file.stem) for file in files}
    return dtype_suffix(dtype or first or (stored.pop() if len(stored) == 1 else None))


def _decoder_of_encoded(path: Path, suffix: str, arguments: Mapping[str, Any], mask: Array) -> Decoder:
    """The decoder of an encoder-decoder, with the outputs of its encoder for the inputs."""
    folder, inputs = onnx_folder(path), arguments[IDS]
    decoder, encoder = _seq2seq_decoder(folder, suffix), open_session(folder / f"{ENCODER}{suffix}.onnx")
    with prompts.run_errors(inputs):
        if EMBEDS in input_names(encoder):
            table, values = open_session(folder / f"{EMBEDDING_FILE}{suffix}.onnx"), prompts.arrays_of(arguments)
            inputs = embedded(table, _towers(folder, suffix, values), _known_tokens(path), values)[EMBEDS]
            decoder = evolve(decoder, embeddings=table)
        return evolve(decoder, constant_feeds=encoder_feeds(encoder, inputs, mask))


def _known_tokens(path: Path) -> Placeholders:
    return placeholders(_json(path / "config.json"))


def _towers(folder: Path, suffix: str, arguments: Mapping[str, Array]) -> dict[str, Any]:
    """The sessions of the files that read images and sounds. InvalidSpec if none reads one that is an argument."""
    files = {stem: folder / f"{stem}{suffix}.onnx" for stem in TOWERS}
    sessions = {stem: open_session(file) for stem, file in files.items() if file.is_file()}
    read = {argument_of(name) for session in sessions.values() for name in input_names(session)}
    if unread := sorted(arguments.keys() & {"pixel_values", "input_features"} - read):
        raise InvalidSpec(f"no file in {folder} reads {listed(unread)}; the files that do are {listed(TOWERS)}")
    return sessions


def _configurations(folder: Path) -> Iterator[Mapping[str, Any]]:
    """The configurations in a folder, that of `generate` first."""
    files = [folder / name for name in ("generation_config.json", "config.json")]
    return (_json(file) for file in files if file.is_file())


def _json(file: Path) -> Mapping[str, Any]:
    """The object in a file of JSON. InvalidSpec if it holds none."""
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"{file} is no JSON: {first_line(error)}") from None
    if not isinstance(content, dict):
        raise InvalidSpec(f"{file} holds a {type(content).__name__}, not an object")
    return content


def _start_token(folder: Path) -> int:
    """`decoder_start_token_id` of the configuration in a folder."""
    for config in _configurations(folder):
        for section in (config, config.get("decoder") or {}, config.get("text_config") or {}):
            if section.get("decoder_start_token_id") is not None:
                return int(section["decoder_start_token_id"])
    raise InvalidSpec(f"no configuration in {folder} has decoder_start_token_id; pass the first token: start=...")


def _decoder_file(exported: Exported | str | PathLike[str], folder: Path, suffix: str) -> Path:
    """The ONNX file of a decoder: the path if it ends in .onnx, else the first of a variant except token embeddings."""
    path = prompts.export_path(exported)
    if path.suffix == ".onnx":
        return path
    merged = folder / f"{DECODERS[0][0]}{suffix}.onnx"
    if merged.is_file():
        return merged
    if (alone := folder / f"{DECODERS[1][0]}{suffix}.onnx").is_file():
        advice = "export with a task that ends in -with-past, such as image-text-to-text-with-past, in merged decoders"
        raise ModelNotFound(f"{alone} takes no cache, and generate needs {merged.name}; {advice}")
    names = [part.name for part in exported.plan.parts] if isinstance(exported, Exported) else [f"model{suffix}"]
    decoders = (name for name in names if name.endswith(suffix) and not name.startswith(EMBEDDING_FILE))
    return folder / f"{next(decoders)}.onnx"


def _decoder(file: Path, suffix: str) -> Decoder:
    session, table = open_session(file), file.parent / f"{EMBEDDING_FILE}{suffix}.onnx"
    outputs = [output.name for output in session.get_outputs()]
    if "logits" not in outputs or len(outputs) == 1:
        advice = "export with a task such as text-generation-with-past"
        raise ModelNotFound(f"{file} is no decoder with past: it gives {listed(outputs)}; {advice}")
    return Decoder(session, session, open_session(table) if EMBEDS in input_names(session) else None)


def _seq2seq_decoder(folder: Path, suffix: str) -> Decoder:
    for stems in DECODERS:
        files = [folder / f"{stem}{suffix}.onnx" for stem in stems]
        if all(file.is_file() for file in files):
            sessions = [open_session(file) for file in files]
            return Decoder(sessions[0], sessions[-1])
    known = listed(" and ".join(f"{stem}{suffix}" for stem in stems) for stems in DECODERS)
    raise ModelNotFound(f"no decoder with past in {folder}; generate knows: {known}")
