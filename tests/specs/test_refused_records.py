"""Constructors of records that refuse a value: the message is one line, and the traceback has two frames of ours."""

import traceback
from pathlib import Path

import pytest
from public_names import VALUES

import onnxfn
from onnxfn import OnnxfnError
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.records import NestedDummy, Normalizer, Read

NAMES = {**VALUES, "Part": Part, "Plan": Plan}
NAMES |= {"PlannedSpec": PlannedSpec, "NestedDummy": NestedDummy, "Normalizer": Normalizer, "Read": Read}

MOST_FRAMES = 2
PACKAGE = str(Path(onnxfn.__file__).parent)

CALLS = {
    "InputSpec('x', 'a/b', 'g')": "axis 'a/b' has an operator other than",
    "InputSpec('x', 3, 'g')": "axes are a pattern, a text such as 'batch_size 4', not 3",
    "InputSpec('x', 'a', 'g', kind='nope')": "no kind 'nope' for InputSpec",
    "InputSpec('x', 'a', 'g', path='text')": "a tuple is expected, not the text 'text': write ('text',)",
    "OutputSpec('x', '(a')": "axis '(a' is not a name",
    "OutputSpec('x', None)": "axes are a pattern, a text such as 'batch_size 4', not None",
    "Normalizer([Read('x', 'a'), Read('x', 'b')])": "reads has 'x' twice; keep one of them, or compose two specs",
    "NestedDummy('g', 'a/b')": "axis 'a/b' has an operator",
    "CacheRow('k', 'a', 'b', 'a/b', 'c', (), ())": "axis 'a/b' has an operator",
    "AxisMap('batch_size 4')": "axes of AxisMap is 'batch_size 4', of the type str; it must be tuple",
    "ExportSpec(inputs='x')": "a tuple is expected, not the text 'x'",
    "ExportSpec(inputs=3)": "a tuple is expected, not the value 3: write (3,)",
    "ExportSpec(inputs=[InputSpec('a', 'b', 'c')] * 2)": "inputs has 'a' twice",
    "Target(opset=99)": "no opset 99; possible: 18 to 25",
    "Target(input_order='ids')": "a tuple is expected, not the text 'ids'",
    "Generator('g', 'normal', 3)": "the arguments of a function are a dict, not 3",
    "Edit('with_opset', 'x')": "the arguments of a function are a dict, not 'x'",
    "Plan(3)": "a tuple is expected, not the value 3",
    "Part('x', PlannedSpec(), filler='abc')": "a tuple is expected, not the text 'abc'",
    "WriteOptions(layout=None)": "no layout None; known: optimum, transformers.js, hub",
    "WriteOptions(layout='transformersjs')": "no layout 'transformersjs'; known: optimum, transformers.js, hub; did ",
    "WriteOptions(weight_storage='lnk')": "no weight storage 'lnk'; known: copy, share, link, none; did you mean '",
    "BuildOptions(template_cache=5)": "template_cache of BuildOptions: 5 is not a path; pass the path of a folder, or ",
    "BuildOptions(template_cache='a\\0b')": r"template_cache of BuildOptions: 'a\x00b' is not a path; pass the path ",
    "BuildOptions(find_repeats=None)": "find_repeats is None; pass a function, such as trace_all_layers",
}
"""A call, and a part of its message."""


@pytest.mark.parametrize(("call", "words"), CALLS.items(), ids=CALLS)
def test_a_refusal_has_one_line_and_two_frames(call, words):
    with pytest.raises(OnnxfnError) as raised:
        eval(call, dict(NAMES))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    frames = traceback.extract_tb(raised.value.__traceback__)
    ours = [frame.name for frame in frames if frame.filename.startswith((PACKAGE, "<attrs generated"))]
    assert len(ours) <= MOST_FRAMES, ours
    assert raised.value.__cause__ is None
