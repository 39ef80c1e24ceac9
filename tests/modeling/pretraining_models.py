"""Tiny models with a softmax, and batches for them."""

import numpy as np
import torch
from hypothesis import HealthCheck

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoStates
from tests.models import TINY, random_words

SLOTS, VOCAB, NO_LABEL = 8, 20, -100
# An engine is chosen for all examples of a test: a fixture per test is what is wanted.
ONE_ENGINE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
KINDS = ["full", "sampled", "adaptive"]


def pretraining_model(seed: int = 0, **fields) -> ElmoForPreTraining:
    """A tiny one in fp64 and evaluation mode, with weights large enough for every word to matter."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": VOCAB, "max_characters_per_token": SLOTS, "softmax_samples": 8}
    model = ElmoForPreTraining(ElmoConfig(**(TINY | sizes | fields))).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") and not name.startswith("elmo.token_encoder"):
                parameter.normal_(std=0.5)
            elif name.startswith("elmo.layers"):
                parameter.mul_(2)
    return model


def random_batch(rows: int, words: int, seed: int = 0, own_rows: bool = False) -> dict[str, torch.Tensor]:
    """Character ids and labels of both directions; with `own_rows` the backward direction reads its own."""
    generator = np.random.default_rng(seed)
    labels = [torch.from_numpy(generator.integers(0, VOCAB, (rows, words))) for _ in range(2)]
    char_ids = [random_words(generator, rows, words, SLOTS) for _ in range(1 + own_rows)]
    names = ["char_ids", "backward_char_ids"][: len(char_ids)]
    return dict(zip([*names, "labels", "backward_labels"], [*char_ids, *labels], strict=True))


def mask_of(lengths: list[int]) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def masked(batch: dict[str, torch.Tensor], mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """The batch with nothing but padding where `mask` is false."""
    empty = {name: (NO_LABEL if "labels" in name else VOCAB if "input_ids" in name else 0) for name in batch}
    return {
        name: torch.where(mask.view(*mask.shape, *[1] * (tensor.ndim - 2)), tensor, empty[name])
        for name, tensor in batch.items()
    }


def reversed_rows(tensor: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Each row's words in the other order; the padding stays at the end."""
    return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(tensor, lengths, strict=True)])


def gradients_of(model, loss) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def random_states(rows: int, seed: int = 0, directions: int = 2) -> ElmoStates:
    generator = torch.Generator().manual_seed(seed)
    hidden, cell = (
        torch.randn(rows, 2, directions, size, generator=generator, dtype=torch.float64)
        for size in (TINY["projection_size"], TINY["cell_size"])
    )
    return ElmoStates(hidden, cell)
