"""Saved specs that name code: reading one imports nothing, and code of other packages needs trust."""

import json
import re
import sys
from pathlib import Path

import pytest
from refusals import refusal

import onnxfn
from onnxfn.specs.records import Patch
from onnxfn.specs.stored.serialize import RECORDS, from_json, to_json, to_plain
from onnxfn.specs.stored.trust import CODE_FIELDS, PATCHED_PACKAGES

PACKAGE = Path(onnxfn.__file__).parent
CANARY = "canary_of_trust"
PATCH = {"record": "Patch", "by": "attention.alibi_bias", "why": "why"}

RECORDS_WITH_CODE = {
    ("Generator", "function"): {"record": "Generator", "name": "ids", "function": f"{CANARY}:ids"},
    ("ArgumentBuilder", "by"): {"record": "ArgumentBuilder", "name": "states", "by": f"{CANARY}:States"},
    ("Call", "submodule"): {"record": "Call", "submodule": f"{CANARY}.inner:part"},
    ("Call", "attention"): {"record": "Call", "attention": f"{CANARY}/kernels"},
    ("Patch", "by"): {"record": "Patch", "name": "torch:linspace", "by": f"{CANARY}:f", "why": "why"},
    ("Patch", "name"): {**PATCH, "name": f"{CANARY}:Model.forward"},
}

HOSTILE_TARGETS = (
    "os:system",
    "os.system",
    "builtins:print",
    "onnxfn.specs.converters:resolve",
    "transformersx:f",
    "",
    ":f",
)


@pytest.fixture
def canary(tmp_path, monkeypatch):
    (tmp_path / f"{CANARY}.py").write_text("import numpy\n\ndef ids(random, shape):\n    return numpy.zeros(shape)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield CANARY
    sys.modules.pop(CANARY, None)


def record_in_a_spec(record):
    fields = {
        "Generator": ("dummies", "Dummies", "generators"),
        "ArgumentBuilder": ("call", "Call", "builders"),
        "Patch": ("call", "Call", "patches"),
    }
    if record["record"] == "Call":
        spec = {"record": "ExportSpec", "call": record}
    else:
        group, kind, name = fields[record["record"]]
        spec = {"record": "ExportSpec", group: {"record": kind, name: [record]}}
    overlay = {"record": "Overlay", "name": "fill-mask", "spec": spec}
    return json.dumps({"record": "ExportSpec", "tasks": [overlay]})


@pytest.mark.parametrize("field", CODE_FIELDS, ids=".".join)
def test_code_of_another_package_needs_trust_and_is_not_imported(field, canary):
    text = record_in_a_spec(RECORDS_WITH_CODE[field])
    message = refusal(onnxfn.InvalidSpec, from_json, text)
    assert message.startswith(f"field {field[1]!r} of {field[0]} names code outside onnxfn's tables: ")
    assert message.endswith(f"if you trust it: trust=({CANARY!r},)")
    trusted = from_json(text, trust=(CANARY,))
    assert from_json(to_json(trusted), trust=(CANARY,)) == trusted
    assert canary not in sys.modules


def test_a_trusted_function_is_imported_when_a_dummy_is_computed(canary):
    ids = onnxfn.compose(onnxfn.takes("ids", "batch_size 3", "zeros"), onnxfn.generates("zeros", f"{CANARY}:ids"))
    spec = from_json(to_json(ids), trust=(canary,))
    assert canary not in sys.modules
    assert not onnxfn.dummy_inputs(spec, {}, "np", batch_size=2)["ids"].any()
    assert canary in sys.modules


@pytest.mark.parametrize("target", HOSTILE_TARGETS)
def test_a_patch_may_replace_functions_of_the_patched_libraries_alone(target):
    refusal(onnxfn.InvalidSpec, from_json, json.dumps({**PATCH, "name": target}))


def test_a_full_name_inside_onnxfn_needs_trust_too():
    """A module of onnxfn also holds the functions that it imports."""
    patch = {"record": "Patch", "name": "torch:linspace", "by": "onnxfn.specs.converters:import_module", "why": "why"}
    refusal(onnxfn.InvalidSpec, from_json, json.dumps(patch))
    assert from_json(json.dumps(patch), record=Patch, trust=["onnxfn.specs"]).by == patch["by"]


@pytest.mark.parametrize("trust", ["canary", "canary_of", "canary_of_trust.other"])
def test_trust_is_in_a_whole_package_or_module(trust):
    refusal(onnxfn.InvalidSpec, from_json, record_in_a_spec(RECORDS_WITH_CODE["Generator", "function"]), trust=(trust,))


def test_the_patched_libraries_are_those_of_the_tables():
    rows = json.dumps([to_plain(spec) for spec in onnxfn.ARCHITECTURES.values()])
    assert {*re.findall(r'"record": "Patch", "name": "(\w+)', rows)} <= set(PATCHED_PACKAGES)


def test_the_fields_that_name_code_are_fields_of_records():
    assert [field for record, field in CODE_FIELDS if field not in RECORDS[record].__annotations__] == []
    assert set(RECORDS_WITH_CODE) == set(CODE_FIELDS)


def test_names_become_modules_in_these_files_alone():
    """A new field whose name is imported needs a row in CODE_FIELDS. The last files import no name of a spec."""
    imports = re.compile(r"(?<![.\w])(resolve|import_module|__import__|eval|exec)\(")
    files = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py") if imports.search(file.read_text())}
    assert files == {
        *("specs/algebra/public_names.py", "specs/converters.py", "specs/algebra/dummies.py"),
        *("models/argument_builders.py", "models/patching.py", "architectures/functions.py"),
        *("architectures/patch_table.py", "architectures/wrappers/feature_methods.py", "export/jobs/options.py"),
        *("export/load/loading.py", "export/derive/sample_arguments.py", "export/batch/server.py"),
        "export/cli/export_command.py",
    }
