"""How specs join; the laws are in test_laws.py."""

from refusals import refusal

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import gives
from onnxfn.specs.algebra.spec import Check, ExportSpec, Overlay
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.records import Edit


def test_zero_and_an_empty_text_are_values():
    assert compose(
        ExportSpec(check=Check(atol=1.0), name="bert"), ExportSpec(check=Check(atol=0.0), name="")
    ) == ExportSpec(check=Check(atol=0.0), name="")


def test_overlays_of_one_task_are_composed():
    left = ExportSpec(tasks=[Overlay("ner", sized(batch_size=1), [Edit("with_opset", {"opset": 18})])])
    right = ExportSpec(tasks=[Overlay("ner", gives("logits", "batch_size _"), [Edit("with_opset", {"opset": 19})])])
    both = compose(sized(batch_size=1), gives("logits", "batch_size _"))
    edits = (Edit("with_opset", {"opset": 18}), Edit("with_opset", {"opset": 19}))
    assert compose(left, right) == ExportSpec(tasks=[Overlay("ner", both, edits)])


def test_an_argument_that_is_no_spec_is_refused():
    message = refusal(InvalidSpec, compose, ExportSpec(), "bert")
    assert message.startswith("compose joins specs, not the str 'bert'; an edit is a function")
