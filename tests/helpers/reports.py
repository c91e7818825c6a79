import json

from onnxfn.export.report.report_file import SCHEMA, SCHEMA_VERSION


def report_text(**fields):
    """A report without files, with other fields where the test says so."""
    empty = {"files": {}, "graphs": {}, "options": {}, "check": {"status": "not checked", "outputs": []}}
    return json.dumps({"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **empty, **fields})
