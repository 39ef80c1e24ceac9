# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Heads that tag words and classify texts, in the ways of the paper: [x; ELMo] into task layers, [h; ELMo] out of them.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_elmo import ElmoConfig
from .crf_elmo import ElmoCRF
from .input_checks_elmo import check_integers, check_labels, check_shape
from .layer_cache_elmo import ElmoLayerCache
from .mixer_elmo import ElmoMixer
from .modeling_elmo import ElmoModel, ElmoPreTrainedModel, refuse_attentions
from .precision_elmo import apply_module, autocast_dtype, product_dtype
from .sentences_elmo import ElmoSentences, word_mask
from .task_layers_elmo import ElmoBiattention, ElmoCrossAttention, ElmoPooling, ElmoTaskLSTM


@dataclass
class ElmoTokenClassifierOutput(ModelOutput):
    """
    Args:
        loss (`torch.Tensor`, with labels): Per labelled word; with a CRF, each sentence's negative log-likelihood
            spread over its words. In training with `mixer_l2` times the squared norm of the mixing weights.
        logits (`torch.Tensor` of shape `(batch, words, num_labels)`): Scores of the labels; zero at boundaries and
            padding. With a CRF, outside training, they are the logarithms of the labels' probabilities given the whole
            sentence, and the label of the best sequence is raised just above the others: `argmax` gives the decoded
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
    What the heads share: the biLM, frozen unless `config.freeze_bilm` is false, mixers over its layers, static word
    vectors, and task layers.

    Attributes:
        elmo ([`ElmoModel`]): The biLM. A head without ELMo (`config.elmo_places="none"`) does not have the attribute.
        input_mixer, output_mixer ([`ElmoMixer`], *optional*): By `config.elmo_places`.
        layer_cache ([`ElmoLayerCache`], *optional*): Holds the layers of a frozen biLM; see
            [`~ElmoTaskModel.cache_layers`].
    """

    # A biLM becomes a head: what it lacks is fresh. (Its own mixer is not the head's.)
    _keys_to_ignore_on_load_missing = None
    # A head without ELMo may be made from a biLM, or from a head that has one.
    _keys_to_ignore_on_load_unexpected = [
        *(ElmoPreTrainedModel._keys_to_ignore_on_load_unexpected or ()),
        r"^(elmo\.)?(token_encoder|layers)\.",
    ]
    # `num_items_in_batch` is honoured: Trainer looks for this, or for any `**kwargs`.
    accepts_loss_kwargs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        if config.elmo_places != "none":
            self.elmo = ElmoModel(config, add_mixer=False)
        self.layer_cache: ElmoLayerCache | None = None
        self.input_mixer = self._mixer() if config.elmo_places in ("input", "both") else None
        self.output_mixer = self._mixer() if config.elmo_places in ("output", "both") else None
        self.word_vectors = None
        input_size = config.hidden_size if self.input_mixer is not None else 0
        if config.word_vector_size is not None:
            words = config.num_word_vectors or config.vocab_size
            self.word_vectors = nn.Embedding(words + 1, config.word_vector_size, padding_idx=words)
            input_size += config.word_vector_size
        self.task_lstm, self.task_size = None, input_size
        if config.num_task_layers:
            self.task_lstm = ElmoTaskLSTM(
                input_size, config.task_layer_size, config.num_task_layers, config.classifier_dropout
            )
            self.task_size = 2 * config.task_layer_size
        self.dropout = nn.Dropout(config.classifier_dropout)
        self._freeze()

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """As any model's; what is frozen stays so."""
        found = super().from_pretrained(*args, **kwargs)
        (found[0] if isinstance(found, tuple) else found)._freeze()  # loading has made every parameter trainable
        return found

    def _mixer(self) -> ElmoMixer:
        config = self.config
        layers = config.num_hidden_layers + 1
        return ElmoMixer(layers, config.mixer_weights, config.mixer_layer_norm, config.elmo_dropout)

    def _freeze(self):
        if self.config.freeze_bilm and self.config.elmo_places != "none":
            self.elmo.freeze_bilm()
        if self.word_vectors is not None:
            self.word_vectors.requires_grad_(self.config.train_word_vectors)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """Of the task layers; the biLM has the original's."""
        if isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if "bias" in name:
                    init.zeros_(parameter)
                    if name.startswith("bias_ih"):  # forget less at the start
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
        """Of a word's vector when the output mixer has been added."""
        return self.task_size + (self.config.hidden_size if self.output_mixer is not None else 0)

    # ---- training

    def param_groups(
        self, learning_rate: float, bilm_learning_rate: float | None = None, weight_decay: float = 0.0
    ) -> list[dict[str, Any]]:
        """
        Groups of parameters for any optimiser. Biases and mixing weights have no weight decay.

        Args:
            learning_rate: Of the head.
            bilm_learning_rate: Of a biLM that is not frozen. Default: a tenth of the head's.
        """
        if bilm_learning_rate is None:
            bilm_learning_rate = learning_rate / 10
        groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                decays = parameter.ndim > 1 and "bias" not in name
                groups.setdefault((name.startswith("elmo."), decays), []).append(parameter)
        return [
            {
                "params": parameters,
                "lr": bilm_learning_rate if of_bilm else learning_rate,
                "weight_decay": weight_decay if decays else 0.0,
            }
            for (of_bilm, decays), parameters in groups.items()
        ]

    def cache_layers(self, folder: str | None = None, max_bytes: int | None = None) -> ElmoLayerCache:
        """
        From now on keeps the layers of every sentence that the frozen biLM has read, so that the next epoch only pays
        for the head.

        Args:
            folder: Where to keep them, for other runs with the same biLM too. Default: in memory.
            max_bytes: Stop adding beyond that.
        """
        self._refuse_without_elmo()
        self.layer_cache = ElmoLayerCache(self.elmo, folder, max_bytes)
        return self.layer_cache

    def cache_words(self, capacity: int = 100_000):
        """As [`ElmoPreTrainedModel.cache_words`], of the biLM."""
        self._refuse_without_elmo()
        super().cache_words(capacity)

    def _refuse_without_elmo(self):
        if self.config.elmo_places == "none":
            raise ValueError('This head is without ELMo (`elmo_places` is "none"): it has no biLM to cache.')

    def _mixer_loss(self, items: torch.Tensor | int, num_items: torch.Tensor | int | None) -> torch.Tensor | float:
        """The term that pulls the mix towards the mean; of a part of a batch, that part's share."""
        if not self.training:
            return 0.0
        mixers = [mixer for mixer in (self.input_mixer, self.output_mixer) if mixer is not None]
        share = 1.0 if num_items is None else items / num_items
        return self.config.mixer_l2 * share * sum(mixer.l2() for mixer in mixers)

    # ---- from ids to the words' vectors

    # Both read the config alone: a head without ELMo has no biLM to ask.
    _mask, _ids_mask = ElmoModel._mask, ElmoModel._ids_mask

    @staticmethod
    def _refuse_stock_arguments(inputs_embeds: torch.Tensor | None, output_attentions: bool | None):
        """What PEFT and others pass to every head, where it asks for something that this one does not have."""
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
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.elmo._bilm_is_frozen):
            output = self.elmo(input_ids, char_ids, mask, token_type_ids=segments, output_hidden_states=True)
        return output.hidden_states

    def _task_inputs(self, layers, input_ids, sentences: ElmoSentences) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """[x; ELMo] `(sentences, words, size)`, and the layers in the same order."""
        gathered = [sentences.gather(layer) for layer in layers]
        parts = []
        if self.word_vectors is not None:
            if input_ids is None:
                raise ValueError("This model has a table of word vectors: give `input_ids`.")
            check_shape("input_ids", input_ids, tuple(sentences.batch_shape))
            check_integers("input_ids", input_ids)
            last = self.word_vectors.num_embeddings - 1  # the row of padding
            ids = sentences.gather(input_ids.long()).masked_fill(~sentences.mask, last)
            if bool(((ids < 0) | (ids > last)).any()):
                raise ValueError(
                    f"`input_ids` must be between 0 and {last}, found {int(ids.min())} to {int(ids.max())}: the table "
                    f"of word vectors has {last} words. Use the tokenizer of this model's folder."
                )
            parts.append(self.word_vectors(ids))
        if self.input_mixer is not None:
            parts.append(self.input_mixer(gathered, sentences.mask))
        words = torch.cat(parts, dim=-1)
        if autocast_dtype(words.device) is None:
            words = words.to(product_dtype(words))
        return words, gathered

    def _add_output_mix(self, words: torch.Tensor, layers, sentences: ElmoSentences) -> torch.Tensor:
        """[h; ELMo]"""
        if self.output_mixer is None:
            return words
        return torch.cat([words, self.output_mixer(layers, sentences.mask)], dim=-1)


class ElmoForTokenClassification(ElmoTaskModel):
    """
    A tagger: one label for each word.

    Args:
        config ([`ElmoConfig`]): The biLM's sizes, the head's (`elmo_places`, `num_task_layers`, `tag_decoder` and the
            like), and the labels.

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
        self.classifier = nn.Linear(self._output_size, len(config.label_names))
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
            token_type_ids (`(batch, words)`, *optional*): Numbers of the sentences in a row, which do not see each
                other.
            labels (`(batch, words)`, *optional*): -100 at boundaries, padding, and words without a label.
            output_hidden_states (`bool`, *optional*): Whether to return the biLM's layers.
            num_items_in_batch (`int`, *optional*): Divides the summed loss, instead of the number of labels here.
            inputs_embeds, output_attentions: For callers of stock heads, which pass `None` or `False`.
        """
        self._refuse_stock_arguments(inputs_embeds, output_attentions)
        mask = self._mask(input_ids, char_ids, attention_mask, None)  # (batch, words)
        segments, num_segments = ElmoModel._segments(token_type_ids, mask), 1
        layers = self._bilm_layers(input_ids, char_ids, mask, segments)
        is_word = word_mask(self.config, input_ids, char_ids, mask)
        if segments is not None:
            numbers, segments = segments.unique(return_inverse=True)
            num_segments = len(numbers)
        sentences = ElmoSentences.of(is_word, segments, num_segments)

        words, gathered = self._task_inputs(layers, input_ids, sentences)  # (sentences, longest, size)
        if self.task_lstm is not None:
            words = self.task_lstm(words, sentences.mask)
        words = self._add_output_mix(self.dropout(words), gathered, sentences)
        emissions = apply_module(self.classifier, words)  # (sentences, longest, num_labels)

        loss = None
        if labels is not None:
            loss = self._loss(emissions, labels, is_word, sentences, num_items_in_batch)
        is_decoded = self.crf is not None and not self.training
        logits = self._decoded(emissions, sentences) if is_decoded else emissions
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
            summed = -self.crf.log_likelihood(emissions, labels, sentences.mask)[has_words].sum()
        divisor = items.clamp(min=1) if num_items is None else num_items
        return summed / divisor + self._mixer_loss(items, num_items)

    def _decoded(self, emissions: torch.Tensor, sentences: ElmoSentences) -> torch.Tensor:
        """Log-marginals, the best sequence's labels raised above the others, `(sentences, longest, num_labels)`."""
        assert self.crf is not None
        marginals = self.crf.log_marginals(emissions, sentences.mask)
        best = self.crf.best_labels(emissions, sentences.mask).unsqueeze(-1)
        is_other = marginals.argmax(dim=-1, keepdim=True) != best
        # Not by the smallest step: the two should differ after a softmax too.
        raised = marginals.scatter(-1, best, marginals.amax(dim=-1, keepdim=True) + 1e-3)
        return torch.where(is_other, raised, marginals)  # fp32: half precision could not tell the raised one


class ElmoForSequenceClassification(ElmoTaskModel):
    """
    A classifier of texts, or, with `config.text_pairs`, of pairs of texts.

    Args:
        config ([`ElmoConfig`]): The biLM's sizes, the head's (`elmo_places`, `num_task_layers`, `pooling` and the
            like), the labels, and `problem_type`.

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
        self.cross_attention = self.biattention = None
        if config.pair_attention:
            self.cross_attention = ElmoCrossAttention(self.task_size, size)
            self.task_size = 2 * size
        if config.pooling == "biattentive":
            self.biattention = ElmoBiattention(self.task_size, size)
            self.task_size = 2 * size
        self.pooling = ElmoPooling(config.pooling, self._output_size)
        pooled_size = self.pooling.output_size * (4 if config.text_pairs else 1)
        self.classifier = nn.Linear(pooled_size, len(config.label_names))
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
            labels (`(batch,)` or `(batch, num_labels)`, *optional*): By `config.problem_type`, which the first labels
                decide where it is not set: integers for one label, floats for several labels or numbers. -100 where
                there is none.
            output_hidden_states (`bool`, *optional*): Whether to return the biLM's layers.
            num_items_in_batch (`int`, *optional*): Divides the summed loss, instead of the number of labels here.
            inputs_embeds, output_attentions: For callers of stock heads, which pass `None` or `False`.
        """
        self._refuse_stock_arguments(inputs_embeds, output_attentions)
        mask = self._mask(input_ids, char_ids, attention_mask, None)  # (batch, words)
        segments = ElmoModel._segments(token_type_ids, mask)
        self._check_pairs(segments, mask)
        layers = self._bilm_layers(input_ids, char_ids, mask, segments)
        is_word = word_mask(self.config, input_ids, char_ids, mask)
        pairs = self.config.text_pairs
        if pairs and segments is None:  # there are no words at all
            segments = torch.zeros_like(mask, dtype=torch.long)
        sentences = ElmoSentences.of(is_word, segments if pairs else None, 2 if pairs else 1)

        words, gathered = self._task_inputs(layers, input_ids, sentences)  # (sentences, longest, size)
        if self.task_lstm is not None:
            words = self.task_lstm(words, sentences.mask)
        for attention in (self.cross_attention, self.biattention):
            if attention is not None:
                words = attention(self.dropout(words), sentences.mask)
        words = self._add_output_mix(self.dropout(words), gathered, sentences)
        pooled = self.pooling(words, sentences.mask)  # (sentences, pooled size)
        if pairs:
            one, other = pooled.unflatten(0, (-1, 2)).unbind(dim=1)
            pooled = torch.cat([one, other, (one - other).abs(), one * other], dim=-1)
        logits = apply_module(self.classifier, pooled)  # (batch, num_labels)

        loss: Any = None if labels is None else self._loss(logits, labels, num_items_in_batch)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        hidden_states: Any = layers if output_hidden_states else None
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)

    def _check_pairs(self, segments: torch.Tensor | None, mask: torch.Tensor):
        has_pairs = segments is not None and bool((segments[mask] == 1).any())
        if segments is not None and bool(((segments[mask] < 0) | (segments[mask] > 1)).any()):
            raise ValueError("`token_type_ids` must be 0 and 1, for the first and the second text of a pair.")
        if self.config.text_pairs and not has_pairs and bool(mask.any()):
            raise ValueError(
                "This model classifies pairs of texts: give both, as tokenizer(text, text_pair), and `token_type_ids`."
            )
        if has_pairs and not self.config.text_pairs:
            raise ValueError(
                "This model classifies single texts, and these are pairs: load it with text_pairs=True, and train it."
            )

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor, num_items) -> torch.Tensor:
        rows, num_labels = logits.shape
        problem = self.config.problem_type
        if problem is None:
            kinds = "multi_label_classification" if labels.is_floating_point() else "single_label_classification"
            problem = "regression" if num_labels == 1 else kinds
        if labels.is_complex():
            raise ValueError(f"`labels` must be real numbers, found {labels.dtype}.")
        is_single = problem == "single_label_classification"
        shape = (rows,) if is_single else (rows, num_labels)
        has_one = is_single or num_labels == 1  # a row
        if labels.shape != shape and not (has_one and labels.shape in ((rows,), (rows, 1))):
            raise ValueError(f"`labels` must have shape {shape} for {problem}, found {tuple(labels.shape)}.")
        if is_single:
            check_integers("labels", labels)
            labels = labels.long().flatten()
            check_labels(labels, num_labels)
            items = (labels != -100).sum()
            summed = functional.cross_entropy(logits.float(), labels, reduction="sum")
        else:
            wanted = labels.view_as(logits).float()
            is_given = wanted != -100
            items = is_given.sum()
            measure = functional.mse_loss
            if problem == "multi_label_classification":
                measure = functional.binary_cross_entropy_with_logits
            summed = measure(logits.float()[is_given], wanted[is_given], reduction="sum")
        self.config.problem_type = problem
        divisor = items.clamp(min=1) if num_items is None else num_items
        return summed / divisor + self._mixer_loss(items, num_items)


__all__ = [
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoTaskModel",
    "ElmoTokenClassifierOutput",
]
