"""Moonshine's feature lengths in integer arithmetic: the original divides floats, which a trace cannot follow."""

from __future__ import annotations

from typing import Any


def feature_lengths(_: Any, input_lengths: Any) -> Any:
    """For MoonshinePreTrainedModel._get_feat_extract_output_lengths (modeling_moonshine, transformers 5.23).

    The number of features that the convolutions compute from this number of samples.
    """
    return (((input_lengths - 127) // 64 + 1 - 7) // 3 + 1 - 3) // 2 + 1
