"""Lines that one writes first: each works, or its error has the right line.

Those that need a model are in tests/export/test_guessed_exports.py.
"""

import pickle
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import toolz
from public_names import VALUES

import onnxfn
from onnxfn import InvalidSpec, MissingValue, UnknownName

BERT = onnxfn.compose(onnxfn.text_encoder, onnxfn.bert_inputs, onnxfn.ExportSpec(name="bert"))
CLASSIFIER = onnxfn.for_task(BERT, "text-classification")
NAMES = {**VALUES, "bert": BERT, "tc": CLASSIFIER, "pipe": toolz.pipe, "onnxfn": onnxfn}
TOKENS = {0: "batch_size", 1: "sequence_length"}
TEXTS = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), TOKENS)

FEATURES = onnxfn.for_task(BERT, "feature-extraction")
DECODER = onnxfn.for_task(onnxfn.ARCHITECTURES["llama"], "text-generation-with-past")
SIZES = {"vocab_size": 9, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8}
NAMES |= {
    "fe": FEATURES,
    "decoder": DECODER,
    "sizes": SIZES,
    "partial": partial,
    "pickle": pickle,
    "deepcopy": deepcopy,
}
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

REFUSED = (
    ("takes('x', ['n', 3], 'normal')", InvalidSpec, "axes are a pattern, a text such as 'batch_size 4'"),
    ("plan(tc)['encoder']", UnknownName, "no part 'encoder'; known: model"),
    ("plan(tc)[None]", InvalidSpec, "no part None: a key is a name or a position"),
    ("with_dtypes(tc, float='fp16')", UnknownName, "did you mean 'float16'?"),
    ("with_dtypes(tc, float='float46')", UnknownName,
     "no float type 'float46'; known: float32, float16, bfloat16, float64; did you mean 'float64'?"),
    ("with_dtypes(tc, int='int16')", UnknownName,
     "no int_dtype 'int16' for Target; known: int64, int32; did you mean 'int64'?"),
    ("with_dtypes(bert, input_ids='float16')", InvalidSpec,
     "'input_ids' cannot be float16: it has the kind int; possible: int"),
    ("with_dtypes(bert, input_ids='int3')", UnknownName, "no type 'int3'"),
    ("with_dtypes(bert, input_id='int32')", UnknownName, "did you mean 'input_ids'?"),
    ("with_dtypes(bert, logits='float16')", UnknownName, "no input 'logits'"),
    ("with_tolerance(tc, atol=-1e-5)", InvalidSpec,
     "atol of Check is -1e-05; a tolerance is a number, 0 or more, and not infinite"),
    ("with_tolerance(tc, rtol=float('nan'))", InvalidSpec, "rtol of Check is nan; a tolerance is a number"),
    ("with_tolerance(tc, atol=float('inf'))", InvalidSpec, "atol of Check is inf; a tolerance is a number"),
    ("without(bert, 'token_type_id')", UnknownName,
     "no input or output 'token_type_id' for bert; known: input_ids, attention_mask, token_type_ids, "),
    ("renamed(bert, input_id='ids')", UnknownName, "did you mean 'input_ids'?"),
    ("renamed(bert, input_ids='logits')", InvalidSpec, "to 'logits': bert has a tensor of that name"),
    ("renamed(bert, input_ids='x', attention_mask='x')", InvalidSpec, "two tensors cannot share a name: x, x"),
    ("renamed(decoder, **{'past_key_values.0.key': 'x'})", UnknownName,
     "did you mean 'past_key_values.{layer}.key'?"),
    ("renamed(decoder, **{'present.{layer}.key': 'present_key'})", InvalidSpec,
     "each layer has such a tensor; write {layer} in it"),
    ("renamed(decoder, **{'present.{layer}.key': 'present.{layer}.value'})", InvalidSpec,
     "has a tensor of that name"),
    ("with_axis_names(tc, batch='N')", UnknownName, "no axis 'batch'"),
    ("with_axis_names(tc, batch_size='sequence_length')", InvalidSpec, "has an axis"),
    ("with_axis_names(tc, batch_size='a b')", InvalidSpec, "no name of an axis"),
    ("with_axis_names(tc, batch_size='N', sequence_length='N')", InvalidSpec, ""),
    ("with_constants(bert, token_type_ids=0.5)", InvalidSpec, "has the kind int, so it cannot be filled with 0.5"),
    ("with_constants(bert, token_type_ids=True)", InvalidSpec, "cannot be filled with True"),
    ("with_constants(bert, logits=0)", UnknownName, "no input 'logits'"),
    ("plan(with_constants(bert, input_ids=1, attention_mask=1, token_type_ids=0))", InvalidSpec,
     "no other input has its axis 'batch_size'"),
    ("plan(with_input_order(bert, 'logits'))", UnknownName, "no input 'logits'"),
    ("with_input_order(bert, 'input_ids', 'input_ids')", InvalidSpec, "two positions"),
    ("with_input(spec_for('wav2vec2', 'audio-classification'), 'atention_mask')", UnknownName,
     "cannot add 'atention_mask' to wav2vec2; it can add: attention_mask, padding_mask"),
    ("with_input(spec_for('wav2vec2', 'audio-classification'), 'atention_mask')", UnknownName,
     "did you mean 'attention_mask'?; describe any other yourself: compose(spec, takes('atention_mask', axes, "),
    ("with_outputs(tc, 'hidden_state')", UnknownName,
     "known: last_hidden_state, pooler_output, hidden_states, attentions, logits; did you mean 'hidden_states'?; "),
    ("with_outputs(tc, 'hidden_state')", UnknownName, "another needs its axes: with_output(spec, 'hidden_state', "),
    ("with_outputs(bert, 'hiden_states')", UnknownName, "no output 'hiden_states'"),
    ("with_outputs(spec_for('t5', 'text2text-generation'), 'hidden_states')", UnknownName,
     "did you mean 'encoder_hidden_states'?"),
    ("with_outputs(tc, 'hidden_states.last')", InvalidSpec, "'hidden_states.last' names no layer's output"),
    ("with_outputs(tc, 'pooler_output.0')", InvalidSpec, "'pooler_output.0' names no layer's output"),
    ("with_inputs_embeds(spec_for('t5', 'text2text-generation'))", InvalidSpec, 'with_behavior(spec, "decoder")'),
    ("with_inputs_embeds(spec_for('vit', 'image-classification'))", UnknownName,
     "no input 'input_ids' for vit; known: pixel_values"),
    ("whisper_for_genai(spec_for('llama', 'text-generation'))", InvalidSpec, "not an encoder-decoder"),
    ("with_expanded_cache(spec_for('llama', 'text-generation'))", InvalidSpec, "llama has no cache of latents"),
    ("with_expanded_cache(spec_for('mamba', 'text-generation'))", InvalidSpec, "mamba has no cache of latents"),
    ("with_shared_cache(spec_for('llama', 'text-generation'))", InvalidSpec,
     "llama is not a decoder with a past for text-generation, so it has no cache to share; "),
    ("with_shared_cache(spec_for('t5', 'text2text-generation-with-past'))", InvalidSpec, "t5 is not a decoder with a "),
    ("with_mrope(spec_for('vit', 'image-classification'))", UnknownName, "cannot add 'position_ids' to vit"),
    ("only_tasks(bert, 'fil-mask')", UnknownName, "no task 'fil-mask' for bert; known: feature-extraction, fill-mask"),
    ("for_task(bert, 'multiple-choise')", UnknownName, "did you mean 'multiple-choice'?"),
    ("for_task(tc, 'multiple-choice')", InvalidSpec,
     "this spec is already for text-classification; make one for multiple-choice from the spec without a task"),
    ("plan(with_shapes(tc, sequence_lenght=4))", UnknownName,
     "no axis 'sequence_lenght' for bert; known: batch_size, sequence_length; did you mean 'sequence_length'?"),
    ("with_shapes(tc, batch_size=0)", InvalidSpec,
     "cannot be fixed at 0; a size is a whole number, 1 or more; a range is (smallest, largest): batch_size=(1, 128)"),
    ("dummy_inputs(tc, sizes, 'jax')", UnknownName, "no framework 'jax'; known: pt, np"),
    ("dummy_inputs(tc, sizes, 'np', num_choices=8)", UnknownName,
     "no size 'num_choices' for bert; known: batch_size, sequence_length"),
    ("dummy_inputs(for_task(bert, 'multiple-choice'), sizes, 'np', choices=8)", UnknownName,
     "no size 'choices' for bert; known: batch_size, num_choices, sequence_length; did you mean 'num_choices'?"),
    ("digest('bert')", InvalidSpec, "not a record; pass a spec"),
    ("digest([tc])", InvalidSpec, "not a record; pass a spec"),
    ("from_json(to_json(plan(tc)))", InvalidSpec,
     "the text describes a record Plan, and not ExportSpec; pass record=Plan"),
    ("from_json('{')", InvalidSpec, "not JSON: Expecting property name enclosed in double quotes: line 1 column 2"),
    ("from_json('{\"record\": \"AxisFact\"}')", UnknownName, "no record 'AxisFact'; known: Axis, AxisMap, "),
    ("from_json('{\"record\": \"AxisFact\"}')", UnknownName, "; did you mean 'AxisFacts'?"),
    ("from_json('{\"record\": \"AxisFacts\", \"name\": \"n\", \"value\": 2}')", InvalidSpec,
     "AxisFacts cannot be built from the fields ['name', 'value']: "),
    ("from_json('{}', trust='canary')", InvalidSpec, "a tuple is expected, not the text 'canary'"),
    ("compose(tc, with_opset)", InvalidSpec, "an edit is a function of a spec: write toolz.pipe(spec, edit)"),
    ("compose([text_encoder, bert_inputs])", InvalidSpec, "compose joins specs, not the list ["),
    ("tc['input_id']", UnknownName, "did you mean 'input_ids'?"),
    ("tc.inputs['input_id']", UnknownName, "did you mean 'input_ids'?"),
    ("tc.inputs[3]", UnknownName, "no input '3'; known: input_ids, attention_mask, token_type_ids"),
    ("spec_for(tc)", InvalidSpec, "a configuration is a dict, a transformers configuration or a model, not ExportSpec"),
    ("with_shapes(tc, sequence_length='1:128')", InvalidSpec, "(smallest, largest): sequence_length=(1, 128)"),
    ("renamed(tc, batch_size='N')", UnknownName, "'batch_size' is an axis: with_axis_names(spec, batch_size=...)"),
    ("with_shapes(tc, batch_size=None)", InvalidSpec, "a size is a whole number, 1 or more"),
    ("with_shapes(tc, sequence_length=(9,))", InvalidSpec, "(smallest, largest): sequence_length=(1, 128)"),
    ("without(tc, ['logits'])", InvalidSpec, "names of without is ['logits'], of the type list; it must be str"),
    ("with_opset(20)('bert')", InvalidSpec, "with_opset changes an ExportSpec, not str"),
    ("with_opset('bert')", InvalidSpec, "opset of with_opset is 'bert', of the type str; it must be int"),
    ("without('logits', tc)", InvalidSpec, "names of without is "),
    ("for_task('fill-mask', bert)", InvalidSpec, "spec of for_task is 'fill-mask', of the type str"),
    ("with_opset()", TypeError, "missing a required argument: 'opset'"),
    ("tc.input", AttributeError, "no attribute 'input'"),
    ("onnxfn.records.FixedAxis", AttributeError, "it is onnxfn.records.AxisFacts now"),
    ("onnxfn.ExportJob", AttributeError, "it is onnxfn.ExportRequest now"),
    ("plan(without(tc, 'logits'))", InvalidSpec, "bert has no output for text-classification; add one: compose("),
    ("renamed(with_outputs(tc, 'hidden_states'), **{'hidden_states.2': 'last'})", UnknownName,
     "write with_outputs(spec, 'hidden_states.2') first"),
    ("plan(spec_for('gpt2', 'text-generation-with-past'))", MissingValue, "left out: plan(spec, config)"),
    ("plan(tc, {})", MissingValue, "the configuration has no 'vocab_size'"),
    ("dummy_inputs(tc, {}, 'np')", MissingValue, "the configuration has no 'vocab_size'"),
    ("compose(tc, tasked('text-classification', spec=gives('extra', 'batch_size')))", InvalidSpec,
     "choose the task last: for_task(compose(...), 'text-classification')"),
    ("compose(tc, tasked('fill-mask', spec=gives('extra', 'batch_size')))", InvalidSpec,
     "what is composed onto its task 'fill-mask' would have no effect"),
    ("with_axis(tc, 'num_choices', at=1, starting='sequence_length')", InvalidSpec,
     "no input of bert has axes that start with 'sequence_length'; their axes are [batch_size, sequence_length]"),
    ("only_tasks(tc, 'fill-mask')", InvalidSpec, "bert is for text-classification already"),
    ("with_output(split(spec_for('clip', 'feature-extraction')), 'x', 'batch_size _')", InvalidSpec,
     "with_output(with_behavior(spec, 'vision_model'), 'x', axes)"),
    ("diff(tc, tc.inputs)", InvalidSpec, "two records of the same type, not ExportSpec and Named"),
)  # fmt: skip
"""A line, the type of its error, and a part of the message that says what to write."""


@pytest.mark.parametrize(("line", "value"), WORKING, ids=[line for line, _ in WORKING])
def test_a_guessed_line_works(line, value):
    assert eval(line, dict(NAMES)) == value


@pytest.mark.parametrize(("line", "error", "advice"), REFUSED, ids=[line for line, *_ in REFUSED])
def test_the_error_of_a_guessed_line_has_the_right_line(line, error, advice):
    with pytest.raises(error) as raised:
        eval(line, dict(NAMES))
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)
