# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The two language models that ELMo is made of, to be trained and to be asked for their words."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_elmo import ElmoConfig
from .input_checks_elmo import check_integers, check_range, check_shape
from .modeling_elmo import SHARED_ROWS, ElmoModel, ElmoPreTrainedModel, ElmoStates, rows_are_shared
from .recurrence_elmo import ElmoPacking
from .softmax_elmo import ElmoAdaptiveSoftmax, build_softmax


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """
    Args:
        loss (`torch.Tensor`, with labels): Mean of the directions' losses.
        forward_loss, backward_loss (`torch.Tensor`, with labels): Cross-entropy per predicted word. In training with a
            sampled softmax it is over the drawn words, and its exponential is no perplexity.
        last_hidden_state (`torch.Tensor` of shape `(batch, words, hidden_size)`): The top layer, from which the words
            are predicted. With rows of its own the backward half is aligned with those.
        hidden_states (`tuple(torch.Tensor)`, with `output_hidden_states=True`): As in [`ElmoModelOutput`].
        states (`ElmoStates`): The state after each row's last word, to be given as `initial_state` to the call on the
            words that follow. None where `token_type_ids` puts several sequences into a row.
    """

    loss: torch.Tensor | None = None
    forward_loss: torch.Tensor | None = None
    backward_loss: torch.Tensor | None = None
    last_hidden_state: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    states: ElmoStates | None = None


class ElmoForPreTraining(ElmoPreTrainedModel):
    """
    The two language models that ELMo is made of: forward predicts the word after, backward the word before, through one
    softmax layer.

    Args:
        config ([`ElmoConfig`]): The model's sizes, `softmax_type` and what belongs to it included.

    Example:

    ```python
    >>> batch = tokenizer("He sat on the bank of the river.", return_tensors="pt")
    >>> words = batch["input_ids"]  # <S> ... </S>
    >>> nothing = torch.full((1, 1), -100)
    >>> output = model(
    ...     char_ids=batch["char_ids"],
    ...     labels=torch.cat([words[:, 1:], nothing], dim=1),
    ...     backward_labels=torch.cat([nothing, words[:, :-1]], dim=1),
    ... )
    >>> output.forward_loss, output.backward_loss
    ```"""

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.elmo = ElmoModel(config, add_mixer=False)
        self.dropout = nn.Dropout(config.dropout)
        self.softmax = build_softmax(config)
        self.post_init()

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """As that of the encoder. The softmax has as many words afterwards; new ones are as likely as the rarest."""
        before = self.config.vocab_size
        table = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if self.config.vocab_size != before:
            self._resize_softmax()
        return table

    @torch.no_grad()
    def _resize_softmax(self):
        """Brings the softmax to the config's number of words."""
        old: Any = self.softmax
        if isinstance(old, ElmoAdaptiveSoftmax):
            self.config.softmax_cutoffs = old.bounds[:-1]
        new = build_softmax(self.config)
        new.apply(self._init_weights)
        some = next(old.parameters())
        new.to(some.device, some.dtype).train(old.training)
        for (name, kept), parameter in zip(old.named_parameters(), new.parameters(), strict=True):
            rows = min(len(kept), len(parameter))
            parameter[:rows] = kept[:rows]
            if name.endswith("bias"):
                parameter[rows:] = kept.min()
            parameter.requires_grad_(kept.requires_grad)
        self.softmax = new

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        backward_char_ids: torch.LongTensor | None = None,
        backward_labels: torch.LongTensor | None = None,
        initial_state: ElmoStates | None = None,
        backward_input_ids: torch.LongTensor | None = None,
        state_resets: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
    ) -> ElmoForPreTrainingOutput:
        r"""
        Args:
            input_ids (`(batch, words)`, *optional*): Word ids. Read by models with a word table only.
            char_ids (`(batch, words, max_characters_per_token)`, *optional*): What the forward direction reads; without
                backward tensors also what the backward direction reads, from right to left.
            attention_mask (`(batch, words)`, *optional*): 1 for words, in both directions' rows. Default: every word
                that has characters.
            token_type_ids (`(batch, words)`, *optional*): Where the number changes along a row, the recurrence starts
                anew in both directions: a pair's sentences do not see each other.
            labels (`(batch, words)`, *optional*): The word that the forward direction predicts at each position, or
                -100. Never shifted. Labels of a direction that the model does not have are not read.
            backward_char_ids (`(batch, words, max_characters_per_token)`, *optional*): Rows of its own for the backward
                direction, in the order in which it reads them: the words of a sentence reversed.
            backward_labels (`(batch, words)`, *optional*): The word that the backward direction predicts at each
                position of what it reads, or -100.
            initial_state ([`ElmoStates`], *optional*): The state before each row's first word. Default: zeros.
            backward_input_ids (`(batch, words)`, *optional*): As `backward_char_ids`, for models with a word table.
            state_resets (`(batch, words)`, *optional*): 1 where both directions' states are set back to zeros before
                the word. For rows of the backward direction's own.
            output_hidden_states (`bool`, *optional*): Whether to return every layer.
            num_items_in_batch (`int`, *optional*): Divides each direction's summed loss, instead of the number of its
                labels here: for batches that are parts of a larger one.
        """
        elmo = self.elmo
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        directions, weights_of = elmo._directions(None)

        has_own_rows = backward_char_ids is not None or backward_input_ids is not None
        if not has_own_rows:
            mask = elmo._mask(input_ids, char_ids, attention_mask, None)  # (batch, words)
            tokens, reading = elmo._encode_tokens(input_ids, char_ids, mask), directions
        else:
            both = (input_ids, char_ids), (backward_input_ids, backward_char_ids)
            rows = [both[direction] for direction in directions]
            mask, *others = (elmo._mask(*ids, attention_mask, None) for ids in rows)
            if not all(torch.equal(mask, other) for other in others):
                raise ValueError("The backward rows must have words in the same places as the forward rows.")
            tokens = self._encode_rows(rows, mask)
            reading = [0] * len(directions)  # each direction has its own rows, in the order in which it reads them
        # tokens: (words in all rows, output_size), or that for each direction
        packing = ElmoPacking.of(mask, elmo._segments(token_type_ids, mask), reading)
        has_states = not rows_are_shared(packing, mask)
        if not has_states and has_own_rows:
            raise ValueError(
                "`token_type_ids` must not change along a row where the backward direction has its own rows."
            )
        if not has_states and initial_state is not None:
            raise ValueError(SHARED_ROWS)
        states = elmo._states(initial_state, mask, len(directions))
        resets = None if state_resets is None else self._resets(state_resets, mask, reading)
        layers, hidden_states, ends = elmo._run_layers(
            tokens, packing, states, weights_of, resets, mask if output_hidden_states else None
        )  # (words in all rows, size) each

        tops = self.dropout(layers[-1]).chunk(len(directions), dim=-1)
        targets = (labels, backward_labels)
        losses: list[torch.Tensor | None] = [None, None]
        for direction, top in zip(directions, tops, strict=True):
            if (wanted := targets[direction]) is not None:
                name = "backward_labels" if direction else "labels"
                losses[direction] = self._loss(top, wanted, mask, name, num_items_in_batch)
        found = [loss for loss in losses if loss is not None]
        return ElmoForPreTrainingOutput(
            loss=torch.stack(found).mean() if found else None,
            forward_loss=losses[0],
            backward_loss=losses[1],
            last_hidden_state=elmo._unmask(layers[-1], mask),
            hidden_states=hidden_states,
            states=elmo._states_after(ends, packing, states) if has_states else None,
        )

    def _encode_rows(self, rows: list[tuple], mask: torch.Tensor) -> torch.Tensor:
        """Each direction's own rows → token vectors, `(directions, words in all rows, output_size)`."""
        ids = [None if any(part is None for part in kind) else torch.stack(kind) for kind in zip(*rows, strict=True)]
        return self.elmo._encode_tokens(*ids, mask.expand(len(rows), *mask.shape)).unflatten(0, (len(rows), -1))

    @staticmethod
    def _resets(state_resets: torch.Tensor, mask: torch.Tensor, reading: list[int]) -> torch.Tensor:
        """The words before which the state is set back, `(words in all rows,)`."""
        check_shape("state_resets", state_resets, tuple(mask.shape))
        if 1 in reading:
            raise ValueError(
                "`state_resets` needs rows of its own for the backward direction: give `backward_char_ids`."
            )
        return state_resets[mask] != 0

    def _loss(
        self,
        top: torch.Tensor,
        labels: torch.Tensor,
        mask: torch.Tensor,
        name: str,
        num_items: int | torch.Tensor | None,
    ) -> torch.Tensor:
        """One direction's loss per predicted word; `top` is `(words in all rows, output_size)`."""
        check_shape(name, labels, tuple(mask.shape))
        check_integers(name, labels)
        if bool(((labels != -100) & ~mask).any()):
            raise ValueError(f"`{name}` has a word where there is none to read: it should be -100 at masked positions.")
        labels = labels[mask]
        chosen = (labels != -100).nonzero().squeeze(1)
        labels = labels[chosen]
        check_range(name, labels, self.config.vocab_size)
        return self.softmax(top[chosen], labels.long()) / (max(len(labels), 1) if num_items is None else num_items)


__all__ = ["ElmoForPreTraining", "ElmoForPreTrainingOutput"]
