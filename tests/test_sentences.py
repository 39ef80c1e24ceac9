"""The words of a batch, sentence by sentence: nothing lost, nothing mixed up."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.sentences_elmo import ElmoSentences


@given(data=st.data(), rows=st.integers(1, 4), words=st.integers(1, 6), segments=st.integers(1, 3))
def test_every_word_is_gathered_into_its_sentence_in_order_and_scattered_back(data, rows, words, segments):
    draw = lambda most: torch.tensor(  # noqa: E731
        data.draw(
            st.lists(st.lists(st.integers(0, most), min_size=words, max_size=words), min_size=rows, max_size=rows)
        )
    )
    is_word, numbers = draw(1).bool(), draw(segments - 1)
    values = torch.arange(rows * words).view(rows, words) + 1
    sentences = ElmoSentences.of(is_word, numbers if segments > 1 else None, segments)
    gathered = sentences.gather(values)
    assert len(gathered) == rows * segments
    for row in range(rows):
        for segment in range(segments):
            chosen = is_word[row] & (numbers[row] == segment if segments > 1 else True)
            found = gathered[row * segments + segment]
            mask = sentences.mask[row * segments + segment]
            assert found[mask].tolist() == values[row][chosen].tolist()
            assert mask.tolist() == sorted(mask.tolist(), reverse=True)  # left-aligned
            assert not found[~mask].any()
    assert torch.equal(sentences.scatter(gathered), values * is_word)


def test_vectors_go_the_same_way_and_gradients_back():
    is_word = torch.tensor([[0, 1, 1, 0], [0, 1, 0, 0]], dtype=torch.bool)
    vectors = torch.randn(2, 4, 3, requires_grad=True)
    sentences = ElmoSentences.of(is_word)
    spread = sentences.scatter(sentences.gather(vectors))
    assert torch.equal(spread, vectors * is_word.unsqueeze(-1))
    spread.sum().backward()
    assert torch.equal(vectors.grad, is_word.unsqueeze(-1).expand(2, 4, 3).float())


def test_a_batch_without_words_has_sentences_of_one_empty_place():
    sentences = ElmoSentences.of(torch.zeros(2, 3, dtype=torch.bool))
    assert sentences.mask.tolist() == [[False], [False]]
    assert not sentences.scatter(torch.ones(2, 1)).any()
