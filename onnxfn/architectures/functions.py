"""The short names of patches and wrappers: rows and saved specs hold these, and only this table says where each lies.

A function that moves or is renamed keeps its short name: give it an entry of its own in FUNCTIONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PATCHES: Mapping[str, str] = MappingProxyType(
    {
        "bart": "classified encoded",
        "bit": "padded standardized",
        "canine": "attention downsampled repeated",
        "clap": "embedded",
        "clipseg": "conditioned",
        "depth_pro": "encoded",
        "diffusers": "ALWAYS enlarged",
        "dpt": "depth segmentation fused chosen",
        "efficientloftr": "attended windows window enlarged bordered matched",
        "encodec": "summed",
        "experts": "batched",
        "falcon": "slopes",
        "fastspeech": "regulated placed shifted",
        "fnet": "fourier",
        "funnel": "position_embeds",
        "gemma3n": "sparse",
        "glue": "superglue lightglue paired absolute cut",
        "granite": "blockwise",
        "longformer": "unpadded unpadded_source attention",
        "longt5": "numbered summed biased",
        "moonshine": "states_of",
        "musicgen": "delayed convolved remembered",
        "nemotron": "attended",
        "numbered": "position_ids_of",
        "recurrent": "conv_state recurrent_state delta_rule state_space lightning gated",
        "rotations": "angles heads_first heads_second",
        "rt_detr": "unasked placed gathered",
        "selective": "mixer mixer_of_heads",
        "shifted": "shift_tokens_right",
        "sides": "whole deepened related spaced listed",
        "siglip2": "resized",
        "sized": "padded_as_tensorflow filled placed placed_evenly in_whole_windows already_whole",
        "superpoint": "detected",
        "switch": "routed chosen",
        "timesfm": "scaled",
        "vits": "gated relative spline",
        "zoedepth": "biased assembled ranged",
    }
)
"""File in `patches/` -> the functions that rows name."""

WRAPPERS: Mapping[str, str] = MappingProxyType(
    {
        "codecs": "coded sounded coded_at_once sounded_at_once waveform",
        "diffusers": "vae_encoder dcae_encoder vae_decoder",
        "eomt": "decided",
        "lightglue": "whole",
        "musicgen": "text_encoder encodec_decode build_delay_pattern_mask",
        "pop2piano": "mel_conditioner",
        "sam": "vision_encoder prompt_encoder_mask_decoder pyramid layered itself",
        "sentence_transformers": "apart",
        "speecht5": "encoder decoder postnet_and_vocoder",
        "timesfm": "forecast forecast_by_quantiles",
        "timm": "classifier",
        "towers": "text_model vision_model audio_model video_model prefixed",
        "transducers": "encoder decoder",
        "vits": "speech",
    }
)
"""File in `wrappers/` -> the functions that rows name."""

FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        f"{file}.{name}": f"onnxfn.architectures.{folder}.{file}:{name}"
        for folder, files in (("patches", PATCHES), ("wrappers", WRAPPERS))
        for file, names in files.items()
        for name in names.split()
    }
)
"""Short name -> `package.module:function`: `recurrent.delta_rule`, `sam.vision_encoder`."""
