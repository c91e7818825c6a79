"""Models that see: rows. Inputs and tasks are those of Optimum's table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.edits import always, gives
from onnxfn.families import pixels
from onnxfn.normalizers import either, entry, reads
from onnxfn.records import ExportSpec
from onnxfn.tasks import tasked

SEEN = "batch_size _ _"

vit = compose(
    pixels,
    reads(
        num_channels="num_channels",
        image_height=either(entry("image_size", 0), "image_size"),
        image_width=either(entry("image_size", 1), "image_size"),
    ),
    always(return_dict=True),
    tasked("feature-extraction", spec=gives("last_hidden_state", SEEN)),
    tasked("image-classification"),
    tasked("masked-im"),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType({"vit": vit})
