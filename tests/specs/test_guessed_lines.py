"""Lines that one writes first: each works, or its error has the right line."""

import builtins
import json
import pickle
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import toolz
from public_names import VALUES

import onnxfn

BERT = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs, onnxfn.ExportSpec(name="bert"))
CLASSIFIER = onnxfn.for_task(BERT, "text-classification")
NAMES = {**VALUES, "bert": BERT, "tc": CLASSIFIER, "pipe": toolz.pipe, "onnxfn": onnxfn}
TOKENS = {0: "batch_size", 1: "sequence_length"}
TEXTS = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), TOKENS)

FEATURES = onnxfn.for_task(BERT, "feature-extraction")
DECODER = onnxfn.for_task(onnxfn.ARCHITECTURES["llama"], "text-generation-with-past")
SIZES = {"vocab_size": 9, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8}
NAMES |= {"fe": FEATURES, "decoder": DECODER, "sizes": SIZES, "partial": partial}
NAMES |= {"pickle": pickle, "deepcopy": deepcopy}
NAMES |= {"float32": np.float32}
STEP = "plan(with_shapes(decoder, batch_size=1, past_sequence_length=16, sequence_length=1), sizes)"

WORKING = (
    ("inputs(with_shapes(tc, batch_size=1))['input_ids']", {1: "sequence_length"}),
    ("inputs(with_shapes(tc, batch_size=1, sequence_length=8))['input_ids']", {}),
    ("'hidden_states.1' in with_outputs(tc, 'attentions', 'hidden_states.1')", True),
    ("'attentions.{layer}' in with_outputs(tc, 'hidden_states', 'attentions', 'hidden_states.1')", True),
    ("hasattr(tc, 'shapes'), tc == deepcopy(tc)", (False, True)),
    ("tasks_for(tc)[:2], [task.name for task in tc.tasks[:2]]", (("feature-extraction", "fill-mask"),
                                                                ["feature-extraction", "fill-mask"])),
    ("to_json(always(x=float32(1))) == to_json(always(x=1.0))", True),
    ("list(plan(with_outputs(tc, 'hidden_states'), {**sizes, 'type_vocab_size': 2}).parts[0].outputs)",
     ["logits", "hidden_states.0", "hidden_states.1"]),
    ("list(outputs(with_outputs(fe, 'pooler_output')))", ["last_hidden_state", "pooler_output"]),
    ("plan(tc)['model'] == plan(tc)[0] == [*plan(tc)][0], len(plan(tc))", (True, 1)),
    ("plan(tc).inputs == inputs(tc), plan(tc).outputs", (True, {"logits": {0: "batch_size"}})),
    ("with_shapes(tc, sequence_length=[1, 128]) == with_shapes(tc, sequence_length=(1, 128))", True),
    ("with_past(spec_for('llama', 'text-generation')).cache.past", "both"),
    ("[case.name for case in compose(tc, case('long', sized(sequence_length=30))).cases][-1]", "long"),
    (f"{STEP}.parts[0].inputs['attention_mask']", {}),
    (f"str({STEP}).count('[1, 17]')", 1),
    ("pipe(tc, partial(with_opset, opset=20)) == with_opset(tc, 20)", True),
    ("list(inputs(compose(tc, positions)))[-1], list(inputs(for_task(compose(bert, positions), 'fill-mask')))[-1]",
     ("position_ids", "position_ids")),
    ("list(outputs(without(with_outputs(fe, 'pooler_output'), 'last_hidden_state')))", ["pooler_output"]),
    ("str(diff(tc, with_opset(tc, 20))).splitlines()[-1].split()", ["target.opset", "20"]),
    ("pipe(tc, with_opset(20), renamed(logits='scores')) == renamed(with_opset(tc, 20), logits='scores')", True),
    ("pipe(bert, for_task('masked-lm'), with_outputs('hidden_states.1')).outputs[-1].name", "hidden_states.1"),
    ("pipe(tc, without('token_type_ids'), with_shapes(batch_size=1), with_tolerance(atol=1e-4)).check.atol", 1e-4),
    ("pipe(bert, only_tasks('fill-mask'), with_dtypes(int='int32')).target.int_dtype", "int32"),
    ("pipe(spec_for('llama', 'text-generation'), with_past) == with_past(spec_for('llama', 'text-generation'))", True),
    ("pipe(spec_for('llama', 'text-generation'), with_past('outputs')).cache.past", "outputs"),
    ("pipe(spec_for('clip', 'feature-extraction'), split).parts.files[0].name", "vision_model"),
    ("pipe(spec_for('t5', 'text2text-generation'), with_behavior('decoder'), with_inputs_embeds)['inputs_embeds'].kind",
     "float"),
    ("tc['logits'] == tc.outputs[0]", True),
    ("tc.inputs['input_ids'] == tc.inputs[0] == tc['input_ids']", True),
    ("'input_ids' in tc.inputs, 'logits' in tc.inputs, tc.inputs[0] in tc.inputs", (True, False, True)),
    ("'input_ids' in tc, 'logits' in tc, 'inputs' in tc", (True, True, False)),
    ("plan(tc, {'vocab_size': 9, 'type_vocab_size': 2}).parts[0].spec['logits'].name", "logits"),
    ("inputs(tc)", TEXTS),
    ("inputs(tc, {})", TEXTS),
    ("outputs(tc)", {"logits": {0: "batch_size"}}),
    ("plan(tc).parts[0].inputs", TEXTS),
    ("tasks_for(bert)[:2]", ("feature-extraction", "fill-mask")),
    ("plan(with_shapes(tc, sequence_length=(1, 128))).parts[0].spec.axes['sequence_length'].high", 128),
    ("with_generator(tc, 'input_ids', 'constant')['input_ids'].generator", "values of input_ids"),
    ("len(diff(tc, tc).changed), str(diff(tc, tc))", (0, "no changes")),
    ("renamed(with_outputs(tc, 'hidden_states.2'), **{'hidden_states.2': 'last'}).outputs[-1].name", "last"),
    ("plan(tc).parts['model'] == plan(tc)[0], plan(tc)[0].spec.cases['one'].name", (True, "one")),
)  # fmt: skip
"""A line, and its value."""

REFUSED = json.loads(Path(__file__).with_name("guessed_lines.json").read_text())
"""A line, the type of its error, and a part of the message that says what to write."""


@pytest.mark.parametrize(("line", "value"), WORKING, ids=[line for line, _ in WORKING])
def test_a_guessed_line_works(line, value):
    assert eval(line, dict(NAMES)) == value


@pytest.mark.parametrize(("line", "error", "advice"), REFUSED, ids=[line for line, *_ in REFUSED])
def test_the_error_of_a_guessed_line_has_the_right_line(line, error, advice):
    with pytest.raises(getattr(onnxfn, error, None) or getattr(builtins, error)) as raised:
        eval(line, dict(NAMES))
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)
