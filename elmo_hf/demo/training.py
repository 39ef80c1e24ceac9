"""A small biLM, trained from scratch in about a minute: text, sizes, loss and loop."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from .. import ElmoConfig, ElmoModel

TEXT = Path(__file__).with_name("text.txt")
BATCH_SIZE = 32
LEARNING_RATE = 0.01


class Losses(NamedTuple):
    """Mean cross-entropy per predicted word."""

    forward: torch.Tensor
    backward: torch.Tensor


def read_sentences() -> list[str]:
    """The demo's text, one sentence a line."""
    return TEXT.read_text(encoding="utf-8").splitlines()


def build_model(vocab_size: int) -> tuple[ElmoModel, nn.Linear]:
    """A fresh small biLM, and the softmax layer that its two directions share."""
    config = ElmoConfig(
        vocab_size=vocab_size,
        char_filters=[[1, 16], [2, 32], [3, 64], [4, 64]],
        num_highway_layers=1,
        cell_size=256,
        projection_size=64,
        dropout=0.5,
    )
    return ElmoModel(config, add_mixer=True), nn.Linear(config.output_size, vocab_size)


def language_model_losses(model: ElmoModel, softmax: nn.Linear, batch: Mapping[str, torch.Tensor]) -> Losses:
    """
    The forward output at a word predicts the next word, the backward output the one before.

    A row is `<S> w1 … wn </S>`: each direction predicts every word and the boundary at which it ends, never the one
    from which it starts.

    Args:
        batch: `input_ids` `(batch, words)`, `char_ids` `(batch, words, 50)` and `attention_mask` `(batch, words)`.
    """
    output = model(char_ids=batch["char_ids"], attention_mask=batch["attention_mask"], output_hidden_states=True)
    forward, backward = output.hidden_states[-1].chunk(2, dim=-1)  # each (batch, words, 64)
    words, mask = batch["input_ids"], batch["attention_mask"].bool()
    pairs = mask[:, :-1] & mask[:, 1:]  # (batch, words - 1): two neighbours, neither of them padding
    return Losses(
        forward=cross_entropy(softmax(forward[:, :-1][pairs]), words[:, 1:][pairs]),
        backward=cross_entropy(softmax(backward[:, 1:][pairs]), words[:, :-1][pairs]),
    )


@torch.no_grad()
def evaluate(model: ElmoModel, softmax: nn.Linear, tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> Losses:
    """The losses on all sentences, without dropout."""
    model.eval()
    return language_model_losses(model, softmax, tokenizer(sentences, padding=True, return_tensors="pt"))


def train(model: ElmoModel, softmax: nn.Linear, tokenizer: PreTrainedTokenizerBase, sentences: list[str], epochs: int):
    """Fits the model and its softmax to the sentences, which come in a new order each epoch."""
    parameters = [*model.parameters(), *softmax.parameters()]
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.1)
    steps = epochs * -(-len(sentences) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    model.train()
    with tqdm(total=steps, desc="training", unit="batch") as progress:
        for _ in range(epochs):
            for rows in torch.randperm(len(sentences)).split(BATCH_SIZE):
                batch = tokenizer([sentences[row] for row in rows], padding=True, return_tensors="pt")
                losses = language_model_losses(model, softmax, batch)
                loss = (losses.forward + losses.backward) / 2
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(parameters, max_norm=1.0)
                optimizer.step()
                schedule.step()
                progress.set_postfix(loss=f"{loss.item():.2f}", refresh=False)
                progress.update()
