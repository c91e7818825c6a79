"""ORTModel of optimum-onnx, on transformers 4.57, loads folders as written and gives what PyTorch gives."""

import numpy as np
import pytest
from cases import TEXTS
from exporting import exported, reference
from pytorch_results import added, fed, outputs
from running import run_client

pytestmark = pytest.mark.clients

COUNT = 12
ENCODERS = (
    ("bert", "feature-extraction", "ORTModelForFeatureExtraction"),
    ("bert masked", "fill-mask", "ORTModelForMaskedLM"),
    ("bert classes", "text-classification", "ORTModelForSequenceClassification"),
    ("bert tokens", "token-classification", "ORTModelForTokenClassification"),
    ("bert answers", "question-answering", "ORTModelForQuestionAnswering"),
    ("minilm", "feature-extraction", "ORTModelForFeatureExtraction"),
)
WRITERS = (
    ("llama", "text-generation-with-past", "ORTModelForCausalLM"),
    ("gpt2", "text-generation-with-past", "ORTModelForCausalLM"),
    ("smollm2", "text-generation-with-past", "ORTModelForCausalLM"),
    ("t5", "text2text-generation-with-past", "ORTModelForSeq2SeqLM"),
    ("bart", "text2text-generation-with-past", "ORTModelForSeq2SeqLM"),
)


@pytest.mark.parametrize(("checkpoint", "task", "name"), ENCODERS, ids=lambda value: value.replace(" ", "-"))
def test_an_encoder_gives_what_pytorch_gives(checkpoint, task, name, exports, note, assert_close):
    note({"client": "optimum", "kind": name, "case": checkpoint})
    folder = exported(exports, checkpoint, task)
    job = {"folder": str(folder), "function": "outputs", "class": name, "texts": TEXTS}
    model = reference(exports, checkpoint, folder)
    expected = outputs(model, TEXTS, {})
    expected.pop("pooler_output", None)
    mask = fed(model, TEXTS)["attention_mask"].numpy().astype(bool)
    assert_close(at_tokens(run_client("optimum", job)["result"], mask), at_tokens(expected, mask))


def at_tokens(outputs, mask):
    """The outputs without those of padding, which mean nothing."""
    arrays = {name: np.asarray(values) for name, values in outputs.items()}
    return {name: (array[mask] if array.shape[:2] == mask.shape else array).tolist() for name, array in arrays.items()}


@pytest.mark.parametrize(("checkpoint", "task", "name"), WRITERS, ids=lambda value: value)
def test_a_decoder_writes_the_text_of_pytorch(checkpoint, task, name, exports, note):
    note({"client": "optimum", "kind": name, "case": checkpoint})
    folder = exported(exports, checkpoint, task)
    options = {"max_new_tokens": COUNT}
    job = {"folder": str(folder), "function": "text", "class": name, "text": TEXTS[0], "options": options}
    model = reference(exports, checkpoint, folder, "AutoModelForCausalLM")
    assert run_client("optimum", job)["result"] == added(model, TEXTS[0], options)
