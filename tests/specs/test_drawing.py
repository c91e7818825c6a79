"""The drawing of a plan: a box for each part, an arrow for what a part hands to another or to its next call."""

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

import onnxfn
from onnxfn.specs.drawing import plan_svg

CONFIG = {
    "vocab_size": 99,
    "num_hidden_layers": 30,
    "num_attention_heads": 4,
    "hidden_size": 64,
    "num_layers": 30,
    "num_decoder_layers": 30,
    "num_heads": 4,
    "d_kv": 16,
    "d_model": 64,
}


TASKS = {"bert": "fill-mask", "llama": "text-generation-with-past", "t5": "text2text-generation-with-past"}


def drawn(model_type, **options):
    """The plan of a model type, and its drawing as a tree of XML."""
    planned = onnxfn.plan(onnxfn.spec_for(model_type, TASKS[model_type]), CONFIG, **options)
    return planned, ET.fromstring(plan_svg(planned))


def tags(tree):
    return [element.tag.rpartition("}")[2] for element in tree]


@pytest.mark.parametrize(("model_type", "parts"), [("bert", 1), ("llama", 1), ("t5", 2)])
def test_each_part_is_a_box_with_its_name(model_type, parts):
    planned, tree = drawn(model_type)
    assert tags(tree).count("rect") == len(planned.parts) == parts
    assert {part.name for part in planned.parts} <= {(text.text or "").removesuffix(".onnx") for text in tree}


def test_an_encoder_hands_its_states_to_each_decoder():
    planned, tree = drawn("t5", decoders="both")
    texts = [element.text for element in tree]
    assert len(planned.parts) == 4
    assert texts.count("last_hidden_state") == sum(
        any(link.output == "last_hidden_state" for link in part.spec.links) for part in planned.parts
    )


def test_a_link_to_a_part_that_the_plan_does_not_have_has_no_arrow():
    """The plan of MusicGen could not be shown in a notebook."""
    planned, _ = drawn("t5")
    without_encoder = onnxfn.Plan([onnxfn.Part("other", onnxfn.PlannedSpec()), planned.parts["decoder_model_merged"]])
    assert tags(ET.fromstring(plan_svg(without_encoder))).count("rect") == 2
    assert "last_hidden_state" not in without_encoder._repr_html_().partition("</svg>")[0]


def test_a_cache_of_30_layers_is_two_names_at_an_arrow_to_the_next_call():
    _, tree = drawn("llama")
    assert tags(tree).count("path") == 1
    assert [element.text for element in tree][-2:] == ["present.{0..29}.key", "present.{0..29}.value"]


def test_everything_lies_inside_the_drawing():
    _, tree = drawn("t5", decoders="both")
    for element in tree:
        numbers = re.findall(r"[ML](\d+) (\d+)", element.get("d", ""))
        corners = [*numbers, (element.get("x", "0"), element.get("y", "0"))]
        assert all(int(x) < int(tree.get("width")) and int(y) < int(tree.get("height")) for x, y in corners)


def test_a_notebook_shows_the_drawing_of_several_parts_alone():
    assert "<svg" in drawn("t5")[0]._repr_html_()
    assert "<svg" not in drawn("bert")[0]._repr_html_()
    assert drawn("bert")[0].svg().startswith("<svg")


def test_the_names_at_two_arrows_do_not_overlap_and_the_colors_are_those_of_the_page():
    _, tree = drawn("t5", decoders="both")
    bends = [int(re.search(r"H(\d+)", element.get("d"))[1]) for element in tree.iterfind("{*}path")]
    assert all(right - left > 80 for left, right in itertools.pairwise(bends))
    colors = {element.get(name, "currentColor") for element in (tree, *tree) for name in ("fill", "stroke")}
    assert colors == {"currentColor", "none"}
