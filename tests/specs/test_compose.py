"""How specs join; the laws are in test_laws.py."""

from refusals import refusal

from onnxfn import Check, Edit, ExportSpec, InvalidSpec, Overlay
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import sized
from onnxfn.specs.algebra.facts import gives, patched
from onnxfn.specs.tasks.tasks import for_task


def test_zero_and_an_empty_text_are_values():
    empty = ExportSpec(check=Check(atol=0.0), name="")
    assert compose(ExportSpec(check=Check(atol=1.0), name="bert"), empty) == empty


def test_overlays_of_one_task_are_composed():
    left = ExportSpec(tasks=[Overlay("ner", sized(batch_size=1), [Edit("with_opset", {"opset": 18})])])
    right = ExportSpec(tasks=[Overlay("ner", gives("logits", "batch_size _"), [Edit("with_opset", {"opset": 19})])])
    both = compose(sized(batch_size=1), gives("logits", "batch_size _"))
    edits = (Edit("with_opset", {"opset": 18}), Edit("with_opset", {"opset": 19}))
    assert compose(left, right) == ExportSpec(tasks=[Overlay("ner", both, edits)])


SIZES = patched("torch:as_tensor", by="image_sizes.tensor_of_sizes", why="sizes")


def test_two_patches_of_one_function_are_refused_wherever_they_meet():
    """A model that needs both would be traced with one of them."""
    other = patched("torch:as_tensor", by="my_package:tensor", why="values")
    message = (
        "two patches of torch:as_tensor, by image_sizes.tensor_of_sizes and by my_package:tensor; compose one of them, "
        "by a function that does what both do"
    )
    assert refusal(InvalidSpec, compose, SIZES, gives("logits", "batch_size _"), other) == message
    assert refusal(InvalidSpec, compose, SIZES, compose(sized(batch_size=1), other)) == message
    assert refusal(InvalidSpec, for_task, compose(SIZES, ExportSpec(tasks=[Overlay("ner", other)])), "ner") == message


def test_a_patch_may_be_repeated_and_its_reason_changed():
    again = patched("torch:as_tensor", by="image_sizes.tensor_of_sizes", why="values")
    assert compose(SIZES, again) == again
