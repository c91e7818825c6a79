import re
from pathlib import Path

import pytest
import transformers
from refusals import refusal

from onnxfn.specs.errors import LoadFailed
from onnxfn.weights.side_files import SIDE_FILES, check_unchanged, copy_side_files, read_checkpoint, side_files

OTHERS = (
    *("notes.txt", "credentials.json", "train.py", "requirements.txt", "optimizer.json", "training_args.json"),
    *("trainer_state.json", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin.index.json"),
    *("adapter_config.json", "2_Dense/model.safetensors", "onnx/config.json"),
)
OWN = ("config.json", "tokenizer.json", "1_Pooling/config.json", "additional_chat_templates/tool.jinja", "spiece.model")


@pytest.fixture
def checkpoint(tmp_path):
    for name in (*OTHERS, *OWN):
        file = tmp_path / "checkpoint" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "checkpoint"


def copied(checkpoint):
    return {file.relative_to(checkpoint).as_posix() for file in side_files(checkpoint)}


def test_only_the_files_of_a_model_are_copied(checkpoint, tmp_path):
    assert copied(checkpoint) == set(OWN)
    copies = copy_side_files(read_checkpoint(checkpoint), tmp_path / "out")
    assert {file: file.read_text() for file in copies} == {tmp_path / "out" / name: name for name in OWN}
    assert {file for file in (tmp_path / "out").rglob("*") if file.is_file()} == set(copies)


def test_every_file_that_a_tokenizer_of_transformers_reads_is_copied():
    sources = Path(transformers.__file__).parent.rglob("*tokeniz*.py")
    tables = [
        table
        for file in sources
        for table in re.findall(r"VOCAB_FILES_NAMES\w* = \{(.*?)\}", file.read_text(), re.DOTALL)
    ]
    names = {name for table in tables for name in re.findall(r':\s*"([^"]+)"', table)}
    assert {"vocab.txt", "spiece.model", "tokenizer.json", "source.spm"} <= names
    assert names - set(SIDE_FILES) == set()


def test_every_file_name_that_transformers_has_a_constant_for_is_copied():
    """Those of configurations, tokenizers and processors; the others are of weights, adapters and model cards."""
    from transformers import tokenization_utils_base, utils

    names = {
        value
        for module in (utils, tokenization_utils_base)
        for name, value in vars(module).items()
        if name.isupper() and name.endswith(("_FILE", "_NAME")) and isinstance(value, str) and "." in value
    }
    not_side_files = {name for name in names if name.startswith(("model", "pytorch", "flax", "tf_", "adapter"))}
    assert {"config.json", "generation_config.json", "preprocessor_config.json", "chat_template.jinja"} <= names
    assert names - not_side_files - set(SIDE_FILES) == set()


def test_a_link_out_of_the_checkpoint_is_not_followed(checkpoint, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (checkpoint / "vocab.txt").symlink_to(tmp_path / "secret")
    (checkpoint / "merges.txt").symlink_to("../secret")
    (checkpoint / "vocab.json").symlink_to("missing")
    (checkpoint / "preprocessor_config.json").mkdir()
    assert copied(checkpoint) == set(OWN)


def test_a_link_within_the_checkpoint_is_followed(checkpoint):
    (checkpoint / "vocab.txt").symlink_to("notes.txt")
    assert copied(checkpoint) == {*OWN, "vocab.txt"}


def test_a_checkpoint_in_the_cache_of_the_hub_is_copied_without_blobs_of_another_one(checkpoint, tmp_path):
    """A snapshot there is a folder of links to `blobs`."""
    repository = tmp_path / "hub" / "models--someone--bert"
    (repository / "blobs").mkdir(parents=True)
    (repository / "blobs" / "0123abcd").write_text("{}")
    snapshot = repository / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/0123abcd")
    (checkpoint / "vocab.json").symlink_to(repository / "blobs" / "0123abcd")
    assert copied(snapshot) == {"config.json"}
    assert copied(checkpoint) == set(OWN)
    (copy,) = copy_side_files(read_checkpoint(snapshot), tmp_path / "out")
    assert not copy.is_symlink()
    assert copy.read_text() == "{}"


def test_copies_are_of_the_state_that_was_read(checkpoint, tmp_path):
    read = read_checkpoint(checkpoint)
    check_unchanged(read)
    (checkpoint / "config.json").write_text("another configuration")
    (checkpoint / "vocab.txt").write_text("a file that is new")
    assert {file.read_text() for file in copy_side_files(read, tmp_path / "out")} == {*OWN}
    message = f"{checkpoint / 'config.json'} changed while the checkpoint was loaded; export it again"
    assert refusal(LoadFailed, check_unchanged, read) == message
    (checkpoint / "config.json").unlink()
    assert refusal(LoadFailed, check_unchanged, read) == message
