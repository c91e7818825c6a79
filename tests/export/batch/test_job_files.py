import json

import pytest

from onnxfn import InvalidSpec, ModelNotFound, UnknownName, read_jobs


def test_a_folder_has_a_job_for_each_checkpoint_in_it(tmp_path):
    for name in ("b", "a", "no"):
        (tmp_path / name).mkdir()
    for name in ("a", "b"):
        (tmp_path / name / "config.json").write_text("{}")
    jobs = read_jobs(tmp_path, "out", check=False)
    assert [(job.checkpoint, job.path, job.check) for job in jobs] == [
        (str(tmp_path / "a"), "out/a", "none"),
        (str(tmp_path / "b"), "out/b", "none"),
    ]


def test_a_file_has_jobs_and_the_call_has_defaults(tmp_path):
    (tmp_path / "models/bert").mkdir(parents=True)
    llama = {
        "model": "org/llama",
        "out": "small",
        "task": "text-generation",
        "dtype": "q8",
        "shape": {"batch_size": 1, "sequence_length": [1, 128]},
        "floor": {"agreement": 0.9},
        "layout": "optimum",
    }
    (tmp_path / "jobs.jsonl").write_text(f'{{"model": "models/bert"}}\n\n{json.dumps(llama)}\n')
    first, second = read_jobs(tmp_path / "jobs.jsonl", "out", check=False, dtype=["float32", "q4"])
    assert (first.checkpoint, first.path, first.dtypes, first.check, first.write.layout) == (
        str(tmp_path / "models/bert"),
        "out/bert",
        ("float32", "q4"),
        "none",
        "hub",
    )
    assert (second.checkpoint, second.path, second.dtypes) == ("org/llama", "out/small", ("q8",))
    assert dict(second.edits)["shape"] == (("batch_size", 1), ("sequence_length", (1, 128)))
    assert (second.task, second.floors.agreement, second.write.layout) == ("text-generation", 0.9, "optimum")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ('{"model": "x"}\n{"modle": "y"}', UnknownName, "line 2.*modle.*did you mean 'model'"),
        ('{"model": ', InvalidSpec, "line 1"),
        ('["x"]', InvalidSpec, "line 1.*not a job"),
        ('{"task": "fill-mask"}', InvalidSpec, "line 1.*no model"),
        ('{"model": "x", "opset": "new"}', InvalidSpec, "line 1.*opset"),
        ('{"model": "x", "size": 3}', InvalidSpec, "line 1.*wrong type"),
        ('{"model": "x", "layout": "hubs"}', UnknownName, "line 1.*hubs"),
        ('{"model": "x"}\n\xff\xfe', InvalidSpec, r"line 2 of .* is no JSON"),
        ('{"model": "x"}\n' + "[" * 100_000, InvalidSpec, r"line 2 of .* is no JSON"),
        ('{"model": ".."}', InvalidSpec, "out is"),  # no name of a folder: the job needs an out
        *(
            (json.dumps({"model": "x", "out": out}), InvalidSpec, r"line 1.*out is .*is outside its folder; write the")
            for out in ("../elsewhere", "/tmp/elsewhere", "", 3)
        ),
    ],
)
def test_an_error_names_the_file_the_place_and_what_is_known(text, error, words, tmp_path):
    (tmp_path / "a.jsonl").write_text(text, encoding="latin-1")  # so that bytes may be no UTF-8
    with pytest.raises(error, match=words):
        read_jobs(tmp_path / "a.jsonl", "out")


def test_a_folder_without_checkpoints_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(ModelNotFound, match=r"config\.json"):
        read_jobs(tmp_path, "out")
    with pytest.raises(ModelNotFound, match="nowhere"):
        read_jobs(tmp_path / "nowhere", "out")


def test_a_job_does_not_follow_a_link_out_of_the_folder_of_the_exports(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    (tmp_path / "a.jsonl").write_text(json.dumps({"model": "x", "out": "link/victim"}))
    with pytest.raises(InvalidSpec, match=r"line 1.*'link/victim', which is a link out of its folder"):
        read_jobs(tmp_path / "a.jsonl", tmp_path / "out")


@pytest.mark.parametrize(("key", "value"), [("trust_remote_code", True), ("template_cache", "/elsewhere")])
def test_what_runs_code_or_writes_elsewhere_is_of_the_caller_alone(key, value, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"model": "x", key: value}))
    with pytest.raises(InvalidSpec, match=f"line 1.*cannot have {key}; pass it to the call, for all jobs: --"):
        read_jobs(tmp_path / "a.jsonl", "out")
    (tmp_path / "a.jsonl").write_text(json.dumps({"model": "x"}))
    [plain] = read_jobs(tmp_path / "a.jsonl", "out")
    [job] = read_jobs(tmp_path / "a.jsonl", "out", **{key: value})
    assert job != plain
