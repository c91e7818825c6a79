"""The private names of transformers (5.20 to 5.24) that onnxfn uses; patch_table.py names replaced functions."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onnxfn.specs.converters import at_path

NAMES: Mapping[str, str] = MappingProxyType(
    {"interpolation_weights": "transformers.vision_utils:_interpolation_axis_taps_weights"}
)
"""Name in onnxfn -> path."""

_MODELS = "transformers.models."
_WAV2VEC2_BERT = f"{_MODELS}wav2vec2_bert.modeling_wav2vec2_bert"
ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "_attn_implementation": "transformers:PretrainedConfig",
        "_attn_implementation_internal": "transformers:PretrainedConfig",
        "_model_mapping": "transformers:AutoModel",
        "_get_dtype_plan": "transformers:PreTrainedModel",
        "_coarse_matching": f"{_MODELS}efficientloftr.modeling_efficientloftr:EfficientLoFTRForKeypointMatching",
        "_fine_matching": f"{_MODELS}efficientloftr.modeling_efficientloftr:EfficientLoFTRForKeypointMatching",
        "_relative_position_bucket": f"{_MODELS}longt5.modeling_longt5:LongT5TransientGlobalAttention",
        "_match_image_pair": f"{_MODELS}superglue.modeling_superglue:SuperGlueForKeypointMatching",
        "_get_pixel_scores": f"{_MODELS}superpoint.modeling_superpoint:SuperPointInterestPointDecoder",
        "_get_feat_extract_output_lengths": f"{_WAV2VEC2_BERT}:Wav2Vec2BertPreTrainedModel",
        "_get_tdnn_output_lengths": f"{_WAV2VEC2_BERT}:Wav2Vec2BertForXVector",
        "_encode_frame": f"{_MODELS}encodec.modeling_encodec:EncodecModel",
        "_revin": f"{_MODELS}timesfm2_5.modeling_timesfm2_5:TimesFm2_5Model",
        "_decode_and_project": f"{_MODELS}timesfm2_5.modeling_timesfm2_5:TimesFm2_5ModelForPrediction",
        "_postprocess_output": f"{_MODELS}timesfm.modeling_timesfm:TimesFmModelForPrediction",
        "_apply_gate": f"{_MODELS}mixtral.modeling_mixtral:MixtralExperts",
        "_get_output_attention_mask": f"{_MODELS}parakeet.modeling_parakeet:ParakeetPreTrainedModel",
    }
)
"""Private attribute of an object of transformers -> the path of its class. Patches and wrappers call these methods."""


def transformers_name(name: str) -> Any:
    """The object of transformers at the path of a name."""
    return at_path(NAMES[name])
