import gc
import tempfile

import pytest
import tiny


@pytest.fixture(scope="module")
def t5():
    return tiny.model("t5", "AutoModelForSeq2SeqLM")


@pytest.fixture
def temporary_files(tmp_path, monkeypatch):
    """The folder of temporary files, in which a test leaves none."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    gc.collect()
    assert [*folder.iterdir()] == []


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of which nothing is known but its kind."""
    from command_line import Terminal

    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal()


@pytest.fixture(scope="module")
def characters():
    """A tokenizer with a token for each printable character of ASCII."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = Tokenizer(models.WordLevel({chr(code): code - 32 for code in range(32, 127)}, unk_token=" "))
    tokens.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokens, unk_token=" ", pad_token=" ")
