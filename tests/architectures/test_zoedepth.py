"""ZoeDepth with one range of depths, and with bins that its configuration bounds."""

import pytest
import tiny
from agreement import assert_agreement, assert_axis_sizes
from sizes import SPECIAL

import onnxfn

NEAR, FAR = SPECIAL["zoedepth"]["bin_configurations"]


@pytest.mark.sweep
@pytest.mark.parametrize(("ranges", "bins"), [((NEAR,), "softplus"), ((NEAR, FAR), "normed")])
def test_depths_of_one_range_or_of_bounded_bins_agree(ranges, bins, tmp_path):
    model = tiny.model(
        "zoedepth", "AutoModelForDepthEstimation", bin_configurations=list(ranges), bin_centers_type=bins
    )
    result = onnxfn.export(onnxfn.spec_for("zoedepth", "depth-estimation"), model, tmp_path / "out")
    assert_axis_sizes(assert_agreement(result, tmp_path / "out"))
    assert ("domain_logits" in result.outputs) is (len(ranges) > 1)
