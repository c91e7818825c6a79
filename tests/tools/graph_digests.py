"""Digests of the graphs that exports of tiny models give: nodes, attributes, names, types and shapes, without weights.

    python tests/tools/graph_digests.py FILE.json            writes the digests of this code
    python tests/tools/graph_digests.py FILE.json --compare  prints what differs from the file, fails if anything does

A change that is to leave the graphs alone (a move, a renaming) is shown to do so by the second command.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("XDG_CACHE_HOME", "/nonexistent")
TESTS = Path(__file__).resolve().parents[1]
for folder in (TESTS / "tiny_models", TESTS / "helpers", TESTS.parent):
    sys.path.insert(0, str(folder))

TABLES = {"text": 14, "vision": 14, "detection": 14, "multimodal": 14, "audio": 14, "series": 4}
"""Families, and of how many different rows of each a graph is digested."""

DECODERS = (
    *("llama", "bloom", "falcon", "deepseek_v3", "gemma2", "gemma3", "gpt2", "gpt_bigcode", "lfm2", "llama4_text"),
    *("mamba2", "mimo_v2_flash", "minimax", "mpt", "nemotron_h", "opt", "qwen3_5_text", "qwen3_moe", "kimi_linear"),
)
SEQ2SEQ = (
    ("bart", "text2text-generation-with-past"),
    ("bart", "question-answering"),
    ("t5", "text2text-generation-with-past"),
    ("marian", "text-generation-with-past"),
    ("whisper", "automatic-speech-recognition-with-past"),
    ("whisper", "audio-classification"),
)
LAYERS = {"num_hidden_layers": 6}


def graph_digest(path):
    """SHA-256 of an ONNX file without weights, metadata and the place of its data."""
    import onnx
    from graph_edits import graphs

    model = onnx.load(str(path), load_external_data=False)
    model.ClearField("metadata_props")
    model.ClearField("producer_version")
    for initializer in (each for graph in graphs(model.graph) for each in graph.initializer):
        dims, kind, name = list(initializer.dims), initializer.data_type, initializer.name
        small = initializer.raw_data if len(initializer.raw_data) <= 64 else b""
        initializer.Clear()
        initializer.name, initializer.data_type, initializer.raw_data = name, kind, small
        initializer.dims.extend(dims)
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()


def cases():
    """`(name, model type, task, edit of the spec, options of the model)` of each export."""
    import onnxfn
    from onnxfn import architectures
    from onnxfn.architectures import audio, detection, multimodal, series, text, vision

    tables = {"text": text, "vision": vision, "detection": detection}
    tables |= {"multimodal": multimodal, "audio": audio, "series": series}
    assert architectures
    for family, table in tables.items():
        # Model types in the order of their names, one of each different table of tensors.
        names, seen = [], set()
        for name, row in sorted(table.ROWS.items()):
            key = (tuple(one.name for one in row.inputs), tuple(one.name for one in row.outputs), len(row.tasks))
            if key not in seen and name != "mctct":
                seen.add(key)
                names.append(name)
        for name in names[: TABLES[family]]:
            task = onnxfn.tasks_for(name)[0]
            yield f"{family}/{name}/{task}", name, task, lambda spec: spec, {}
    for name in DECODERS:
        yield f"decoders/{name}", name, "text-generation-with-past", lambda spec: spec, {}
    for name, task in SEQ2SEQ:
        yield f"seq2seq/{name}/{task}", name, task, lambda spec: spec, {}
    deep = "text-generation-with-past"
    yield "deep/llama", "llama", deep, lambda spec: spec, LAYERS
    yield "deep/bert", "bert", "feature-extraction", lambda spec: spec, LAYERS
    yield "opset 23/llama", "llama", deep, lambda spec: onnxfn.with_opset(spec, 23), {}
    yield "opset 23/bert", "bert", "fill-mask", lambda spec: onnxfn.with_opset(spec, 23), {}
    yield "float16/bert", "bert", "fill-mask", lambda spec: onnxfn.with_dtypes(spec, float="float16"), {}
    yield "int32/gpt2", "gpt2", deep, lambda spec: onnxfn.with_dtypes(spec, int="int32"), {}
    yield "fixed/bert", "bert", "fill-mask", lambda spec: onnxfn.with_shapes(spec, batch_size=1), {}
    yield "embeds/llama", "llama", deep, onnxfn.with_inputs_embeds, {}
    yield (
        "hidden states/bert",
        "bert",
        "feature-extraction",
        lambda spec: onnxfn.with_outputs(spec, "hidden_states", "attentions"),
        {},
    )
    yield "split/clip", "clip", "feature-extraction", onnxfn.split, {}


def digests():
    """`{name of the export: {file: digest}}`."""
    import tiny
    import torch

    import onnxfn
    from onnxfn.specs.tasks.tasks import TASKS

    found = {}
    for name, model_type, task, edit, options in cases():
        spec = onnxfn.spec_for(model_type, task)
        loader = spec.call.loader or TASKS[task.removesuffix("-with-past")].call.loader
        torch.manual_seed(0)
        model = tiny.model(model_type, loader, **options)
        with TemporaryDirectory() as folder:
            onnxfn.export(edit(spec), model, Path(folder) / "out", check=False)
            found[name] = {path.name: graph_digest(path) for path in sorted(Path(folder).rglob("*.onnx"))}
        print(name, flush=True)
    return found


def main(file, *flags):
    now = digests()
    if flags != ("--compare",):
        Path(file).write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
        return 0
    before = json.loads(Path(file).read_text())
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    print(f"{len(now)} exports, {len(changed)} differ", *changed, sep="\n")
    return bool(changed)


if __name__ == "__main__":
    # transformers builds the masks of some models (gemma3, mimo_v2_flash) in the order of a set of texts.
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main(*sys.argv[1:]))
