"""The parts of models that see or hear and write, as specs: towers, the table of tokens, the language model."""

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.private.torch_names import NAMES
from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.facts import links, patched, runs
from onnxfn.specs.algebra.spec import Call, ExportSpec
from onnxfn.specs.edits.behaviors import written_as
from onnxfn.specs.records import Edit, File

VISION, AUDIO, EMBEDDING = "vision_encoder", "audio_encoder", "embed_tokens"
DECODER, DECODER_WITH_PAST = "decoder_model", "decoder_model_merged"
"""The names of the parts and of their files. transformers.js looks for these names."""

MODEL = "model"
"""The name of the part that takes embeddings and writes no text."""

FEATURES: Mapping[str, str] = MappingProxyType({VISION: "image_features", AUDIO: "audio_features"})
"""Part -> its output: the rows that stand in place of the tokens of an image or a sound."""

unsplit: ExportSpec = compose(
    patched(f"{NAMES['FakeTensor']}.tolist", by="feature_splits.sizes", why="the tokens of each image are not counted"),
    patched("torch:Tensor.split", by="feature_splits.whole", why="a list with an item for each image"),
    patched("torch:Tensor.__len__", by="feature_splits.length", why="list(tensor) asks for the number of images"),
    patched("torch:Tensor.__iter__", by="feature_splits.items", why="a list with an item for each image"),
)
"""The patches for towers that split their result into a list with an item for each image."""

token_table: ExportSpec = runs("features.token_embeddings")
"""The table of token embeddings as a separate part."""

wide_decoder: ExportSpec = runs("wide_rows.language_model")
"""A decoder for rows that carry more than an embedding."""

inner_decoder: ExportSpec = runs("wide_rows.inner_language_model")
"""The inner language model of a model that does not return its cache."""

prefix_decoder: ExportSpec = runs("prefixes.language_model")
"""A decoder that reads its prompt in both directions. The prompt is the tokens of a step with an empty cache."""


def reads_prompts_both_ways(call: Call) -> bool:
    """Whether a decoder reads prompts in both directions: how long the prompt was then changes each logit."""
    return call.submodule == prefix_decoder.call.submodule


def tower(part: str, *specs: ExportSpec) -> ExportSpec:
    """The spec of the part that computes features, `vision_encoder` or `audio_encoder`, with its inputs and output."""
    return compose(unsplit, runs(f"features.{FEATURES[part]}"), *specs)


def in_parts(*parts: str) -> ExportSpec:
    """A spec of a file for each of these parts; the decoder takes the embeddings that another part computes."""
    files = (File(part, (Edit("part_alone", {"part": part}),)) for part in parts)
    return compose(written_as(*files), links("inputs_embeds", part=EMBEDDING, output="inputs_embeds"))
