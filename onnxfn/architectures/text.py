"""Text encoders. Rows that Optimum also has take its inputs and tasks (tests/contract)."""

from collections.abc import Mapping

from onnxfn.architectures.families.rows import rows
from onnxfn.architectures.families.text import bert_inputs, box_inputs, global_mask_dummies, text_encoder, text_inputs
from onnxfn.specs.algebra.compose import compose, from_config, reads
from onnxfn.specs.algebra.dummies import generates
from onnxfn.specs.algebra.facts import TOKENS, always, gives, takes
from onnxfn.specs.algebra.spec import ExportSpec
from onnxfn.specs.edits.tensors import only_tasks, without
from onnxfn.specs.tasks.tasks import tasked

CLASSIFICATION = ("text-classification", "token-classification")
BASIC_TASKS = ("feature-extraction", "fill-mask", *CLASSIFICATION)
WITHOUT_FILL_MASK = ("feature-extraction", *CLASSIFICATION, "question-answering")

bert: ExportSpec = compose(text_encoder, bert_inputs)
roberta: ExportSpec = compose(text_encoder, text_inputs)

# A model that was trained without segments has no `token_type_ids`.
deberta_v2: ExportSpec = compose(roberta, takes("token_type_ids", TOKENS, "segment_ids", when="type_vocab_size"))

# Each path has exactly `max_depth` steps (modeling_markuplm.XPathEmbeddings.forward).
XPATH = f"{TOKENS} max_depth="

# Models with one segment type or none have no `token_type_ids`.
roberta_with_segments: ExportSpec = compose(
    roberta, takes("token_type_ids", TOKENS, "segment_ids", when="type_vocab_size // 2")
)

text_with_boxes: ExportSpec = compose(text_encoder, takes("input_ids", TOKENS, "token_ids"), box_inputs)
bros: ExportSpec = compose(
    only_tasks(bert, "feature-extraction", "token-classification"),
    takes("bbox", f"{TOKENS} 4", "corners", kind="float"),
    generates("corners", "uniform", low=0.0, high=1.0),
)

# AutoModel loads the encoder of questions. The encoder of contexts is the same. Both return a pooled vector only.
pooled: ExportSpec = tasked("feature-extraction", gives("pooler_output", "batch_size _"))
dpr: ExportSpec = without(compose(only_tasks(bert, "feature-extraction"), pooled), "last_hidden_state")

ROWS: Mapping[str, ExportSpec] = rows(
    {
        "albert bert convbert electra megatron-bert mobilebert nystromformer rembert roformer squeezebert": bert,
        "bert-generation": only_tasks(roberta, "feature-extraction"),
        "bros": bros,
        (
            "camembert data2vec-text distilbert ibert luke mpnet roberta roberta-prelayernorm xlm-roberta "
            "xlm-roberta-xl"
        ): roberta,
        # Token ids are code points of Unicode.
        "canine": only_tasks(compose(bert, reads(vocab_size="1114112")), *WITHOUT_FILL_MASK, "multiple-choice"),
        "deberta": only_tasks(deberta_v2, *BASIC_TASKS, "question-answering"),
        "deberta-v2": deberta_v2,
        "dpr": dpr,
        # ErnieForMultipleChoice reshapes its inputs to one row per choice, except `task_type_ids`.
        "ernie": compose(
            bert,
            takes("task_type_ids", TOKENS, "task_ids", when="use_task_id"),
            generates("task_ids", "integers", high=from_config("task_type_vocab_size")),
            tasked("multiple-choice", takes("task_type_ids", TOKENS, "task_ids", when="0")),
        ),
        "esm esmc eurobert modernbert": only_tasks(roberta, *BASIC_TASKS),
        # XLM and Flaubert look up `token_type_ids` in the embedding of tokens. They have no embedding of segments.
        "flaubert xlm": compose(
            bert,
            generates("segment_ids", "integers", high=from_config("vocab_size")),
            reads(vocab_size="n_words or vocab_size"),
        ),
        # FNet mixes tokens by a Fourier transform, which has no mask.
        "fnet": without(bert, "attention_mask"),
        # The third segment type is that of the first token (modeling_funnel.FunnelAttentionStructure).
        "funnel": compose(bert, reads(type_vocab_size="3")),
        "gte": only_tasks(roberta_with_segments, *BASIC_TASKS),
        "jina_embeddings_v3": only_tasks(roberta_with_segments, *BASIC_TASKS, "question-answering"),
        "layoutlm": only_tasks(compose(text_with_boxes, bert_inputs), *BASIC_TASKS),
        "lilt": only_tasks(compose(text_with_boxes, text_inputs), *WITHOUT_FILL_MASK),
        "longformer": compose(bert, takes("global_attention_mask", TOKENS, "global_mask"), global_mask_dummies),
        "markuplm": compose(
            only_tasks(bert, *WITHOUT_FILL_MASK),
            takes("xpath_subs_seq", XPATH, "xpath_subs"),
            takes("xpath_tags_seq", XPATH, "xpath_tags"),
            generates("xpath_subs", "integers", high=from_config("max_xpath_subs_unit_embeddings")),
            generates("xpath_tags", "integers", high=from_config("max_xpath_tag_unit_embeddings")),
        ),
        "nomic_bert": only_tasks(bert, *BASIC_TASKS),
        "roc_bert": compose(
            bert,
            takes("input_shape_ids", TOKENS, "shape_ids", when="enable_shape"),
            takes("input_pronunciation_ids", TOKENS, "pronunciation_ids", when="enable_pronunciation"),
            generates("shape_ids", "integers", high=from_config("shape_vocab_size")),
            generates("pronunciation_ids", "integers", high=from_config("pronunciation_vocab_size")),
        ),
        "splinter": only_tasks(bert, "feature-extraction", "question-answering"),
        # `token_type_ids` has seven numbers per token, such as its row and column in a table. The smallest of the
        # embeddings has two entries, so that dummies are 0 or 1 (modeling_tapas.TapasEmbeddings).
        "tapas": compose(
            only_tasks(bert, "feature-extraction", "fill-mask", "text-classification"),
            takes("token_type_ids", f"{TOKENS} num_token_types=", "segment_ids"),
            generates("segment_ids", "integers", high=2),
            reads(num_token_types="len(type_vocab_sizes)"),  # noqa: S106
        ),
        "ultrabert": only_tasks(roberta, *BASIC_TASKS, "question-answering"),
        # The graph has no memories of earlier texts (`mems`): to return them would limit the length.
        "xlnet": only_tasks(compose(bert, always(use_mems=False)), *WITHOUT_FILL_MASK, "multiple-choice"),
        # A model with a default language (`set_default_language`) has no input for it. XmodForMultipleChoice repeats
        # `lang_ids` once per choice of the batch, so it takes one language for all of them.
        "xmod": compose(
            roberta,
            takes("lang_ids", "batch_size", "language_ids", when="not default_language"),
            generates("language_ids", "integers", high=from_config("len(languages)")),
            tasked("multiple-choice", takes("lang_ids", "1", "language_ids", when="not default_language")),
        ),
        "yoso": roberta_with_segments,
        "big_bird": roberta,  # the graph has full attention, which the model itself uses for short texts
    }
)
