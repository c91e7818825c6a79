"""The files of a checkpoint that a program needs in addition to the weights. Only files that are known are copied."""

from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from onnxfn.specs.errors import LoadFailed, os_error_text
from onnxfn.weights.names import file_fault

SIDE_FILES = (
    *("config.json", "generation_config.json"),
    # Those that tokenizers of transformers read: the values of their `vocab_files_names`, and those of their base.
    *("added_tokens.json", "additional_chat_templates/*.jinja", "alphabet.json", "bpe.codes", "byte_maps.json"),
    *("chat_template.jinja", "chat_template.json", "dict.txt", "emoji.json", "entity_vocab.json", "merges.txt"),
    *("normalizer.json", "prophetnet.tokenizer", "sentencepiece.bpe.model", "sentencepiece.model", "source.spm"),
    *("special_tokens_map.json", "spiece.model", "spm.model", "spm_char.model", "target.spm", "target_vocab.json"),
    *("tekken.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab-src.json"),
    *("vocab-tgt.json", "vocab.json", "vocab.txt", "word_pronunciation.json", "word_shape.json"),
    # Those that processors of transformers read, for images, videos and audio.
    *("audio_tokenizer_config.json", "preprocessor_config.json", "processor_config.json"),
    *("speaker_embeddings_path.json", "video_preprocessor_config.json"),
    # Those of sentence-transformers: the list of its modules, and the configuration of each.
    *("[0-9]_*/config.json", "config_sentence_transformers.json", "modules.json", "sentence_*_config.json"),
)
"""Patterns of the files in a checkpoint's folder that are copied. All others stay where they are."""

WRITTEN_FILES = (*SIDE_FILES, "genai_config.json", "README.md", "graph.svg")
"""Patterns of the side files that an export writes. The last three describe graphs: they are not a checkpoint's."""


def side_files(folder: Path, patterns: tuple[str, ...] = SIDE_FILES) -> tuple[Path, ...]:
    """The files in a checkpoint's folder that match patterns, without links to files outside the checkpoint."""
    files = {file for pattern in patterns for file in folder.glob(pattern)}
    return tuple(sorted(file for file in files if file.is_file() and file_fault(file, folder) is None))


@frozen(eq=False)
class Checkpoint:
    """A checkpoint whose side files, with the times of their last changes, were read before its model was loaded."""

    folder: Path
    files: Mapping[str, tuple[tuple[int, ...], bytes]]


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder, with its side files as they are now. LoadFailed if one cannot be read."""
    return Checkpoint(folder, {file.relative_to(folder).as_posix(): _read(file) for file in side_files(folder)})


def check_unchanged(checkpoint: Checkpoint) -> None:
    """Raises LoadFailed if a side file was written since it was read, even back: the model may be of another one."""
    for name, read in checkpoint.files.items():
        file = checkpoint.folder / name
        if not file.is_file() or _read(file) != read:
            raise LoadFailed(f"{file} changed while the checkpoint was loaded; export it again")


def copy_side_files(checkpoint: Checkpoint, folder: Path) -> tuple[Path, ...]:
    """Writes the side files of a checkpoint, as they were read, to `folder`; returns the copies."""
    for name, (_, content) in checkpoint.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return tuple(folder / name for name in checkpoint.files)


def _read(file: Path) -> tuple[tuple[int, ...], bytes]:
    try:
        states = (file.lstat(), file.stat())
        return tuple(number for each in states for number in (each.st_ino, each.st_ctime_ns)), file.read_bytes()
    except OSError as error:
        raise LoadFailed(f"{file} cannot be read: {os_error_text(error, file)}") from error
