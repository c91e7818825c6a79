"""A spec from the model itself: its `forward`, its main input, its head, what it keeps, its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import product as combinations
from typing import Any

from attrs import evolve

from onnxfn.architectures.common_patches import (
    FUNCTION_PATCHES,
    batched_experts,
    function_patch,
    linear_attention_cache,
)
from onnxfn.architectures.families import positions, seq2seq, source, text_decoder, text_seq2seq, written
from onnxfn.architectures.families.text import text_dummies, text_reads
from onnxfn.export.lookup.known_inputs import CONFIG_KEYS, INPUT_FORMS
from onnxfn.export.lookup.probe import Run, all_tensors, answer_tensors, cache_spec, outputs_spec, run, run_at_sizes
from onnxfn.export.lookup.sample_inputs import sample_inputs
from onnxfn.graphs.capture.quiet import quiet
from onnxfn.specs.compose import compose
from onnxfn.specs.edits.caches import CACHES
from onnxfn.specs.errors import InvalidSpec, MissingValue, UnknownName, first_line, listed, unknown
from onnxfn.specs.facts import always
from onnxfn.specs.getters import constant, reads, snapshot
from onnxfn.specs.plan.planning import resolved
from onnxfn.specs.records import ExportSpec, State
from onnxfn.specs.tasks import TASKS, WITH_PAST, canonical, for_task, task_names

CACHE_TASKS = ("feature-extraction", "text-generation", "text2text-generation")
"""The tasks of models that keep a cache, texts in and texts out."""

SEQ2SEQ_INPUTS = ("input_ids", "attention_mask", "decoder_input_ids")
"""What a model takes that reads a text and writes another."""

DECODER_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""All that a model takes that reads a text and goes on with it."""

COMMON_SPEC = compose(text_dummies, text_reads, CONFIG_KEYS)


def derive_from_model(model: Any, task: str) -> ExportSpec:
    """The spec of a model of transformers for a task, from the model itself, which is run on dummies for it.

    InvalidSpec when no inputs that are known answer; it says what was tried, and how to say a spec oneself.
    """
    name = canonical(task).removesuffix(WITH_PAST)
    inputs, runs = _accepted_inputs(model)
    base = compose(ExportSpec(name=model.config.model_type), _known_patches(model), inputs)
    made = _spec_with_cache(model, base, name) or evolve(
        compose(base, TASKS.get(name, ExportSpec())), task=name, outputs=_task_outputs(name, outputs_spec(runs)).outputs
    )
    if made.task is None and canonical(task) not in task_names(made):
        raise unknown("task", task, task_names(made), of=f"the spec derived from {type(model).__name__}")
    if made.task is not None and made.task != canonical(task):
        raise InvalidSpec(f"{type(model).__name__} keeps nothing between calls that is known, so there is no {task}")
    chosen = made if made.task else evolve(for_task(made, task), tasks=())
    return compose(chosen, ExportSpec(derived=_provenance(model, inputs, chosen)))


def derive_from_sample(model: Any, sample: Mapping[str, Any], axes: Mapping[str, str], task: str | None) -> ExportSpec:
    """The spec of any module that takes tensors like these; it is run on such, and gives what it gives."""
    name = type(model).__name__
    known = forward_parameters(model)
    for one in sample:
        if one not in known:
            raise unknown("argument", one, known, of=f"the forward of {name}")
    base = compose(ExportSpec(name=name, task=task), sample_inputs(sample, axes))
    try:
        runs = run_at_sizes(model, resolved(base, {}), all_tensors)
    except Exception as problem:
        raise InvalidSpec(
            f"{name} does not answer to tensors like this sample: {_summary(problem)}; say in `axes` what moves"
        ) from problem
    return compose(base, outputs_spec(runs), ExportSpec(derived=f"{name}.forward({', '.join(sample)}), by a sample"))


def derive_from_config(config: Any, task: str) -> ExportSpec:
    """The spec of the model that a configuration of transformers makes for a task, without its weights.

    InvalidSpec when transformers has no such model, or it looks at numbers while it runs.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    if not hasattr(config, "to_dict"):
        raise InvalidSpec(f"a {type(config).__name__} says no class of transformers; pass the model: spec_for(model)")
    problems = []
    # Tensors of shapes alone: the first kind passes for real where a model asks, the second is not asked as much.
    for shapes in (FakeTensorMode(), torch.device("meta")):
        try:
            with quiet(), shapes:
                return derive_from_model(_model_without_weights(config, task), task)
        except Exception as problem:  # noqa: BLE001 - whatever a model says to tensors without numbers
            problems.append(_summary(problem))
    raise InvalidSpec(
        f"no spec could be derived from {type(config).__name__} without weights: {problems[-1]}; "
        f"load the model and pass it: spec_for(model, {task!r})"
    )


def keeps_cache(model: Any, task: str) -> bool:
    """Whether a model keeps what a next call for this task goes on from."""
    try:
        derive_from_model(model, f"{task}{WITH_PAST}")
    except (InvalidSpec, UnknownName):
        return False
    return True


def loader_of(task: str) -> str:
    """The class of transformers that loads models for a task."""
    return TASKS.get(canonical(task).removesuffix(WITH_PAST), ExportSpec()).loader or "AutoModel"


def _model_without_weights(config: Any, task: str) -> Any:
    import transformers

    return getattr(transformers, loader_of(task)).from_config(config)


def loadable_tasks(it: Any) -> tuple[str, ...]:
    """The tasks that transformers has a class for, of the model type of a model or a configuration."""
    import transformers

    kind = type(getattr(it, "config", it))
    loaders = {name: getattr(transformers, spec.loader or "", None) for name, spec in TASKS.items()}
    return tuple(name for name, loader in loaders.items() if kind in getattr(loader, "_model_mapping", ()))


def forward_parameters(model: Any) -> Mapping[str, inspect.Parameter]:
    """What the `forward` of a model takes by name."""
    every = inspect.signature(model.forward).parameters.items()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: one for name, one in every if one.kind in named}


def _accepted_inputs(model: Any) -> tuple[ExportSpec, tuple[Run, ...]]:
    """The first inputs that the model answers to, and what it then gives."""
    problems: list[Exception] = []
    for tried in () if _unknown_arguments(model) else _candidate_inputs(model):
        try:
            runs = run_at_sizes(model, resolved(tried, snapshot(model)), answer_tensors)
        except Exception as problem:  # noqa: BLE001 - whatever a model says to inputs that are not its own
            problems.append(problem)
            continue
        if outputs_spec(runs).outputs:
            return tried, runs
    raise _not_derivable(model, problems)


def _candidate_inputs(model: Any) -> Iterator[ExportSpec]:
    """What the model may take: its main input and what it requires, then all that is known, in every form."""
    names = forward_parameters(model)
    known = [name for name in INPUT_FORMS if name in names]
    main = getattr(model, "main_input_name", None)
    needed = [name for name in known if name == main or names[name].default is inspect.Parameter.empty]
    writes = "decoder_input_ids" in names
    for group in filter(None, dict.fromkeys((tuple(needed or known[:1]), tuple(known)))):
        for forms in combinations(*(INPUT_FORMS[name] for name in group)):
            if writes and group == ("input_ids",):
                yield _restricted_to(compose(seq2seq, CONFIG_KEYS, source, written), names)
            if writes:
                yield _restricted_to(compose(seq2seq, COMMON_SPEC, *forms, written), names)
            yield _restricted_to(compose(COMMON_SPEC, *forms), names)


def _unknown_arguments(model: Any) -> list[str]:
    """What the `forward` of a model requires and nobody here has heard of."""
    known = {one.place[0] for forms in INPUT_FORMS.values() for form in forms for one in form.inputs}
    required = (name for name, one in forward_parameters(model).items() if one.default is inspect.Parameter.empty)
    return [name for name in required if name not in known]


def _restricted_to(spec: ExportSpec, names: Collection[str]) -> ExportSpec:
    """The spec of what a `forward` with these names takes; one that may keep a cache is told not to."""
    quietly = always(use_cache=False) if {"use_cache", "past_key_values"} & set(names) else ExportSpec()
    spec = compose(spec, always(return_dict=True), quietly)
    return evolve(spec, inputs=tuple(one for one in spec.inputs if one.place[0] in names))


def _task_outputs(task: str, given: ExportSpec) -> ExportSpec:
    """Of what a model gives, what its task asks for; all, where it gives nothing of that name."""
    told = {one.name for one in TASKS.get(task, ExportSpec()).outputs}
    chosen = tuple(one for one in given.outputs if one.name in told)
    return evolve(given, outputs=chosen or given.outputs)


def _spec_with_cache(model: Any, base: ExportSpec, task: str) -> ExportSpec | None:
    """The spec of a model that keeps a cache of transformers, as its family takes and gives it, if it does."""
    if task not in CACHE_TASKS or "past_key_values" not in forward_parameters(model):
        return None
    try:
        result = run(model, resolved(compose(base, always(use_cache=True)), snapshot(model)))
    except Exception:  # noqa: BLE001 - a model that cannot keep is a model that does not
        return None
    cache = getattr(result, "past_key_values", None)
    if hasattr(cache, CACHES["encoder"]):
        return _seq2seq_spec(base, result, cache) if tuple(one.name for one in base.inputs) == SEQ2SEQ_INPUTS else None
    states, inputs = cache_spec(cache).states, {one.name for one in base.inputs}
    return _decoder_spec(model, base, states) if states and "input_ids" in inputs <= DECODER_INPUTS else None


def _decoder_spec(model: Any, base: ExportSpec, states: tuple[State, ...]) -> ExportSpec:
    numbered = positions if "position_ids" in forward_parameters(model) else ExportSpec()
    recurrent = linear_attention_cache if any(not row.taken.startswith("past_key") for row in states) else ExportSpec()
    family = compose(text_decoder, CONFIG_KEYS, numbered, ExportSpec(name=base.name, patches=base.patches), recurrent)
    return evolve(family, states=states)


def _seq2seq_spec(base: ExportSpec, result: Any, cache: Any) -> ExportSpec:
    own = getattr(cache, CACHES["decoder"]).layers
    _, heads, _, size = own[0].keys.shape
    told = reads(
        hidden_size=constant(result.encoder_last_hidden_state.shape[-1]),
        decoder_num_layers=constant(len(own)),
        decoder_num_attention_heads=constant(heads),
        decoder_head_dim=constant(size),
    )
    return compose(text_seq2seq, CONFIG_KEYS, told, ExportSpec(name=base.name, patches=base.patches))


def _known_patches(model: Any) -> ExportSpec:
    """What is known to be replaced, of what the module of the model's class has."""
    module = import_module(type(model).__module__)
    repeated = (function_patch(module.__name__, name) for name in FUNCTION_PATCHES if hasattr(module, name))
    return compose(batched_experts, *repeated)


def _provenance(model: Any, base: ExportSpec, spec: ExportSpec) -> str:
    """What a spec was derived from: what it takes, what else that is known it does not, for what, and what it keeps."""
    heard = {one.place[0] for one in (*base.inputs, *spec.inputs)}
    left = [name for name in INPUT_FORMS if name in forward_parameters(model) and name not in heard]
    rows = ", ".join(row.name for row in spec.states)
    words = (
        f"{type(model).__name__}.forward({', '.join(name for name in forward_parameters(model) if name in heard)})",
        f"without {', '.join(left)}" if left else "",
        f"task {spec.task}",
        f"a cache of {rows}" if rows else "",
    )
    return "; ".join(filter(None, words))


def _not_derivable(model: Any, problems: Sequence[Exception]) -> InvalidSpec:
    """The error for a model that answered to nothing; what it said first to inputs that could be made tells most."""
    name, unheard = type(model).__name__, _unknown_arguments(model)
    told = [problem for problem in problems if not isinstance(problem, MissingValue)] or list(problems)
    which = f", of which {listed(unheard)} is not known" if unheard else ""
    tried = f"; tried in {len(problems)} forms, first: {_summary(told[0])}" if told else ""
    takes = listed(forward_parameters(model), most=8)
    return InvalidSpec(f"no spec could be derived from {name}: forward takes {takes}{which}{tried}; {HOW_TO_SPECIFY}")


HOW_TO_SPECIFY = "say it yourself: derived(model, sample={name: tensor}), or compose(takes(...), gives(...))"


def _summary(problem: BaseException) -> str:
    """The type of an error and the first line of its message, at most 160 characters."""
    return f"{type(problem).__name__}: {first_line(problem)}"[:160]
