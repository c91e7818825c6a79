"""A whole multimodal model in PyTorch: its logits for texts with images, and its generated texts."""

import inspect
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from onnxfn.architectures.placeholders import Placeholders, TokenTypes
from onnxfn.architectures.wrappers.feature_methods import feature_method
from onnxfn.models.forward import tensors_for
from onnxfn.models.model_state import unchanged_eval
from onnxfn.models.torch_modes import quiet
from onnxfn.run.merged_embeddings import token_positions
from onnxfn.specs.algebra.dummies import Array
from onnxfn.specs.algebra.planned import Part, PlannedSpec
from onnxfn.specs.algebra.spec import Call
from onnxfn.specs.axes import AxisMap, axis_map
from onnxfn.specs.edits.token_embeddings import IDS
from onnxfn.specs.errors import CaptureFailed, first_line, raise_no_memory
from onnxfn.specs.records import Constant, InputSpec, OutputSpec

WHOLE = "whole model"
"""The name of the whole model in a report, where other lines have the name of a part."""

MASK, POSITIONS = "attention_mask", "position_ids"
DECODER_IDS = "decoder_input_ids"

UNPADDED = (
    ("get_image_features", "pixel_values", "image_sizes", lambda images: np.array([images.shape[2:]] * len(images))),
    ("get_audio_features", "input_values", "padding_mask", lambda sounds: np.ones(sounds.shape, np.int64)),
)
"""The method of a tower, its input, its argument that tells what is padding, and that argument without padding."""

NO_CACHE = Constant("use_cache", value=False)


def whole_part(
    arguments: Mapping[str, Array], spec: PlannedSpec, output: str = "logits", constants: Iterable[Constant] = ()
) -> Part:
    """The whole model as a part from these arguments and constants to one output, in the dtype of another spec."""
    inputs = (
        InputSpec(name, AxisMap(axis_map("_").axes * array.ndim), "whole", path=(name,))
        for name, array in arguments.items()
    )
    call = Call(constants=(NO_CACHE, *constants), attention=spec.call.attention)
    main_output = OutputSpec(output, axis_map("batch_size sequence_length _"))
    return Part(WHOLE, PlannedSpec(inputs=tuple(inputs), outputs=(main_output,), call=call, target=spec.target))


def forward_arguments(
    model: Any, arguments: Mapping[str, Array], texts: Array, known: Placeholders, *, has_three_positions: bool
) -> dict[str, Array]:
    """The arguments of `forward` for texts that begin with a prompt, whose `arguments` a processor gives."""
    # A model with positions in time, height and width computes these by itself.
    parameters = inspect.signature(model.forward).parameters
    mask, new = arguments[MASK], texts.shape[1] - arguments[IDS].shape[1]
    mask = np.concatenate([mask, np.ones((len(mask), new), mask.dtype)], axis=1)
    types = {each.argument: _types(texts, new, each, known) for each in known.types}
    positions = {} if has_three_positions else {POSITIONS: token_positions(mask, known.first_position)}
    computed = {name: array for name, array in {**types, **positions}.items() if name in parameters}
    return {**_unpadded(model, arguments), **arguments, **computed, IDS: texts, MASK: mask}


def encoder_arguments(model: Any, arguments: Mapping[str, Array], texts: Array) -> dict[str, Array]:
    """The arguments of `forward` of an encoder-decoder: what its encoder reads, and the tokens of the decoder."""
    own = DECODER_IDS if DECODER_IDS in inspect.signature(model.forward).parameters else IDS
    return {**_unpadded(model, arguments), **arguments, own: texts}


def _unpadded(model: Any, arguments: Mapping[str, Array]) -> dict[str, Array]:
    """The sizes of images and the masks of sounds without padding, for a model that needs them; a file needs none."""
    unpadded = {}
    for tower, values, name, of_values in UNPADDED:
        method = feature_method(model, tower) if values in arguments else None
        argument = None if method is None else inspect.signature(method).parameters.get(name)
        if argument is not None and argument.default is argument.empty:
            unpadded[name] = of_values(arguments[values])
    return unpadded


def _types(texts: Array, new: int, types: TokenTypes, known: Placeholders) -> Array:
    """The types of the tokens of texts whose last `new` tokens are not of the prompt."""
    of_texts = np.full(texts.shape, types.text)
    for name, of_placeholder in types.features.items():
        of_texts[texts == known.tokens.get(name, -1)] = of_placeholder
    of_texts[:, texts.shape[1] - new :] = types.new
    return of_texts


def texts_of_generate(
    model: Any, part: Part, arguments: Mapping[str, Array], steps: int, never: Collection[int]
) -> Array:
    """The texts that `model.generate` writes greedily without `never` and an end. CaptureFailed if it does not run."""
    ends_texts = model.config.model_type == "blip"
    # One more token after each prompt, where its end stands.
    ended = {IDS: np.concatenate([arguments[IDS], arguments[IDS][:, -1:]], axis=1)} if ends_texts else {}
    prompts = {**arguments, **ended}
    tensors = dict(zip(prompts, tensors_for(model, part.spec, prompts), strict=True))
    lengths = {"max_new_tokens": steps, "min_new_tokens": steps, "suppress_tokens": sorted(never)}
    constants = {each.name: each.value for each in part.spec.call.constants if each != NO_CACHE}
    if DECODER_IDS in arguments:
        lengths["decoder_start_token_id"] = int(arguments[DECODER_IDS][0, 0])
    forced = dict.fromkeys(["forced_bos_token_id", "forced_eos_token_id", *([] if ends_texts else ["eos_token_id"])])
    try:
        with quiet(), unchanged_eval(model, part.spec.call.attention), torch.no_grad():
            options = {**lengths, **constants, **forced, "do_sample": False, "num_beams": 1}
            texts: Array = model.generate(**tensors, **options).numpy()
    except Exception as error:  # the code of any model may raise anything
        raise_no_memory(error)
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise CaptureFailed(f"generate of {type(model).__name__} does not run: {reason}") from error
    return texts
