"""Perplexity is what its definition says, however the sentences are put together for the model."""

import math

import pytest
import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.errors import TextError
from elmo_hf.pretraining import evaluation
from elmo_hf.pretraining.evaluation import Perplexity, perplexity, protocol
from elmo_hf.pretraining.streams import SentenceEncoder
from elmo_hf.pretraining.text import Corpus
from tests.models import TINY

WORDS = ["the", "cat", "sat", "on", "mat", "."]
TOKENIZER = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", *WORDS], splitting="whitespace", max_characters_per_token=8)
ENCODE = SentenceEncoder(TOKENIZER, pretokenized=True)
TEXT = [["the cat sat on the mat .", "the dog", "cat"], ["a mat on a mat on a mat on a mat"], ["sat sat", "."]]


def language_model(**fields) -> ElmoForPreTraining:
    """
    Small, in evaluation mode, with weights so large that what it reads matters, and rounding too: hence in fp64.
    """
    torch.manual_seed(0)
    sizes = TINY | {"vocab_size": 9, "max_characters_per_token": 8, "dropout": 0.5}
    model = ElmoForPreTraining(ElmoConfig(**(sizes | fields))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
            elif "layers" in name or "softmax" in name:
                parameter.mul_(3)
    return model.double()


@pytest.fixture
def corpus(tmp_path):
    def write(documents: list[list[str]]) -> Corpus:
        (tmp_path / "text.txt").write_text("\n\n".join(map("\n".join, documents)), "utf-8")
        return Corpus(tmp_path / "text.txt")

    return write


@torch.no_grad()
def by_hand(model: ElmoForPreTraining, documents: list[list[str]], carry_state: bool) -> Perplexity:
    """Sentence by sentence, with the vectors of `ElmoModel` and the probabilities of all words."""
    losses: dict[str, list[torch.Tensor]] = {"forward": [], "backward": []}
    for document in documents:
        states = {"forward": None, "backward": None}
        for sentence in document:
            row = TOKENIZER(sentence.split(), is_split_into_words=True, return_tensors="pt")
            words, char_ids = row["input_ids"], row["char_ids"]
            # forward reads <S> w1 … wn, backward </S> wn … w1
            for direction, read, wanted in (
                ("forward", slice(None, -1), words[0, 1:]),
                ("backward", slice(1, None), words[0, :-1]),
            ):
                if model.config.directions not in ("both", direction):
                    continue
                output = model.elmo(
                    input_ids=words[:, read],
                    char_ids=char_ids[:, read],
                    initial_state=states[direction],
                    directions=direction,
                    output_states=True,
                )
                if carry_state:
                    states[direction] = output.states
                log_probs = model.softmax.log_probs(output.last_hidden_state[0])
                losses[direction].append(-log_probs.gather(1, wanted.unsqueeze(1)).double().flatten())
    means = {name: torch.cat(parts).mean().item() if parts else math.nan for name, parts in losses.items()}
    targets = max(sum(map(len, parts)) for parts in losses.values())
    return Perplexity(math.exp(means["forward"]), math.exp(means["backward"]), targets)


def assert_same(actual: Perplexity, expected: Perplexity):
    assert tuple(actual) == pytest.approx(tuple(expected), rel=1e-7, nan_ok=True)
    assert actual.targets == expected.targets


SENTENCES = st.lists(st.sampled_from([*WORDS, "dog", "<S>", "</S>", "猫"]), min_size=1, max_size=7).map(" ".join)
DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=4), min_size=1, max_size=5)


@pytest.mark.medium
@pytest.mark.parametrize("carry_state", [False, True], ids=["zero", "carried"])
@pytest.mark.parametrize("softmax_type", ["full", "sampled", "adaptive"])
@settings(max_examples=15)
@given(documents=DOCUMENTS, streams=st.integers(1, 5), window=st.integers(1, 9))
def test_perplexity_is_that_of_every_sentence_by_hand(
    tmp_path_factory, softmax_type, carry_state, documents, streams, window
):
    """With the full softmax always, and for any number of streams and steps at once."""
    model = language_model(softmax_type=softmax_type, softmax_samples=2)
    path = tmp_path_factory.getbasetemp() / f"perplexity-{softmax_type}-{carry_state}.txt"
    path.write_text("\n\n".join(map("\n".join, documents)), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "STREAMS", streams)
        patch.setattr(evaluation, "WINDOW", window)
        result = perplexity(model, ENCODE, Corpus(path), carry_state=carry_state)
    assert_same(result, by_hand(model, documents, carry_state))
    assert result.targets == sum(len(sentence.split()) + 1 for document in documents for sentence in document)


@pytest.mark.parametrize("carry_state", [False, True])
def test_in_single_precision_perplexity_is_the_same(corpus, carry_state):
    result, expected = (
        perplexity(model, ENCODE, corpus(TEXT), carry_state=carry_state)
        for model in (language_model().float(), language_model())
    )
    assert tuple(result) == pytest.approx(tuple(expected), rel=1e-4)


def test_a_carried_state_matters(corpus):
    model = language_model()
    zero, carried = (perplexity(model, ENCODE, corpus(TEXT), carry_state=carry) for carry in (False, True))
    assert abs(zero.forward - carried.forward) > 0.01
    assert abs(zero.backward - carried.backward) > 0.01


def test_a_carried_state_ends_with_its_document(corpus, monkeypatch):
    """…also where one stream reads all documents."""
    monkeypatch.setattr(evaluation, "STREAMS", 1)
    single_sentences = [[sentence] for document in TEXT for sentence in document]
    result = perplexity(language_model(), ENCODE, corpus(single_sentences), carry_state=True)
    assert_same(result, by_hand(language_model(), single_sentences, carry_state=False))


@pytest.mark.parametrize("carry_state", [False, True])
@pytest.mark.parametrize("directions", ["forward", "backward"])
def test_a_direction_that_a_model_lacks_has_no_perplexity(corpus, directions, carry_state):
    model = language_model(directions=directions)
    result = perplexity(model, ENCODE, corpus(TEXT), carry_state=carry_state)
    assert_same(result, by_hand(model, TEXT, carry_state))
    assert math.isnan(result.backward if directions == "forward" else result.forward)
    assert math.isnan(result.mean)


@pytest.mark.parametrize("token_inputs", ["words", "both"])
@pytest.mark.parametrize("carry_state", [False, True])
def test_a_model_with_a_table_of_words_has_its_perplexity(corpus, token_inputs, carry_state):
    model = language_model(token_inputs=token_inputs)
    assert_same(perplexity(model, ENCODE, corpus(TEXT), carry_state=carry_state), by_hand(model, TEXT, carry_state))


def test_the_mean_is_that_of_the_losses():
    assert Perplexity(math.exp(2), math.exp(5), 10).mean == pytest.approx(math.exp(3.5))


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(corpus, training):
    model = language_model(softmax_type="sampled", softmax_samples=3).train(training)
    model.elmo.freeze_bilm()
    modes = [module.training for module in model.modules()]
    first = perplexity(model, ENCODE, corpus(TEXT))
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
    assert perplexity(model, ENCODE, corpus(TEXT)) == first  # no dropout, nothing drawn
    assert torch.is_grad_enabled()


def test_mixed_precision_of_training_is_not_that_of_evaluation(corpus, monkeypatch):
    """Neither around the call nor around the model: what is printed is what the stored model has."""
    model, text = language_model(), corpus(TEXT)
    expected = perplexity(model, ENCODE, text)
    plain_forward, seen = ElmoModel.run_bilm, []

    def forward(*arguments, **options):
        seen.append(torch.is_autocast_enabled("cpu"))
        return plain_forward(*arguments, **options)

    monkeypatch.setattr(ElmoModel, "run_bilm", forward)
    for state in (AcceleratorState, PartialState):
        monkeypatch.setattr(state, "_shared_state", {})
    accelerator = Accelerator(cpu=True, mixed_precision="bf16")
    prepared = accelerator.unwrap_model(accelerator.prepare(model))
    with torch.autocast("cpu"):
        assert perplexity(prepared, ENCODE, text) == expected
    assert seen
    assert not any(seen)


@pytest.mark.parametrize("training", [True, False])
def test_the_models_mode_outlives_a_broken_text(tmp_path, training):
    (tmp_path / "binary").write_bytes(b"the cat\n\nsat\0")
    model = language_model().train(training)
    with pytest.raises(TextError):
        perplexity(model, ENCODE, Corpus(tmp_path))
    assert model.training == training


def test_a_text_without_sentences_is_refused(corpus):
    with pytest.raises(TextError, match="not a single sentence"):
        perplexity(language_model(), ENCODE, corpus([]))


def test_evaluation_stops_after_enough_words_and_reports_them(corpus, monkeypatch):
    monkeypatch.setattr(evaluation, "STREAMS", 2)
    monkeypatch.setattr(evaluation, "WINDOW", 3)
    text, reports = corpus([["the cat sat ."] * 40] * 2), []
    result = perplexity(language_model(), ENCODE, text, max_targets=20, report=reports.append)
    assert reports == [6, 6, 6, 6]
    assert result.targets == 24
    everything = perplexity(language_model(), ENCODE, text, report=reports.append)
    assert everything.targets == sum(reports) - 24 == 400
    assert perplexity(language_model(), ENCODE, text, max_targets=10**9) == everything


def test_the_protocol_is_said_in_words():
    assert protocol(carry_state=False) == "<UNK> and </S> counted, <S> not; full softmax; state zero at each sentence"
    assert protocol(carry_state=True).endswith("state carried along each document")
