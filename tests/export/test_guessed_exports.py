"""Lines with a model that one writes first: each works, or its error has the right line."""

import pytest
from public_names import VALUES

import onnxfn

SIZES = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 17, "vocab_size": 99}

WORKING = (
    ("export(tc, m).report.passed", True),
    ("export(tc, m)(input_ids=[[1, 2]], attention_mask=[[1, 1]], token_type_ids=[[0, 0]])['logits'].shape", (1, 2)),
    ("export(compose(tc, positions), m).inputs['position_ids']", {0: "batch_size", 1: "sequence_length"}),
    ("export(with_dtypes(tc, input_ids='int32'), m).plan.parts[0].spec.inputs['input_ids'].kind", "int32"),
    ("export(with_shapes(tc, batch_size=1), m).inputs['input_ids']", {1: "sequence_length"}),
    ("export(with_axis_names(tc, batch_size='N'), m).outputs", {"logits": {0: "N"}}),
    ("export(compose(tc, always(output_attentions=False)), m).report.passed", True),
)
"""A line, and its value."""

REFUSED = (
    ("export(compose(tc, takes('input_ids', 'batch_size 16', 'token_ids')), m)", onnxfn.CaptureFailed,
     "use with_shapes(spec, sequence_length=16)"),
    ("export(m, tc)", onnxfn.InvalidSpec, "pass an ExportSpec, such as spec_for(model)"),
    ("export(tc)", TypeError, "missing 1 required positional argument: 'model'"),
    ("export(tc, m, dtype='float16')", TypeError, "unexpected keyword argument 'dtype'"),
    ("export(without(tc, 'logits'), m)", onnxfn.InvalidSpec, "add one: compose(spec, gives(name, axes))"),
    ("export(compose(tc, takes('tokentype_ids', 'batch_size sequence_length', 'token_ids')), m)", onnxfn.CaptureFailed,
     "did you mean 'token_type_ids'?; no node would read the input 'tokentype_ids'"),
    ("export(compose(tc, always(atention_mask=1)), m)", onnxfn.CaptureFailed,
     "did you mean 'attention_mask'?; leave always(atention_mask=...) out"),
)  # fmt: skip
"""A line, the type of its error, and a part of the message that says what to write."""


@pytest.fixture(scope="module")
def names(classifier):
    return VALUES | {"m": classifier, "tc": onnxfn.for_task(onnxfn.spec_for("bert"), "text-classification")}


@pytest.mark.parametrize(("line", "value"), WORKING, ids=[line for line, _ in WORKING])
def test_a_guessed_export_works(names, line, value):
    assert eval(line, dict(names)) == value


@pytest.mark.parametrize(("line", "error", "advice"), REFUSED, ids=[line for line, *_ in REFUSED])
def test_the_error_of_a_guessed_export_has_the_right_line(names, line, error, advice):
    with pytest.raises(error) as raised:
        eval(line, dict(names))
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)
