"""SmolLM2 checked by sections: the verdict of the check of the whole file, also where a layer has a fault."""

import pytest
from graph_edits import change_weights
from smollm2_weights import load_smollm2

import onnxfn

LAYER = "model.layers.17"


@pytest.mark.sweep
def test_smollm2_by_sections_has_the_verdict_of_the_whole(tmp_path):
    (model, _), folder = load_smollm2(), tmp_path / "out"
    spec = onnxfn.spec_for(model, "text-generation-with-past")
    onnxfn.export(spec, model, folder, check=False)
    by_sections = onnxfn.validate(spec, model, folder, check="sections")
    whole = onnxfn.validate(spec, model, folder)
    assert by_sections.passed
    assert whole.passed
    layers = [f"model.layers.{index}" for index in range(30)]
    assert [each.section for each in by_sections.sections] == ["embedding", *layers, "head"]
    found = {each.output: each.max_abs for each in by_sections.differences}
    assert found == {
        each.output: pytest.approx(each.max_abs, abs=1e-3) for each in whole.differences if each.output in found
    }
    assert {each.output for each in whole.differences} - found.keys() <= {"greedy tokens"}

    change_weights(folder / "model.onnx", {f"{LAYER}.mlp.down_proj.weight": lambda array: 1.01 * array})
    by_sections = onnxfn.validate(spec, model, folder, check="sections")
    assert [each.section for each in by_sections.sections if not each.passed] == [LAYER]
    assert not by_sections.passed
    assert not onnxfn.validate(spec, model, folder).passed
