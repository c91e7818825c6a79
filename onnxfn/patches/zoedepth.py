"""ZoeDepth's stages, one after another (modeling_zoedepth, transformers 5.23)."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def reassembled(self: Any, hidden_states: list[Tensor], patch_height: int, patch_width: int) -> list[Tensor]:
    """For ZoeDepthReassembleStage.forward, which joins the stages, and splits them by how many images there are."""
    import torch

    made = []
    for states, project, layer in zip(hidden_states, self.readout_projects, self.layers, strict=True):
        places = states[:, 1:]
        seen = project(torch.cat((places, states[:, :1].expand_as(places)), -1))
        made.append(layer(seen.transpose(1, 2).unflatten(2, (patch_height, patch_width))))
    return made
