"""Programs of several modules: watched, exported by parts, and run on these."""

import json
import re
from functools import partial

import numpy as np
import pytest
import torch
from command_line import invoke, succeed
from small_modules import module
from torch import nn

import onnxfn
from onnxfn.export.derive.watched import _formula as formula
from onnxfn.export.derive.watched import _patterns as patterns_of
from onnxfn.export.run.program_check import _distance, check_program


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lengths = nn.Embedding(40, 8), nn.Linear(8, 1)

    def forward(self, ids, mask=None):
        states = self.table(ids) * (1 if mask is None else mask[..., None])
        return {"states": states, "frames": self.lengths(states).sigmoid()[..., 0] * 3 + 1}


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(8, 1, 16, stride=8)

    def decode(self, frames, gain=1.0):
        return (self.up(frames.mT)[:, 0].tanh() * gain,)


class Speech:
    def __init__(self):
        torch.manual_seed(0)
        self.components = {"encoder": Encoder(), "decoder": nn.GRU(8, 8, batch_first=True), "vocoder": Vocoder()}
        self.components = {name: module.eval() for name, module in self.components.items()}

    def __call__(self, ids):
        with torch.no_grad():
            encoded = self.components["encoder"](ids)
            counts = encoded["frames"][0].round().long()
            states, _ = self.components["decoder"](encoded["states"].repeat_interleave(counts, dim=1))
            return self.components["vocoder"].decode(states, gain=0.5)[0]


class Detector(nn.Module):
    """Boxes of a picture that are above a threshold, and a classifier of crops of any number."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Conv2d(3, 5, 3, stride=4, padding=1)
        self.classifier = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))

    def forward(self, picture):
        cells = self.backbone(picture)[0].flatten(1).T
        places = cells[:, 0].topk(max(2, len(cells) // 8)).indices
        return self.classifier(torch.stack([picture[0, :, :8, at % 8 : at % 8 + 8] for at in places.tolist()]))


class Ranker:
    def __init__(self):
        torch.manual_seed(0)
        self.modules = {"query": Encoder().eval(), "document": Encoder().eval()}

    def __call__(self, query, documents):
        with torch.no_grad():
            ones = torch.ones(documents.shape, dtype=torch.long)
            first = self.modules["query"](query)["states"].mean(1)
            second = self.modules["document"](documents, mask=ones)["states"].mean(1)
            return nn.functional.normalize(first) @ nn.functional.normalize(second).T


def grid(self, cells, sides, scale):
    """Positions of the cells of a picture, which has one row for each cell: its sides are numbers."""
    rows, columns = sides[0]
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).sum(-1)
    return (self.layer(cells) + places[:, None] * scale).unflatten(1, (rows, columns)).mean(2)


def ids(*shape):
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % 40


speech, ranker, generator = Speech(), Ranker(), torch.Generator()
detector = Detector().eval()
PROGRAMS = {
    "text to speech": (speech, lambda size: speech(ids(1, 4 + size))),
    "detector": (detector, lambda size: detector(torch.rand(1, 3, 32, 32 + 8 * size)).detach()),
    "ranker": (ranker.modules, lambda size: ranker(ids(1 + size, 5 + size), ids(3 * size, 9 + 2 * size))),
}
AXES = {
    "text to speech": {"encoder": {"ids": "1 sequence_length"}, "vocoder_decoder": {"frames": "1 sequence_length 8"}},
    "detector": {"backbone": {"input": "1 3 32 width"}, "classifier": {"input": "batch_size 3 8 8"}},
    "ranker": {"document": {"ids": "batch_size sequence_length", "mask": "batch_size sequence_length"}},
}


def test_numbers_that_change_with_the_shapes_are_sizes(tmp_path):
    program = {"grid": module(grid, layer=nn.Linear(4, 4)).eval()}

    def run(rows, columns):
        cells = torch.rand(1, rows * columns, 4, generator=torch.Generator().manual_seed(0))
        return [program["grid"](cells, [(rows, columns)], scale).detach() for scale in (0.5, 0.25)]

    runs = [lambda: run(3, 4), lambda: run(5, 9)]
    seen, expected = onnxfn.watched(program, *runs)["grid"], run(2, 7)
    assert (seen.axes["cells"], seen.sample["sides"]) == ("1 sides_0_0*sides_0_1 4", [(5, 9)])
    result = onnxfn.export_pipeline(program, tmp_path / "out", run=runs)["grid"]
    assert dict(result.outputs) == {"output": {1: "sides_0_0"}}
    with onnxfn.assembled(program, tmp_path / "out"):
        torch.testing.assert_close(run(2, 7), expected, rtol=1e-4, atol=1e-5)


def test_a_module_that_the_program_changes_meanwhile_is_exported_as_it_was_called(tmp_path):
    forward = lambda self, x: self.processor(self.layer(x))  # noqa: E731
    program = {"scaled": module(forward, layer=nn.Linear(4, 4), processor=torch.tanh)}

    def run(rows):
        program["scaled"].processor = torch.sigmoid
        result = program["scaled"](torch.ones(rows, 4)).detach()
        program["scaled"].processor = torch.tanh
        return result

    onnxfn.export_pipeline(program, tmp_path / "out", run=[lambda: run(2), lambda: run(3)])
    expected = run(5)
    with onnxfn.assembled(program, tmp_path / "out"):
        torch.testing.assert_close(run(5), expected)
    assert vars(program["scaled"])["processor"] is torch.tanh


SCRIPT = """
import torch
from torch import nn

modules = {"query": nn.Linear(8, 4), "documents": nn.GRU(8, 4, batch_first=True)}

def scores(words):
    return modules["query"](modules["documents"](torch.ones(words, words + 2, 8))[1][0].repeat(1, 2))

if __name__ == "__main__":
    raise KeyError("a program is run by --run alone")
"""


def test_the_modules_of_a_script_are_exported_as_it_calls_them(tmp_path):
    (tmp_path / "ranker.py").write_text(SCRIPT)
    words = ["watch", tmp_path / "ranker.py", tmp_path / "out", "--modules", "query=modules['query']"]
    assert "query/model.onnx" in succeed(*words, "--run", "scores(2)", "--run", "scores(3)").stdout
    assert onnxfn.load(tmp_path / "out" / "query").inputs == {"input": {0: "batch_size"}}
    message = invoke(*words, "--run", "score(2)", "--overwrite").stderr
    assert "--run score(2): name 'score' is not defined; names" in message
    words[4] = "query=modules"
    assert "is of the type dict, and not an nn.Module" in invoke(*words, "--run", "scores(2)", "--overwrite").stderr


def test_parts_that_a_later_program_lacks_are_deleted(tmp_path):
    theirs = onnxfn.derived(nn.Linear(2, 2), sample=torch.ones(1, 2))
    onnxfn.export(theirs, nn.Linear(2, 2), tmp_path / "out" / "one_theirs")
    for components in ({"one": nn.Linear(2, 2), "other": Vocoder()}, {"one": nn.Linear(2, 2)}):

        def run():
            components["one"](torch.ones(1, 2))  # noqa: B023
            return [each.decode(torch.ones(1, 3, 8)) for name, each in components.items() if name == "other"]  # noqa: B023

        onnxfn.export_pipeline(components, tmp_path / "out", run=run, overwrite=True)
    assert {each.name for each in (tmp_path / "out").iterdir()} == {"model_index.json", "one", "one_theirs"}
    assert (tmp_path / "out" / "one_theirs" / "model.onnx").is_file()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_watched_exported_and_assembled(name, tmp_path):
    program, run = PROGRAMS[name]
    seen = onnxfn.watched(program, lambda: run(1), lambda: run(2))
    assert {part: dict(seen[part].axes) for part in AXES[name]} == AXES[name]
    results = onnxfn.export_pipeline(program, tmp_path / "out", run=[lambda: run(1), lambda: run(2)])
    assert list(results) == list(seen)
    assert all(result.report.passed for result in results.values())
    torch.manual_seed(1)
    expected = run(5)
    with onnxfn.assembled(program, tmp_path / "out") as parts:
        torch.manual_seed(1)
        torch.testing.assert_close(run(5), expected, rtol=1e-4, atol=1e-5)
    assert parts == tuple(seen)


def test_a_program_is_as_before_after_an_error_of_a_run():
    def fails():
        speech(ids(1, 4))
        raise KeyError

    before = {name: dict(vars(module)) for name, module in speech.components.items()}
    with pytest.raises(KeyError):
        onnxfn.watched(speech, fails)
    assert {name: vars(module) for name, module in speech.components.items()} == before


def test_other_constants_and_other_arguments_are_refused(tmp_path):
    onnxfn.export_pipeline(speech, tmp_path / "out", run=[lambda: speech(ids(1, 4)), lambda: speech(ids(1, 6))])
    frames = torch.ones(1, 6, 8)
    with onnxfn.assembled(speech, tmp_path / "out"):
        with pytest.raises(onnxfn.InvalidSpec, match=r"was called with gain, and its file takes frames, gain=0.5"):
            speech.components["vocoder"].decode(frames, gain=0.7)
        with pytest.raises(onnxfn.InvalidSpec, match=r"was called with frames, and its file takes frames, gain=0.5"):
            speech.components["vocoder"].decode(frames)
        with pytest.raises(onnxfn.InvalidSpec, match=r"was called with mask"):
            speech.components["encoder"](ids(1, 4), mask=torch.ones(1, 4))


class Asks:
    def __init__(self):
        self.components = {"layer": nn.Linear(2, 2)}

    def __call__(self, prompt, camera):
        return self.components["layer"](torch.ones(len(prompt), camera))


def test_a_pipeline_that_does_not_run_by_itself_says_what_it_lacks(tmp_path):
    with pytest.raises(onnxfn.InvalidSpec, match=r"Asks does not run with prompt='a cat': .* 'camera'; pass run=, a"):
        onnxfn.export_pipeline(Asks(), tmp_path / "out")


def test_what_is_no_program_is_refused_by_name(tmp_path):
    with pytest.raises(onnxfn.InvalidSpec, match="int has no modules; pass a dict"):
        onnxfn.watched(3)
    with pytest.raises(onnxfn.InvalidSpec, match="0 runs called no module of encoder, decoder, vocoder"):
        onnxfn.watched(speech)
    with pytest.raises(onnxfn.ModelNotFound, match="no part of the program"), onnxfn.assembled(speech, tmp_path):
        pass
    tiled = {"vae": type("AutoencoderKL", (), {"forward": None, "state_dict": None, "use_tiling": True})()}
    with pytest.raises(onnxfn.InvalidSpec, match=r"vae \(AutoencoderKL\) works in tiles.*call vae.disable_tiling\(\)"):
        onnxfn.export_pipeline(tiled, tmp_path / "out")


def with_positions(self, x):
    if x.shape[1] > len(self.positions):
        self.positions = torch.arange(x.shape[1]).float()
    return x + self.positions.sin()[: x.shape[1]]


def test_a_module_keeps_nothing_of_a_call_without_values(tmp_path):
    program = {"table": module(with_positions, positions=torch.zeros(4))}
    texts = [torch.randn(2, length) for length in (6, 9, 20)]
    onnxfn.export_pipeline(program, tmp_path / "out", run=[lambda of=of: program["table"](of) for of in texts[:2]])
    program["table"].positions = torch.arange(9).float()
    with onnxfn.assembled(program, tmp_path / "out"):
        drawn = program["table"](texts[2])
    assert torch.allclose(drawn, program["table"](texts[2]), atol=1e-6)
    assert type(program["table"].positions) is torch.Tensor


def test_parts_have_dtypes_and_one_that_overflows_in_float16_is_wider(tmp_path):
    program = {"layer": nn.Linear(64, 64), "large": module(lambda _, states: states * 3e5 / 3e5)}

    def run(rows=2):
        return program["large"](program["layer"](torch.ones(rows, 64))).detach()

    parts = onnxfn.export_pipeline(
        program, tmp_path / "out", run=[run, lambda: run(3)], dtypes={"layer": ("float16", "q8"), "large": ("float16",)}
    )
    assert re.match(r"the result of the program on its files differs by \d", parts["layer"].plan.remarks[0])
    remark = "large overflows in float16; its dtypes are float32"
    assert [*parts["large"].plan.remarks] == [remark, *parts["layer"].plan.remarks]
    report = json.loads((tmp_path / "out" / "large" / "report.json").read_bytes())
    assert report["remarks"] == [*parts["large"].plan.remarks]
    assert {name: len(part.graphs) for name, part in parts.items()} == {"layer": 2, "large": 1}
    expected = run(5)
    for dtype, most in (("float16", 2e-3), ("q8", 3e-2)):
        with onnxfn.assembled(program, tmp_path / "out", dtype):
            assert 0 < (run(5) - expected).abs().max() < most


def test_the_result_of_the_program_is_compared_and_may_differ_by_what_errors_of_its_parts_make(tmp_path):
    own, errors = Ranker(), {"query": 1e-6, "document": 1e-6}
    run = partial(own, ids(3, 7), ids(6, 13))
    onnxfn.export_pipeline(own.modules, tmp_path / "out", run=run, check=False)
    compared = partial(check_program, own.modules, tmp_path / "out")
    assert compared(run, errors) == ""
    assert "differs from run to run" in compared(lambda: torch.rand(2, generator=generator), errors)
    assert "has no tensors, arrays or pictures" in compared(lambda: print("no number"), errors)
    assert "may change it by" in compared(run, dict.fromkeys(errors, 0.5))
    own.modules["query"].table.weight.data[5] += 0.01
    with pytest.raises(onnxfn.errors.CheckFailed, match="each part agrees alone, but the result of the program"):
        compared(run, errors)
    own.modules["query"].table.weight.data[5] = torch.nan
    onnxfn.export_pipeline(own.modules, tmp_path / "wrong", run=run, check=False)
    intact = Ranker()
    with pytest.raises(onnxfn.errors.CheckFailed, match="the result of the program differs by inf on the files"):
        check_program(intact.modules, tmp_path / "wrong", partial(intact, ids(3, 7), ids(6, 13)), errors)


def test_what_the_parts_get_in_each_step_is_compared(tmp_path):
    """The result of these steps is 0, whatever they make."""
    program = {"step": nn.Linear(4, 4)}

    def run(rows=2):
        states = torch.ones(rows, 4)
        for _ in range(3):
            states = program["step"](states)
        return states * 0

    onnxfn.export_pipeline(program, tmp_path / "out", run=[run, lambda: run(3)])
    assert check_program(program, tmp_path / "out", run, {"step": 1e-6}).startswith("the result of the program on its")
    program["step"].bias.data += 0.01
    with pytest.raises(onnxfn.errors.CheckFailed, match=r"but an input of step in call 2 differs by 1\.0e-02"):
        check_program(program, tmp_path / "out", run, {"step": 1e-6})


def test_the_distance_of_complex_numbers_counts_both_their_parts():
    """A part may get rotations."""
    rotated = np.array([1 + 2j, 3 - 1j], np.complex64)
    assert _distance(rotated, rotated + np.complex64(1e-3j)) == pytest.approx(1e-3, rel=1e-2)


class Marker(nn.Module):
    def mark(self, pictures):
        return pictures + 1


def test_a_part_may_take_and_give_arrays_of_numpy(tmp_path):
    program = {"marker": Marker()}

    def run(rows):
        return program["marker"].mark(np.zeros((rows, 4, 4, 3), np.uint8))

    onnxfn.export_pipeline(program, tmp_path / "out", run=[lambda: run(2), lambda: run(3)])
    with onnxfn.assembled(program, tmp_path / "out") as parts:
        marked = run(5)
    assert parts == ("marker_mark",)
    assert type(marked) is np.ndarray
    assert np.array_equal(marked, run(5))
    assert marked.dtype == run(5).dtype


class OneColor(nn.Module):
    """Amplifies rounding where all numbers are alike, as a norm over a picture of one color does."""

    def forward(self, x):
        mean = x.mean((1, 2), keepdim=True)
        return (x - mean) / ((x - mean) ** 2).mean((1, 2), keepdim=True).add(1e-16).sqrt()


def test_the_rounding_of_pytorch_itself_is_allowed_and_a_wrong_weight_is_not(tmp_path):
    program = {"scale": nn.Linear(8, 8), "norm": OneColor()}
    torch.manual_seed(0)
    rough = [torch.randn(2, rows, 8) for rows in (6, 9)]

    def run(pictures):
        with torch.no_grad():
            return program["scale"](program["norm"](pictures))

    alike = torch.full((2, 9, 8), 0.1)
    onnxfn.export_pipeline(program, tmp_path / "out", run=[lambda: run(rough[0]), lambda: run(rough[1])], check="whole")
    remark = check_program(program, tmp_path / "out", lambda: run(alike), {"scale": 1e-7, "norm": 1e-7})
    assert "proves little" in remark
    with torch.no_grad():
        program["scale"].bias += 0.01
    with pytest.raises(onnxfn.CheckFailed, match="each part agrees alone"):
        check_program(program, tmp_path / "out", lambda: run(rough[1]), {"scale": 1e-7, "norm": 1e-7})


def test_words_of_axes_are_formulas_of_smaller_axes():
    assert patterns_of({"x": [(2, 9, 4), (4, 7, 4)], "mask": [(2, 18), (4, 14)], "scale": [(1,), (1,)]}, {}) == {
        "x": "batch_size sequence_length 4",
        "mask": "batch_size 2*sequence_length",
        "scale": "1",
    }
    numbers = {"rows": [(3,), (5,)], "columns": [(4,), (7,)]}
    assert patterns_of({"x": [(1, 12), (1, 35)]}, numbers)["x"] == "1 rows*columns"
    assert formula((16, 24), {(2, 3): "cells", (8, 12): "4*cells"}, "height") == "8*cells"
    assert formula((9, 13), {(2, 3): "cells", (7, 10): "tokens"}, "length") == "cells+tokens"
    assert formula((6, 28), {(4, 8): "height", (6, 14): "width"}, "length") == "height*width//4"
