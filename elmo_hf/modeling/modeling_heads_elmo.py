# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Heads: a tagger of words and a classifier of texts. As in the paper, ELMo is concatenated to the input of the task
layers, [x; ELMo], to their output, [h; ELMo], or to both.

A new head is a subclass of [`ElmoTaskModel`], here or in a file of its own, and an entry in `HEADS` of
configuration_elmo.py.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple

from .checks_elmo import check_integers, check_labels, check_segments, check_shape, refuse_attentions
from .configuration_elmo import ElmoConfig
from .esim_elmo import ElmoEsim
from .layer_cache_elmo import ElmoLayerCache
from .modeling_elmo import ElmoMixer, ElmoModel
from .pooling_elmo import ElmoPooling, ElmoSentences, number_segments, word_mask
from .pretrained_elmo import ElmoPreTrainedModel
from .products_elmo import autocast_dtype, product_dtype
from .task_layers_elmo import (
    ElmoAlternatingLSTM,
    ElmoBiattention,
    ElmoCRF,
    ElmoCrossAttention,
    ElmoMaxoutClassifier,
    ElmoPairDropout,
    ElmoTaskLinear,
    ElmoTaskLSTM,
)

MIXER_RATE_FACTOR = 50  # the learning rate of mixers by that of the head: docs/decisions/mixer-rate.md


@dataclass
class ElmoTokenClassifierOutput(ModelOutput):
    """
    Args:
        loss (`torch.Tensor`, with labels): The cross-entropy, or with a CRF the negative log-likelihood, per labelled
            word. In training plus `mixer_l2` times the squared norm of the mixing weights.
        logits (`torch.Tensor` of shape `(batch, words, num_labels)`): Scores of the labels; zero at boundaries and
            padding. With a CRF, outside training, they are the log-probabilities of the labels given the whole
            sentence, and the labels of the best sequence are raised just above the others: `argmax` gives the decoded
            labels.
        emissions (`torch.Tensor` of shape `(batch, words, num_labels)`, with a CRF): Scores before the CRF.
        hidden_states (`tuple(torch.Tensor)`, with `output_hidden_states=True`): The layers of the biLM.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    emissions: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


class ElmoTaskModel(ElmoPreTrainedModel):
    """
    The base class of heads: the biLM, frozen unless `config.freeze_bilm` is false, mixers over its layers, static word
    vectors, and a BiLSTM.

    Attributes:
        elmo ([`ElmoModel`]): The biLM. A head without ELMo (`config.elmo_places="none"`) does not have the attribute.
        input_mixer, output_mixer ([`ElmoMixer`], *optional*): By `config.elmo_places`.
        layer_cache ([`ElmoLayerCache`], *optional*): See [`~ElmoTaskModel.cache_layers`].
    """

    # A head that is loaded from an encoder reports its new weights. (The encoder's mixer is not the head's.)
    _keys_to_ignore_on_load_missing = None
    # A head without ELMo may be loaded from an encoder, or from a head that has one.
    _keys_to_ignore_on_load_unexpected = [
        *(ElmoPreTrainedModel._keys_to_ignore_on_load_unexpected or ()),
        r"^(elmo\.)?(token_encoder|layers)\.",
    ]
    # Tells the Trainer that `forward` takes `num_items_in_batch`.
    accepts_loss_kwargs = True

    def __init__(self, config: ElmoConfig):
        if config.sentence_layers is not None:  # a head has no sentence pooling, and its config must not promise one
            config = copy.deepcopy(config)
            config.sentence_layers = config.sentence_size = None
        super().__init__(config)
        if config.elmo_places != "none":
            self.elmo = ElmoModel(config, add_mixer=False)
        self.layer_cache: ElmoLayerCache | None = None
        self.input_mixer = self._mixer() if config.elmo_places in ("input", "both") else None
        self.output_mixer = self._mixer() if config.elmo_places in ("output", "both") else None
        input_size = config.hidden_size if self.input_mixer is not None else 0
        self.word_vectors = None
        if config.word_vector_size is not None:
            words = config.num_word_vectors or config.vocab_size
            self.word_vectors = nn.Embedding(words + 1, config.word_vector_size, padding_idx=words)
            input_size += config.word_vector_size
        input_size += self._num_marks()
        self._input_size = input_size
        self.task_lstm, self.task_size = None, input_size
        if config.num_task_layers:
            kind = ElmoAlternatingLSTM if config.task_lstm_type == "alternating" else ElmoTaskLSTM
            self.task_lstm = kind(input_size, config.task_layer_size, config.num_task_layers, config.classifier_dropout)
            self.task_size = self.task_lstm.output_size
        self.dropout = nn.Dropout(config.classifier_dropout)
        self._freeze()

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """As for any model."""
        result = super().from_pretrained(*args, **kwargs)  # makes every parameter trainable
        model = result[0] if isinstance(result, tuple) else result  # a tuple with `output_loading_info=True`
        model._freeze()
        return result

    def _num_marks(self) -> int:
        """The number of values that a head puts beside [x; ELMo] into the task layers."""
        return 0

    def _marks(self, is_marked: torch.Tensor) -> torch.Tensor:
        """What marks words, `(sentences, longest, _num_marks())`, from `(sentences, longest)`."""
        raise NotImplementedError

    def _mixer(self) -> ElmoMixer:
        config = self.config
        layer_norm = config.mixer_layer_norm or ("word" if config.elmo_layer_norm else False)
        mixer = ElmoMixer(config.num_hidden_layers + 1, config.mixer_weights, layer_norm, config.elmo_dropout)
        if config.text_pairs:
            mixer.dropout = ElmoPairDropout(config.elmo_dropout)
        return mixer

    def _freeze(self):
        if self.config.freeze_bilm and self.config.elmo_places != "none":
            self.elmo.freeze_bilm()
        if self.word_vectors is not None:
            self.word_vectors.requires_grad_(self.config.train_word_vectors)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """Initialises the task layers; the base class initialises the biLM."""
        if isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if "bias" in name:
                    init.zeros_(parameter)
                    if name.startswith("bias_ih"):  # 1 for the forget gate
                        init.ones_(parameter[module.hidden_size : 2 * module.hidden_size])
                else:
                    for gate in parameter.chunk(4):
                        init.orthogonal_(gate) if name.startswith("weight_hh") else init.xavier_uniform_(gate)
        elif isinstance(module, ElmoCRF):
            for parameter in module.parameters():
                init.zeros_(parameter)
        elif isinstance(module, nn.Embedding) and module is self.word_vectors:
            bound = math.sqrt(3 / module.embedding_dim)
            init.uniform_(module.weight, -bound, bound)
            init.zeros_(module.weight[module.padding_idx])
        else:
            super()._init_weights(module)

    @property
    def _output_size(self) -> int:
        """The size of a word's vector [h; ELMo] after the task layers."""
        return self.task_size + (self.config.hidden_size if self.output_mixer is not None else 0)

    # ---- Training

    def param_groups(
        self,
        learning_rate: float,
        bilm_learning_rate: float | None = None,
        weight_decay: float = 0.0,
        mixer_learning_rate: float | None = None,
    ) -> list[dict[str, Any]]:
        """
        Groups of parameters for an optimiser. Biases and mixers have no weight decay.

        Args:
            learning_rate: The learning rate of the head.
            bilm_learning_rate: The learning rate of a biLM that is not frozen. Default: a tenth of the head's.
            weight_decay: The weight decay of all other weights.
            mixer_learning_rate: The learning rate of the mixers (the weights of the layers, and gamma). Default: 50
                times the head's, since with the head's own rate these few numbers stay near their initial values.
        """
        if bilm_learning_rate is None:
            bilm_learning_rate = learning_rate / 10
        if mixer_learning_rate is None:
            mixer_learning_rate = learning_rate * MIXER_RATE_FACTOR
        rates = {"elmo": bilm_learning_rate, "input_mixer": mixer_learning_rate, "output_mixer": mixer_learning_rate}
        groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                rate = rates.get(name.split(".")[0], learning_rate)
                decays = parameter.ndim > 1 and "bias" not in name
                groups.setdefault((rate, decays), []).append(parameter)
        return [
            {"params": parameters, "lr": rate, "weight_decay": weight_decay if decays else 0.0}
            for (rate, decays), parameters in groups.items()
        ]

    def cache_layers(self, folder: str | None = None, max_bytes: int | None = None) -> ElmoLayerCache:
        """
        Caches the frozen biLM's layers of every sentence from now on, so that later epochs only run the head.

        Args:
            folder: Where to store them; other runs with the same biLM can use it too. Default: in memory.
            max_bytes: The maximum size; sentences beyond it are not cached.
        """
        self._refuse_without_elmo()
        self.layer_cache = ElmoLayerCache(self.elmo, folder, max_bytes)
        return self.layer_cache

    def cache_words(self, capacity: int = 100_000):
        """As [`ElmoPreTrainedModel.cache_words`]."""
        self._refuse_without_elmo()
        super().cache_words(capacity)

    def _refuse_without_elmo(self):
        if self.config.elmo_places == "none":
            raise ValueError('This head is without ELMo (`elmo_places` is "none"): it has no biLM to cache.')

    def _mixer_loss(self, items: torch.Tensor | int, num_items: torch.Tensor | int | None) -> torch.Tensor | float:
        """
        The L2 regularisation of the mixing weights, in training. With gradient accumulation, the share of this batch:
        `items` of `num_items` labels.
        """
        if not self.training:
            return 0.0
        mixers = [mixer for mixer in (self.input_mixer, self.output_mixer) if mixer is not None]
        share = 1.0 if num_items is None else items / max(num_items, 1)
        return self.config.mixer_l2 * share * sum(mixer.l2() for mixer in mixers)

    # ---- Forward pass: ids → layers of the biLM → task layers

    @staticmethod
    def _refuse_stock_arguments(inputs_embeds: torch.Tensor | None, output_attentions: bool | None):
        """PEFT and others pass these to every head; here they must ask for nothing."""
        if inputs_embeds is not None:
            raise ValueError(
                "A head takes no `inputs_embeds`: it needs `char_ids` to tell words from sentence boundaries."
            )
        refuse_attentions(output_attentions)

    def _bilm_layers(self, input_ids, char_ids, mask, segments) -> tuple[torch.Tensor, ...]:
        """The layers of the biLM, each `(batch, words, hidden_size)`; none for a head without ELMo."""
        if self.config.elmo_places == "none":
            return ()
        if self.layer_cache is not None:
            return self.layer_cache(input_ids, char_ids, mask, segments)
        # Without gradients the biLM runs its inference path.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.elmo.bilm_is_frozen):
            output = self.elmo(input_ids, char_ids, mask, token_type_ids=segments, output_hidden_states=True)
        return output.hidden_states

    def _task_inputs(
        self,
        layers: Sequence[torch.Tensor],
        input_ids: torch.Tensor | None,
        sentences: ElmoSentences,
        marks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        [x; ELMo; marks] `(sentences, longest, size)` from the layers `(sentences, longest, hidden_size)` and what a
        head marks words with `(sentences, longest, _num_marks())`.
        """
        parts = []
        if self.word_vectors is not None:
            ids = self._word_vector_ids(input_ids, sentences, self.word_vectors.num_embeddings - 1)
            parts.append(self.word_vectors(ids))  # (sentences, longest, word_vector_size)
        if self.input_mixer is not None:
            parts.append(self.input_mixer(layers, sentences.mask))  # (sentences, longest, hidden_size)
        if marks is not None:
            parts.append(marks)
        words = torch.cat(parts, dim=-1)
        if autocast_dtype(words.device) is not None:
            return words
        return words.to(product_dtype(words.dtype, words.device))

    @staticmethod
    def _word_vector_ids(input_ids: torch.Tensor | None, sentences: ElmoSentences, padding: int) -> torch.Tensor:
        """Rows of the word vectors `(sentences, longest)`. `padding`: the last row, that of padding."""
        if input_ids is None:
            raise ValueError("This model has a table of word vectors: give `input_ids`.")
        check_shape("input_ids", input_ids, tuple(sentences.batch_shape))
        check_integers("input_ids", input_ids)
        ids = sentences.gather(input_ids.long()).masked_fill(~sentences.mask, padding)
        if bool(((ids < 0) | (ids > padding)).any()):
            raise ValueError(
                f"`input_ids` must be between 0 and {padding}, found {int(ids.min())} to {int(ids.max())}: the table "
                f"of word vectors has {padding} words. Use the tokenizer of this model's folder."
            )
        return ids

    def _add_output_mix(self, words: torch.Tensor, layers, sentences: ElmoSentences) -> torch.Tensor:
        """[h; ELMo] `(sentences, longest, _output_size)` from `words` `(sentences, longest, task_size)`."""
        if self.output_mixer is None:
            return words
        return torch.cat([words, self.output_mixer(layers, sentences.mask)], dim=-1)


class ElmoForTokenClassification(ElmoTaskModel):
    """
    A tagger: one label per word.

    Args:
        config ([`ElmoConfig`]): The sizes of the biLM and the head (`elmo_places`, `num_task_layers`, `tag_decoder`
            ...), and the labels.

    Example:

    ```python
    >>> from transformers import AutoModelForTokenClassification
    >>> import elmo_hf

    >>> labels = {0: "O", 1: "B-PER", 2: "I-PER"}
    >>> model = AutoModelForTokenClassification.from_pretrained(
    ...     elmo_hf.default_model(), id2label=labels, tag_decoder="crf"
    ... )
    ```"""

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.classifier = ElmoTaskLinear(self._output_size, len(config.label_names))
        self.crf = ElmoCRF(config.label_names) if config.tag_decoder == "crf" else None
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        output_attentions: bool | None = None,
    ) -> ElmoTokenClassifierOutput:
        r"""
        Args:
            input_ids (`(batch, words)`, *optional*): Rows of the table of word vectors, if there is one.
            char_ids (`(batch, words, max_characters_per_token)`): Character ids.
            attention_mask (`(batch, words)`, *optional*): 1 for words and boundaries.
            token_type_ids (`(batch, words)`, *optional*): The sentence of each word, if a row has several; sentences
                are independent.
            labels (`(batch, words)`, *optional*): -100 at boundaries, padding, and words without a label.
            output_hidden_states (`bool`, *optional*): Whether to return the biLM's layers.
            num_items_in_batch (`int`, *optional*): Divides the summed loss. Default: the number of labels.
            inputs_embeds, output_attentions: Must be `None` or `False`; callers of stock heads pass them.
        """
        self._refuse_stock_arguments(inputs_embeds, output_attentions)
        mask = self._mask(input_ids, char_ids, attention_mask, None)  # (batch, words)
        check_segments(token_type_ids, mask)
        return self._tag(input_ids, char_ids, mask, token_type_ids, labels, output_hidden_states, num_items_in_batch)

    def _tag(
        self, input_ids, char_ids, mask, segments, labels, output_hidden_states, num_items, predicates=None
    ) -> ElmoTokenClassifierOutput:
        """The rest of `forward`. `predicates` `(batch, words)`: true for predicates, if the head marks them."""
        layers = self._bilm_layers(input_ids, char_ids, mask, segments)  # (batch, words, hidden_size) each
        is_word = word_mask(self.config, input_ids, char_ids, mask)  # (batch, words), without boundaries
        sentences = ElmoSentences.of(is_word, *((None, 1) if segments is None else number_segments(segments, mask)))

        gathered = [sentences.gather(layer) for layer in layers]  # (sentences, longest, hidden_size) each
        marks = None if predicates is None else self._marks(sentences.gather(predicates))
        words = self._task_inputs(gathered, input_ids, sentences, marks)  # (sentences, longest, input size)
        if self.task_lstm is not None:
            words = self.task_lstm(words, sentences.mask)  # (sentences, longest, task_size)
        words = self._add_output_mix(self.dropout(words), gathered, sentences)
        emissions = self.classifier(words)  # (sentences, longest, num_labels)

        loss = None
        if labels is not None:
            loss = self._loss(emissions, labels, is_word, sentences, num_items)
        logits = emissions if self.training else self._decode(emissions, sentences)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        return ElmoTokenClassifierOutput(
            loss=loss,
            logits=sentences.scatter(logits),
            emissions=sentences.scatter(emissions) if self.crf is not None else None,
            hidden_states=layers if output_hidden_states else None,
        )

    def _loss(self, emissions, labels, is_word, sentences: ElmoSentences, num_items) -> torch.Tensor:
        check_shape("labels", labels, tuple(is_word.shape))
        check_integers("labels", labels)
        if bool(((labels != -100) & ~is_word).any()):
            raise ValueError(
                "`labels` has a label where there is no word: it should be -100 at boundaries and padding."
            )
        labels = sentences.gather(labels.long()).masked_fill(~sentences.mask, -100)
        check_labels(labels, emissions.shape[-1])
        items = (labels != -100).sum()
        if self.crf is None:
            summed = functional.cross_entropy(emissions.flatten(0, 1).float(), labels.flatten(), reduction="sum")
        else:
            has_words = sentences.mask[:, 0]
            summed = -self.crf(emissions, sentences.mask, labels)[has_words].sum()
        divisor = items.clamp(min=1) if num_items is None else max(num_items, 1)
        return summed / divisor + self._mixer_loss(items, num_items)

    def _decode(self, emissions: torch.Tensor, sentences: ElmoSentences) -> torch.Tensor:
        """
        With a CRF, log-marginals with the best sequence's labels raised above the others; otherwise the emissions.
        `(sentences, longest, num_labels)`
        """
        if self.crf is None:
            return emissions
        return raise_labels(*self.crf(emissions, sentences.mask))


def raise_labels(log_probabilities: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """
    Raises the decoded labels just above the others, so that `argmax` gives them.

    Args:
        log_probabilities: `(sentences, words, num_labels)`
        labels: `(sentences, words)`, the decoded labels.
    """
    best = labels.unsqueeze(-1)  # (sentences, words, 1)
    differs = log_probabilities.argmax(dim=-1, keepdim=True) != best
    # By more than the smallest step, so that they also differ after a softmax.
    raised = log_probabilities.scatter(-1, best, log_probabilities.amax(dim=-1, keepdim=True) + 1e-3)
    return torch.where(differs, raised, log_probabilities)  # fp32: half precision would round the difference away


class ElmoForSequenceClassification(ElmoTaskModel):
    """
    A classifier of texts or, with `config.text_pairs`, of pairs of texts.

    Args:
        config ([`ElmoConfig`]): The sizes of the biLM and the head (`elmo_places`, `num_task_layers`, `pooling` ...),
            the labels, and `problem_type`.

    Example:

    ```python
    >>> from transformers import AutoModelForSequenceClassification
    >>> import elmo_hf

    >>> model = AutoModelForSequenceClassification.from_pretrained(
    ...     elmo_hf.default_model(), num_labels=3, pooling="biattentive"
    ... )
    ```"""

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        size = config.task_layer_size
        self.word_dropout = ElmoPairDropout(config.classifier_dropout) if config.text_pairs else self.dropout
        if config.text_pairs and isinstance(self.task_lstm, ElmoTaskLSTM):
            self.task_lstm.dropout = ElmoPairDropout(config.classifier_dropout)
        self.cross_attention = self.biattention = self.esim = self.pooling = None
        if config.pair_attention == "esim":
            self.esim = ElmoEsim(self._output_size, size, config.classifier_dropout)
            pooled_size = size
        else:
            if config.pair_attention:
                self.cross_attention = ElmoCrossAttention(self.task_size, size)
                self.task_size = 2 * size
            if config.pooling == "biattentive":
                self.biattention = ElmoBiattention(self.task_size, size)
                self.task_size = 2 * size
            self.pooling = ElmoPooling(config.pooling, self._output_size)
            pooled_size = self.pooling.output_size * (4 if config.text_pairs else 1)
        num_labels = len(config.label_names)
        if config.classifier_type == "maxout":
            self.classifier: nn.Module = ElmoMaxoutClassifier(pooled_size, num_labels, config.classifier_dropout)
        else:
            self.classifier = ElmoTaskLinear(pooled_size, num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        labels: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        output_attentions: bool | None = None,
    ) -> SequenceClassifierOutput:
        r"""
        Args:
            input_ids (`(batch, words)`, *optional*): Rows of the table of word vectors, if there is one.
            char_ids (`(batch, words, max_characters_per_token)`): Character ids.
            attention_mask (`(batch, words)`, *optional*): 1 for words and boundaries.
            token_type_ids (`(batch, words)`, *optional*): 0 and 1 for the texts of a pair.
            labels (`(batch,)` or `(batch, num_labels)`, *optional*): Integers for one label per text, floats for
                several labels or for regression, by `config.problem_type`, which the first labels set if it is `None`.
                -100 where there is no label.
            output_hidden_states (`bool`, *optional*): Whether to return the biLM's layers.
            num_items_in_batch (`int`, *optional*): Divides the summed loss. Default: the number of labels.
            inputs_embeds, output_attentions: Must be `None` or `False`; callers of stock heads pass them.
        """
        self._refuse_stock_arguments(inputs_embeds, output_attentions)
        mask = self._mask(input_ids, char_ids, attention_mask, None)  # (batch, words)
        check_segments(token_type_ids, mask)
        segments = token_type_ids
        self._check_pairs(segments, mask)
        layers = self._bilm_layers(input_ids, char_ids, mask, segments)  # (batch, words, hidden_size) each
        is_word = word_mask(self.config, input_ids, char_ids, mask)  # (batch, words), without boundaries
        has_pairs = self.config.text_pairs
        if has_pairs and segments is None:  # a batch without words
            segments = torch.zeros_like(mask, dtype=torch.long)
        # With pairs there are 2 * batch sentences, those of a pair adjacent.
        sentences = ElmoSentences.of(is_word, segments if has_pairs else None, 2 if has_pairs else 1)

        gathered = [sentences.gather(layer) for layer in layers]  # (sentences, longest, hidden_size) each
        words = self._task_inputs(gathered, input_ids, sentences)  # (sentences, longest, input size)
        if self.task_lstm is not None:
            words = self.task_lstm(words, sentences.mask)  # (sentences, longest, 2 * task_layer_size)
        pooled = self._pool(words, gathered, sentences)  # (batch, size)
        logits = self.classifier(pooled)  # (batch, num_labels)

        loss: Any = None if labels is None else self._loss(logits, labels, num_items_in_batch)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        hidden_states: Any = layers if output_hidden_states else None
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)

    def _pool(self, words: torch.Tensor, layers, sentences: ElmoSentences) -> torch.Tensor:
        """One vector per text or pair `(batch, size)` from `words` `(sentences, longest, task_size)`."""
        if self.esim is not None:
            # As in the paper, [h; ELMo] comes before the attention, which then sees the layers of the biLM too.
            words = self._add_output_mix(self.word_dropout(words), layers, sentences)
            return self.dropout(self.esim(words, sentences.mask))
        for attention in (self.cross_attention, self.biattention):
            if attention is not None:
                words = attention(self.word_dropout(words), sentences.mask)  # (sentences, longest, 2 * task_layer_size)
        words = self._add_output_mix(self.word_dropout(words), layers, sentences)
        assert self.pooling is not None
        pooled = self.pooling(words, sentences.mask)  # (sentences, pooling.output_size)
        if self.config.text_pairs:
            first, second = pooled.unflatten(0, (-1, 2)).unbind(dim=1)  # (batch, pooling.output_size) each
            pooled = torch.cat([first, second, (first - second).abs(), first * second], dim=-1)
        return pooled

    def _check_pairs(self, segments: torch.Tensor | None, mask: torch.Tensor):
        is_second = torch.zeros_like(mask) if segments is None else (segments == 1) & mask  # (batch, words)
        if segments is not None and bool(((segments[mask] < 0) | (segments[mask] > 1)).any()):
            raise ValueError("`token_type_ids` must be 0 and 1, for the first and the second text of a pair.")
        if self.config.text_pairs and bool((mask.any(dim=1) & ~is_second.any(dim=1)).any()):
            raise ValueError(
                "This model classifies pairs of texts: give both, as tokenizer(text, text_pair), and `token_type_ids`, "
                "which are 1 in the second text of each row."
            )
        if bool(is_second.any()) and not self.config.text_pairs:
            raise ValueError(
                "This model classifies single texts, and these are pairs: load it with text_pairs=True, and train it."
            )

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor, num_items) -> torch.Tensor:
        problem: Any = self.config.problem_type or self._problem_type(labels, logits.shape[1])
        self._check_labels_shape(labels, logits.shape, problem)
        if problem == "single_label_classification":
            check_integers("labels", labels)
            labels = labels.long().flatten()  # (batch,)
            check_labels(labels, logits.shape[1])
            items = (labels != -100).sum()
            summed = functional.cross_entropy(logits.float(), labels, reduction="sum")
        else:
            targets = labels.view_as(logits).float()  # (batch, num_labels)
            is_labelled = targets != -100
            items = is_labelled.sum()
            is_multi_label = problem == "multi_label_classification"
            loss = functional.binary_cross_entropy_with_logits if is_multi_label else functional.mse_loss
            summed = loss(logits.float()[is_labelled], targets[is_labelled], reduction="sum")
        self.config.problem_type = problem
        divisor = items.clamp(min=1) if num_items is None else max(num_items, 1)
        return summed / divisor + self._mixer_loss(items, num_items)

    @staticmethod
    def _problem_type(labels: torch.Tensor, num_labels: int) -> str:
        if num_labels == 1:
            return "regression"
        return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"

    @staticmethod
    def _check_labels_shape(labels: torch.Tensor, logits_shape: torch.Size, problem: str):
        if labels.is_complex():
            raise ValueError(f"`labels` must be real numbers, found {labels.dtype}.")
        rows, num_labels = logits_shape
        is_single = problem == "single_label_classification"
        shape = (rows,) if is_single else (rows, num_labels)
        one_per_row = is_single or num_labels == 1
        if labels.shape != shape and not (one_per_row and labels.shape in ((rows,), (rows, 1))):
            raise ValueError(f"`labels` must have shape {shape} for {problem}, found {tuple(labels.shape)}.")


__all__ = [
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoTaskModel",
    "ElmoTokenClassifierOutput",
    "raise_labels",
]
