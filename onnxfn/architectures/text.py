"""Text encoders: rows. Where Optimum has one, inputs and tasks are those of its table, which tests/contract holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.architectures.families import bert_inputs, text_encoder, text_inputs
from onnxfn.specs.compose import compose
from onnxfn.specs.dummies import generates
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.facts import TOKENS, always, case, gives, patched, takes
from onnxfn.specs.getters import constant, count, either, from_config, negated, quotient, reads
from onnxfn.specs.spec import ExportSpec
from onnxfn.specs.tasks import tasked

CLASSIFIERS = ("text-classification", "token-classification")
SMALL = ("feature-extraction", "fill-mask", *CLASSIFIERS)
HEADLESS = ("feature-extraction", *CLASSIFIERS, "question-answering")

bert = compose(text_encoder, bert_inputs)
roberta = compose(text_encoder, text_inputs)

# Segments are read only by models that were trained with them.
deberta_v2 = compose(roberta, takes("token_type_ids", TOKENS, "segment_ids", when="type_vocab_size"))
deberta = only_tasks(deberta_v2, *SMALL, "question-answering")

# XLM's and Flaubert's `token_type_ids` are rows of the token table, not of a table of segments.
xlm = compose(
    bert,
    generates("segment_ids", "integers", high=from_config("vocab_size")),
    reads(vocab_size=either("n_words", "vocab_size")),
)

LONGFORMER = "transformers.models.longformer.modeling_longformer:Longformer"
longformer = compose(
    bert,
    generates("global_mask", "first_one"),
    takes("global_attention_mask", TOKENS, "global_mask"),
    # Traced with one global token a row; tried with none, and with another number in each row.
    case("one", generates("global_mask", "constant", value=0)),
    case("right-padded", generates("global_mask", "integers", high=2)),
    case("left-padded", generates("global_mask", "integers", high=2)),
    patched(f"{LONGFORMER}Model._pad_to_window_size", by="longformer.unpadded_inputs", why="branches on the length"),
    patched(
        f"{LONGFORMER}SelfAttention.forward",
        by="longformer.attention",
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
    *HEADLESS,
)

# Where the configuration has one kind of segment, or none, there is nothing to tell.
segmented = compose(
    roberta, takes("token_type_ids", TOKENS, "segment_ids", when=quotient("type_vocab_size", constant(2)))
)

# Four numbers a token: left, top, right, bottom.
boxed = compose(
    text_encoder,
    takes("input_ids", TOKENS, "token_ids"),
    takes("bbox", f"{TOKENS} 4", "boxes"),
    generates("boxes", "boxes", high=from_config("max_2d_position_embeddings")),
)
layoutlm = only_tasks(compose(boxed, bert_inputs), *SMALL)
lilt = only_tasks(compose(boxed, text_inputs), *HEADLESS)
bros = only_tasks(
    compose(
        bert,
        takes("bbox", f"{TOKENS} 4", "corners", kind="float"),
        generates("corners", "uniform", low=0.0, high=1.0),
    ),
    "feature-extraction",
    "token-classification",
)

CANINE = "transformers.models.canine.modeling_canine:Canine"
canine = only_tasks(
    compose(
        bert,
        reads(vocab_size=constant(0x110000)),  # its tokens are characters of Unicode
        patched(f"{CANINE}Attention.forward", by="canine.attention", why="loops over the length"),
        patched(f"{CANINE}Model._downsample_attention_mask", by="canine.downsampled_mask", why="fixes the length"),
        patched(f"{CANINE}Model._repeat_molecules", by="canine.repeated_molecules", why="repeats by the length"),
    ),
    *HEADLESS,
    "multiple-choice",
)

# AutoModel loads the encoder of questions; that of contexts is alike. Both give the pooled output alone.
dpr = without(
    only_tasks(
        compose(bert, tasked("feature-extraction", spec=gives("pooler_output", "batch_size _"))), "feature-extraction"
    ),
    "last_hidden_state",
)

# ErnieForMultipleChoice gives its choices to the model one row each, but not their `task_type_ids`.
ernie = compose(
    bert,
    takes("task_type_ids", TOKENS, "task_ids", when="use_task_id"),
    generates("task_ids", "integers", high=from_config("task_type_vocab_size")),
    tasked("multiple-choice", spec=takes("task_type_ids", TOKENS, "task_ids", when=constant(0))),
)

# FNet mixes tokens by a Fourier transform, which knows no mask.
fnet = compose(
    without(bert, "attention_mask"),
    patched(
        "transformers.models.fnet.modeling_fnet:FNetBasicFourierTransform.forward",
        by="fnet.fourier_transform",
        why="the DFT of ONNX Runtime is inexact",
    ),
)

# The third kind of segment is that of the first token (modeling_funnel.FunnelAttentionStructure).
funnel = compose(
    bert,
    reads(type_vocab_size=constant(3)),
    patched(
        "transformers.models.funnel.modeling_funnel:FunnelAttentionStructure.get_position_embeds",
        by="funnel.position_embeds",
        why="lists every position",
    ),
)

roc_bert = compose(
    bert,
    takes("input_shape_ids", TOKENS, "shape_ids", when="enable_shape"),
    takes("input_pronunciation_ids", TOKENS, "pronunciation_ids", when="enable_pronunciation"),
    generates("shape_ids", "integers", high=from_config("shape_vocab_size")),
    generates("pronunciation_ids", "integers", high=from_config("pronunciation_vocab_size")),
)

# A token's place in a table, as seven numbers; the least of them has two values (modeling_tapas.TapasEmbeddings).
tapas = only_tasks(
    compose(
        bert,
        takes("token_type_ids", f"{TOKENS} num_token_types=", "segment_ids"),
        generates("segment_ids", "integers", high=2),
        reads(num_token_types=count("type_vocab_sizes")),
    ),
    "feature-extraction",
    "fill-mask",
    "text-classification",
)

# Memories of earlier texts are neither taken nor given, and to keep them would limit the length.
xlnet = only_tasks(compose(bert, always(use_mems=False)), *HEADLESS, "multiple-choice")

# A model that has a language of its own, `set_default_language`, needs not be told one. XmodForMultipleChoice repeats
# what it is told by the number of all choices, so takes one language for them all.
xmod = compose(
    roberta,
    takes("lang_ids", "batch_size", "language_ids", when=negated("default_language")),
    generates("language_ids", "integers", high=from_config(count("languages"))),
    tasked("multiple-choice", spec=takes("lang_ids", "1", "language_ids", when=negated("default_language"))),
)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "albert": bert,
        "bert": bert,
        "bert-generation": only_tasks(roberta, "feature-extraction"),
        "big_bird": roberta,  # full attention, as the model itself computes up to the length that its limit says
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
        "esm": only_tasks(roberta, *SMALL),
        "esmc": only_tasks(roberta, *SMALL),
        "eurobert": only_tasks(roberta, *SMALL),
        "flaubert": xlm,
        "fnet": fnet,
        "funnel": funnel,
        "gte": only_tasks(segmented, *SMALL),
        "ibert": roberta,
        "jina_embeddings_v3": only_tasks(segmented, *SMALL, "question-answering"),
        "layoutlm": layoutlm,
        "lilt": lilt,
        "longformer": longformer,
        "luke": roberta,
        "markuplm": markuplm,
        "megatron-bert": bert,
        "mobilebert": bert,
        "modernbert": only_tasks(roberta, *SMALL),
        "mpnet": roberta,
        "nomic_bert": only_tasks(bert, *SMALL),
        "nystromformer": bert,
        "rembert": bert,
        "roberta": roberta,
        "roberta-prelayernorm": roberta,
        "roc_bert": roc_bert,
        "roformer": bert,
        "splinter": only_tasks(bert, "feature-extraction", "question-answering"),
        "squeezebert": bert,
        "tapas": tapas,
        "ultrabert": only_tasks(roberta, *SMALL, "question-answering"),
        "xlm": xlm,
        "xlm-roberta": roberta,
        "xlm-roberta-xl": roberta,
        "xlnet": xlnet,
        "xmod": xmod,
        "yoso": segmented,
    }
)
