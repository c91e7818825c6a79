"""Encoder-decoders: rows. Where Optimum has one, inputs and tasks are those of its table: see tests/contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnxfn.algebra import compose
from onnxfn.families import decoder_alone, text_seq2seq
from onnxfn.normalizers import reads
from onnxfn.records import ExportSpec

t5 = compose(
    text_seq2seq,
    reads(
        decoder_num_layers="num_decoder_layers",
        decoder_num_attention_heads="num_heads",
        decoder_head_dim="d_kv",
    ),
)

marian = compose(text_seq2seq, decoder_alone)

ROWS: Mapping[str, ExportSpec] = MappingProxyType(
    {
        "marian": marian,
        "t5": t5,
    }
)
