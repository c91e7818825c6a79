"""Families: what architectures of one kind share. An architecture says only how it differs."""

from __future__ import annotations

from onnxfn.families.audio import FRAMES as FRAMES
from onnxfn.families.audio import audio as audio
from onnxfn.families.audio import audio_features as audio_features
from onnxfn.families.audio import audio_frames as audio_frames
from onnxfn.families.audio import audio_of_voices as audio_of_voices
from onnxfn.families.audio import audio_transcription as audio_transcription
from onnxfn.families.audio import banks as banks
from onnxfn.families.audio import convolved_frames as convolved_frames
from onnxfn.families.audio import encodec_layers as encodec_layers
from onnxfn.families.audio import waveforms as waveforms
from onnxfn.families.audio import whole_banks as whole_banks
from onnxfn.families.detection import image_cases as image_cases
from onnxfn.families.detection import images_of_any_size as images_of_any_size
from onnxfn.families.detection import masks_at_points as masks_at_points
from onnxfn.families.detection import masks_given as masks_given
from onnxfn.families.detection import moving_images as moving_images
from onnxfn.families.detection import points_in_images as points_in_images
from onnxfn.families.detection import queried as queried
from onnxfn.families.detection import segmented as segmented
from onnxfn.families.multimodal import text_and_vision as text_and_vision
from onnxfn.families.series import time_series as time_series
from onnxfn.families.text import DEFAULTS as DEFAULTS
from onnxfn.families.text import bert_inputs as bert_inputs
from onnxfn.families.text import decoder_alone as decoder_alone
from onnxfn.families.text import encoded as encoded
from onnxfn.families.text import encoded_mask as encoded_mask
from onnxfn.families.text import four_entries as four_entries
from onnxfn.families.text import positions as positions
from onnxfn.families.text import seq2seq as seq2seq
from onnxfn.families.text import source as source
from onnxfn.families.text import speech_seq2seq as speech_seq2seq
from onnxfn.families.text import text_decoder as text_decoder
from onnxfn.families.text import text_encoder as text_encoder
from onnxfn.families.text import text_inputs as text_inputs
from onnxfn.families.text import text_seq2seq as text_seq2seq
from onnxfn.families.text import to_continue as to_continue
from onnxfn.families.text import written as written
from onnxfn.families.vision import any_images as any_images
from onnxfn.families.vision import images as images
from onnxfn.families.vision import pixels as pixels
from onnxfn.families.vision import sees as sees
from onnxfn.families.vision import video as video
from onnxfn.families.vision import vision as vision
from onnxfn.families.vision import vision_of_any_size as vision_of_any_size
