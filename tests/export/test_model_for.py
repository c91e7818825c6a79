"""The model of a checkpoint."""

import tiny

from onnxfn import model_for


def test_a_checkpoint_is_loaded_for_its_task_or_another(tmp_path):
    tiny.model("bert", "AutoModelForMaskedLM").save_pretrained(tmp_path)
    assert type(model_for(str(tmp_path))).__name__ == "BertForMaskedLM"
    model = model_for(str(tmp_path), "default")
    assert type(model).__name__ == "BertModel"
    assert not model.training
