"""The models of timm that are measured: for each module of timm, its first model of at most 60 million parameters.

    python benchmarks/timm_models.py

prints them for the timm of this environment, smallest first.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

LARGEST = 60_000_000
"""The most parameters of a model."""

MODELS: tuple[str, ...] = (
    "test_vit_relpos",
    "repghostnet_050",
    "efficientvit_m0",
    "ghostnet_050",
    "starnet_s1",
    "xcit_nano_12_p8_224",
    "efficientvit_b0",
    "pvt_v2_b0",
    "convnext_atto",
    "inception_next_atto",
    "rexnet_100",
    "hardcorenas_a",
    "efficientnet_b0",
    "repvit_m0_9",
    "mobilevit_s",
    "shvit_s1",
    "efficientvim_m1",
    "lcnetv2_base",
    "mambaout_femto",
    "densenet121",
    "crossvit_9_240",
    "fbnetv3_b",
    "dpn48b",
    "levit_128",
    "cpubone_b0_bfrobust",
    "resnest14d",
    "bat_resnext26ts",
    "csatv2",
    "resnetv2_18",
    "legacy_seresnet18",
    "skresnet18",
    "swiftformer_l1",
    "tiny_vit_5m_224",
    "efficientformer_l1",
    "botnet26t_256",
    "gmixer_12_224",
    "lowformer_b0",
    "iformer_l",
    "dla34",
    "ecaresnet26t",
    "edgenext_base",
    "regnetv_040",
    "convmixer_768_32",
    "cs3darknet_focus_l",
    "hrnet_w18",
    "eva02_small_patch14_224",
    "flexivit_small",
    "vitamin_small_224",
    "eca_vovnet39b",
    "legacy_xception",
    "pit_s_224",
    "tnt_s_legacy_patch16_224",
    "inception_v3",
    "eca_nfnet_l0",
    "hgnet_small",
    "coatnet_0_224",
    "res2net50_14w_8s",
    "efficientformerv2_l",
    "volo_d1_224",
    "xception41",
    "cspnext_l",
    "convit_small",
    "selecsls42",
    "hieradet_small",
    "vit_small_r26_s32_224",
    "nest_small",
    "deit3_medium_patch16_224",
    "visformer_small",
    "inception_v4",
    "twins_pcpvt_base",
    "fastvit_ma36",
    "coat_lite_medium",
    "nextvit_base",
    "cait_s24_224",
    "swinv2_cr_small_224",
    "swinv2_small_window8_256",
    "swin_s3_small_224",
    "davit_small",
    "focalnet_small_lrf",
    "rdnet_small",
    "gcvit_small",
    "mvitv2_base",
    "hiera_base_224",
    "fasternet_m",
    "sequencer2d_l",
    "inception_resnet_v2",
    "tresnet_l",
    "caformer_m36",
)
"""The models of timm 1.0.31, smallest first. Modules whose models are all larger, or have no images, have none."""


def parameters(name: str) -> int:
    """The number of parameters of a model; 0 if it cannot be made without weights."""
    import timm
    import torch

    with suppress(Exception), torch.device("meta"):
        return sum(parameter.numel() for parameter in timm.create_model(name).parameters())
    return 0


def first_small_models() -> list[str]:
    """The first model of each module of timm that has at most `LARGEST` parameters, smallest first."""
    import timm

    modules = [timm.list_models(module=module) for module in timm.list_modules()]
    small = [islice((name for name in names if 0 < parameters(name) <= LARGEST), 1) for names in modules]
    return sorted((name for names in small for name in names), key=parameters)


if __name__ == "__main__":
    print("\n".join(first_small_models()))
