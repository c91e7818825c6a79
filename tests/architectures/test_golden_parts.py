"""Files, inputs and outputs of models that see or hear and write: as recorded, and as their clients state them."""

import json
import re

import golden_parts
import pytest

GOLDEN, CLIENTS = golden_parts.golden(), json.loads(golden_parts.CLIENTS.read_text())
TOWERS = [
    (model_type, tower)
    for tower in CLIENTS["towers"]
    for model_type in tower["types"]
    if tower["file"] in GOLDEN.get(model_type, {})
]
NO_SESSION = CLIENTS["no_session"]["types"]
CACHE = re.compile(r"(past|present)(_key_values)?(_conv|_recurrent)?\.")


def dtype_and_axes(text):
    """`float` and the axes of `float[a, b]`.

    >>> dtype_and_axes("float[batch_size, 3]")
    ('float', ['batch_size', '3'])
    """
    dtype, axes = re.fullmatch(r"(\w+)\[(.*)\]", text).groups()
    return dtype, axes.split(", ")


def agrees(planned, stated):
    """Whether a tensor has the dtype and the number of axes that a client states; `...` stands for one axis or more."""
    (dtype, axes), (client_dtype, client_axes) = dtype_and_axes(planned), dtype_and_axes(stated)
    if client_axes[0] == "...":
        return dtype == client_dtype and len(axes) >= 2
    return dtype == client_dtype and len(axes) == len(client_axes)


@pytest.mark.parametrize("model_type", golden_parts.TASKS)
def test_a_plan_has_the_recorded_files_inputs_and_outputs(model_type):
    assert json.dumps(golden_parts.planned(model_type), indent=1) == json.dumps(GOLDEN[model_type], indent=1)


def test_every_row_is_planned():
    assert {*GOLDEN} == {*golden_parts.TASKS}


@pytest.mark.parametrize(("model_type", "tower"), TOWERS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_tower_has_what_clients_feed_and_read(model_type, tower):
    planned = GOLDEN[model_type][tower["file"]]
    for kind in ("inputs", "outputs"):
        assert [*planned[kind]] == [*tower[kind]]
        for name, stated in tower[kind].items():
            assert agrees(planned[kind][name], stated), name


@pytest.mark.parametrize("model_type", GOLDEN)
def test_the_files_of_texts_have_what_clients_feed_and_read(model_type):
    table, decoder = (GOLDEN[model_type][name] for name in CLIENTS["files"])
    layers = {"per_layer_inputs"} if model_type in CLIENTS["layer_inputs"] else set()
    assert {*table["inputs"]} == {"input_ids"}
    assert {*table["outputs"]} == {"inputs_embeds", *layers}
    fed = {name for name in decoder["inputs"] if not CACHE.match(name)}
    encoded = {"encoder_hidden_states", "encoder_attention_mask"}
    read = encoded if "encoder_model" in GOLDEN[model_type] else {"attention_mask", *layers}
    assert {"inputs_embeds", *read} <= fed
    assert fed <= {"inputs_embeds", "position_ids", "num_logits_to_keep", *read}
    assert [name for name in decoder["outputs"] if not CACHE.match(name)] == ["logits"]


@pytest.mark.parametrize("model_type", [name for name in GOLDEN if name not in NO_SESSION])
def test_positions_have_three_axes_where_the_client_makes_three(model_type):
    positions = GOLDEN[model_type]["decoder_model_merged"]["inputs"].get("position_ids")
    if model_type in CLIENTS["three_positions"]:
        assert positions == "int64[3, batch_size, sequence_length]"
    else:
        assert positions in (None, "int64[batch_size, sequence_length]")


@pytest.mark.parametrize("model_type", GOLDEN)
def test_axes_of_a_cache_that_no_client_fills_are_fixed(model_type):
    """transformers.js makes an empty cache: of the axes with names, only the batch and the length have a size."""
    for name, planned in GOLDEN[model_type]["decoder_model_merged"]["inputs"].items():
        if CACHE.match(name):
            _, axes = dtype_and_axes(planned)
            named = [axis for axis in axes if not axis.isdigit()]
            assert named[0] == "batch_size", name
            assert named[1:] == [] or (len(named) == 2 and named[1].endswith("sequence_length")), name


def test_a_model_type_is_stated_by_a_client_or_has_none():
    stated = {model_type for tower in CLIENTS["towers"] for model_type in tower["types"]}
    assert not stated & {*NO_SESSION, *CLIENTS["differs"]}
    assert {*GOLDEN} <= {*stated, *NO_SESSION, *CLIENTS["differs"]}
