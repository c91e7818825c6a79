from refusals import refusal

import onnxfn
from onnxfn import ARCHITECTURES, ExportSpec, OutputSpec, UnknownName, compose, gives, takes, with_dtypes
from onnxfn.specs.algebra.spec import inner_specs
from onnxfn.specs.results.output_types import output_kind
from onnxfn.specs.stored.serialize import digest
from onnxfn.specs.tasks.tasks import for_task, task_names

OWN = compose(
    takes("ids", "n 4", "g"),
    takes("x", "n", "g", kind="float"),
    gives("next", "n 4", kind="int"),
    gives("best", "n", kind="int64"),
    gives("y", "n", kind="float"),
    gives("more", "n"),
)


def test_every_output_of_every_row_has_a_kind():
    specs = [for_task(row, task) for row in ARCHITECTURES.values() for task in task_names(row)]
    outputs = [(spec, output) for spec in specs for inner in inner_specs(spec) for output in inner.outputs]
    assert [(spec.name, spec.task, output.name) for spec, output in outputs if not output_kind(spec, output)] == []
    assert len(outputs) > 2000


def shown(spec):
    """The last column of each output in the table of a spec: its dtype and axes."""
    lines = str(spec).splitlines()
    return [line.split()[1] for line in lines[lines.index("  outputs") + 1 :]]


def test_a_table_shows_the_dtypes_of_outputs():
    assert shown(OWN) == ["int[n,", "int64[n]", "float[n]", "[n]"]
    assert shown(with_dtypes(OWN, int="int64", float="float16")) == ["int64[n,", "int64[n]", "float16[n]", "[n]"]
    assert shown(with_dtypes(OWN, int="int32"))[0] == "int[n,"  # int32 if it follows the ids, int64 if it is an index


def test_an_output_that_may_follow_an_input_of_another_dtype_has_no_kind():
    edited = with_dtypes(OWN, ids="int32", x="float16")
    assert [output.kind for output in edited.outputs] == [None, "int64", "float", None]


def test_a_kind_that_no_graph_has_is_refused():
    assert "did you mean 'float16'?" in refusal(UnknownName, lambda: gives("y", "n", kind="float1"))
    assert onnxfn.with_output(ExportSpec(), "y", "n", kind="bool").outputs["y"].kind == "bool"


def test_the_digest_of_a_spec_without_kinds_is_that_of_older_forms():
    assert digest(gives("logits", "batch_size _")) == "0157976a0b9553e1140f55b03310899aa02196a231c0a303b924e529283d3c4c"
    assert digest(gives("logits", "batch_size _", kind="float")) != digest(gives("logits", "batch_size _"))
    assert OutputSpec("y", "n") != OutputSpec("y", "n", kind="float")
