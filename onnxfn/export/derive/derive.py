"""A spec that is derived from the model itself: from its `forward`, its main input, its head, its cache."""

import re
import sys
from collections.abc import Callable, Sequence
from linecache import getlines
from typing import Any

from attrs import evolve

from onnxfn.export.derive import candidate_inputs as possible
from onnxfn.export.derive.auto_tables import listed_model, listed_tasks
from onnxfn.export.derive.derive_sample import HOW_TO_SPECIFY
from onnxfn.export.derive.known_inputs import INPUT_FORMS
from onnxfn.export.derive.probe import Run, accepted, answer_tensors, outputs_spec, run, summary
from onnxfn.export.load.class_tasks import projected_class
from onnxfn.models.model_state import model_copy
from onnxfn.models.torch_modes import quiet, shapes_alone
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.config_values import snapshot
from onnxfn.specs.algebra.facts import always
from onnxfn.specs.algebra.spec import Call, ExportSpec
from onnxfn.specs.errors import (
    InvalidSpec,
    MissingValue,
    OnnxfnError,
    PatchFailed,
    UnknownName,
    listed,
    raise_no_memory,
    unknown,
)
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.tasks.tasks import TASKS, WITH_PAST, canonical, for_task, task_names


def derive_from_model(model: Any, task: str, *, of_texts: bool = False) -> ExportSpec:
    """The spec of a model for a task, from runs on dummies. InvalidSpec without known inputs or cache, UnknownName."""
    name = canonical(task).removesuffix(WITH_PAST)
    model = model_copy(model)
    inputs, runs = _accepted_inputs(model, of_texts=of_texts)
    base = compose(ExportSpec(name=model.config.model_type), masked_by_eager(model), inputs)
    result, refusal = _result_with_cache(model, base, name)
    known = possible.spec_with_cache(model, base, result, name)
    if known is None or not _has_head(known, runs, canonical(task)):
        known = _spec_without_cache(model, base, name, runs)
    spec = _for_task(model, known, task, refusal)
    return compose(spec, ExportSpec(derived=_provenance(model, inputs, spec, refusal)))


def shown_by(model_or_config: Any, task: str, spec_of: Callable[[Any], ExportSpec]) -> ExportSpec:
    """`spec_of` a model, or of the model without values that a configuration describes. InvalidSpec without one."""
    import torch

    config = model_or_config
    if hasattr(config, "forward"):
        return spec_of(config)
    if not hasattr(config, "to_dict"):
        raise InvalidSpec(
            f"a {type(config).__name__} names no class of transformers to derive a spec from; "
            "pass the model: spec_for(model)"
        )
    errors = []
    # Fake tensors pass checks of the device, which a model may make; meta tensors accept more operators.
    for no_values in (shapes_alone(), torch.device("meta")):
        try:
            with quiet(), no_values:
                return spec_of(listed_model(config, task))
        except PatchFailed:
            raise
        except Exception as error:  # noqa: BLE001 - a model may raise anything when its tensors have no values
            raise_no_memory(error)
            errors.append(summary(error))
    raise InvalidSpec(
        f"no spec could be derived from {type(config).__name__} without weights: {errors[-1]}; "
        f"load the model and pass it: spec_for(model, {task!r})"
    )


def keeps_cache(model_or_config: Any, task: str) -> bool:
    """Whether a spec with a cache can be derived from a model, or from a configuration, for a task."""
    with_past = f"{task}{WITH_PAST}"
    try:
        shown_by(model_or_config, with_past, lambda model: derive_from_model(model, with_past))
    except (InvalidSpec, UnknownName):
        return False
    return True


def _accepted_inputs(model: Any, *, of_texts: bool) -> tuple[ExportSpec, tuple[Run, ...]]:
    """The first candidate inputs on which the model runs and returns tensors, and these runs."""
    errors: list[Exception] = []
    candidates = () if possible.unknown_arguments(model) else possible.candidate_inputs(model, of_texts=of_texts)
    for inputs, runs in accepted(model, candidates, answer_tensors, errors):
        if outputs_spec(runs).outputs:
            return inputs, runs
    raise _not_derivable(model, errors)


def _spec_without_cache(model: Any, base: ExportSpec, task: str, runs: Sequence[Run]) -> ExportSpec:
    """The spec of `base` with the outputs of a task; with all if the model has none of them, or projects embeddings."""
    wanted = {output.name for output in TASKS.get(task, ExportSpec()).outputs if not projected_class(model)}
    # A tower that takes the patches of all images merges them: a language model reads the merged patches.
    wanted |= {"pooler_output"} if any(input_.name == "grid_thw" for input_ in base.inputs) else set()
    # Grounding DINO returns its own `input_ids`, too: a graph has one tensor of a name.
    taken = {input_.name for input_ in base.inputs}
    outputs = tuple(output for output in outputs_spec(runs).outputs if output.name not in taken)
    chosen = tuple(output for output in outputs if output.name in wanted)
    return evolve(compose(base, TASKS.get(task, ExportSpec())), task=task, outputs=chosen or outputs)


def _result_with_cache(model: Any, base: ExportSpec, task: str) -> tuple[Any, str]:
    """The result of `forward` with a cache and "", or None and why the model refuses a cache, "" if it has none."""
    cached = ("feature-extraction", "text-generation", "text2text-generation", possible.SEES)
    if task not in cached or not _takes_cache(model):
        return None, ""
    spec = resolved(compose(base, always(use_cache=True)), snapshot(model))
    try:
        return run(model, spec), ""
    except OnnxfnError:
        raise  # InvalidSpec is a ValueError, and none of the model's
    except (TypeError, ValueError, NotImplementedError) as error:  # others, as out of memory, are no refusal
        # torch raises NotImplementedError when a model reads the values of a meta tensor.
        if isinstance(error, NotImplementedError) and any(tensor.is_meta for tensor in model.parameters()):
            raise
        return None, summary(error)


def _takes_cache(model: Any) -> bool:
    """Whether `forward` takes a cache of transformers, not of another class."""
    from transformers import Cache

    parameter = possible.forward_parameters(model).get("past_key_values")
    if parameter is None:
        return False
    module = sys.modules[type(model).__module__]
    kinds = [getattr(module, name, Cache) for name in re.findall(r"\w*Cache\b", str(parameter.annotation))]
    return not kinds or any(issubclass(kind, Cache) for kind in kinds)


def _has_head(spec: ExportSpec, runs: Sequence[Run], task: str) -> bool:
    """Whether a spec with a cache is for the head of a model that ran, by its task and its outputs."""
    # For feature-extraction, transformers lists classes that return logits alone where a type has no other class.
    if task not in task_names(spec):
        return task not in listed_tasks(spec.name or "")
    returned = {output.name for output in outputs_spec(runs).outputs}
    return not returned.isdisjoint(output.name for output in for_task(spec, task).outputs)


def _for_task(model: Any, spec: ExportSpec, task: str, refusal: str) -> ExportSpec:
    """The spec for a task that it has; else UnknownName, or InvalidSpec if the task needs a cache."""
    model_name = type(model).__name__
    if spec.task is None:
        if canonical(task) not in task_names(spec):
            raise unknown("task", task, task_names(spec), of=f"the spec derived from {model_name}")
        return evolve(for_task(spec, task), tasks=())
    if spec.task != canonical(task):
        reason = f"; it does not run with a cache: {refusal}" if refusal else ""
        raise InvalidSpec(f"{model_name} returns no cache that onnxfn knows, so it has no task {task}{reason}")
    return spec


def _provenance(model: Any, inputs: ExportSpec, spec: ExportSpec, refusal: str) -> str:
    """The origin of a derived spec: the inputs, known arguments that are not inputs, the task, the cache."""
    parameters = possible.forward_parameters(model)
    used = {input_.forward_path[0] for input_ in (*inputs.inputs, *spec.inputs)}
    unused = [name for name in INPUT_FORMS if name in parameters and name not in used]
    states = ", ".join(row.name for row in spec.cache.rows)
    clauses = (
        f"{type(model).__name__}.forward({', '.join(name for name in parameters if name in used)})",
        f"without {', '.join(unused)}" if unused else "",
        f"task {spec.task}",
        f"a cache of {states}" if states else "",
        spec.call.attention and f"attention {spec.call.attention}: with sdpa it is causal only for texts with padding",
        f"no cache: {refusal}" if refusal else "",
    )
    return "; ".join(filter(None, clauses))


def _not_derivable(model: Any, errors: Sequence[Exception]) -> InvalidSpec:
    """The error for a model that accepts no known inputs. It shows the first error other than a missing value."""
    if getattr(model.forward, "__name__", "") == "_forward_unimplemented":  # the one of torch
        return InvalidSpec(f"{type(model).__name__} has no forward: derive a spec from a model inside it")
    not_known = possible.unknown_arguments(model)
    model_errors = [error for error in errors if not isinstance(error, MissingValue)] or list(errors)
    parameters = listed(possible.forward_parameters(model), most=8)
    clauses = (
        f"no spec could be derived from {type(model).__name__}: forward takes {parameters}",
        f", of which {listed(not_known)} is not known" if not_known else "",
        f"; tried in {len(errors)} forms, first: {summary(model_errors[0])}" if model_errors else "",
        f"; {HOW_TO_SPECIFY}",
    )
    return InvalidSpec("".join(clauses))


CAUSAL = re.compile(r"is_causal(: bool)? ?= ?True|[\"']is_causal[\"']|self\.is_causal = is_causal")
"""Source text by which a module of transformers makes some attention causal, regardless of its configuration."""


def masked_by_eager(model: Any) -> ExportSpec:
    """The attention `eager` for a model that relies on a causal mask while its layers have `is_causal=False`."""
    # With sdpa, transformers leaves that mask out when no text has padding; no graph can be causal only with padding.
    is_causal: dict[str, set[bool]] = {}
    for module in model.modules():
        if isinstance(getattr(module, "is_causal", None), bool):
            is_causal.setdefault(type(module).__module__, set()).add(module.is_causal)
    modules = [sys.modules[name] for name, values in is_causal.items() if values == {False}]
    masked = [module for module in modules if hasattr(module, "create_causal_mask")]
    # No lines in an application without sources.
    sources = ("".join(getlines(getattr(module, "__file__", ""), vars(module))) for module in masked)
    is_masked = any(not CAUSAL.search(source) for source in sources)
    return ExportSpec(call=Call(attention="eager")) if is_masked else ExportSpec()
