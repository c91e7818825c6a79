"""Specs that rows are composed of: models of one kind have these inputs and outputs."""

from typing import TYPE_CHECKING

from onnxfn.specs.algebra.public_names import public_names

if TYPE_CHECKING:
    from onnxfn import bert_inputs as bert_inputs
    from onnxfn import text_decoder as text_decoder
    from onnxfn import text_encoder as text_encoder
    from onnxfn.architectures.families.audio import audio as audio
    from onnxfn.architectures.families.multimodal import text_and_vision as text_and_vision
    from onnxfn.architectures.families.seq2seq import speech_seq2seq as speech_seq2seq
    from onnxfn.architectures.families.seq2seq import text_seq2seq as text_seq2seq
    from onnxfn.architectures.families.text import positions as positions
    from onnxfn.architectures.families.text import text_inputs as text_inputs
    from onnxfn.architectures.families.vision import vision as vision
    from onnxfn.architectures.families.vision import vision_of_any_size as vision_of_any_size
    from onnxfn.architectures.series import time_series as time_series

__all__, __getattr__, __dir__ = public_names(__name__)
