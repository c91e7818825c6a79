"""`config.json` as the clients read it: external data, default dtype, the dtype of the graphs, kinds of layers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.export.clients.folder import CONFIG, Folder, changed, decoder_of, first_parts, json_object

SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_transformer_layers", "decoder_layers"),
        "hidden_size": ("n_embd", "d_model", "dim"),
        "num_attention_heads": ("n_head", "n_heads", "num_heads", "decoder_attention_heads"),
        "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"),
        "vocab_size": ("padded_vocab_size",),
    }
)
"""The name of a value -> the names that older configurations have for it."""


def config_value(config: Mapping[str, Any], name: str) -> Any:
    """The value of a name or its synonyms in a `config.json`, then in its `text_config`; else None."""
    inner = config.get("text_config")
    for values in (config, inner if isinstance(inner, Mapping) else {}):
        present = (values[key] for key in (name, *SYNONYMS.get(name, ())) if values.get(key) is not None)
        if (value := next(present, None)) is not None:
            return value
    lists = (config[key] for key in ("layer_types", "layers_block_type") if isinstance(config.get(key), list))
    return next(map(len, lists), None) if name == "num_hidden_layers" else None


SECTION, EXTERNAL_DATA = "transformers.js_config", "use_external_data_format"
"""The section for transformers.js, and its key for graphs with external data."""

DTYPES = (None, "float32", "q8", "float16", "q4f16", "q4", "int8", "uint8", "bnb4")
"""The dtypes of variants in transformers.js, in the order of its default choice."""

SEPARATE_HEADS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "falcon": MappingProxyType({"multi_query": False, "num_kv_heads": 1}),
        "gpt_bigcode": MappingProxyType({"multi_query": False}),
    }
)
"""Model type of a `multi_query` model -> the keys that describe a cache with separate keys and values."""


def external_data(folder: Folder, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The list of graphs that have external data, for transformers.js."""
    return _with_section(config, EXTERNAL_DATA, dict.fromkeys(folder.sidecars, 1))


def default_dtype(folder: Folder, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dtype that transformers.js loads when its caller names none."""
    # Without it WebAssembly loads q8, which may not exist. Where it does, WebAssembly has no kernel for its embeddings.
    present = {part.dtype for part in folder.plan.parts}
    others = {None: "fp32", "float32": "fp32", "float16": "fp16"}
    names = (others.get(dtype, str(dtype)) for dtype in DTYPES if dtype in present)
    return _with_section(config, "dtype", next(names, None))


def graph_dtype(folder: Folder, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The float dtype of the graphs, where the configuration states that of the checkpoint."""
    dtype = first_parts(folder.plan)[0].spec.target.float_dtype or "float32"
    return {**config, **{key: dtype for key in ("dtype", "torch_dtype") if config.get(key)}}


def layer_words(_: Folder, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The words of the hub for kinds of layers, which clients know."""
    keys = {"granitemoehybrid": "layer_types", "nemotron_h": "layers_block_type"}  # transformers 5 has other words
    words = {"linear_attention": "mamba", "full_attention": "attention"}
    key = keys.get(config.get("model_type", ""), "")
    layers = config.get(key)
    return {**config, key: [words.get(each, each) for each in layers]} if isinstance(layers, list) else config


def text_architecture(folder: Folder, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The class of the decoder alone, if the export is such a decoder."""
    # With the class of the whole model, transformers.js would look for the parts of a model of texts and images.
    names = None if decoder_of(folder.plan) is None else config.get("architectures")
    alone = {"Gemma3ForConditionalGeneration": "Gemma3ForCausalLM"}
    return {**config, "architectures": [alone.get(each, each) for each in names]} if names else config


def text_sizes(_: Folder, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sizes of the language model also at the top, where clients look for them."""
    # transformers 5 writes them only in `text_config`; the checkpoints that the clients know have them at the top.
    section = config.get("text_config")
    if config.get("model_type") != "qwen2_vl" or not isinstance(section, Mapping):
        return config
    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    return {**{key: section[key] for key in keys if key in section}, **config}


def separate_heads(_: Folder | None, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration with the keys for a cache of separate keys and values, if PyTorch joins them in a single head."""
    is_joined = config.get("multi_query") and not config.get("new_decoder_architecture")
    return {**config, **SEPARATE_HEADS.get(config.get("model_type", ""), {})} if is_joined else config


def feature_levels(folder: Folder, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The number of levels of the features of an image, which transformers.js reads for names."""
    vision = config.get("vision_config")
    # Segment Anything has a graph that gives an output for each level. Not every type states their number.
    outputs = {output.name for part in folder.plan.parts for output in part.spec.outputs}
    levels = sum(name.startswith("image_embeddings.") for name in outputs)
    if not isinstance(vision, Mapping) or not levels:
        return config
    return {**config, "vision_config": {"num_feature_levels": levels, **vision}}


CONFIG_EDITS = (
    *(external_data, default_dtype, graph_dtype, layer_words, separate_heads),
    *(text_architecture, feature_levels, text_sizes),
)
"""What puts `config.json` of an export into words that clients know."""


def edited_config(edit: Callable[[Folder, Mapping[str, Any]], Mapping[str, Any]], folder: Folder) -> dict[str, str]:
    """`config.json` after one of the edits; nothing for a folder without it."""
    config = json_object(folder, CONFIG)
    return {} if config is None else changed(folder, CONFIG, edit(folder, config))


def _with_section(config: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any]:
    """The configuration with a value in the section for transformers.js; without the key if the value is empty."""
    section = config.get(SECTION)
    old = {name: each for name, each in (section if isinstance(section, Mapping) else {}).items() if name != key}
    new = {**old, key: value} if value else old
    others = {name: each for name, each in config.items() if name != SECTION}
    return {**others, SECTION: new} if new else others
