"""What the quantized files of a model that sees or hears are worth together, run one after the other.

Rounding does not explain what they lose, so no tolerance judges them. Each file has floors of its own. The logits of
the whole model for random prompts have the floor of random cases, so that an error between the files shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from attrs import evolve, frozen

from onnxfn.check.texts.decoded_texts import NEW_TOKENS
from onnxfn.check.texts.greedy_tokens import other_tokens
from onnxfn.check.texts.token_choices import ordinary_logits
from onnxfn.check.variants.measures import MEASURES, cosine_of
from onnxfn.check.variants.proof import Proof, floor_of
from onnxfn.check.wholes.joined_parts import (
    Whole,
    begun,
    decoder_of,
    main_output,
    name_of,
    run_errors,
    torch_logits,
    written,
)
from onnxfn.run.greedy_decoding import Decoder, prompt_outputs
from onnxfn.run.prompts_with_images import Prompt
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.errors import CaptureFailed
from onnxfn.specs.results.measurements import Floors, Measurement
from onnxfn.specs.short_repr import counted
from onnxfn.specs.stored.reports import Report, Tick


@frozen
class Measured:
    """What the files are worth for a prompt.

    Attributes:
        case: The name of the prompt.
        cosine: The cosine of the logits of the prompt and PyTorch's.
        same: Whether each token that the files write is PyTorch's likeliest, `[texts, new]`; None: they write nothing.
        note: Where the first other token is, and by what margin.
    """

    case: str
    cosine: float
    same: Array | None
    note: str


def measured_report(whole: Whole, prompts: Iterable[Prompt], proof: Proof, tick: Tick) -> Report:
    """Measures the files of a whole model for prompts, against PyTorch in float32.

    Prompts that PyTorch refuses are findings. CheckFailed if the files cannot run one after the other.
    """
    in_torch = evolve(whole, model=proof.model or whole.model)
    measured: list[Measured] = []
    refusals: list[str] = []
    for prompt in prompts:
        tick()
        try:
            measured.append(_measured(whole, in_torch, prompt))
        except CaptureFailed as error:
            refusals.append(f"{prompt.case}: {error}")
    cases = (*(each.case for each in measured), *refusals)
    return Report((), cases, tuple(refusals), _measurements(whole, measured, proof.floors))


def _measurements(whole: Whole, measured: list[Measured], floors: Floors) -> tuple[Measurement, ...]:
    """The worst cosine of the logits over all prompts, and the share of tokens that are PyTorch's."""
    if not measured:
        return ()
    value, floor = min(each.cosine for each in measured), floor_of(whole.decoder.spec, "cases", floors)
    row = partial(Measurement, name_of(whole))
    passed, label = MEASURES["cases"].passed(value, floor), counted(len(measured), "prompts")
    of_logits = row(main_output(whole.decoder), "cases", value, floor, label, passed)
    same = [each.same for each in measured if each.same is not None]
    if not same:
        return (of_logits,)
    share = float(np.concatenate(same).mean())
    note = "; ".join(f"{each.case}, {each.note}" for each in measured if each.note)
    tokens = f"{NEW_TOKENS} tokens after {counted(sum(map(len, same)), 'texts')}"
    return of_logits, row("greedy tokens", "agreement", share, None, tokens, True, note)


def _measured(whole: Whole, in_torch: Whole, prompt: Prompt) -> Measured:
    """What the files give for a prompt, against PyTorch in float32. Raises CaptureFailed if PyTorch does not run."""
    import torch

    ids, mask = begun(whole, prompt)
    expected = torch_logits(in_torch, prompt, ids, torch.float32)
    with run_errors(prompt):
        decoder = decoder_of(whole, prompt)
        actual = prompt_outputs(decoder, ids, mask)[main_output(whole.decoder)]
    last = actual.shape[1]
    at_tokens = mask[:, -last:].astype(bool)
    cosine = cosine_of(actual[at_tokens], expected[:, -last:][at_tokens])
    if not whole.decoder.spec.feedback:
        return Measured(prompt.case, cosine, None, "")
    return Measured(prompt.case, cosine, *_choices(whole, in_torch, prompt, decoder))


def _choices(whole: Whole, in_torch: Whole, prompt: Prompt, decoder: Decoder) -> tuple[Array, str]:
    """Whether each token that the files write is PyTorch's likeliest, `[texts, new]`; where the first other one is."""
    import torch

    ids, mask = begun(whole, prompt)
    with run_errors(prompt):
        texts, _ = written(whole, decoder, ids, mask)
    logits = torch_logits(in_torch, prompt, texts, torch.float32)[:, ids.shape[1] - 1 : -1]
    logits = ordinary_logits(whole.known.special, logits)
    chosen = texts[:, ids.shape[1] :]
    return chosen == logits.argmax(-1), other_tokens(chosen, logits)
