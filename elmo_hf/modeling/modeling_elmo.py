# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
PyTorch ELMo: deep contextualised word representations (Peters et al. 2018, https://arxiv.org/abs/1802.05365).

Text → `char_ids` (the tokenizer) → token vectors ([`ElmoTokenEncoder`]) → recurrent layers ([`ElmoRecurrentLayer`]) →
their mix ([`ElmoMixer`]). The numbers are those of the original implementations, bilm-tf and AllenNLP (both Apache-2.0,
Allen Institute for AI).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .checks_elmo import check_integers, check_range, check_segments, check_shape, refuse_attentions
from .configuration_elmo import ElmoConfig, check_mixer_weights
from .lstm_elmo import ElmoPacking, ElmoRecurrentLayer, ElmoStates
from .pooling_elmo import NO_SENTENCE_POOLING, ElmoSentencePooling, pool, word_mask
from .pretrained_elmo import DIRECTIONS, NO_WORD_TABLE, ElmoPreTrainedModel
from .products_elmo import packed_weights
from .quantization_elmo import NO_TRAINING
from .softmax_elmo import build_softmax, resize_softmax
from .token_encoder_elmo import ElmoTokenEncoder

SHARED_ROWS = (
    "A state belongs to one sequence, but `token_type_ids` puts several into a row: pass the sentences of a pair as "
    "rows of their own to give or get states."
)


@dataclass
class ElmoModelOutput(ModelOutput):
    """
    Args:
        last_hidden_state (`torch.Tensor` of shape `(batch, words, hidden_size)`): The mix of all layers (without
            a mixer: the top layer). Zero where masked. Note that `hidden_states[-1]` is the top layer.
        hidden_states (`tuple(torch.Tensor)`, with `output_hidden_states=True`): `num_hidden_layers + 1` tensors
            of shape `(batch, words, hidden_size)`: the token vectors (once per direction), then every layer's output,
            `[forward; backward]`. Unless the weights are in half precision, the later vectors are computed from these
            tensors, so that `retain_grad()` works on them.
        states (`ElmoStates`, with `output_states=True`): The state after each row's last word, for `initial_state` of
            the call on the words that follow.
    """

    last_hidden_state: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    states: ElmoStates | None = None


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """
    Args:
        loss (`torch.Tensor`, with labels): Mean of the directions' losses.
        forward_loss, backward_loss (`torch.Tensor`, with labels): Cross-entropy per predicted word. In training with a
            sampled softmax it is over the drawn words, and its exponential is not a perplexity.
        last_hidden_state (`torch.Tensor` of shape `(batch, words, hidden_size)`): The top layer, from which the words
            are predicted. If the backward direction has rows of its own, its half is aligned with these.
        hidden_states (`tuple(torch.Tensor)`, with `output_hidden_states=True`): As in [`ElmoModelOutput`].
        states (`ElmoStates`): The state after each row's last word, for `initial_state` of the call on the words that
            follow. `None` if `token_type_ids` puts several sequences into a row.
    """

    loss: torch.Tensor | None = None
    forward_loss: torch.Tensor | None = None
    backward_loss: torch.Tensor | None = None
    last_hidden_state: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    states: ElmoStates | None = None


class BiLMOutput(NamedTuple):
    """
    The result of [`ElmoModel.run_bilm`].

    Attributes:
        layers (`list[torch.Tensor]`): `num_hidden_layers + 1` tensors `(batch, words, hidden_size)`, zero where masked.
        mask (`torch.Tensor` of shape `(batch, words)`): True for words.
        states (`ElmoStates`, *optional*): After each row's last word.
    """

    layers: list[torch.Tensor]
    mask: torch.Tensor
    states: ElmoStates | None


class ElmoMixer(nn.Module):
    r"""
    `gamma * sum_j softmax(w)_j * layer_j`, uniform at the start (`w = 0`, `gamma = 1`).

    Args:
        num_layers (`int`): Layers to mix, the token layer included.
        weights (`"learned"`, `"top"` or `list[float]`): Learned weights, only the top layer, or fixed probabilities.
            `gamma` is learned in every case.
        layer_norm (`bool` or `"word"`): `True`: the original's normalisation, one mean and one variance over all
            unmasked values of a layer, so that a vector depends on the whole batch. `"word"`: each vector by its own.
        dropout (`float`): Applied to the mix, in training only.
    """

    epsilon = 1e-12  # of the original's layer norm

    def __init__(
        self,
        num_layers: int,
        weights: str | Sequence[float] = "learned",
        layer_norm: bool | str = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_mixer_weights("weights", weights, num_layers)
        self.num_layers = num_layers
        self.layer_norm = layer_norm
        self.fixed_weights: list[float] | None = None
        if weights == "learned":
            # One tensor rather than a list of scalars: replicas of `nn.DataParallel` would have an empty list.
            self.weights = nn.Parameter(torch.zeros(num_layers))
        else:
            self.register_parameter("weights", None)
            self.fixed_weights = [0.0] * (num_layers - 1) + [1.0] if weights == "top" else [float(w) for w in weights]
        self.gamma = nn.Parameter(torch.ones(1))
        self.dropout = nn.Dropout(dropout)

    def initialize(self):
        """The uniform mix."""
        if self.weights is not None:
            init.zeros_(self.weights)
        init.ones_(self.gamma)

    def layer_weights(self) -> torch.Tensor:
        """The share of each layer in the mix, shape `(num_layers,)`, summing to 1; token layer first."""
        if self.weights is not None:
            return self.weights.softmax(dim=0)
        return torch.tensor(self.fixed_weights, dtype=self.gamma.dtype, device=self.gamma.device)

    def l2(self) -> torch.Tensor:
        """The squared norm of the learned weights. Added to a loss, it pulls the mix towards the mean of the layers."""
        return self.gamma.new_zeros(()) if self.weights is None else self.weights.square().sum()

    def forward(self, layers: Sequence[torch.Tensor], mask: torch.Tensor | None = None) -> torch.Tensor:
        """
        Args:
            layers: `num_layers` tensors of shape `(..., hidden_size)`.
            mask: `(...)`, true for words; the output is zero elsewhere. `None`: all are words.

        Returns:
            The mix, `(..., hidden_size)`.
        """
        if len(layers) != self.num_layers:
            raise ValueError(f"This mixer mixes {self.num_layers} layers, got {len(layers)}.")
        if self.layer_norm == "word":
            layers = [functional.layer_norm(layer, layer.shape[-1:]) for layer in layers]
        elif self.layer_norm:
            layers = [self._normalize(layer, mask) for layer in layers]
        shares = self.layer_weights().to(layers[0].dtype)
        mix = shares[0] * layers[0]
        for share, layer in zip(shares[1:], layers[1:], strict=True):
            mix = torch.addcmul(mix, share, layer)
        mix = self.dropout(self.gamma * mix)
        return mix if mask is None else mix * mask.unsqueeze(-1).to(mix.dtype)

    def _normalize(self, layer: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        values = layer if mask is None else layer[mask.bool()]
        if values.numel() == 0:
            return layer
        variance, mean = torch.var_mean(values.float(), correction=0)
        return (layer - mean) * torch.rsqrt(variance + self.epsilon)


class ElmoModel(ElmoPreTrainedModel):
    """
    The bidirectional language model of ELMo, and a mixer over its layers.

    Args:
        config ([`ElmoConfig`]): The model's sizes.
        add_mixer (`bool`): Whether `last_hidden_state` is the mix of the layers; otherwise it is the top layer.

    Example:

    ```python
    >>> from transformers import AutoModel, AutoTokenizer
    >>> import elmo_hf

    >>> tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    >>> model(**tokenizer("He sat on the bank of the river.", return_tensors="pt")).last_hidden_state.shape
    torch.Size([1, 11, 1024])
    ```"""

    def __init__(self, config: ElmoConfig, add_mixer: bool = True):
        super().__init__(config)
        self.token_encoder = ElmoTokenEncoder(config)
        self.layers = nn.ModuleList(ElmoRecurrentLayer(config, index) for index in range(config.num_hidden_layers))
        self.mixer = None
        if add_mixer:
            self.mixer = ElmoMixer(
                config.num_hidden_layers + 1, config.mixer_weights, config.mixer_layer_norm, config.mixer_dropout
            )
        self.sentence_pooling = None
        if config.sentence_layers is not None:
            self.sentence_pooling = ElmoSentencePooling(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The word table, or the character table of a model without one."""
        encoder = self.token_encoder
        return encoder.characters.char_embeddings if encoder.word_embeddings is None else encoder.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding):
        """Replaces the word table."""
        if self.token_encoder.word_embeddings is None:
            raise ValueError(NO_WORD_TABLE)
        self.token_encoder.word_embeddings = value

    # ---- training

    def freeze_bilm(self):
        """
        Excludes the language model from training: its weights do not change, and its dropout is off. The mixer is
        still trained.
        """
        self._set_bilm_trainable(False)

    def unfreeze_bilm(self):
        """Undoes [`~ElmoModel.freeze_bilm`]."""
        if self.layers[0].is_quantized:
            raise ValueError(NO_TRAINING)
        self._set_bilm_trainable(True)

    def _set_bilm_trainable(self, trainable: bool):
        self.token_encoder.requires_grad_(trainable)
        self.layers.requires_grad_(trainable)
        self.train(self.training)

    @property
    def bilm_is_frozen(self) -> bool:
        """Whether no parameter of the biLM or of adapters inside it requires a gradient. The mixer does not count."""
        for module in (*self.token_encoder.modules(), *self.layers.modules()):
            # `nn.DataParallel` gives its replicas plain tensors instead of parameters, and lists them here.
            tensors = [*module._parameters.values(), *getattr(module, "_former_parameters", {}).values()]
            if any(tensor is not None and tensor.requires_grad for tensor in tensors):
                return False
        return True

    def train(self, mode: bool = True) -> "ElmoModel":
        """As [`nn.Module.train`]; a frozen language model stays in evaluation mode."""
        super().train(mode)
        trains_bilm = mode and not self.bilm_is_frozen
        self.token_encoder.train(trains_bilm)
        self.layers.train(trains_bilm)
        for packed in packed_weights(self):  # weights may have changed, or will
            packed.clear()
        return self

    # ---- forward pass

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        initial_state: ElmoStates | None = None,
        output_hidden_states: bool | None = None,
        output_states: bool | None = None,
        token_type_ids: torch.LongTensor | None = None,
        directions: str | None = None,
        output_attentions: bool | None = None,
    ) -> ElmoModelOutput:
        r"""
        Args:
            input_ids (`(batch, words)`, *optional*): Word ids. Read by models with a word table only.
            char_ids (`(batch, words, max_characters_per_token)`, *optional*): Character ids; a row of zeros is no word.
            attention_mask (`(batch, words)`, *optional*): 1 for words. Masked positions are skipped, also between
                words. Default: every word that has characters.
            inputs_embeds (`(batch, words, output_size)`, *optional*): Token vectors instead of the ids.
            initial_state ([`ElmoStates`], *optional*): The state before each row's first word. Default: zeros.
            output_hidden_states (`bool`, *optional*): Whether to return every layer.
            output_states (`bool`, *optional*): Whether to return the state after each row's last word.
            token_type_ids (`(batch, words)`, *optional*): Where the value changes along a row, the recurrence starts
                again from zeros in both directions: the sentences of a pair do not see each other.
            directions (`"both"`, `"forward"` or `"backward"`, *optional*): The directions to run; vectors and states
                have only these. To read a document in pieces with the result of one call, run the forward direction
                from the first piece to the last and the backward direction from the last to the first, each with the
                state of the piece before.
            output_attentions (`bool`, *optional*): Must not be `True`; callers of stock models pass it.
        """
        refuse_attentions(output_attentions)
        bilm = self.run_bilm(
            input_ids,
            char_ids,
            attention_mask,
            inputs_embeds=inputs_embeds,
            token_type_ids=token_type_ids,
            initial_state=initial_state,
            directions=directions,
            output_states=bool(output_states),
        )
        mix = bilm.layers[-1] if self.mixer is None else self.mixer(bilm.layers, bilm.mask)
        return ElmoModelOutput(
            last_hidden_state=mix.to(self._weight_dtype),
            hidden_states=self._hidden_states(bilm, output_hidden_states),
            states=bilm.states,
        )

    def run_bilm(
        self,
        input_ids: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None = None,
        *,
        backward_input_ids: torch.Tensor | None = None,
        backward_char_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        state_resets: torch.Tensor | None = None,
        initial_state: ElmoStates | None = None,
        directions: str | None = None,
        output_states: bool | None = None,
    ) -> "BiLMOutput":
        """
        The steps that [`ElmoModel`] and [`ElmoForPreTraining`] share: inputs → token vectors → recurrent layers. The
        arguments are those of their `forward`.

        Args:
            output_states: Whether to return states. `None`: unless a row holds several sequences.
        """
        reading_orders, weight_indices = self._directions(directions)  # 0: left to right, 1: right to left
        has_own_rows = backward_char_ids is not None or backward_input_ids is not None
        if not has_own_rows:
            mask = self._mask(input_ids, char_ids, attention_mask, inputs_embeds)  # (batch, words)
        else:  # each direction has its own rows, in the order in which it reads them
            forward_ids, backward_ids = (input_ids, char_ids), (backward_input_ids, backward_char_ids)
            ids_of_directions = [(forward_ids, backward_ids)[order] for order in reading_orders]
            mask = self._common_mask(ids_of_directions, attention_mask)
            reading_orders = [0] * len(reading_orders)
        num_directions = len(reading_orders)

        check_segments(token_type_ids, mask)
        packing = ElmoPacking.of(mask, token_type_ids, reading_orders)
        has_states = len(packing.rows) <= int(mask.any(dim=1).sum())  # no row holds several sequences
        if not has_states and has_own_rows:
            raise ValueError(
                "`token_type_ids` must not change along a row where the backward direction has its own rows."
            )
        if not has_states and (output_states or initial_state is not None):
            raise ValueError(SHARED_ROWS)
        states = self._initial_states(initial_state, mask, num_directions)
        resets = None if state_resets is None else packing.pack_resets(state_resets, reading_orders)

        # token vectors: (batch, words, output_size) per direction
        if inputs_embeds is not None:
            tokens = [inputs_embeds.masked_fill(~mask.unsqueeze(-1), 0)] * num_directions
        elif has_own_rows:
            tokens = self._encode_rows(ids_of_directions, mask)
        else:
            tokens = [self._encode_tokens(input_ids, char_ids, mask)] * num_directions

        layers, last_states = self._run_layers(torch.cat(tokens, dim=-1), packing, states, weight_indices, resets)
        returns_states = has_states if output_states is None else output_states
        return BiLMOutput(layers, mask, packing.unpack_states(last_states, states) if returns_states else None)

    def _run_layers(
        self,
        tokens: torch.Tensor,
        packing: ElmoPacking,
        states: ElmoStates,
        weight_indices: list[int],
        resets: torch.Tensor | None = None,
    ) -> tuple[list[torch.Tensor], list[ElmoStates]]:
        """
        Args:
            tokens: The token vectors once per direction, `(batch, words, hidden_size)`.
            weight_indices: The directions that run, as indices into the layers' weights.
            resets: `(words,)`, packed; true where the state is reset to zeros before the word.

        Returns:
            All layers, the token vectors first, `(batch, words, hidden_size)` each; and the states after each recurrent
            layer's last words, `(directions, sequences, size)`.
        """
        layers, last_states = [tokens], []
        for layer, hidden, cell in zip(self.layers, *packing.pack_states(states), strict=True):
            if not packing.batch_sizes:  # no words
                layers.append(tokens)
                continue
            packed = packing.pack(layers[-1])  # (directions, words, output_size)
            outputs, *last_state = layer(packed, hidden, cell, packing.batch_sizes, weight_indices, resets)
            layers.append(packing.unpack(outputs).to(tokens.device))
            last_states.append(ElmoStates(*last_state))
        return layers, last_states

    def _hidden_states(self, bilm: "BiLMOutput", wanted: bool | None) -> tuple[torch.Tensor, ...] | None:
        if not (self.config.output_hidden_states if wanted is None else wanted):
            return None
        return tuple(layer.to(self._weight_dtype) for layer in bilm.layers)

    def _encode_rows(self, ids_of_directions: list[tuple], mask: torch.Tensor) -> list[torch.Tensor]:
        """As [`~ElmoModel._encode_tokens`], if each direction has its own rows. Each distinct word is encoded once."""
        stacked = [
            None if any(ids is None for ids in kind) else torch.cat(kind)
            for kind in zip(*ids_of_directions, strict=True)
        ]
        num_directions = len(ids_of_directions)
        return list(self._encode_tokens(*stacked, mask.repeat(num_directions, 1)).chunk(num_directions))

    def _encode_tokens(self, input_ids, char_ids, mask: torch.Tensor) -> torch.Tensor:
        """The token vectors, `(batch, words, output_size)`, zeros where masked."""
        characters = char_ids[mask] if self.config.uses_characters else None
        words = input_ids[mask] if self.config.uses_words else None
        self._check_words(words, characters)
        if not mask.any():
            return torch.zeros(*mask.shape, self.config.output_size, dtype=self._weight_dtype, device=mask.device)
        vectors = self.token_encoder(characters, words)  # (words, output_size)
        if len(vectors) == mask.numel():
            return vectors.view(*mask.shape, -1)
        positions = mask.flatten().nonzero().squeeze(-1)
        return (
            vectors.new_zeros(mask.numel(), vectors.shape[-1]).index_copy(0, positions, vectors).view(*mask.shape, -1)
        )

    # ---- sentence vectors

    def mean_of_words(self, input_ids=None, char_ids=None, attention_mask=None, token_type_ids=None) -> torch.Tensor:
        """
        One vector per row, `(batch, hidden_size)`: the mean of the mixes of its words, boundaries left out; zeros where
        there are none. The arguments are those of [`~ElmoModel.forward`].
        """
        return self._pooled("mean", input_ids, char_ids, attention_mask, token_type_ids)

    def max_of_words(self, input_ids=None, char_ids=None, attention_mask=None, token_type_ids=None) -> torch.Tensor:
        """As [`~ElmoModel.mean_of_words`], the maximum per dimension."""
        return self._pooled("max", input_ids, char_ids, attention_mask, token_type_ids)

    def sentence_vectors(self, input_ids=None, char_ids=None, attention_mask=None, token_type_ids=None) -> torch.Tensor:
        """
        One vector per row, `(batch, sentence_size)`: the pooling "sentence" ([`ElmoSentencePooling`]). The arguments
        are those of [`~ElmoModel.forward`]; `input_ids` are needed.
        """
        if self.sentence_pooling is None:
            raise ValueError(NO_SENTENCE_POOLING)
        if input_ids is None:
            raise ValueError("The words of a sentence are weighted by their ids: give `input_ids`.")
        bilm = self.run_bilm(input_ids, char_ids, attention_mask, token_type_ids=token_type_ids)
        check_shape("input_ids", input_ids, tuple(bilm.mask.shape))
        check_integers("input_ids", input_ids)
        if input_ids.numel() and int(input_ids.min()) < 0:
            raise ValueError(f"`input_ids` must be 0 or more, found {int(input_ids.min())}.")
        is_word = word_mask(self.config, input_ids, char_ids, bilm.mask)
        return self.sentence_pooling(bilm.layers, input_ids, is_word).to(self._weight_dtype)

    def _pooled(self, kind: str, input_ids, char_ids, attention_mask, token_type_ids) -> torch.Tensor:
        output = self(input_ids, char_ids, attention_mask, token_type_ids=token_type_ids, return_dict=True)
        mask = self._mask(input_ids, char_ids, attention_mask, None)
        return pool(output.last_hidden_state, kind, word_mask(self.config, input_ids, char_ids, mask))


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
        """As for the encoder. The softmax is resized too; new words get its smallest bias."""
        before = self.config.vocab_size
        table = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if self.config.vocab_size != before:
            self.softmax = resize_softmax(self.softmax, self.config, self._init_weights)
        return table

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
            token_type_ids (`(batch, words)`, *optional*): Where the value changes along a row, the recurrence starts
                again from zeros in both directions: the sentences of a pair do not see each other.
            labels (`(batch, words)`, *optional*): The word that the forward direction predicts at each position, or
                -100. Never shifted. Labels of a direction that the model does not have are not read.
            backward_char_ids (`(batch, words, max_characters_per_token)`, *optional*): Rows of its own for the backward
                direction, in the order in which it reads them: the words of a sentence reversed.
            backward_labels (`(batch, words)`, *optional*): The word that the backward direction predicts at each
                position of what it reads, or -100.
            initial_state ([`ElmoStates`], *optional*): The state before each row's first word. Default: zeros.
            backward_input_ids (`(batch, words)`, *optional*): As `backward_char_ids`, for models with a word table.
            state_resets (`(batch, words)`, *optional*): 1 where the states of both directions are reset to zeros before
                the word. The backward direction needs rows of its own for this.
            output_hidden_states (`bool`, *optional*): Whether to return every layer.
            num_items_in_batch (`int`, *optional*): Divides each direction's summed loss, for gradient accumulation.
                Default: the number of its labels in this batch.
        """
        if self.training and self.elmo.layers[0].is_quantized:
            raise ValueError(NO_TRAINING)
        bilm = self.elmo.run_bilm(
            input_ids,
            char_ids,
            attention_mask,
            backward_input_ids=backward_input_ids,
            backward_char_ids=backward_char_ids,
            token_type_ids=token_type_ids,
            state_resets=state_resets,
            initial_state=initial_state,
        )
        directions = DIRECTIONS[self.config.directions]
        tops = self.dropout(bilm.layers[-1]).chunk(len(directions), dim=-1)  # (batch, words, output_size) each
        losses: list[torch.Tensor | None] = [None, None]
        for direction, top in zip(directions, tops, strict=True):
            name, targets = (("labels", labels), ("backward_labels", backward_labels))[direction]
            if targets is not None:
                losses[direction] = self._loss(top, targets, bilm.mask, name, num_items_in_batch)
        present = [loss for loss in losses if loss is not None]
        return ElmoForPreTrainingOutput(
            loss=torch.stack(present).mean() if present else None,
            forward_loss=losses[0],
            backward_loss=losses[1],
            last_hidden_state=bilm.layers[-1].to(self._weight_dtype),
            hidden_states=self.elmo._hidden_states(bilm, output_hidden_states),
            states=bilm.states,
        )

    def _loss(
        self,
        top: torch.Tensor,
        labels: torch.Tensor,
        mask: torch.Tensor,
        name: str,
        num_items: int | torch.Tensor | None,
    ) -> torch.Tensor:
        """One direction's loss per predicted word; `top` is `(batch, words, output_size)`."""
        check_shape(name, labels, tuple(mask.shape))
        check_integers(name, labels)
        is_target = labels != -100
        if bool((is_target & ~mask).any()):
            raise ValueError(f"`{name}` has a word at a masked position: it should be -100 there.")
        positions = is_target.flatten().nonzero().squeeze(1)
        labels = labels.flatten()[positions]
        check_range(name, labels, self.config.vocab_size)
        loss = self.softmax(top.flatten(0, 1)[positions], labels.long())
        return loss / (max(len(labels), 1) if num_items is None else num_items)


__all__ = [
    "DIRECTIONS",
    "BiLMOutput",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoMixer",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoStates",
]
