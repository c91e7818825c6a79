"""Tiny adapters of every kind that PEFT writes, on models whose weights are a formula.

    python tests/helpers/peft_adapters.py

writes them to tests/tiny_models/adapters, each with the parameters that PEFT's own merge changes. It needs peft.
"""

import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

FOLDER = Path(__file__).parents[1] / "tiny_models/adapters"
EXPECTED = "merged.safetensors"

SIZES = {
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 20,
    "max_position_embeddings": 32,
}
LLAMA = ("Llama", "ForCausalLM", {**SIZES, "num_key_value_heads": 1, "tie_word_embeddings": False})
BERT = ("Bert", "ForSequenceClassification", SIZES)
GPT2 = ("GPT2", "LMHeadModel", {"n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 20, "n_positions": 32})
VIT = ("ViT", "Model", {**SIZES, "image_size": 8, "patch_size": 4})

CASES = {
    "patterns": (
        LLAMA,
        {
            "target_modules": ["q_proj", "down_proj"],
            "lora_alpha": 5,
            "r": 3,
            "rank_pattern": {"down_proj": 2},
            "alpha_pattern": {"layers.0.self_attn.q_proj": 7},
        },
    ),
    "rslora": (LLAMA, {"target_modules": ["o_proj"], "r": 4, "use_rslora": True, "modules_to_save": ["lm_head"]}),
    "embedding": (LLAMA, {"target_modules": ["embed_tokens", "gate_proj"], "r": 2}),
    "dora": (BERT, {"target_modules": ["query", "dense"], "r": 2, "use_dora": True, "modules_to_save": ["classifier"]}),
    "conv1d": (GPT2, {"target_modules": ["c_attn", "c_proj"], "r": 2, "fan_in_fan_out": True, "bias": "all"}),
    "conv2d": (VIT, {"target_modules": ["projection"], "r": 2}),
}
"""From the name of an adapter to the model, its head and sizes, and the arguments of PEFT's LoraConfig."""


def base_model(name: str) -> torch.nn.Module:
    """The model that an adapter belongs to. Its weights are sines, the same in every version of torch."""
    (family, head, sizes), _ = CASES[name]
    model = getattr(transformers, f"{family}{head}")(getattr(transformers, f"{family}Config")(**sizes)).eval()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters(), start=1):
            parameter.copy_(_sines(parameter.shape, number))
    return model


def write_adapter(name: str, folder: Path, seed: int = 0) -> dict[str, torch.Tensor]:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    adapted = get_peft_model(base_model(name), LoraConfig(**CASES[name][1]))
    with torch.no_grad():
        for parameter_name, parameter in adapted.named_parameters():
            if parameter.requires_grad:
                wide = 0.2 * torch.randn_like(parameter)
                parameter.copy_(parameter + wide if "magnitude" in parameter_name else wide)
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    return dict(adapted.merge_and_unload().named_parameters(remove_duplicate=False))


def _sines(shape: torch.Size, number: int) -> torch.Tensor:
    return 0.4 * torch.sin(torch.arange(shape.numel(), dtype=torch.float64) * (1 + number / 7)).reshape(shape).float()


def main() -> None:
    for name in sys.argv[1:] or CASES:
        merged = write_adapter(name, FOLDER / name)
        base = dict(base_model(name).named_parameters(remove_duplicate=False))
        changed = {key: tensor.detach().clone() for key, tensor in merged.items() if not tensor.equal(base[key])}
        save_file(changed, FOLDER / name / EXPECTED)


if __name__ == "__main__":
    main()
