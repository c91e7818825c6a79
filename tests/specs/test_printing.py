"""Records as tables, for a terminal and for a notebook."""

import re

import pytest

from onnxfn.architectures import ARCHITECTURES
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates
from onnxfn.specs.facts import gives, takes
from onnxfn.specs.plan.planning import plan
from onnxfn.specs.printing import html, text
from onnxfn.specs.records import NestedDummy
from onnxfn.specs.reports import Difference, Exported, Report
from onnxfn.specs.tasks import for_task

SECTIONS = [("inputs", [("input_ids", "int64", ""), ("mask", "int64")]), ("outputs", [("a_very_long_name", "float")])]

LLAMA = for_task(ARCHITECTURES["llama"], "text-generation-with-past")
CONFIG = {"vocab_size": 99, "num_hidden_layers": 30, "num_attention_heads": 4, "hidden_size": 64}
HYBRID = for_task(ARCHITECTURES["qwen3_next"], "text-generation-with-past")
HYBRID_CONFIG = {
    "vocab_size": 99,
    "num_hidden_layers": 8,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_size": 64,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}


def first_cells(record):
    """The first cell of each row that a record prints as."""
    return [line.split("  ")[0] for line in map(str.strip, str(record).splitlines())]


def html_cells(record):
    """The first cell of each row of the HTML table of a record."""
    return re.findall(r'<tr><td style="text-align:left">([^<]*)</td>', record._repr_html_())


# Tables


def test_the_columns_of_a_section_are_aligned_and_no_line_ends_in_spaces():
    assert text("bert", SECTIONS).splitlines() == [
        "bert",
        "  inputs",
        "    input_ids  int64",
        "    mask       int64",
        "  outputs",
        "    a_very_long_name  float",
    ]


def test_a_section_without_rows_is_its_heading():
    assert text("bert", [("inputs", [])]) == "bert\n  inputs"


def test_a_table_without_sections_is_its_title():
    assert text("bert", []) == "bert"
    assert html("bert", []) == "<table><caption>bert</caption></table>"


def test_html_has_a_heading_as_wide_as_the_widest_row_and_a_cell_for_each_cell():
    table = html("bert", SECTIONS)
    assert table.count('<th colspan="3"') == 2
    assert table.count("<tr>") == 2 + 3
    assert table.count("<td ") == 3 + 2 + 2


def test_html_escapes_text():
    table = html("<title>", [("<heading>", [('<cell> & "quotes"',)])])
    assert "&lt;title&gt;" in table
    assert "&lt;heading&gt;" in table
    assert "&lt;cell&gt; &amp; &quot;quotes&quot;" in table


# Specs and plans


def test_the_plan_of_a_decoder_prints_the_cache_of_all_layers_in_two_rows_a_side():
    printed = plan(LLAMA, CONFIG)
    assert first_cells(printed)[1:] == [
        "inputs",
        "input_ids",
        "attention_mask",
        "past_key_values.{0..29}.key",
        "past_key_values.{0..29}.value",
        "position_ids",
        "outputs",
        "logits",
        "present.{0..29}.key",
        "present.{0..29}.value",
    ]
    assert "forward: past_key_values.layers.{0..29}.keys" in str(printed)


def test_a_notebook_shows_the_rows_of_a_terminal():
    printed = plan(LLAMA, CONFIG)
    headings = {"inputs", "outputs"}
    assert html_cells(printed) == [cell for cell in first_cells(printed)[1:] if cell not in headings]


def test_layers_of_two_kinds_are_two_groups():
    cells = first_cells(plan(HYBRID, HYBRID_CONFIG))
    assert [cell for cell in cells if cell.startswith("past_")] == [
        "past_conv.{0..2,4..6}",
        "past_recurrent.{0..2,4..6}",
        "past_key_values.{3,7}.key",
        "past_key_values.{3,7}.value",
    ]


def test_a_nested_dummy_prints_as_its_generator_and_its_axes():
    spec = compose(
        takes("position_ids", "batch_size sequence_length", "positions"),
        generates("positions", "positions", mask=NestedDummy("padding_mask", "batch_size past+sequence_length")),
        gives("logits", "batch_size"),
    )
    assert "positions(mask=padding_mask[batch_size, past + sequence_length])" in str(spec)


# Reports


def difference(output, max_rel, *, max_abs=0.0, passed=True, case="one (batch_size=1)"):
    return Difference("model", output, ((1, 2),), max_abs or max_rel, max_rel, 1e-5, case, passed=passed)


def rows_of(report):
    """The rows of the outputs of a report, as lists of cells."""
    lines = str(report).splitlines()
    return [re.split(r"  +", line.strip()) for line in lines[3 : lines.index("  cases")]]


def test_a_report_names_the_worst_layer_and_shows_its_figures():
    report = Report(
        [
            difference("logits", 1e-7),
            *(difference(f"present.{layer}.key", 2e-7) for layer in range(17)),
            difference("present.17.key", 9e-7, max_abs=3e-6, case="left-padded (batch_size=3)"),
            *(difference(f"present.{layer}.key", 1e-7) for layer in range(18, 30)),
        ]
    )
    assert rows_of(report) == [
        ["model: logits", "1.0e-07", "1.0e-07", "1.0e-05", "ok", "one (batch_size=1)"],
        [
            "model: present.{0..29}.key",
            *("3.0e-06", "9.0e-07", "1.0e-05", "ok"),
            "present.17.key, left-padded (batch_size=3)",
        ],
    ]


def test_layers_that_failed_are_a_row_of_their_own():
    report = Report(
        [difference(f"present.{layer}.key", 1e-7 * layer, passed=layer not in (3, 4)) for layer in range(8)]
    )
    assert [(row[0], row[4], row[5]) for row in rows_of(report)] == [
        ("model: present.{0..2,5..7}.key", "ok", "present.7.key, one (batch_size=1)"),
        ("model: present.{3,4}.key", "FAILED", "present.4.key, one (batch_size=1)"),
    ]


def test_outputs_of_two_files_are_two_rows():
    parts = [("encoder_model", "states.0"), ("decoder_model", "states.1")]
    report = Report([Difference(part, output, (), 0.0, 0.0, 1e-5, "one", passed=True) for part, output in parts])
    assert [row[0] for row in rows_of(report)] == ["encoder_model: states.0", "decoder_model: states.1"]


@pytest.mark.parametrize("report", [None, Report([difference(f"present.{layer}.key", 1e-7) for layer in range(30)])])
def test_the_result_of_an_export_groups_layers_in_all_its_sections(report):
    result = Exported("out", ["out/model.onnx"], plan(LLAMA, CONFIG), 18, [("plan", 0.1)], report)
    assert len(str(result).splitlines()) < 25
    assert ("model: present.{0..29}.key" in str(result)) == (report is not None)
    assert "present.{0..29}.value" in result._repr_html_()
