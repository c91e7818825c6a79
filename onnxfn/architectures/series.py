"""Models for time series, and Decision Transformer. Rows that Optimum also has take its inputs and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families.rows import sized_in
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates, padded, sized
from onnxfn.specs.algebra.facts import TOKENS, always, case, gives, loads, runs, serves, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.tasks.tasks import tasked

time_series: ExportSpec = compose(
    takes("past_values", "batch_size context_length= num_input_channels=", "normal", kind="float"),
    sized(batch_size=2),
    always(return_dict=True),
    tasked("feature-extraction", gives("last_hidden_state", "batch_size _ _ _")),
    tasked("time-series-forecasting", gives("prediction_outputs", "batch_size _ _")),
)
"""Models that forecast several channels from a fixed number of past steps: PatchTST, PatchTSMixer.

Inputs: `past_values`, `[batch_size, context_length, num_input_channels]`.
Tasks: feature-extraction, time-series-forecasting.
"""

decision_outputs: ExportSpec = compose(
    gives("state_preds", f"{TOKENS} _"),
    gives("action_preds", f"{TOKENS} _"),
    gives("return_preds", f"{TOKENS} _"),
    gives("last_hidden_state", "batch_size sequence_length*3 _"),
)
decision_transformer: ExportSpec = compose(
    takes("states", f"{TOKENS} state_dim=", "normal", kind="float"),
    takes("actions", f"{TOKENS} act_dim=", "normal", kind="float"),
    takes("timesteps", TOKENS, "steps"),
    takes("returns_to_go", f"{TOKENS} 1", "normal", kind="float"),
    takes("attention_mask", TOKENS, "padding_mask", kind="float"),
    generates("steps", "integers", high=from_config("max_ep_len")),
    padded("left"),
    sized_in("one right-padded left-padded", batch_size=(2, 1, 3, 3), sequence_length=(16, 7, 11, 24)),
    case("one", padded("none")),
    case("right-padded", padded("right")),
    always(return_dict=True),
    # `last_hidden_state` is the last output here. In other models it is the first.
    *(serves(task, loads("AutoModel"), decision_outputs) for task in ("feature-extraction", "reinforcement-learning")),
)

# Series of any length: `past_values`, `[batch_size, sequence_length]`. The model uses the last steps only.
series_of_any_length: ExportSpec = compose(
    takes("past_values", TOKENS, "normal", kind="float"),
    sized_in("one several longer", batch_size=(2, 1, 3, 2), sequence_length=(64, 19, 96, 130)),
)
quantile_forecast: ExportSpec = tasked(
    "time-series-forecasting", gives("mean_predictions", "batch_size _"), gives("full_predictions", "batch_size _ _")
)

# The model without a head takes whole patches, and which of their steps are padding.
series_features: ExportSpec = compose(
    takes("past_values", "batch_size context_length=", "normal", kind="float"),
    takes("past_values_padding", "batch_size context_length=", "padding"),
    generates("padding", "integers", high=2),
    gives("last_hidden_state", "batch_size _ _"),
    gives("loc", "batch_size", kind="float"),
    gives("scale", "batch_size", kind="float"),
)

# The inputs are the past values, the features of the time steps, and the forecast so far. The outputs are the states
# and the parameters from which `generate` samples the next value.
PAST_AXES = "batch_size past_length="
FUTURE_AXES = "batch_size prediction_length="
CATEGORIES, REALS = "static_categorical_features", "static_real_features"

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "decision_transformer": decision_transformer,
        # No auto class loads these models for forecasts.
        **{
            model_type: compose(time_series, tasked("time-series-forecasting", loads(f"{name}ForPrediction")))
            for model_type, name in (("patchtsmixer", "PatchTSMixer"), ("patchtst", "PatchTST"))
        },
        "time_series_transformer": compose(
            takes("past_values", PAST_AXES, "normal", kind="float"),
            takes("past_time_features", f"{PAST_AXES} num_time_features=", "normal", kind="float"),
            takes("past_observed_mask", PAST_AXES, "observed", kind="float"),
            takes(CATEGORIES, f"batch_size num_{CATEGORIES}=", "category", when=f"num_{CATEGORIES}"),
            takes(REALS, f"batch_size num_{REALS}=", "normal", kind="float", when=f"num_{REALS}"),
            takes("future_values", FUTURE_AXES, "normal", kind="float"),
            takes("future_time_features", f"{FUTURE_AXES} num_time_features=", "normal", kind="float"),
            generates("observed", "mask", padding="left"),
            generates("category", "integers", high=from_config("cardinality[0]")),
            reads(past_length="context_length + max(lags_sequence)"),
            sized(batch_size=2),
            always(return_dict=True, use_cache=False),
            tasked(
                "feature-extraction",
                gives("last_hidden_state", "batch_size _ _"),
                gives("encoder_last_hidden_state", "batch_size _ _"),
                gives("loc", "batch_size _", kind="float"),
                gives("scale", "batch_size _", kind="float"),
            ),
        ),
        "timesfm": compose(
            series_of_any_length,
            takes("freq", "batch_size", "frequencies"),
            generates("frequencies", "integers", high=from_config("freq_size")),
            tasked("feature-extraction", series_features, takes("freq", "batch_size 1", "frequencies")),
            quantile_forecast,
            tasked("time-series-forecasting", runs("timesfm.forecast")),
        ),
        "timesfm2_5": compose(
            series_of_any_length,
            tasked("feature-extraction", series_features),
            quantile_forecast,
            tasked("time-series-forecasting", runs("timesfm.forecast_by_quantiles")),
        ),
    }
)
