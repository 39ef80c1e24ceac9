# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Coreference: which spans of a document refer to the same thing. The model is that of Lee et al. (2017,
https://aclanthology.org/D17-1018), to which the ELMo paper adds ELMo: every span gets a score, the best spans are kept,
and each of them chooses one of the spans before it as its antecedent, or none.

It differs from Lee et al. in four points:

- The parts of a span (first word, last word, attended words, width) are projected to `config.span_size` and added, and
  antecedents are scored from these vectors rather than from the concatenation, which bounds the memory.
- The attention over the words of a span is scored by one linear layer, not by a feed-forward network.
- There are no features for speakers and genres.
- In training all labelled mentions of up to `config.max_span_width` words that share their cluster with another one are
  kept, even if they are more than `config.span_ratio` per word, or cross: without them there is nothing to learn from.
"""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from transformers.utils import ModelOutput, can_return_tuple

from .checks_elmo import check_integers, check_shape
from .configuration_elmo import ElmoConfig
from .modeling_heads_elmo import ElmoTaskModel
from .pooling_elmo import ElmoSentences, word_mask
from .task_layers_elmo import ElmoTaskLinear

SENTENCES_AT_ONCE = 64  # per call of the biLM
DISTANCES = (2, 3, 4, 5, 8, 16, 32, 64)  # in kept spans: where a new class of distances begins
NONE = -1e4  # the score of an antecedent that does not exist


@dataclass
class ElmoCoreferenceOutput(ModelOutput):
    """
    Args:
        loss (`torch.Tensor`, with labels): The negative log-likelihood of the right antecedents, per labelled mention.
            In training plus `mixer_l2` times the squared norm of the mixing weights.
        clusters (`torch.LongTensor` of shape `(documents, mentions, 3)`, outside training): First word, last word and
            cluster of each mention, as in `labels`; -100 where a document has fewer.
    """

    loss: torch.Tensor | None = None
    clusters: torch.Tensor | None = None


class ElmoSpans(nn.Module):
    """
    Vectors and scores of spans.

    Args:
        input_size (`int`): The size of a word's vector before the task layers, which is attended to.
        word_size (`int`): The size of a word's vector after the task layers.
        config ([`ElmoConfig`]): `span_size`, `max_span_width`, `classifier_dropout`.
    """

    def __init__(self, input_size: int, word_size: int, config: ElmoConfig):
        super().__init__()
        size = config.span_size
        self.first = ElmoTaskLinear(word_size, size)
        self.last = ElmoTaskLinear(word_size, size, bias=False)
        self.head = ElmoTaskLinear(input_size, size, bias=False)
        self.attention = ElmoTaskLinear(word_size, 1)
        self.widths = nn.Embedding(config.max_span_width, size)
        self.hidden = ElmoTaskLinear(size, size)
        self.score = ElmoTaskLinear(size, 1)
        self.dropout = nn.Dropout(config.classifier_dropout)

    def forward(
        self, inputs: torch.Tensor, words: torch.Tensor, spans: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Args:
            inputs: `(words, input_size)`, all words of a document before the task layers.
            words: `(words, word_size)`, and after them.
            spans: `(spans, 2)`, the first and the last word of each.

        Returns:
            Vectors `(spans, span_size)` and scores `(spans,)`.
        """
        first, last = spans.unbind(dim=1)
        widths = last - first
        vectors = self.first(words)[first] + self.last(words)[last] + self.widths(widths)
        vectors = vectors + self._attended(self.head(inputs), self.attention(words).squeeze(-1), first, widths)
        vectors = self.dropout(vectors.relu())
        return vectors, self.score(self.dropout(self.hidden(vectors).relu())).squeeze(-1)

    def _attended(
        self, heads: torch.Tensor, scores: torch.Tensor, first: torch.Tensor, widths: torch.Tensor
    ) -> torch.Tensor:
        """The mean of `heads` `(words, span_size)` over each span, weighted by the softmax of `scores` `(words,)`."""
        offsets = torch.arange(self.widths.num_embeddings, device=first.device)
        is_inside = offsets <= widths.unsqueeze(1)  # (spans, max_span_width)
        places = (first.unsqueeze(1) + offsets).clamp(max=len(heads) - 1)
        dtype = torch.promote_types(heads.dtype, torch.float32)
        weights = scores.to(dtype)[places].masked_fill(~is_inside, -torch.inf).softmax(dim=1)
        # One sum per span, without a copy of its words' vectors, which would need `max_span_width` times the memory.
        attended = functional.embedding_bag(places, heads.to(dtype), per_sample_weights=weights, mode="sum")
        return attended.to(heads.dtype)


class ElmoAntecedents(nn.Module):
    """
    Scores of pairs of spans, from their vectors, the product of these, and their distance.

    Args:
        config ([`ElmoConfig`]): `span_size`, `classifier_dropout`.
    """

    def __init__(self, config: ElmoConfig):
        super().__init__()
        size = config.span_size
        self.span = ElmoTaskLinear(size, size)
        self.antecedent = ElmoTaskLinear(size, size, bias=False)
        self.product = ElmoTaskLinear(size, size, bias=False)
        self.distances = nn.Embedding(len(DISTANCES) + 1, size)
        self.hidden = ElmoTaskLinear(size, size)
        self.score = ElmoTaskLinear(size, 1)
        self.dropout = nn.Dropout(config.classifier_dropout)

    def forward(self, vectors: torch.Tensor, antecedents: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        """
        Args:
            vectors: `(spans, span_size)`
            antecedents: `(spans, antecedents)`, the indices of the spans that each is compared with.
            distances: `(antecedents,)`, how many spans before it each is.

        Returns:
            `(spans, antecedents)`
        """
        classes = torch.bucketize(distances, torch.tensor(DISTANCES, device=distances.device), right=True)
        pairs = self.product(vectors.unsqueeze(1) * vectors[antecedents])  # (spans, antecedents, span_size)
        pairs = pairs + self.span(vectors).unsqueeze(1) + self.antecedent(vectors)[antecedents]
        pairs = self.dropout((pairs + self.distances(classes)).relu())
        return self.score(self.dropout(self.hidden(pairs).relu())).squeeze(-1)


class ElmoForCoreference(ElmoTaskModel):
    """
    Finds the clusters of mentions in documents. The sentences of a document are the rows of a batch, and the biLM and
    the task layers read each by itself.

    Args:
        config ([`ElmoConfig`]): The sizes of the biLM and the head (`max_span_width`, `span_ratio`, `max_antecedents`,
            `span_size` ...).

    Example:

    ```python
    >>> import elmo_hf

    >>> folder = elmo_hf.default_model()
    >>> model = elmo_hf.ElmoForCoreference.from_pretrained(folder).eval()
    >>> tokenizer = elmo_hf.ElmoTokenizer.from_pretrained(folder)
    >>> batch = tokenizer(["Anna saw a cat .", "She fed it ."], padding=True, return_tensors="pt")
    >>> model(**batch).clusters  # (1, mentions, 3): words are counted through the document, from 0
    ```"""

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self.spans = ElmoSpans(self._input_size, self._output_size, config)
        self.antecedents = ElmoAntecedents(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        document_ids: torch.LongTensor | None = None,
        labels: torch.LongTensor | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        output_attentions: bool | None = None,
    ) -> ElmoCoreferenceOutput:
        r"""
        Args:
            input_ids (`(sentences, words)`, *optional*): Rows of the table of word vectors, if there is one.
            char_ids (`(sentences, words, max_characters_per_token)`): Character ids.
            attention_mask (`(sentences, words)`, *optional*): 1 for words and boundaries.
            document_ids (`(sentences,)`, *optional*): The document of each sentence, from 0, rising. Default: all
                sentences are one document.
            labels (`(documents, mentions, 3)`, *optional*): First word, last word and cluster of each mention. Words
                are counted through the document, from 0, without boundaries; clusters are any numbers from 0. -100
                where a document has fewer mentions.
            num_items_in_batch (`int`, *optional*): Divides the summed loss: the number of values of `labels` that are
                not -100. Default: that of this batch.
            token_type_ids: Not used: a row is a sentence.
            inputs_embeds, output_attentions: Must be `None` or `False`; callers of stock heads pass them.
        """
        self._refuse_stock_arguments(inputs_embeds, output_attentions)
        mask = self._mask(input_ids, char_ids, attention_mask, None)  # (sentences, words)
        rows = self._rows(document_ids, mask)
        if labels is not None:
            check_shape("labels", labels, (len(rows), "mentions", 3))
            check_integers("labels", labels)
        losses, mentions_of = [], []
        for document, places in enumerate(rows):
            ids = [None if values is None else values[places] for values in (input_ids, char_ids)]
            wanted = labels[document] if self.training and labels is not None else None
            spans, scores = self._scored_pairs(*ids, mask[places], wanted)
            if labels is not None:
                losses.append(self._loss(spans, scores, labels[document]))
            if not self.training:
                mentions_of.append(self._clusters(spans, scores))
        loss = None
        if labels is not None:
            mentions = (labels[..., 0] != -100).sum()
            divisor = mentions.clamp(min=1) if num_items_in_batch is None else max(num_items_in_batch / 3, 1)
            loss = torch.stack(losses).sum() / divisor + self._mixer_loss(3 * mentions, num_items_in_batch)
        clusters = None if self.training else _padded(mentions_of, mask.device)
        return ElmoCoreferenceOutput(loss=loss, clusters=clusters)

    @staticmethod
    def _rows(document_ids: torch.Tensor | None, mask: torch.Tensor) -> list[torch.Tensor]:
        """The rows of each document."""
        if document_ids is None:
            return [torch.arange(len(mask), device=mask.device)]
        check_shape("document_ids", document_ids, (len(mask),))
        check_integers("document_ids", document_ids)
        _, counts = document_ids.unique_consecutive(return_counts=True)
        expected = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        if not torch.equal(document_ids, expected.to(document_ids)):
            raise ValueError("`document_ids` must number the documents from 0, with the sentences of each in one run.")
        return list(torch.arange(len(mask), device=mask.device).split(counts.tolist()))

    def _scored_pairs(
        self, input_ids, char_ids, mask: torch.Tensor, wanted: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        The kept spans of a document `(spans, 2)`, in the order of the text, and the scores `(spans, 1 + antecedents)`
        of having no antecedent, and of each of the spans before it, the nearest first. `wanted` `(mentions, 3)`: labels
        whose mentions are kept whatever their scores.
        """
        inputs, words, lengths = self._words(input_ids, char_ids, mask)
        candidates = _all_spans(lengths, self.config.max_span_width)  # (candidates, 2)
        if not len(candidates):
            return candidates, words.new_zeros(0, 1)
        vectors, scores = self.spans(inputs, words, candidates)
        priorities = scores if wanted is None else _raise_wanted(candidates, scores, wanted)
        num_kept = max(int(self.config.span_ratio * len(words)), int(priorities.isposinf().sum()), 1)
        kept = _prune(candidates, priorities, num_kept)
        spans, vectors, scores = candidates[kept], vectors[kept], scores[kept]
        distances = torch.arange(1, min(self.config.max_antecedents, len(kept)) + 1, device=kept.device)
        antecedents = torch.arange(len(kept), device=kept.device).unsqueeze(1) - distances  # (spans, antecedents)
        exists, antecedents = antecedents >= 0, antecedents.clamp(min=0)
        pairs = self.antecedents(vectors, antecedents, distances) + scores.unsqueeze(1) + scores[antecedents]
        pairs = pairs.float().masked_fill(~exists, NONE)
        return spans, functional.pad(pairs, (1, 0))  # the score of no antecedent is 0

    def _words(self, input_ids, char_ids, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The words of a document before and after the task layers, `(words, size)`, and the sentences' lengths."""
        longest = int(mask.any(dim=0).nonzero().amax()) + 1 if bool(mask.any()) else 1  # of this document
        mask, ids = (
            mask[:, :longest],
            [None if values is None else values[:, :longest] for values in (input_ids, char_ids)],
        )
        chunks = []
        for start in range(0, len(mask), SENTENCES_AT_ONCE):
            rows = slice(start, start + SENTENCES_AT_ONCE)
            some = [None if values is None else values[rows] for values in ids]
            chunks.append(self._bilm_layers(*some, mask[rows], None))
        layers = [torch.cat(layer) for layer in zip(*chunks, strict=True)]  # (sentences, words, hidden_size) each
        sentences = ElmoSentences.of(word_mask(self.config, *ids, mask))
        gathered = [sentences.gather(layer) for layer in layers]
        inputs = self._task_inputs(gathered, ids[0], sentences)  # (sentences, longest, input size)
        words = inputs if self.task_lstm is None else self.task_lstm(inputs, sentences.mask)
        words = self._add_output_mix(self.dropout(words), gathered, sentences)
        return inputs[sentences.mask], words[sentences.mask], sentences.mask.sum(dim=1)

    def _loss(self, spans: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The negative log-likelihood of the antecedents in the same cluster, or of none where there is none."""
        if not len(spans):
            return scores.sum()
        cluster_of = {(first, last): cluster for first, last, cluster in labels.tolist() if first != -100}
        clusters = torch.tensor(
            [cluster_of.get((first, last), -1) for first, last in spans.tolist()], device=spans.device
        )
        distances = torch.arange(1, scores.shape[1], device=spans.device)
        antecedents = torch.arange(len(spans), device=spans.device).unsqueeze(1) - distances
        is_right = (clusters[antecedents.clamp(min=0)] == clusters.unsqueeze(1)) & (antecedents >= 0)
        is_right &= (clusters >= 0).unsqueeze(1)
        is_right = torch.cat([~is_right.any(dim=1, keepdim=True), is_right], dim=1)  # (spans, 1 + antecedents)
        right = scores.masked_fill(~is_right, -torch.inf).logsumexp(dim=1)
        return (scores.logsumexp(dim=1) - right).sum()

    @staticmethod
    def _clusters(spans: torch.Tensor, scores: torch.Tensor) -> list[tuple[int, int, int]]:
        """First word, last word and cluster of the spans that have an antecedent or are one."""
        cluster_of: dict[int, int] = {}
        num_clusters = 0
        for span, choice in enumerate(scores.argmax(dim=1).tolist() if len(spans) else []):
            if choice:
                antecedent = span - choice
                if antecedent not in cluster_of:
                    cluster_of[antecedent], num_clusters = num_clusters, num_clusters + 1
                cluster_of[span] = cluster_of[antecedent]
        words = spans.tolist()
        return [(words[span][0], words[span][1], cluster_of[span]) for span in sorted(cluster_of)]


def _all_spans(lengths: torch.Tensor, max_width: int) -> torch.Tensor:
    """All spans of up to `max_width` words inside a sentence, `(spans, 2)`, in the order of the text."""
    ends = lengths.cumsum(dim=0).repeat_interleave(lengths)  # (words,): where the sentence of each word ends
    first = torch.arange(len(ends), device=ends.device).unsqueeze(1)
    last = first + torch.arange(max_width, device=ends.device)  # (words, max_width)
    is_span = last < ends.unsqueeze(1)
    return torch.stack([first.expand_as(last)[is_span], last[is_span]], dim=1)


@torch.no_grad()
def _raise_wanted(spans: torch.Tensor, scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The scores `(spans,)`, infinite for mentions of labels `(mentions, 3)` that share their cluster with another."""
    labels = [tuple(label) for label in wanted.tolist() if label[0] != -100]
    sizes = Counter(cluster for _, _, cluster in labels)
    mentions = {(first, last) for first, last, cluster in labels if sizes[cluster] > 1}
    is_wanted = torch.tensor([(first, last) in mentions for first, last in spans.tolist()], device=spans.device)
    return scores.masked_fill(is_wanted, torch.inf)


@torch.no_grad()
def _prune(spans: torch.Tensor, scores: torch.Tensor, num_kept: int) -> torch.Tensor:
    """
    The indices of the `num_kept` spans with the highest scores, in the order of the text. A span that crosses one with
    a higher score (overlaps it and neither contains the other) is left out, unless its own score is infinite.
    """
    words, is_wanted, kept = spans.tolist(), scores.isposinf().tolist(), []
    last_from: dict[int, int] = {}  # the last word of the longest kept span, by its first word
    first_to: dict[int, int] = {}  # the first word of the longest kept span, by its last word
    for span in scores.argsort(descending=True, stable=True).tolist():
        if len(kept) == num_kept:
            break
        first, last = words[span]
        crosses = any(last_from.get(word, -1) > last for word in range(first + 1, last + 1))
        crosses = crosses or any(first_to.get(word, first) < first for word in range(first, last))
        if is_wanted[span] or not crosses:
            kept.append(span)
            last_from[first] = max(last_from.get(first, last), last)
            first_to[last] = min(first_to.get(last, first), first)
    return torch.tensor(sorted(kept), dtype=torch.long, device=spans.device)


def _padded(documents: list[list[tuple[int, int, int]]], device: torch.device) -> torch.Tensor:
    """`(documents, mentions, 3)`, with -100 where a document has fewer mentions."""
    clusters = torch.full((len(documents), max(map(len, documents), default=0), 3), -100, device=device)
    for row, mentions in enumerate(documents):
        if mentions:
            clusters[row, : len(mentions)] = torch.tensor(mentions, device=device)
    return clusters


__all__ = ["ElmoCoreferenceOutput", "ElmoForCoreference"]
