"""Specs as JSON texts with a random fault: what a reader of files of unknown origin must survive."""

import json
from random import Random

from onnxfn.architectures import ARCHITECTURES
from onnxfn.specs.algebra.config_values import GETTERS
from onnxfn.specs.stored.serialize import RECORDS, to_plain
from onnxfn.specs.tasks.tasks import for_task, task_names

COUNTS = {
    0: "bos_token_id decoder_start_token_id",
    1: "pad_token_id",
    2: "num_hidden_layers n_layer num_layers num_decoder_layers encoder_layers decoder_layers num_labels "
    "type_vocab_size num_key_value_heads eos_token_id",
    3: "num_channels",
    4: "num_attention_heads n_head num_heads encoder_attention_heads decoder_attention_heads conv_kernel",
    8: "patch_size num_mel_bins state_size sliding_window",
    16: "head_dim d_kv",
    32: "image_size",
    50: "max_source_positions",
    64: "hidden_size n_embd d_model",
    99: "vocab_size intermediate_size",
}
LISTS = {"layer_types": ("full_attention", "full_attention"), "conv_stride": (2, 2), "conv_dim": (32, 32)}
SIZES = {name: count for count, names in COUNTS.items() for name in names.split()} | LISTS
NESTED = ("text_config", "vision_config", "audio_config", "encoder", "decoder")
CONFIG = {**SIZES, **dict.fromkeys(NESTED, SIZES)}
"""A configuration that has what most architectures read."""

NAMES = ("bert", "gpt2", "llama", "mamba", "t5", "bart", "whisper", "vit", "clip", "wav2vec2", "vits", "longformer")
"""The architectures whose specs are mutated: encoders, decoders, patches, parts, getters of all kinds."""

LONG_SUM = "+".join(["batch_size"] * 3000)

HOSTILE = (
    *(None, True, False, 0, -1, 1, 2**31, 10**30, 1.5, -0.0, float("nan"), float("inf")),
    *("", " ", "_", "=", "a//0", "a//(1-1)", "width/2", "a**9", "__import__('os').system('true')", "9" * 5000),
    *("\ud800", "x\0y", "(" * 300, LONG_SUM, "os:system", "transformers:AutoModel", "{layer}"),
    *("batch_size", "hidden_size"),
    *([], [[]], ["a", "b"], {}, {"record": "Getter"}, {"record": "Exported", "path": "x"}),
    {"record": "AxisMap", "pattern": "batch_size -1"},
    {"record": "AxisMap", "pattern": LONG_SUM},
    *(
        {"record": "Getter", "function": function, "arguments": arguments}
        for function, arguments in (
            ("quotient", ["hidden_size"]),
            ("quotient", ["hidden_size", {"record": "Getter", "function": "total"}]),
            ("power", ["hidden_size", "vocab_size"]),
            ("constant", [10**12]),
            ("count", ["layer_types"]),
            ("repeated", ["layer_types", "vocab_size"]),
        )
    ),
)
"""Values that take the place of others."""


def mutated_texts(count, seed):
    """`count` JSON texts, each a spec of an architecture for a task with one to three faults."""
    random = Random(seed)
    for _ in range(count):
        spec = ARCHITECTURES[random.choice(NAMES)]
        data = to_plain(random.choice([spec, for_task(spec, random.choice(task_names(spec)))]))
        for _ in range(random.choice((1, 1, 2, 3))):
            data = json.loads(json.dumps(data))
            random.choice(MUTATIONS)(data, random)
        text = json.dumps(data)
        yield _cut(text, random) if random.random() < 0.05 else text


def places(data):
    """`(container, key)` of every value inside data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(items):
        yield data, key
        yield from places(value)


def _chosen(data, random, kinds=(object,)):
    found = [(inside, key) for inside, key in places(data) if isinstance(inside[key], kinds)]
    return random.choice(found or list(places(data)))


def replace(data, random):
    inside, key = _chosen(data, random)
    inside[key] = random.choice(HOSTILE)


def remove(data, random):
    inside, key = _chosen(data, random)
    del inside[key]


def rename(data, random):
    inside, key = _chosen(data, random)
    if isinstance(inside, dict):
        inside[random.choice(("nmae", "record", "name", "\ud800", "self", "value"))] = inside.pop(key)


def move(data, random):
    inside, key = _chosen(data, random)
    other, other_key = _chosen(data, random)
    other[other_key] = json.loads(json.dumps(inside[key]))


def retype(data, random):
    inside, key = _chosen(data, random, (dict,))
    if isinstance(inside[key], dict):
        inside[key]["record"] = random.choice(sorted(RECORDS))


def change_text(data, random):
    inside, key = _chosen(data, random, (str,))
    letters = list(str(inside[key]))
    letters.insert(random.randrange(len(letters) + 1), random.choice("=+/*-( )0\0\ud800_:.é٣"))
    inside[key] = "".join(letters)


def change_number(data, random):
    inside, key = _chosen(data, random, (int, float))
    inside[key] = random.choice((-1, 0, 1, 7, 64, 10**6, 10**18, 10**30, 0.5, float("nan"), float("-inf"), True))


def exchange(data, random):
    """Puts the value of another place of the same kind in a place."""
    inside, key = _chosen(data, random)
    kind = _kind(inside[key])
    same_kind = [other[name] for other, name in places(data) if _kind(other[name]) == kind]
    inside[key] = json.loads(json.dumps(random.choice(same_kind)))


def change_getter(data, random):
    getters = [inside[key] for inside, key in places(data) if _kind(inside[key]) == "Getter"]
    if getters:
        random.choice(getters)["function"] = random.choice(sorted(GETTERS))


def _kind(value):
    return value.get("record") if isinstance(value, dict) else type(value).__name__


def repeat(data, random):
    inside, key = _chosen(data, random, (list,))
    if isinstance(inside[key], list):
        inside[key] = inside[key] * random.choice((2, 3))


def nest(data, random):
    inside, key = _chosen(data, random)
    for _ in range(random.choice((1, 5, 70, 200))):
        total = {"record": "Getter", "function": "total", "arguments": [inside[key]]}
        inside[key] = random.choice(([inside[key]], total))


MUTATIONS = (
    *(replace, replace, remove, rename, move, retype, change_text, change_number, repeat, nest),
    *(exchange, change_getter, change_number) * 4,
)


def _cut(text, random):
    """A text with a piece taken out, doubled, or nested deeper than Python's own parser goes."""
    start = random.randrange(len(text))
    end = min(len(text), start + random.randrange(1, 20))
    deep = "[" * 100_000
    return random.choice((text[:start], text[:start] + text[end:], text[:end] + text[start:], deep, "9" * 5000))
