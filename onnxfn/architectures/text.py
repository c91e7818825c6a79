"""Text encoders. Rows that Optimum also has take its inputs and tasks (tests/contract)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families import bert_inputs, text_encoder, text_inputs
from onnxfn.architectures.families.text import global_mask_dummies
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.facts import TOKENS, always, gives, patched, takes
from onnxfn.specs.getters import from_config, reads
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

CLASSIFICATION = ("text-classification", "token-classification")
BASIC_TASKS = ("feature-extraction", "fill-mask", *CLASSIFICATION)
WITHOUT_FILL_MASK = ("feature-extraction", *CLASSIFICATION, "question-answering")

bert: ExportSpec = compose(text_encoder, bert_inputs)
roberta: ExportSpec = compose(text_encoder, text_inputs)

# A model that was trained without segments has no `token_type_ids`.
deberta_v2: ExportSpec = compose(roberta, takes("token_type_ids", TOKENS, "segment_ids", when="type_vocab_size"))
deberta: ExportSpec = only_tasks(deberta_v2, *BASIC_TASKS, "question-answering")

# XLM and Flaubert look up `token_type_ids` in the embedding of tokens. They have no embedding of segments.
xlm: ExportSpec = compose(
    bert,
    generates("segment_ids", "integers", high=from_config("vocab_size")),
    reads(vocab_size="n_words or vocab_size"),
)

LONGFORMER = "transformers.models.longformer.modeling_longformer:Longformer"
longformer: ExportSpec = compose(
    bert,
    takes("global_attention_mask", TOKENS, "global_mask"),
    global_mask_dummies,
    patched(f"{LONGFORMER}Model._pad_to_window_size", by="longformer.unpadded_inputs", why="branches on the length"),
    patched(
        f"{LONGFORMER}SelfAttention.forward",
        by="longformer.attention",
        why="branches on whether any token is global",
    ),
)

# Each path has exactly `max_depth` steps (modeling_markuplm.XPathEmbeddings.forward).
XPATH = f"{TOKENS} max_depth="
markuplm: ExportSpec = only_tasks(
    compose(
        bert,
        takes("xpath_subs_seq", XPATH, "xpath_subs"),
        takes("xpath_tags_seq", XPATH, "xpath_tags"),
        generates("xpath_subs", "integers", high=from_config("max_xpath_subs_unit_embeddings")),
        generates("xpath_tags", "integers", high=from_config("max_xpath_tag_unit_embeddings")),
    ),
    *WITHOUT_FILL_MASK,
)

# Models with one segment type or none have no `token_type_ids`.
roberta_with_segments: ExportSpec = compose(
    roberta, takes("token_type_ids", TOKENS, "segment_ids", when="type_vocab_size // 2")
)

# A box per token: left, top, right, bottom.
text_with_boxes: ExportSpec = compose(
    text_encoder,
    takes("input_ids", TOKENS, "token_ids"),
    takes("bbox", f"{TOKENS} 4", "boxes"),
    generates("boxes", "boxes", high=from_config("max_2d_position_embeddings")),
)
layoutlm: ExportSpec = only_tasks(compose(text_with_boxes, bert_inputs), *BASIC_TASKS)
lilt: ExportSpec = only_tasks(compose(text_with_boxes, text_inputs), *WITHOUT_FILL_MASK)
bros: ExportSpec = only_tasks(
    compose(
        bert,
        takes("bbox", f"{TOKENS} 4", "corners", kind="float"),
        generates("corners", "uniform", low=0.0, high=1.0),
    ),
    "feature-extraction",
    "token-classification",
)

CANINE = "transformers.models.canine.modeling_canine:Canine"
canine: ExportSpec = only_tasks(
    compose(
        bert,
        reads(vocab_size="1114112"),  # token ids are code points of Unicode
        patched(f"{CANINE}Attention.forward", by="canine.attention", why="loops over chunks of the text"),
        patched(f"{CANINE}Model._downsample_attention_mask", by="canine.downsampled_mask", why="fixes the length"),
        patched(
            f"{CANINE}Model._repeat_molecules",
            by="canine.repeated_molecules",
            why="repeats tokens by a number that depends on the length",
        ),
    ),
    *WITHOUT_FILL_MASK,
    "multiple-choice",
)

# AutoModel loads the encoder of questions. The encoder of contexts is the same. Both return a pooled vector only.
dpr: ExportSpec = without(
    only_tasks(
        compose(bert, tasked("feature-extraction", spec=gives("pooler_output", "batch_size _"))), "feature-extraction"
    ),
    "last_hidden_state",
)

# ErnieForMultipleChoice reshapes its inputs to one row per choice, except `task_type_ids`.
ernie: ExportSpec = compose(
    bert,
    takes("task_type_ids", TOKENS, "task_ids", when="use_task_id"),
    generates("task_ids", "integers", high=from_config("task_type_vocab_size")),
    tasked("multiple-choice", spec=takes("task_type_ids", TOKENS, "task_ids", when="0")),
)

# FNet mixes tokens by a Fourier transform, which has no mask.
fnet: ExportSpec = compose(
    without(bert, "attention_mask"),
    patched(
        "transformers.models.fnet.modeling_fnet:FNetBasicFourierTransform.forward",
        by="fnet.fourier_transform",
        why="uses a Fourier transform, which is inexact in ONNX Runtime",
    ),
)

# The third segment type is that of the first token (modeling_funnel.FunnelAttentionStructure).
funnel: ExportSpec = compose(
    bert,
    reads(type_vocab_size="3"),
    patched(
        "transformers.models.funnel.modeling_funnel:FunnelAttentionStructure.get_position_embeds",
        by="funnel.position_embeds",
        why="lists all positions in Python",
    ),
)

roc_bert: ExportSpec = compose(
    bert,
    takes("input_shape_ids", TOKENS, "shape_ids", when="enable_shape"),
    takes("input_pronunciation_ids", TOKENS, "pronunciation_ids", when="enable_pronunciation"),
    generates("shape_ids", "integers", high=from_config("shape_vocab_size")),
    generates("pronunciation_ids", "integers", high=from_config("pronunciation_vocab_size")),
)

# `token_type_ids` has seven numbers per token, such as its row and column in a table. The smallest of the embeddings
# has two entries, so that dummies are 0 or 1 (modeling_tapas.TapasEmbeddings).
tapas: ExportSpec = only_tasks(
    compose(
        bert,
        takes("token_type_ids", f"{TOKENS} num_token_types=", "segment_ids"),
        generates("segment_ids", "integers", high=2),
        reads(num_token_types="len(type_vocab_sizes)"),  # noqa: S106 - a formula
        patched(
            "transformers.models.tapas.modeling_tapas:_segment_reduce",
            by="tapas.segment_reduction",
            why="takes means over the cells of a table, which ONNX translates as sums",
        ),
    ),
    "feature-extraction",
    "fill-mask",
    "text-classification",
)

# The graph has no memories of earlier texts (`mems`): to return them would limit the length.
xlnet: ExportSpec = only_tasks(compose(bert, always(use_mems=False)), *WITHOUT_FILL_MASK, "multiple-choice")

# A model with a default language (`set_default_language`) has no input for it. XmodForMultipleChoice repeats `lang_ids`
# once per choice of the batch, so it takes one language for all of them.
xmod: ExportSpec = compose(
    roberta,
    takes("lang_ids", "batch_size", "language_ids", when="not default_language"),
    generates("language_ids", "integers", high=from_config("len(languages)")),
    tasked("multiple-choice", spec=takes("lang_ids", "1", "language_ids", when="not default_language")),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "albert": bert,
        "bert": bert,
        "bert-generation": only_tasks(roberta, "feature-extraction"),
        "big_bird": roberta,  # the graph has full attention, which the model itself uses for short texts
        "bros": bros,
        "camembert": roberta,
        "canine": canine,
        "convbert": bert,
        "data2vec-text": roberta,
        "deberta": deberta,
        "deberta-v2": deberta_v2,
        "distilbert": roberta,
        "dpr": dpr,
        "electra": bert,
        "ernie": ernie,
        "esm": only_tasks(roberta, *BASIC_TASKS),
        "esmc": only_tasks(roberta, *BASIC_TASKS),
        "eurobert": only_tasks(roberta, *BASIC_TASKS),
        "flaubert": xlm,
        "fnet": fnet,
        "funnel": funnel,
        "gte": only_tasks(roberta_with_segments, *BASIC_TASKS),
        "ibert": roberta,
        "jina_embeddings_v3": only_tasks(roberta_with_segments, *BASIC_TASKS, "question-answering"),
        "layoutlm": layoutlm,
        "lilt": lilt,
        "longformer": longformer,
        "luke": roberta,
        "markuplm": markuplm,
        "megatron-bert": bert,
        "mobilebert": bert,
        "modernbert": only_tasks(roberta, *BASIC_TASKS),
        "mpnet": roberta,
        "nomic_bert": only_tasks(bert, *BASIC_TASKS),
        "nystromformer": bert,
        "rembert": bert,
        "roberta": roberta,
        "roberta-prelayernorm": roberta,
        "roc_bert": roc_bert,
        "roformer": bert,
        "splinter": only_tasks(bert, "feature-extraction", "question-answering"),
        "squeezebert": bert,
        "tapas": tapas,
        "ultrabert": only_tasks(roberta, *BASIC_TASKS, "question-answering"),
        "xlm": xlm,
        "xlm-roberta": roberta,
        "xlm-roberta-xl": roberta,
        "xlnet": xlnet,
        "xmod": xmod,
        "yoso": roberta_with_segments,
    }
)
