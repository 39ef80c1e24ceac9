# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Semantic roles: who did what to whom. A tagger that reads one sentence per predicate, with the predicate marked (He et
al. 2017, https://aclanthology.org/P17-1044; the paper puts ELMo into this model).
"""

import torch
from torch import nn
from transformers.utils import can_return_tuple

from .checks_elmo import check_segments, check_shape
from .configuration_elmo import ElmoConfig
from .modeling_heads_elmo import ElmoForTokenClassification, ElmoTokenClassifierOutput, raise_labels
from .pooling_elmo import ElmoSentences
from .task_layers_elmo import best_valid_labels


class ElmoForSemanticRoles(ElmoForTokenClassification):
    """
    A tagger of the arguments of one predicate per row, in BIO. An embedding of size `config.predicate_size` says of
    each word whether it is the predicate; it is concatenated to [x; ELMo].

    `task_lstm_type="alternating"` and `num_task_layers=8` give the deep highway LSTM of He et al. (2017). Outside
    training the labels are those of the best sequence that is valid in BIO.

    Args:
        config ([`ElmoConfig`]): The sizes of the biLM and the head (`predicate_size`, `task_lstm_type`, `tag_decoder`
            ...), and the labels.

    Example:

    ```python
    >>> import torch
    >>> import elmo_hf

    >>> labels = dict(enumerate(["O", "B-ARG0", "I-ARG0", "B-ARG1", "I-ARG1", "B-V"]))
    >>> folder = elmo_hf.default_model()
    >>> model = elmo_hf.ElmoForSemanticRoles.from_pretrained(folder, id2label=labels)
    >>> tokenizer = elmo_hf.ElmoTokenizer.from_pretrained(folder)
    >>> batch = tokenizer(["Anna saw a cat ."], return_tensors="pt")
    >>> predicate = torch.tensor([[0, 0, 1, 0, 0, 0, 0]])  # "saw"; <S> is the first position
    >>> model(**batch, predicate_mask=predicate).logits.argmax(-1)  # (1, 7)
    ```"""

    _auto_class = None  # transformers has none for this task

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.predicate_embeddings = nn.Embedding(2, config.predicate_size)
        self.post_init()

    def _num_marks(self) -> int:
        return self.config.predicate_size

    def _marks(self, is_marked: torch.Tensor) -> torch.Tensor:
        return self.predicate_embeddings(is_marked.long())

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        predicate_mask: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        output_attentions: bool | None = None,
    ) -> ElmoTokenClassifierOutput:
        r"""
        Args:
            input_ids (`(batch, words)`, *optional*): Rows of the table of word vectors, if there is one.
            char_ids (`(batch, words, max_characters_per_token)`): Character ids.
            attention_mask (`(batch, words)`, *optional*): 1 for words and boundaries.
            predicate_mask (`(batch, words)`): 1 for the predicate, 0 for all other words.
            labels (`(batch, words)`, *optional*): -100 at boundaries, padding, and words without a label.
            output_hidden_states (`bool`, *optional*): Whether to return the biLM's layers.
            num_items_in_batch (`int`, *optional*): Divides the summed loss. Default: the number of labels.
            token_type_ids (`(batch, words)`, *optional*): The sentence of each word, if a row has several; sentences
                are independent.
            inputs_embeds, output_attentions: Must be `None` or `False`; callers of stock heads pass them.
        """
        self._refuse_stock_arguments(inputs_embeds, output_attentions)
        mask = self._mask(input_ids, char_ids, attention_mask, None)  # (batch, words)
        check_segments(token_type_ids, mask)
        if predicate_mask is None:
            raise ValueError(
                "Semantic roles are those of a predicate: mark it in `predicate_mask`, one row per predicate."
            )
        check_shape("predicate_mask", predicate_mask, tuple(mask.shape))
        predicates = predicate_mask != 0
        if bool((predicates & ~mask).any()):
            raise ValueError("`predicate_mask` marks padding: it should be 0 there.")
        return self._tag(
            input_ids, char_ids, mask, token_type_ids, labels, output_hidden_states, num_items_in_batch, predicates
        )

    def _decode(self, emissions: torch.Tensor, sentences: ElmoSentences) -> torch.Tensor:
        """Log-probabilities with the labels of the best valid sequence raised, `(sentences, longest, num_labels)`."""
        if self.crf is not None:
            return super()._decode(emissions, sentences)
        best = best_valid_labels(emissions, sentences.mask, self.config.label_names)
        return raise_labels(emissions.float().log_softmax(dim=-1), best)


__all__ = ["ElmoForSemanticRoles"]
