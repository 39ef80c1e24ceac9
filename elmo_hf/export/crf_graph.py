"""
The graph of a CRF's decoding: Viterbi's algorithm and the marginals, as loops of the graph.

Every loop has one step more than there are pairs of neighbouring words. That step is masked and changes nothing; it
makes the loop work for sentences of one word.
"""

from ..modeling.task_layers_elmo import ElmoCRF
from .graph import INT, Graph, Value

RAISED_BY = 1e-3  # as in `raise_labels`


def decoded_scores(graph: Graph, crf: ElmoCRF, emissions: Value, mask: Value) -> Value:
    """
    Log-marginals with the labels of the best sequence raised above the others: `argmax` gives the decoded labels.

    Args:
        crf: With its weights.
        emissions: `(sentences, longest, num_labels)`
        mask: `(sentences, longest)`, true for words, which are the first positions of each row.

    Returns:
        `(sentences, longest, num_labels)`
    """
    first, transitions, last = (graph.weight(scores) for scores in crf._scores(constrained=True))
    by_word = emissions.transpose(1, 0, 2)  # (words, sentences, num_labels)
    one, end = graph.ints(1), by_word.size(0)
    beginning = first + by_word.slice(0, 0, 1).squeeze(0)  # (sentences, num_labels)
    after = graph.concat([by_word.slice(0, one, end), by_word.slice(0, 0, 1) * 0.0], axis=0)
    is_word = mask.cast(INT).transpose(1, 0)  # (words, sentences)
    is_word = graph.concat([is_word.slice(0, one, end), is_word.slice(0, 0, 1) * 0], axis=0)
    is_word = is_word.cast(mask.kind).unsqueeze(-1)  # (words, sentences, 1): of the words after the first, then false
    steps = after, is_word, transitions, last
    marginals = _log_marginals(graph, beginning, *steps)
    labels = _best_labels(graph, beginning, *steps)
    return _raised(graph, marginals, labels, emissions)


def _log_marginals(
    graph: Graph, beginning: Value, after: Value, is_word: Value, transitions: Value, last: Value
) -> Value:
    """`(sentences, words, num_labels)`"""

    def forward(body: Graph, states: list[Value], now: list[Value]) -> tuple[list[Value], list[Value]]:
        (alpha,), (emission, is_word) = states, now
        longer = (alpha.unsqueeze(2) + transitions).reduce("ReduceLogSumExp", axis=1) + emission
        return [body.where(is_word, longer, alpha)], [alpha]

    def backward(body: Graph, states: list[Value], now: list[Value]) -> tuple[list[Value], list[Value]]:
        (beta,), (emission, is_word) = states, now
        longer = ((emission + beta).unsqueeze(1) + transitions).reduce("ReduceLogSumExp", axis=2)
        beta = body.where(is_word, longer, Value(body, last.name))
        return [beta], [beta]

    (ends,), (alphas,) = graph.scan(forward, [beginning], [after, is_word])  # (words, sentences, num_labels)
    _, (betas,) = graph.scan(backward, [beginning * 0.0 + last], [after, is_word], reverse=True)
    total = (ends + last).reduce("ReduceLogSumExp", axis=1, keepdims=True)  # (sentences, 1)
    return (alphas + betas - total).transpose(1, 0, 2)


def _best_labels(
    graph: Graph, beginning: Value, after: Value, is_word: Value, transitions: Value, last: Value
) -> Value:
    """The labels of the sequence with the highest score, `(sentences, words)`."""

    def forward(body: Graph, states: list[Value], now: list[Value]) -> tuple[list[Value], list[Value]]:
        (score,), (emission, is_word) = states, now
        sums = score.unsqueeze(2) + transitions  # (sentences, before, after)
        previous = body.op("ArgMax", sums, axis=1, keepdims=0, kind=INT)  # (sentences, num_labels)
        same = body.range(score.size(1))
        score = body.where(is_word, sums.reduce("ReduceMax", axis=1) + emission, score)
        return [score], [body.where(is_word, previous, same)]

    def trace(body: Graph, states: list[Value], now: list[Value]) -> tuple[list[Value], list[Value]]:
        label = body.op("GatherElements", now[0], states[0], axis=1, kind=INT)  # (sentences, 1)
        return [label], [label]

    (ends,), (backpointers,) = graph.scan(forward, [beginning], [after, is_word])
    label = graph.op("ArgMax", ends + last, axis=1, keepdims=1, kind=INT)  # (sentences, 1)
    _, (labels,) = graph.scan(trace, [label], [backpointers], reverse=True)  # (words, sentences, 1)
    return labels.squeeze(-1).transpose(1, 0)


def _raised(graph: Graph, scores: Value, labels: Value, emissions: Value) -> Value:
    """As [`raise_labels`]."""
    is_best = labels.unsqueeze(-1).equals(graph.range(emissions.size(2)))
    differs = ~graph.op("ArgMax", scores, axis=-1, keepdims=0, kind=INT).equals(labels)
    raised = scores.reduce("ReduceMax", axis=-1, keepdims=True) + RAISED_BY
    return graph.where(is_best & differs.unsqueeze(-1), raised, scores)


__all__ = ["decoded_scores"]
