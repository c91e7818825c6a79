"""Models of time series and decisions: rows. Inputs and tasks are those of Optimum's table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.edits import TOKENS, always, case, gives, takes
from onnxfn.families import time_series
from onnxfn.generators import generates, padded, sized
from onnxfn.normalizers import from_config, reads
from onnxfn.records import ExportSpec, Overlay
from onnxfn.tasks import loaded, tasked

predictions = compose(
    gives("state_preds", f"{TOKENS} _"),
    gives("action_preds", f"{TOKENS} _"),
    gives("return_preds", f"{TOKENS} _"),
    gives("last_hidden_state", "batch_size sequence_length*3 _"),
)
decision_transformer = compose(
    takes("states", f"{TOKENS} state_dim=", "measured", kind="float"),
    takes("actions", f"{TOKENS} act_dim=", "measured", kind="float"),
    takes("timesteps", TOKENS, "steps"),
    takes("returns_to_go", f"{TOKENS} 1", "measured", kind="float"),
    takes("attention_mask", TOKENS, "padding_mask", kind="float"),
    generates("measured", "normal"),
    generates("steps", "integers", high=from_config("max_ep_len")),
    padded("left"),
    reads(state_dim="state_dim", act_dim="act_dim", max_ep_len="max_ep_len"),
    sized(batch_size=2, sequence_length=16),
    case("one", sized(batch_size=1, sequence_length=7), padded("none")),
    case("right-padded", sized(batch_size=3, sequence_length=11), padded("right")),
    case("left-padded", sized(batch_size=3, sequence_length=24), padded("left")),
    always(return_dict=True),
    # Not what feature-extraction gives elsewhere: the states come last.
    *(
        ExportSpec(tasks=(Overlay(task, compose(loaded("AutoModel"), predictions)),))
        for task in ("feature-extraction", "reinforcement-learning")
    ),
)


def forecasting(loader: str) -> ExportSpec:
    """A spec that says which class forecasts: no automatic one knows it."""
    return tasked("time-series-forecasting", spec=loaded(loader))


ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "decision_transformer": decision_transformer,
        "patchtsmixer": compose(time_series, forecasting("PatchTSMixerForPrediction")),
        "patchtst": compose(time_series, forecasting("PatchTSTForPrediction")),
    }
)
