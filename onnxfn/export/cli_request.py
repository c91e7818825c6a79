"""What the flags of the command `export` ask for, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

from onnxfn.export.cli_optimum import our_dtype
from onnxfn.export.cli_results import Form
from onnxfn.export.jobs import ExportJob
from onnxfn.export.spec_edits import SpecEdits, parsed_shapes, parsed_sizes, spec_dtype
from onnxfn.graphs.build import BuildOptions, trace_all_layers
from onnxfn.graphs.cache_folder import default_cache_folder
from onnxfn.graphs.capture.repeated_layers import stacks_worth_a_proof
from onnxfn.specs.check_modes import CheckMode, check_mode
from onnxfn.specs.compose import EMPTY
from onnxfn.specs.edits.tensors import with_tolerance
from onnxfn.specs.errors import InvalidSpec
from onnxfn.specs.measurements import parsed_floors
from onnxfn.weights.layouts import HUB, OPTIMUM
from onnxfn.weights.write import WriteOptions

Values = Mapping[str, Any]
"""The values of all flags, by the names of the parameters of the command."""


@frozen
class ExportRequest:
    """What the flags of the command `export` ask for.

    Attributes:
        job: What to export, and how.
        dry_run: Whether only the plan is printed.
        form: How much of the result is printed.
    """

    job: ExportJob
    dry_run: bool
    form: Form


def export_request(values: Values) -> ExportRequest:
    """What flags ask for. InvalidSpec or UnknownName for a value that no export can have."""
    layout = layout_name(values["layout"], values["library"])
    dtypes = tuple(our_dtype(name) for name in values["dtype"] or ())
    same = ("decoders", "adapter", "overwrite", "trust_remote_code", "dequantize")
    job = ExportJob(
        values["model"],
        values["out"],
        **{name: values[name] for name in same},
        check=chosen_check(values["check"], no_check=values["no_check"]),
        edits=spec_edits(values, spec_dtype(dtypes, layout)),
        dtypes=dtypes,
        build=build_options(values),
        write=WriteOptions(
            layout=cast("Any", layout),
            weight_storage=values["weights"],
            external_data_suffix=values["external_data_suffix"],
            alias=values["alias"],
        ),
        floors=parsed_floors("--floor", values["floor"] or ()),
    )
    return ExportRequest(job, values["dry_run"], result_form(json=values["json_"], verbose=values["verbose"]))


def spec_edits(values: Values, dtype: str) -> SpecEdits:
    """The edits of the spec that flags ask for; `dtype` is that of the spec."""
    same = (
        "task",
        "opset",
        "io_dtype",
        "atol",
        "rtol",
        "inputs_embeds",
        "monolith",
        "split",
        "shared_cache",
        "expanded_cache",
    )
    with_tolerance(EMPTY, atol=values["atol"], rtol=values["rtol"])  # its error says what a tolerance is
    return SpecEdits(
        **{name: values[name] for name in same},
        outputs=tuple(values["output"] or ()),
        inputs=tuple(values["with_input"] or ()),
        without=tuple(values["without"] or ()),
        names=tuple(values["rename"] or ()),
        adapter_inputs=tuple(values["adapter_input"] or ()),
        dtype=dtype,
        sizes=parsed_sizes("--size", values["size"] or ()),
        shapes=parsed_shapes("--shape", values["shape"] or ()),
    )


def build_options(values: Values) -> BuildOptions:
    """How graphs are built."""
    cache = None if values["no_template_cache"] else values["template_cache"] or default_cache_folder()
    find_repeats = trace_all_layers if values["trace_all"] else stacks_worth_a_proof
    return BuildOptions(find_repeats=find_repeats, template_cache=cache)


def layout_name(layout: str | None, library: str) -> str:
    """The layout of an export: what a flag says, else that of the programs that load the models of a library."""
    return layout or (OPTIMUM if library == "diffusers" else HUB)


def chosen_check(check: str | None, *, no_check: bool) -> CheckMode:
    """How files are checked, by two flags. InvalidSpec for both: `--no-check` is short for `--check none`."""
    if no_check and check is not None:
        raise InvalidSpec(f"--no-check is --check none, and --check {check} is another; leave out one of them")
    return check_mode(cast("CheckMode", check or not no_check))


def result_form(*, json: bool, verbose: bool) -> Form:
    """The form of the result that flags ask for. InvalidSpec for two forms."""
    if json and verbose:
        raise InvalidSpec("--json has everything, and --verbose is for text; leave out one of them")
    return "json" if json else "verbose" if verbose else "brief"
