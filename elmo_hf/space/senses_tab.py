"""The tab Senses: a word in several sentences, compared in every layer."""

from typing import NamedTuple

import numpy as np

from ..analysis.layer_vectors import unit
from ..data.occurrences import Occurrence
from ..demo.picture import principal_points
from ..errors import TextError
from .html_parts import COLOURS, SIGNS, heat_map, marked, paragraph, result, scatter
from .input_limits import SENTENCES, WORD_CHARACTERS, checked_lines, checked_text
from .page_model import PageModel

MIX = "mean of the layers"


class Senses(NamedTuple):
    """
    The uses of a word.

    Attributes:
        uses: In the order of the sentences.
        cosines (`np.ndarray` of shape `(layers + 1, uses, uses)`): Of every layer, and of the mean of the layers.
        points (`np.ndarray` of shape `(uses, 2)`): The mean of the layers in the two directions of largest variance.
        clusters (`np.ndarray` of shape `(uses,)`): The number of each use's cluster, from 0.
    """

    uses: list[Occurrence]
    cosines: np.ndarray
    points: np.ndarray
    clusters: np.ndarray


def compare_uses(model: PageModel, word: str, sentences: list[str]) -> Senses:
    """Compares the uses of a word, in any case, in sentences."""
    spellings = {word, word.lower(), word.upper(), word.capitalize()}
    uses = model.embedder.words(sentences, spellings, layers="all")
    if len(uses) < 2:
        raise TextError(
            f"{word!r:.60} should be in at least two places, found {len(uses)}: write sentences that contain it as a "
            "word of its own."
        )
    if len(uses) > 2 * SENTENCES:
        raise TextError(f"{word!r:.60} is in {len(uses)} places; this page compares at most {2 * SENTENCES}.")
    layers = np.stack([use.vector for use in uses], axis=1)  # (layers, uses, size)
    vectors = unit(np.concatenate([layers, layers.mean(axis=0, keepdims=True)]))
    points, _ = principal_points(vectors[-1])
    return Senses(uses, vectors @ vectors.swapaxes(1, 2), points, find_clusters(vectors[-1] @ vectors[-1].T))


def find_clusters(cosines: np.ndarray) -> np.ndarray:
    """
    Clusters by average linkage. Of all numbers of clusters from 2 to one less than the uses, the one with the best
    silhouette is taken; two uses are one cluster.

    Args:
        cosines: `(uses, uses)`.

    Returns:
        The number of each use's cluster `(uses,)`, in the order of first appearance.
    """
    distances = 1 - cosines
    groups = [[use] for use in range(len(cosines))]
    best, best_score = np.zeros(len(cosines), int), -np.inf
    while len(groups) > 2:
        pairs = [(a, b) for b in range(len(groups)) for a in range(b)]
        nearest = min(pairs, key=lambda pair: distances[np.ix_(groups[pair[0]], groups[pair[1]])].mean())
        groups[nearest[0]] += groups.pop(nearest[1])
        clusters = np.empty(len(cosines), int)
        for cluster, group in enumerate(sorted(groups, key=min)):
            clusters[group] = cluster
        if (score := silhouette(distances, clusters)) > best_score:
            best, best_score = clusters, score
    return best


def silhouette(distances: np.ndarray, clusters: np.ndarray) -> float:
    """
    How well clusters are separated, from -1 to 1: the mean of (b - a) / max(a, b) with the mean distances a to the own
    cluster and b to the nearest other one. A use that is alone counts as 0.
    """
    scores = []
    for use, own in enumerate(clusters):
        inside = (clusters == own) & (np.arange(len(clusters)) != use)
        if not inside.any():
            scores.append(0.0)
            continue
        a = distances[use, inside].mean()
        b = min(distances[use, clusters == other].mean() for other in set(clusters) - {own})
        scores.append((b - a) / max(a, b, 1e-12))
    return float(np.mean(scores))


def render_senses(senses: Senses, layer_names: list[str]) -> str:
    """The result as HTML: the clusters, the picture and a heat map per layer."""
    names = [str(index + 1) for index in range(len(senses.uses))]
    rows = []
    for name, use, cluster in zip(names, senses.uses, senses.clusters, strict=True):
        colour, sign = COLOURS[cluster % len(COLOURS)], SIGNS[cluster % len(SIGNS)]
        sign = f'<span class="word" style="background:{colour}">{sign}</span>'
        sentence = marked(use.sentence, use.start, use.end)
        rows.append(f'<tr><th scope="row">{name}</th><td>{sign} cluster {cluster + 1}</td><td>{sentence}</td></tr>')
    clusters = f"<table><caption>Clusters ({MIX})</caption><tbody>{''.join(rows)}</tbody></table>"
    maps = [heat_map(cosines, names, title) for cosines, title in zip(senses.cosines, [*layer_names, MIX], strict=True)]
    picture = scatter(senses.points, names, senses.clusters.tolist(), "The uses as points: near points are similar")
    note = paragraph(
        "Cosine of the word's vectors in two sentences. Layer 0 sees the word alone, so that its vectors are the same "
        "in every sentence; the other layers see the sentence too."
    )
    maps_html = "".join(f'<div class="scroll">{one}</div>' for one in maps)
    return result(
        f'<div class="side"><div class="scroll">{clusters}</div>{picture}</div>',
        note,
        f'<div class="side">{maps_html}</div>',
    )


def answer_senses(model: PageModel, word: str, text: str) -> str:
    """The answer of the tab."""
    word = checked_text(word, "The word", WORD_CHARACTERS)
    sentences = checked_lines(text, "The list of sentences", SENTENCES)
    return render_senses(compare_uses(model, word, sentences), model.layer_names)


def lay_out_senses(model: PageModel):
    """Adds the tab to the page."""
    import gradio as gr

    from .layout import add_examples, answered, on_submit

    examples = [(word, "\n".join(sentences)) for word, sentences in model.texts.senses]
    gr.Markdown("One word in several sentences: which of its uses have similar vectors?")
    word = gr.Textbox(examples[0][0], label="Word", max_lines=1)
    text = gr.Textbox(
        examples[0][1], label=f"Sentences, one per line, at most {SENTENCES}", lines=4, max_lines=SENTENCES
    )
    button = gr.Button("Compare", variant="primary")

    def answer(word: str, text: str) -> str:
        return answer_senses(model, word, text)

    output = add_examples([word for word, _ in examples], examples, [word, text], answered(answer), "senses-result")
    on_submit(button, [word], answered(answer), [word, text], output, "senses")


__all__ = ["Senses", "answer_senses", "compare_uses", "find_clusters", "lay_out_senses", "render_senses", "silhouette"]
