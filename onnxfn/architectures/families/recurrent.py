"""Layers with a recurrent state (state spaces, linear attention): the rows of their cache, as `past_conv.0`."""

from onnxfn.specs.algebra.compose import compose, reads
from onnxfn.specs.algebra.facts import runs
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.caches import LAYER, cache_row, kv_cache
from onnxfn.specs.records import Edit, Source
from onnxfn.specs.tasks.tasks import tasked

full_attention_layers = "indices_where(layer_types, 'full_attention')"
linear_attention_layers = "indices_where(layer_types, 'linear_attention')"

full_attention_cache: ExportSpec = kv_cache(layers=full_attention_layers)
"""The KV cache of a model in which only layers with full attention have one."""


def conv_state(axes: str, *, layers: Source, argument: str = "past_key_values") -> ExportSpec:
    """A spec of the last inputs of a convolution: `past_conv.0` -> `present_conv.0`."""
    return cache_row("conv", axes, attribute="conv_states.0", layers=layers, argument=argument)


def recurrent_state(name: str, axes: str, *, layers: Source, argument: str = "past_key_values") -> ExportSpec:
    """A spec of the state of a recurrence: `past_{name}.0` -> `present_{name}.0`."""
    return cache_row(name, axes, attribute="recurrent_states.0", layers=layers, argument=argument)


_conv_state_of_projections: ExportSpec = compose(
    reads(conv_width="2 * linear_num_key_heads * linear_key_head_dim + linear_num_value_heads * linear_value_head_dim"),
    conv_state("batch_size conv_width= linear_conv_kernel_dim=", layers=linear_attention_layers),
)
"""The last inputs of the convolution of queries, keys and values, in one tensor."""

# transformers.js knows only these names for OLMo Hybrid.
conv_states_in_parts: ExportSpec = compose(
    runs("decoders.with_conv_states_in_parts"),
    reads(
        linear_key_width="linear_num_key_heads * linear_key_head_dim",
        linear_value_width="linear_num_value_heads * linear_value_head_dim",
    ),
    *(
        cache_row(
            f"conv {part}",
            f"batch_size linear_{width}_width= linear_conv_kernel_dim=",
            input_name=f"past_conv.{LAYER}.{part}",
            output_name=f"present_conv.{LAYER}.{part}",
            attribute=f"conv_states.{part}",
            layers=linear_attention_layers,
        )
        for part, width in {"query": "key", "key": "key", "value": "value"}.items()  # queries are as wide as keys
    ),
)
"""The last inputs of the convolution, those of queries, keys and values in a tensor each: `past_conv.0.query`."""


def gated_delta_net_layers(conv: ExportSpec = _conv_state_of_projections) -> ExportSpec:
    """A spec of layers with a gated delta rule, among layers with full attention: Qwen3-Next, OLMo Hybrid."""
    return compose(
        full_attention_cache,
        conv,
        recurrent_state(
            "recurrent",
            "batch_size linear_num_value_heads= linear_key_head_dim= linear_value_head_dim=",
            layers=linear_attention_layers,
        ),
    )


kimi_delta_layers: ExportSpec = compose(
    reads(
        linear_heads="linear_num_heads or num_attention_heads",
        linear_size="linear_head_dim or head_dim",
        conv_size="linear_conv_kernel_dim or short_conv_kernel_size",
        conv_width="3 * linear_heads * linear_size",
        value_size="linear_size",
    ),
    conv_state("batch_size conv_width= conv_size=", layers=linear_attention_layers),
    recurrent_state("recurrent", "batch_size linear_heads= linear_size= value_size=", layers=linear_attention_layers),
)
"""Layers with Kimi Delta Attention, a delta rule with one decay per channel: Kimi Linear."""


def mamba_layers(
    *,
    state: str = "batch_size ssm_entries= ssm_width=",
    layers: Source = "num_layers",
    argument: str = "past_key_values",
) -> ExportSpec:
    """A spec of layers with the selective scan of the first Mamba, which PyTorch continues by single tokens only."""
    return compose(
        reads(
            ssm_entries="mamba_expand * hidden_size or intermediate_size",
            ssm_width="mamba_d_state or state_size",
            conv_size="mamba_d_conv or conv_kernel",
        ),
        conv_state("batch_size ssm_entries= conv_size=", layers=layers, argument=argument),
        tasked("text-generation-with-past", Edit("with_single_steps")),
        recurrent_state("ssm", state, layers=layers, argument=argument),
    )


def mamba2_layers(*, layers: Source = "num_layers", argument: str = "past_key_values") -> ExportSpec:
    """A spec of layers with the state space of Mamba 2: Mamba 2, Bamba, Nemotron-H."""
    return compose(
        reads(
            ssm_heads="mamba_n_heads or n_mamba_heads or mamba_num_heads or num_heads",
            ssm_size="mamba_d_head or mamba_headdim or mamba_head_dim or head_dim",
            ssm_groups="mamba_n_groups or mamba_ngroups or n_groups",
            ssm_width="mamba_d_state or ssm_state_size or state_size",
            conv_size="mamba_d_conv or conv_kernel",
            conv_width="ssm_heads * ssm_size + 2 * ssm_groups * ssm_width",
        ),
        conv_state("batch_size conv_width= conv_size=", layers=layers, argument=argument),
        recurrent_state("ssm", "batch_size ssm_heads= ssm_size= ssm_width=", layers=layers, argument=argument),
    )
