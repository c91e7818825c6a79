"""The plan of an export, and where its files lie."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import evolve

from onnxfn.export.clients.side_files import with_remarks
from onnxfn.export.derive.candidate_inputs import processed_arguments
from onnxfn.export.derive.derive_sample import FROM_SAMPLE
from onnxfn.export.derive.sample_inputs import with_long_texts
from onnxfn.export.find.lookup import with_model_task
from onnxfn.export.publish.staging import Destination
from onnxfn.export.report.report_file import recorded
from onnxfn.export.run.runnable_images import image_sizes, moves_images, with_fixed_images, with_runnable_images
from onnxfn.models.dtypes import with_model_dtype
from onnxfn.specs.algebra.config_values import config_of
from onnxfn.specs.algebra.planned import Part, Plan
from onnxfn.specs.algebra.spec import ExportSpec, Target
from onnxfn.specs.conditions import range_of, read_conditions
from onnxfn.specs.edits.tensors import with_dtypes
from onnxfn.specs.errors import InvalidSpec, MissingValue
from onnxfn.specs.plan.planning import Decoders, plan
from onnxfn.specs.plan.real_inputs import left_out
from onnxfn.specs.plan.variants import checked_dtypes, variants_plan
from onnxfn.specs.stored.reports import Exported
from onnxfn.weights.layouts import LAYOUTS, Layout, dtype_of_stem, dtype_suffix, layout_in, onnx_folder, with_layout_io
from onnxfn.weights.onnx_files import metadata


def plan_of_variants(
    spec: ExportSpec, dtypes: Iterable[str], plan_with: Callable[[ExportSpec], Plan], layout: Layout
) -> Plan:
    """The plan of a spec in each of several dtypes; without dtypes, in that of the spec."""
    names = checked_dtypes(dtypes)
    if not names:
        return plan_with(with_layout_io(spec, layout))
    return variants_plan(
        lambda dtype: plan_with(with_layout_io(with_dtypes(spec, float=dtype), layout)), names, dtype_suffix
    )


def plan_for_destination(
    spec: ExportSpec,
    model: Any,
    config: Any,
    destination: Destination,
    layout: Layout,
    decoders: Decoders,
    dtypes: Iterable[str] = (),
) -> Plan:
    """The plan of a spec for a model; a single part is named after the file, if the destination is a file."""
    names = checked_dtypes(dtypes)
    values = (config_of(model) or {}) if config is None else config
    try:
        spec = with_model_task(spec, model)
        spec = spec if names else with_model_dtype(spec, model)
        planned = plan_of_variants(spec, names, lambda each: _plan_for_model(model, values, decoders, each), layout)
    except MissingValue as error:
        inner = next((name for name, module in model.named_modules() if name and config_of(module) is not None), None)
        if values or inner is None:
            raise
        name = type(model).__name__
        raise MissingValue(f"{error}; {name} has no configuration: pass config=model.{inner}.config") from error
    planned = with_remarks(planned, values, layout)
    if not destination.is_file:
        return planned
    if len(planned.parts) != 1:
        raise InvalidSpec(
            f"the export has {len(planned.parts)} files, {', '.join(planned.files)}; name a folder, not one file"
        )
    return evolve(planned, parts=(evolve(planned.parts[0], name=destination.path.stem),))


def _plan_for_model(model: Any, values: Any, decoders: Decoders, spec: ExportSpec) -> Plan:
    """The plan of a spec with facts that only the model shows: the sizes of its images, and omitted inputs."""
    planned = plan(spec, values, decoders=decoders)
    if without_inputs := next((part for part in planned.parts if not part.spec.inputs), None):
        raise InvalidSpec(
            f"{without_inputs.name} of {spec.name or 'this spec'} has no inputs; compose some: takes(...)"
        )
    if (spec.derived or "").endswith(FROM_SAMPLE):
        planned = evolve(planned, parts=[with_long_texts(model, each) for each in planned.parts])
    planned = with_runnable_images(model, planned)
    parameters, processed = processed_arguments(model)
    return evolve(planned, left_out=left_out(spec, planned, parameters, processed))


def planned_files(
    spec: ExportSpec,
    model: Any,
    exported: Exported | str | Path,
    config: Any,
    *,
    decoders: Decoders,
    dtypes: Iterable[str] = (),
) -> tuple[Path, Plan]:
    """The folder that holds the ONNX files of an export, and their plan, as from `plan_for_destination`."""
    destination = Destination(Path(exported.path if isinstance(exported, Exported) else exported))
    folder = destination.folder if destination.is_file else onnx_folder(destination.folder)
    if isinstance(exported, Exported):
        return folder, exported.plan
    if destination.is_file and not dtypes and with_model_dtype(spec, model).target == Target():
        dtypes = [each for each in (dtype_of_stem(destination.path.stem),) if each != "float32"]  # its name has it
    planned = plan_for_destination(spec, model, config, destination, layout_of_files(folder), decoders, dtypes)
    return folder, evolve(planned, parts=[_part_of_file(part, folder / f"{part.name}.onnx") for part in planned.parts])


def other_variants(folder: Path, plan: Plan) -> tuple[str, ...]:
    """The names of the ONNX files in a folder that are parts of a plan in dtypes that it does not have."""
    stems = {part.name.removesuffix(dtype_suffix(part.dtype)) for part in plan.parts}
    others = [file.stem for file in sorted(folder.glob("*.onnx")) if file.name not in plan.files]
    return tuple(f"{stem}.onnx" for stem in others if stem.removesuffix(dtype_suffix(dtype_of_stem(stem))) in stems)


def layout_of_files(folder: Path) -> Layout:
    """The layout of a folder that holds ONNX files, as the report of the export says; without one, from its name."""
    by_name = layout_in(folder)
    report = recorded(folder.parent if by_name.subfolder else folder)
    name = report.options.get("layout") if report else None
    return LAYOUTS[name] if isinstance(name, str) and name in LAYOUTS else by_name


def _part_of_file(part: Part, file: Path) -> Part:
    """The part, for images of one size if its file has one height or width, and the spec has no range of them."""
    if not moves_images(part) or not file.is_file():
        return part
    stated = read_conditions(metadata(file).get("onnxfn.limits", ""))
    is_fixed = any(low == high for low, high in (range_of(stated, side) for side in image_sizes(part.spec)))
    return with_fixed_images(part) if is_fixed else part
