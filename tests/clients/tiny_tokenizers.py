"""Small real tokenizers: as many tokens as the tiny models know, and all that clients read of a tokenizer."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from string import ascii_lowercase, digits
from types import MappingProxyType
from typing import Any

SIZE = 128
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")
NAMED = {f"{name}_token": token for name, token in zip(("pad", "bos", "eos", "unk", "mask"), SPECIAL, strict=True)}
ENDS = "<|endoftext|>"
WHISPER = (ENDS, "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
WORDS = "the cat dog sat on mat what is name my a photo of this in london"
TEXT = ("the cat sat on the mat. what is my name? a photo of the dog in london, this is a text: user, assistant!",)

CHAT_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)

WriteTokenizer = Callable[[Path], None]


def write_wordpiece(folder: Path) -> None:
    from transformers import AutoTokenizer

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    vocabulary = [
        *special,
        *ascii_lowercase,
        *(f"##{letter}" for letter in ascii_lowercase),
        *digits,
        *".,?!:",
        *WORDS.split(),
    ]
    unique = [*dict.fromkeys(vocabulary)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in unique))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "model_max_length": 96}')
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    (folder / "vocab.txt").unlink()


def write_pieces(
    folder: Path, special: Iterable[str] = SPECIAL, ending: str = "$A", last: Iterable[str] = (), **options: Any
) -> None:
    """Writes a tokenizer of pieces of words, as GPT-2's: `ending` is added to a text, `last` to the tokens."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = _pieces([*special], ending)
    tokenizer.add_special_tokens([*last])
    named = {"model_max_length": 96, **NAMED, **options}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(folder)


def write_whisper(folder: Path) -> None:
    write_pieces(folder, last=WHISPER, **dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), ENDS))
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tokenizer_class": "WhisperTokenizer"}, indent=1))


def write_letters(folder: Path) -> None:
    """Writes a tokenizer of letters, as those of models that classify each moment of a sound."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = [*SPECIAL[:4], "|", *ascii_lowercase]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.CTC(pad_token="<pad>", word_delimiter_token="|", cleanup=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{**NAMED, "mask_token": None}).save_pretrained(folder)


TOKENIZERS: Mapping[str, WriteTokenizer] = MappingProxyType(
    {
        "wordpiece": write_wordpiece,
        "chat": partial(write_pieces, chat_template=CHAT_TEMPLATE),
        "with end": partial(write_pieces, ending="$A </s>"),
        "whisper": write_whisper,
        "clip": partial(write_pieces, special=(*SPECIAL, ENDS), ending=f"$A {ENDS}", eos_token=ENDS),
        "letters": write_letters,
    }
)
"""One of each kind: "with end" ends each text with a token, as T5's; "clip" with that at which CLIP reads a text."""


def _pieces(special: list[str], ending: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = [*ascii_lowercase, *digits, *".,?!:", "\u0120"]  # the last is a space
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    added = [(token, tokenizer.token_to_id(token)) for token in special if token in ending]
    tokenizer.post_processor = processors.TemplateProcessing(single=ending, special_tokens=added)
    return tokenizer
