"""Rows as a table."""

from onnxfn.specs.printing import html, text

SECTIONS = [("inputs", [("input_ids", "int64", ""), ("mask", "int64")]), ("outputs", [("a_very_long_name", "float")])]


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


def test_no_sections_are_the_title():
    assert text("bert", []) == "bert"
    assert html("bert", []) == "<table><caption>bert</caption></table>"


def test_html_has_a_heading_as_wide_as_the_widest_row_and_a_cell_for_each_cell():
    made = html("bert", SECTIONS)
    assert made.count('<th colspan="3"') == 2
    assert made.count("<tr>") == 2 + 3
    assert made.count("<td ") == 3 + 2 + 2


def test_html_shows_text_as_text():
    made = html("<title>", [("<heading>", [('<cell> & "quotes"',)])])
    assert "&lt;title&gt;" in made
    assert "&lt;heading&gt;" in made
    assert "&lt;cell&gt; &amp; &quot;quotes&quot;" in made
