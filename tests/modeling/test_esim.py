"""ESIM, step by step beside plain PyTorch; a small task that needs both texts is learned."""

import pytest
import torch
from torch.testing import assert_close

from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoTokenizer
from elmo_hf.modeling.esim_elmo import ElmoEsim
from tests.models import TINY

LENGTHS = [[4, 2], [1, 3]]  # of the texts of two pairs


def test_local_inference_composition_and_pooling_are_those_of_the_paper():
    torch.manual_seed(0)
    layer = ElmoEsim(3, 5).eval()
    lengths = torch.tensor(LENGTHS).flatten()
    mask = torch.arange(4) < lengths.unsqueeze(1)
    words = torch.randn(4, 4, 3) * mask.unsqueeze(-1)
    output = layer(words, mask)
    assert output.shape == (2, 5)
    for pair in range(2):
        texts = [words[2 * pair + text, : lengths[2 * pair + text]] for text in range(2)]
        pooled = []
        for this, other in (texts, texts[::-1]):
            aligned = (this @ other.T).softmax(dim=-1) @ other
            inference = torch.cat([this, aligned, this - aligned, this * aligned], dim=-1)
            inputs = torch.relu(layer.attention.project(inference)).unsqueeze(0)
            composed = layer.attention.compose(inputs, torch.ones(1, len(this), dtype=torch.bool))[0]
            pooled += [composed.mean(dim=0), composed.amax(dim=0)]
        assert_close(output[pair], torch.relu(layer.hidden(torch.cat(pooled))))


def test_elmo_at_the_output_is_what_the_attention_sees():
    config = ElmoConfig(**TINY, text_pairs=True, pair_attention="esim", elmo_places="both", task_layer_size=3)
    model = ElmoForSequenceClassification(config)
    assert model.esim.attention.project.in_features == 4 * (2 * 3 + config.hidden_size)
    assert model.classifier.in_features == 3


@pytest.mark.medium
def test_esim_learns_whether_a_word_of_one_text_is_in_the_other():
    torch.manual_seed(0)
    words = ["cat", "dog", "cow", "hen", "fox", "ant"]
    tokenizer = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", *words])
    config = ElmoConfig(
        **(TINY | {"vocab_size": 9}), word_vector_size=8, text_pairs=True, pair_attention="esim", elmo_places="both",
        task_layer_size=16, classifier_dropout=0.0, elmo_dropout=0.0, num_labels=2,
    )  # fmt: skip
    model = ElmoForSequenceClassification(config)
    optimizer = torch.optim.Adam(model.param_groups(5e-3))
    generator = torch.Generator().manual_seed(0)

    def examples(count: int):
        texts = [[words[i] for i in torch.randperm(6, generator=generator)[:2]] for _ in range(count)]
        asked = [words[int(torch.randint(6, (1,), generator=generator))] for _ in range(count)]
        labels = torch.tensor([int(word in text) for word, text in zip(asked, texts, strict=True)])
        return tokenizer([" ".join(text) for text in texts], asked, padding=True, return_tensors="pt"), labels

    for _ in range(150):
        batch, labels = examples(32)
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    batch, labels = examples(200)
    with torch.no_grad():
        accuracy = (model.eval()(**batch).logits.argmax(-1) == labels).float().mean()
    assert accuracy > 0.95
