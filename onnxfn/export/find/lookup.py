"""The spec of a model type, a configuration or a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve

from onnxfn.architectures import ARCHITECTURES
from onnxfn.architectures.families.heads import family_head
from onnxfn.export.derive import auto_tables
from onnxfn.export.derive.candidate_inputs import forward_parameters
from onnxfn.export.derive.derive import derive_from_model, keeps_cache, masked_by_eager, shown_by
from onnxfn.export.derive.derive_sample import derive_from_sample
from onnxfn.export.derive.probe import accepted, answer_tensors, outputs_spec
from onnxfn.export.find import written_tasks
from onnxfn.export.find.multimodal import multimodal_spec
from onnxfn.export.find.other_libraries import row_name
from onnxfn.export.load.class_tasks import OTHER_TASKS, class_name, loader_of, projected_class, served_tasks, task_of
from onnxfn.models.model_state import model_copy
from onnxfn.models.submodules import as_module, method_name
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.config_values import config_of, snapshot
from onnxfn.specs.algebra.facts import loads
from onnxfn.specs.algebra.spec import Call, ExportSpec, Parts
from onnxfn.specs.errors import InvalidSpec, UnknownName, listed, refuse_unknown, unknown
from onnxfn.specs.tasks.tasks import DEFAULT_TASK, TASKS, WITH_PAST, canonical, for_task, task_names

GENERATION_TASKS = (
    *("text-generation", "text2text-generation", "automatic-speech-recognition", "image-to-text"),
    "text-to-audio",
)
"""The tasks whose models generate token by token, or frame by frame."""

BY_MODEL = "pass the model or its configuration: spec_for(model, task); or onnxfn export CHECKPOINT OUT --dry-run"
"""What to do if a model type does not tell the spec."""


def spec_for(
    model_or_type: Any, task: str | None = None, *, architectures: Mapping[str, ExportSpec] | None = None
) -> ExportSpec:
    """The spec of a model type, a configuration or a model.

    A model type with a row in `architectures` has the spec of that row. So has a model type with the classes of a row:
    `exaone` has the classes of `llama`. If the row lacks the task, and transformers lists a class of the model type for
    it, the outputs come from the family of the row, or from a run of the model. A model or a configuration without a
    row has the spec that `derived` returns.

    Args:
        model_or_type: A model type as text (`"bert"`), a configuration (of transformers, or a dict), or a model.
        task: The name of a task, or a synonym. By default it is the task that the class name of the model implies,
            without a cache: `text-generation`; the command line takes `text-generation-with-past`. A text implies none.
        architectures: A table of rows, model type -> spec. None: ARCHITECTURES.

    Returns:
        The spec, for `task` if it is given or implied. Without a task it holds all tasks of the row: see `for_task`.

    Raises:
        UnknownName: A model type as text has no row; a configuration has no model type; the spec does not have `task`.
        InvalidSpec: A model or configuration has no row, and no spec can be derived from it; any other module needs
            `derived` with a sample. Or only a run shows the outputs of the task, and a model type cannot run.

    Example:
        >>> spec_for("bert", "fill-mask").task
        'fill-mask'
        >>> spec_for({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}).task
        'text-generation'
    """
    model_or_type = _without_wrapper(model_or_type)
    in_parts = written_tasks.stem_of(task) in written_tasks.TOWERS
    written = task if in_parts else written_tasks.written_task(model_or_type) if task is None else None
    if written is not None:
        return _in_parts(model_or_type, written)
    name = task or _task_to_derive(model_or_type)
    if written_tasks.reads_features(model_or_type, name):
        return _in_parts(model_or_type, name)
    if not has_row(model_or_type, architectures):
        return derived(model_or_type, name)
    spec = _row(model_or_type, architectures)
    model = None if isinstance(model_or_type, str) else model_or_type
    chosen = task or (None if model is None else _known_task(model, known_tasks(spec)))
    return spec if chosen is None else for_head(spec, chosen, model)


def derived(
    model_or_config: Any,
    task: str | None = None,
    *,
    sample: Any = None,
    axes: str | Mapping[str, str] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> ExportSpec:
    """The spec that follows from a model itself, without a row.

    The model runs on dummy inputs of several sizes. Its results show the outputs, the dynamic axes and the cache. The
    field `derived` of the spec records the origin. If a model refuses to run with a cache, its spec has none, and this
    field states the reason. Any other error of that run, such as MemoryError, propagates.

    Args:
        model_or_config: A model of transformers, or its configuration. With `sample`, any `nn.Module`, function of
            tensors, or `torch.export.ExportedProgram`.
        task: The task of the spec. By default it is the task that the class name implies, or feature-extraction.
        sample: The arguments of `forward`: a dict by name, a tuple by position, or the only one. Tensors and numpy
            arrays, also nested in dicts, tuples, lists, named tuples and dataclasses, are inputs of their dtypes; a
            nested tensor has a name with dots, `batch.ids`. Python numbers, texts, bools and None are constants of the
            graph. But a whole number with a word in `axes` is an input without axes: the size of that axis.
        axes: The axis pattern of tensors in `sample`: `{"x": "batch_size _ width"}`. `_` is an axis with the size that
            it has in the sample. A tensor without a pattern has one dynamic axis: the first, `batch_size`. A text is
            the pattern of the only tensor.
        ranges: The values that a tensor of numbers may have: `{"ids": (0, 300)}` are 0 to 299. Without a range, dummies
            go beyond the sample: integers over what they index, a mask of ones gets zeros, real numbers other scales.
            The spec shows each range, and whether it was given, found or assumed.

    Returns:
        The spec, for one task. With `sample` and no `task` it is for no task.

    Raises:
        InvalidSpec: The model accepts no known inputs, does not run on tensors like the sample, or lacks a cache.
        UnknownName: The sample has an argument that `forward` lacks, the task is unknown, or the derived spec lacks it.

    Example:
        >>> import torch
        >>> derived(torch.nn.Linear(4, 2), sample={"input": torch.ones(3, 4)}).outputs[0].name
        'output'
    """
    if sample is not None:
        method = method_name(model_or_config)
        return derive_from_sample(as_module(model_or_config), sample, axes or {}, ranges or {}, task, method)
    model_or_config = _without_wrapper(model_or_config)
    name = task or _task_to_derive(model_or_config)
    loader_of(name)  # raises UnknownName for an unknown task
    return shown_by(model_or_config, name, lambda model: derive_from_model(model, name))


def tasks_for(model_or_type: Any, *, architectures: Mapping[str, ExportSpec] | None = None) -> tuple[str, ...]:
    """The tasks of a model type, a configuration, a model or a spec.

    Args:
        model_or_type: A model type as text, a configuration (of transformers, or a dict), a model, or a spec.
        architectures: A table of rows, model type -> spec. None: ARCHITECTURES.

    Returns:
        The canonical names of the tasks of the row, then those that the tables of transformers' auto classes list.

    Raises:
        UnknownName: A model type as text has no row and transformers no class, or a configuration has no model type.

    Example:
        >>> tasks_for("splinter")
        ('feature-extraction', 'question-answering')
    """
    if isinstance(model_or_type, ExportSpec):
        return task_names(model_or_type)
    model_or_type = _without_wrapper(model_or_type)
    model_type = _model_type(model_or_type)
    row, listed = _row_or_none(model_or_type, architectures), written_tasks.possible_tasks(model_type)
    if row is None and (listed or not isinstance(model_or_type, str)):
        return listed
    return known_tasks(row or _row(model_or_type, architectures))


def has_row(model_or_type: Any, architectures: Mapping[str, ExportSpec] | None = None) -> bool:
    """Whether a table has a row for a configuration or a model. True for every model type that is given as text."""
    return isinstance(model_or_type, str) or _row_or_none(model_or_type, architectures) is not None


def checkpoint_task(model_or_config: Any, *, architectures: Mapping[str, ExportSpec] | None = None) -> str | None:
    """The task of a checkpoint, by the class name in its configuration, with past if it can be; else None."""
    if written := written_tasks.written_task(model_or_config):
        return f"{written}{WITH_PAST}"
    if not has_row(model_or_config, architectures):
        task = _task_to_derive(model_or_config)
        return f"{task}{WITH_PAST}" if task in GENERATION_TASKS and keeps_cache(model_or_config, task) else task
    known = tasks_for(model_or_config, architectures=architectures)
    class_task = _known_task(model_or_config, known)
    has_past = class_task in GENERATION_TASKS and f"{class_task}{WITH_PAST}" in known
    return f"{class_task}{WITH_PAST}" if has_past else class_task


def loader_spec(config: Any, task: str | None) -> ExportSpec:
    """A spec with the loader of a checkpoint without a row: that of `task`, or of the class in its configuration."""
    values = snapshot(config)
    if task is not None:
        # The text half of a multimodal model is loaded with the whole if transformers has no class for that half.
        of_text = {"text-generation": ("text-generation", written_tasks.SEES, written_tasks.SEES_AND_HEARS)}
        tasks = {**written_tasks.LISTED, **of_text}.get(written_tasks.stem_of(task), (canonical(task),))
        listed = (auto_tables.listed_loader(str(values.get("model_type")), each) for each in tasks)
        return ExportSpec(task=task, call=Call(loader=next(filter(None, listed), None) or loader_of(task)))
    class_name = next(iter(values.get("architectures") or ()), None)
    loaders = {path.rpartition(".")[2]: loader for loader, path in (values.get("auto_map") or {}).items()}
    return ExportSpec(call=Call(loader=loaders.get(class_name, class_name)))


def _in_parts(model_or_type: Any, task: str) -> ExportSpec:
    """The spec of a model that sees or hears and writes, in parts; a configuration is enough."""
    if isinstance(model_or_type, (str, Mapping)):
        model_type, known = _model_type(model_or_type), tasks_for(model_or_type)
        refuse_unknown("task", task, known, of=model_type)
        raise InvalidSpec(f"{model_type} is written in parts, which a run of its language model shows; {BY_MODEL}")
    return shown_by(model_or_type, task, lambda model: multimodal_spec(model, task))


def with_model_task(spec: ExportSpec, model: Any) -> ExportSpec:
    """The spec for the task of the model's class, if it has no task yet; one with outputs of its own needs none."""
    if spec.task is None and spec.tasks:
        return _for_class_task(spec, model)
    class_task = task_of(model)
    if spec.task is not None and class_task is not None:
        name = canonical(spec.task).removesuffix(WITH_PAST)
        if name not in served_tasks(class_task) and not auto_tables.is_listed(class_name(model), name):
            own = written_tasks.written_task(model) or class_task
            problem = f"{class_name(model)} is a model for {own}, not for {spec.task}"
            raise InvalidSpec(f"{problem}; {_advice(spec, _model_type(model), name, own)}")
    return spec


def _for_class_task(spec: ExportSpec, model: Any) -> ExportSpec:
    class_task = task_of(model)
    if class_task is not None:
        return for_head(spec, _known_task(model, known_tasks(spec)) or class_task, model)
    if spec.outputs:
        return evolve(spec, tasks=())
    if len(spec.tasks) == 1:
        return for_task(spec, spec.tasks[0].name)
    raise InvalidSpec(
        f"the class name {type(model).__name__} implies no task; choose one of {listed(task_names(spec))}: "
        "for_task(spec, task)"
    )


def _advice(spec: ExportSpec, model_type: str, name: str, class_task: str) -> str:
    """The advice for a model with another task than the spec: how to load it, or its spec."""
    if spec.name in ARCHITECTURES and spec.name != model_type:
        return f"the spec is for {spec.name}, and the model is {model_type}: write spec_for(model)"
    loader = auto_tables.listed_loader(model_type, name)
    known = class_task in known_tasks(spec)
    other = f"export it for {class_task}" if known else f"write spec_for(model), which is for {class_task}"
    return f"load it with {loader}, or {other}" if loader else other


def _known_task(model_or_config: Any, known: tuple[str, ...]) -> str | None:
    return next((task for task in served_tasks(task_of(model_or_config)) if task in known), None)


def _task_to_derive(model_or_config: Any) -> str:
    """The task to derive a spec for. A class for several tasks is a decoder, unless it is an encoder-decoder."""
    task = task_of(model_or_config) or DEFAULT_TASK
    may_be_decoder = "text-generation" in OTHER_TASKS.get(task, ())
    return "text-generation" if may_be_decoder and not snapshot(model_or_config).get("is_encoder_decoder") else task


def _without_wrapper(model_or_type: Any) -> Any:
    """The module inside `torch.compile` and `DataParallel`; InvalidSpec for one that needs a sample."""
    module = as_module(model_or_type) if hasattr(model_or_type, "forward") else model_or_type
    if callable(module) and not isinstance(module, ExportSpec) and config_of(module) is None:
        raise InvalidSpec(
            f"{type(module).__name__} is not a model of transformers; derive the spec from sample arguments: "
            "derived(model, sample={name: tensor})"
        )
    return module


def _row(model_or_type: Any, architectures: Mapping[str, ExportSpec] | None) -> ExportSpec:
    row = _row_or_none(model_or_type, architectures)
    if row is None:
        model_type = _model_type(model_or_type)
        tasks = written_tasks.possible_tasks(model_type)
        rows = ARCHITECTURES if architectures is None else architectures
        derived_for = f"{model_type} has no row: its spec, for {listed(tasks)}, is derived from the model"
        raise UnknownName(f"{derived_for if tasks else unknown('model type', model_type, rows)}; {BY_MODEL}")
    return row


def _row_or_none(model_or_type: Any, architectures: Mapping[str, ExportSpec] | None) -> ExportSpec | None:
    rows = ARCHITECTURES if architectures is None else architectures
    return auto_tables.row_of(_model_type(model_or_type), rows, model_or_type)


def _model_type(model_or_config: Any) -> str:
    """The model type of a model or a configuration; a text is one itself."""
    if isinstance(model_or_config, str):
        return model_or_config
    model_type = row_name(model_or_config) or snapshot(model_or_config).get("model_type")
    if not model_type:
        name = type(model_or_config).__name__
        raise UnknownName(f"{name} has no model_type; compose a spec for it, or pass a model type as text")
    return str(model_type)


def known_tasks(row: ExportSpec) -> tuple[str, ...]:
    """The tasks of a row, then those for which transformers lists a class of its model type."""
    return tuple(dict.fromkeys((*task_names(row), *written_tasks.possible_tasks(row.name or ""))))


def for_head(row: ExportSpec, task: str, model_or_config: Any = None) -> ExportSpec:
    """The spec of a row for a task of its own, or that transformers lists. UnknownName, InvalidSpec without model."""
    name, projected = canonical(task), projected_class(model_or_config)
    if row.task is not None or name in task_names(row):
        return _projected(for_task(row, task), projected)
    known = known_tasks(row)
    if name not in known and not auto_tables.is_listed(type(model_or_config).__name__, name):
        raise unknown("task", task, known, of=row.name or "this spec")
    head = _same_head(row, name) or family_head(row, name)
    loader = loads(projected or auto_tables.listed_loader(row.name or "", name) or "AutoModel")
    if head is not None:
        return compose(for_task(compose(row, head), name), loader)
    if model_or_config is None:
        raise InvalidSpec(
            f"a run of the model shows the outputs of {name} of {row.name}; "
            f"pass the model or its configuration: spec_for(model, {name!r})"
        )
    return compose(shown_by(model_or_config, name, lambda model: _shown_by_model(row, model, name)), loader)


def _projected(spec: ExportSpec, name: str | None) -> ExportSpec:
    """The spec for a class that projects embeddings, if there is one: it returns them in place of `pooler_output`."""
    pooled = next((output for output in spec.outputs if output.name == "pooler_output"), None)
    if pooled is None or name is None:
        return spec
    kind = next((kind for part, kind in (("Vision", "image"), ("Audio", "audio")) if part in name), "text")
    others = (output for output in spec.outputs if output is not pooled)
    return compose(evolve(spec, outputs=(evolve(pooled, name=f"{kind}_embeds"), *others)), loads(name))


def _same_head(row: ExportSpec, task: str) -> ExportSpec | None:
    """The spec of a task with the class of a task of the row: of a single file, or feature-extraction; else None."""
    classes = auto_tables.listed_classes(row.name or "", task)
    for overlay in row.tasks:
        is_same = auto_tables.loaded_classes(row.name or "", overlay.spec.call.loader) == classes
        single_file = not overlay.spec.parts.files
        if is_same and (single_file or task == DEFAULT_TASK) and not overlay.name.endswith(WITH_PAST):
            return ExportSpec(tasks=(evolve(overlay, name=task),))
    return None


def _shown_by_model(row: ExportSpec, model: Any, task: str) -> ExportSpec:
    """The spec with inputs of the row on which the model runs, and the outputs of the run; else a derived spec."""
    copy = model_copy(model)
    arguments = forward_parameters(copy).keys()
    # `**kwargs` takes inputs that the model never reads, such as those of an encoder.
    read = (spec for spec in _possible_inputs(row) if arguments >= {input_.forward_path[0] for input_ in spec.inputs})
    for inputs, runs in accepted(copy, read, answer_tensors, []):
        outputs = outputs_spec(runs).outputs
        usual = {output.name for output in TASKS[task].outputs if not projected_class(model)}
        chosen = tuple(output for output in outputs if output.name in usual) or outputs
        if chosen:
            source = f"{type(model).__name__} with the inputs of the row; task {task}"
            return compose(evolve(inputs, task=task, outputs=chosen, derived=source), masked_by_eager(copy))
    return compose(ExportSpec(call=Call(patches=row.call.patches)), derive_from_model(model, task))


def _possible_inputs(row: ExportSpec) -> Iterator[ExportSpec]:
    """The row without tasks and outputs; then the row for each of its tasks and of its behaviors, likewise."""
    tasks = (for_task(row, task) for task in task_names(row))
    behaviors = (compose(row, overlay.spec) for overlay in row.parts.behaviors)
    for spec in (row, *(spec for spec in tasks if not spec.parts.files), *behaviors):
        if spec.inputs:
            yield evolve(spec, task=None, tasks=(), outputs=(), parts=Parts(), call=evolve(spec.call, submodule=None))
