"""A decoder of a type that a client does not know is loaded under an alias, and writes PyTorch's tokens."""

import pytest
import torch
from exporting import exported, reference
from running import run_client

pytestmark = pytest.mark.clients

TASK, FLAG = "text-generation-with-past", "--alias"
IDS, COUNT = [3, 17, 45, 9, 22, 64, 5, 31], 12
JOB = {"ids": IDS, "count": COUNT, "options": {"max_new_tokens": COUNT, "do_sample": False}}
CLIENTS = {"transformers.js": {}, "optimum": {"function": "tokens", "class": "ORTModelForCausalLM"}}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_decoder_under_an_alias_writes_the_tokens_of_pytorch(client, exports, note):
    """transformers.js has no seed_oss, and ORTModel starts it with a cache of other sizes."""
    note({"client": client, "kind": "alias", "case": "seed_oss", "flags": (FLAG,)})
    folder = exported(exports, "seed_oss", TASK, (FLAG,))
    given = run_client(client, {**JOB, **CLIENTS[client], "folder": str(folder)})["result"]
    model = reference(exports, "seed_oss", folder).model
    model.generation_config.eos_token_id = None
    ids = torch.tensor([IDS])
    written = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=COUNT)
    assert given == written[0, len(IDS) :].tolist()
