"""The family of models for time series."""

from __future__ import annotations

from onnxfn.specs.algebra.compose import compose
from onnxfn.specs.algebra.dummies import generates, sized
from onnxfn.specs.algebra.facts import always, gives, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.tasks.tasks import tasked

time_series: ExportSpec = compose(
    takes("past_values", "batch_size context_length= num_input_channels=", "values", kind="float"),
    generates("values", "normal"),
    sized(batch_size=2),
    always(return_dict=True),
    tasked("feature-extraction", gives("last_hidden_state", "batch_size _ _ _")),
    tasked("time-series-forecasting", gives("prediction_outputs", "batch_size _ _")),
)
"""Models that forecast several channels from a fixed number of past steps: PatchTST, PatchTSMixer.

Inputs: `past_values`, `[batch_size, context_length, num_input_channels]`.
Tasks: feature-extraction, time-series-forecasting.
"""
