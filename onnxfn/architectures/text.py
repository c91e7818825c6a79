"""Text encoders: rows. Inputs and tasks are those of Optimum's table, which tests/contract holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.edits import only_tasks, patched, takes
from onnxfn.families import bert_inputs, case, text_encoder, text_inputs
from onnxfn.generators import generates
from onnxfn.normalizers import either, from_config, reads
from onnxfn.records import ExportSpec
from onnxfn.tasks import TOKENS

CLASSIFIERS = ("text-classification", "token-classification")
SMALL = ("feature-extraction", "fill-mask", *CLASSIFIERS)

bert = compose(text_encoder, bert_inputs)
roberta = compose(text_encoder, text_inputs)

# Segments are read only by models that were trained with them.
deberta_v2 = compose(roberta, takes("token_type_ids", TOKENS, "segment_ids", when="type_vocab_size"))
deberta = only_tasks(deberta_v2, *SMALL, "question-answering")

# XLM's and Flaubert's `token_type_ids` are rows of the token table, not of a table of segments.
xlm = compose(bert, generates("segment_ids", "integers", high=from_config("vocab_size")), reads(vocab_size=either("n_words", "vocab_size")))

LONGFORMER = "transformers.models.longformer.modeling_longformer:Longformer"
longformer = compose(
    bert,
    generates("global_mask", "first"),
    takes("global_attention_mask", TOKENS, "global_mask"),
    # Traced with one global token a row; tried with none, and with another number in each row.
    case("one", generates("global_mask", "filled", value=0)),
    case("right-padded", generates("global_mask", "integers", high=2)),
    case("left-padded", generates("global_mask", "integers", high=2)),
    patched(f"{LONGFORMER}Model._pad_to_window_size", by="onnxfn.patches.longformer:unpadded", why="branches on the length"),
    patched(
        f"{LONGFORMER}SelfAttention.forward",
        by="onnxfn.patches.longformer:attention",
        why="branches on whether any token is global",
    ),
)

# The model reads exactly `max_depth` steps of each path (modeling_markuplm.XPathEmbeddings.forward).
XPATH = f"{TOKENS} max_depth="
markuplm = only_tasks(
    compose(
        bert,
        takes("xpath_subs_seq", XPATH, "xpath_subs"),
        takes("xpath_tags_seq", XPATH, "xpath_tags"),
        generates("xpath_subs", "integers", high=from_config("max_xpath_subs_unit_embeddings")),
        generates("xpath_tags", "integers", high=from_config("max_xpath_tag_unit_embeddings")),
    ),
    "feature-extraction", *CLASSIFIERS, "question-answering",
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "albert": bert,
        "bert": bert,
        "big_bird": roberta,
        "camembert": roberta,
        "convbert": bert,
        "data2vec-text": roberta,
        "deberta": deberta,
        "deberta-v2": deberta_v2,
        "distilbert": roberta,
        "electra": bert,
        "esm": only_tasks(roberta, *SMALL),
        "flaubert": xlm,
        "ibert": roberta,
        "longformer": longformer,
        "markuplm": markuplm,
        "megatron-bert": bert,
        "mobilebert": bert,
        "modernbert": only_tasks(roberta, *SMALL),
        "mpnet": roberta,
        "nystromformer": bert,
        "rembert": bert,
        "roberta": roberta,
        "roformer": bert,
        "splinter": only_tasks(bert, "feature-extraction", "question-answering"),
        "squeezebert": bert,
        "xlm": xlm,
        "xlm-roberta": roberta,
    }
)
