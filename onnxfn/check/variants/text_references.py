"""PyTorch's outputs in float32 for the real text of the package, or for random tokens without a tokenizer."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from toolz import memoize

from onnxfn.check.cases.references import Reference
from onnxfn.models.forward import torch_outputs
from onnxfn.models.pretrained import pretrained
from onnxfn.specs.algebra.dummies import Array, axes_of_inputs, dummies, known_sizes, padded
from onnxfn.specs.algebra.planned import Part, Plan, PlannedSpec
from onnxfn.specs.axes import names, symbols
from onnxfn.specs.axis_symbols import fixed_sizes
from onnxfn.specs.edits.token_embeddings import EMBEDDING_FILE, IDS
from onnxfn.specs.errors import raise_no_memory
from onnxfn.specs.plan.check_cases import cases, in_case, past_lengths, with_dummies
from onnxfn.specs.plan.real_inputs import picture_inputs
from onnxfn.specs.plan.text_cases import TOKEN_FILLS
from onnxfn.weights.layouts import dtype_suffix

TEXT_TOKENS, ROW_TOKENS = 300, 100
"""The tokens that are measured, and the tokens of a row: attention costs less in several rows than in a single one."""

TextReferences = Callable[[Part, Plan], Reference | None]
"""From a part and its plan to the reference for the real text; None if the part reads no tokens."""


def real_text() -> str:
    """The text of the package, of about 500 tokens."""
    return (files("onnxfn.check.variants") / "real_text.txt").read_text(encoding="utf-8")


@frozen(eq=False)
class TextTokens:
    """The token ids of the text, and those that a tokenizer puts before and after each text, such as `[CLS]`."""

    ids: Array
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def largest(self) -> int:
        """The largest token id."""
        return int(max(*self.before, *self.after, *self.ids))

    def rows(self, shape: tuple[int, ...]) -> Array:
        """Rows of the text, `[rows, length]`, each as a text of its own.

        >>> TextTokens(np.arange(1, 6), (0,), (9,)).rows((2, 4)).tolist()
        [[0, 1, 2, 9], [0, 3, 4, 9]]
        """
        count, length = shape
        texts = np.resize(self.ids, (count, max(1, length - len(self.before) - len(self.after))))
        return np.array([(*self.before, *row, *self.after)[:length] for row in texts], np.int64).reshape(shape)


def text_tokens(preprocessor: Any, checkpoint: Path | None = None, text: str | None = None) -> TextTokens | None:
    """The token ids of a text, or that of the package, by the tokenizer of a processor or checkpoint; None without."""
    tokenizer = getattr(preprocessor, "tokenizer", preprocessor) or _tokenizer(checkpoint)
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        return None
    read = partial(tokenizer, real_text() if text is None else text, verbose=False)
    every, plain = (list(read(add_special_tokens=special)["input_ids"]) for special in (True, False))
    start = next((index for index in range(len(every)) if every[index : index + len(plain)] == plain), None)
    if start is None:
        return TextTokens(np.asarray(plain, np.int64))
    return TextTokens(np.asarray(plain, np.int64), tuple(every[:start]), tuple(every[start + len(plain) :]))


def _tokenizer(checkpoint: Path | None) -> Any:
    """The tokenizer of a checkpoint; None if it has none that transformers can load."""
    from transformers import AutoTokenizer

    if checkpoint is None or not any(checkpoint.glob("*token*")):
        return None
    try:
        return pretrained(AutoTokenizer.from_pretrained, checkpoint, trust_remote_code=False)
    except Exception as error:  # noqa: BLE001 - the code of any tokenizer may raise anything; random tokens do, too
        raise_no_memory(error)
        return None


def text_references(model: Any, preprocessor: Any = None, checkpoint: Path | None = None) -> TextReferences:
    """A function that computes the reference of a part once, with the tokenizer of `preprocessor` or `checkpoint`."""
    reference = partial(_text_reference, model, preprocessor, cache(partial(text_tokens, preprocessor, checkpoint)))
    known: TextReferences = memoize(reference, key=lambda of, _: of[0].name.removesuffix(dtype_suffix(of[0].dtype)))
    return known


def _text_reference(
    model: Any, preprocessor: Any, every_token: Callable[[], TextTokens | None], part: Part, plan: Plan
) -> Reference | None:
    import torch

    if not reads_text(part.spec):
        # No calibration has this seed. In 16 bits, a class that changes in one of so few pictures says nothing.
        pictures = partial(picture_inputs, part.spec, preprocessor, count=32, seed=0)
        inputs = pictures() if part.spec.target.quantization else {}
        words = f"{max(map(len, inputs.values()), default=0)} pictures"
        return Reference(words, inputs, torch_outputs(model, part, inputs, torch.float32)) if inputs else None
    every, high, why = every_token(), vocabulary(plan), "no tokenizer is known"
    tokens = every if every is not None and every.largest < high else None
    if every is not None:
        why = f"the tokenizer has the token {every.largest}, and the model {high} tokens"
    inputs = text_inputs(model, part, plan, tokens)
    count = next(array.shape[0] * array.shape[1] for array in inputs.values() if array.ndim > 1)
    words = f"{count} tokens of text" if tokens is not None else f"{count} random tokens: {why}"
    return Reference(words, inputs, torch_outputs(model, part, inputs, torch.float32))


def text_inputs(
    model: Any, part: Part, plan: Plan, tokens: TextTokens | None, count: int = TEXT_TOKENS
) -> dict[str, Array]:
    """The inputs of a part for `count` tokens, without padding and with an empty past; dummies if it reads no text."""
    import torch

    spec = with_dummies(part.spec, padded("none"))
    linked: dict[str, Array] = {}
    for other in (other for other in plan.parts if other.name in {link.part for link in spec.links}):
        inputs = text_inputs(model, other, plan, tokens, count)
        outputs = torch_outputs(model, other, inputs, torch.float32)
        values = {**inputs, **dict(zip(other.outputs, outputs, strict=True))}
        linked |= {link.input: values[link.output] for link in spec.links if link.part == other.name}
    if not reads_text(spec):
        return {**dummies(spec, {}), **linked}
    arrays = dummies(spec, _sizes(spec, linked, next((len(array) for array in linked.values()), None), count))
    text = {IDS: tokens.rows(arrays[IDS].shape)} if tokens is not None and IDS in arrays else {}
    known = {**arrays, **text, **linked}
    return {name: known[name].astype(array.dtype) for name, array in arrays.items()}


def _sizes(spec: PlannedSpec, linked: Mapping[str, Array], batch: int | None, count: int) -> dict[str, int]:
    """The sizes of a text of `count` tokens: rows, their length, an empty past, and the lengths of linked inputs."""
    fixed = fixed_sizes(spec)
    embeddings = {link.input for link in spec.links if link.part.startswith(EMBEDDING_FILE)}
    length = (*names(next(each for each in spec.inputs if each.name in {IDS, *embeddings}).axes),)[1]
    # A case with a long text knows what the model can take.
    longest = max((known_sizes(in_case(spec, case), {}).get(length, 1) for case in cases(spec)), default=1)
    row = min(ROW_TOKENS, longest)
    rows = batch or max(1, round(count / row))
    read = [each for each in spec.inputs if each.name in linked]
    axes = [(symbol, linked[each.name].shape[axis]) for each in read for axis, symbol in symbols(each.axes).items()]
    of_linked = {symbol: size for symbol, size in axes if symbol.isidentifier()}
    sizes = {spec.batch: rows, **dict.fromkeys(past_lengths(spec), 0), length: row, **of_linked}
    return {name: size for name, size in sizes.items() if name in axes_of_inputs(spec) and name not in fixed}


def reads_text(spec: PlannedSpec) -> bool:
    """Whether a part reads token ids that may be any token, with a batch and a length; or their embeddings."""
    functions = {generator.name: generator.function for generator in spec.dummies.generators}
    ids = [input_ for input_ in spec.inputs if input_.name == IDS and len(names(input_.axes)) > 1]
    reads_embeddings = any(link.part.startswith(EMBEDDING_FILE) for link in spec.links)
    return reads_embeddings or any(functions.get(input_.generator) in TOKEN_FILLS for input_ in ids)


def vocabulary(plan: Plan) -> int:
    """The number of tokens of a model; 0 if it is not known."""
    return max((_vocabulary(part.spec) for part in plan.parts), default=0)


def _vocabulary(spec: PlannedSpec) -> int:
    """The number of tokens that the dummies of a spec are drawn from; 0 if it is not known."""
    generators = {generator.name: dict(generator.arguments) for generator in spec.dummies.generators}
    highs = [generators.get(input_.generator, {}).get("high") for input_ in spec.inputs if input_.name == IDS]
    return max((high for high in highs if isinstance(high, int)), default=0)
