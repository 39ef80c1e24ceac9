"""The embedder: the vectors of one sentence at a time, whatever the batches, the cache and the form of the input."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoInt8Config, ElmoTokenizer
from elmo_hf.data.sentences import CHUNK
from elmo_hf.embedding import ElmoEmbedder
from elmo_hf.embedding.request import EmbeddingRequest
from elmo_hf.errors import ModelError, TextError
from tests.embedding.toy import TOKENIZER, WORDS, layers_alone, toy_embedder
from tests.models import TINY, configurations, tiny_model

EMBEDDER = toy_embedder()
LAYERS = {"mix": -1, "top": 2, 0: 0, 1: 1, -1: 2, "all": [0, 1, 2], (2, 0): [2, 0]}

words = st.lists(st.sampled_from(WORDS), max_size=6)
sentences = st.lists(st.one_of(words, words.map(tuple), words.map(" ".join)), max_size=6)
budgets = st.sampled_from([2, 5, 12, 30, 1000])  # from less than a sentence to all at once


def assert_close(actual, expected, tolerance=1e-5):
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@settings(max_examples=30)
@given(sentences, budgets, st.sampled_from(list(LAYERS)), st.booleans(), st.booleans())
def test_every_sentence_has_the_vectors_it_has_alone(given_sentences, batch_tokens, layers, boundaries, cold):
    if cold:
        EMBEDDER.model.cache_words(3)
    actual = EMBEDDER.embed(
        given_sentences,
        layers=list(layers) if isinstance(layers, tuple) else layers,
        boundaries=boundaries,
        batch_tokens=batch_tokens,
    )
    assert len(actual) == len(given_sentences)
    for sentence, vectors in zip(given_sentences, actual, strict=True):
        expected = layers_alone(EMBEDDER.model, sentence)[LAYERS[layers]]
        assert_close(vectors, expected if boundaries else expected[..., 1:-1, :])


@pytest.mark.medium
@settings(max_examples=20)
@given(configurations, sentences, budgets)
def test_every_kind_of_model_can_be_embedded_with(fields, given_sentences, batch_tokens):
    model = tiny_model(**fields)
    tokenizer = ElmoTokenizer(
        ["<S>", "</S>", "<UNK>", "the", "bank"], max_characters_per_token=fields["max_characters_per_token"]
    )
    model.config.pad_token_id = tokenizer.pad_token_id
    embedder = ElmoEmbedder(model, tokenizer)
    actual = embedder.embed(given_sentences, batch_tokens=batch_tokens)
    for sentence, vectors in zip(given_sentences, actual, strict=True):
        batch = tokenizer(sentence, is_split_into_words=not isinstance(sentence, str), return_tensors="pt")
        with torch.no_grad():
            expected = model(**batch).last_hidden_state[0, 1:-1].numpy()
        assert vectors.shape == (len(expected), embedder.hidden_size)
        assert_close(vectors, expected)


@settings(max_examples=20)
@given(sentences, budgets, st.sampled_from(["mean", "max"]), st.sampled_from(["mix", "all"]), st.booleans())
def test_pooling_is_over_the_words_alone(given_sentences, batch_tokens, pooling, layers, boundaries):
    actual = EMBEDDER.embed(given_sentences, layers, pooling, boundaries, batch_tokens)
    expected = np.zeros((len(given_sentences), *([3] if layers == "all" else []), EMBEDDER.hidden_size), np.float32)
    for index, vectors in enumerate(EMBEDDER.embed(given_sentences, layers, boundaries=boundaries)):
        if vectors.shape[-2]:
            expected[index] = vectors.mean(axis=-2) if pooling == "mean" else vectors.max(axis=-2)
    assert actual.shape == expected.shape
    assert_close(actual, expected)


def test_the_average_weighs_all_layers_alike_whatever_the_mixer_does():
    embedder = toy_embedder()
    with torch.no_grad():
        embedder.model.mixer.weights.copy_(torch.tensor([3.0, 1.0, -2.0]))
        embedder.model.mixer.gamma.fill_(2)
    (vectors,) = embedder.embed(["the river bank"], layers="average")
    layers = layers_alone(embedder.model, "the river bank")
    assert_close(vectors, layers[:3, 1:-1].mean(axis=0))
    (mix,) = embedder.embed(["the river bank"])
    assert_close(mix, layers[3, 1:-1])
    assert np.abs(mix - vectors).max() > 1e-2


@pytest.mark.parametrize("batch_tokens", [3, 1000])
def test_a_mixer_with_layer_norm_sees_one_sentence_at_a_time(batch_tokens):
    embedder = toy_embedder(mixer_layer_norm=True)
    given_sentences = ["the bank", "the river bank was closed", "a"]
    for sentence, vectors in zip(
        given_sentences, embedder.embed(given_sentences, batch_tokens=batch_tokens), strict=True
    ):
        assert_close(vectors, layers_alone(embedder.model, sentence)[-1, 1:-1])
    with pytest.raises(ModelError, match="whole sentence"):
        embedder.embed_document_iter("the bank")


def test_an_empty_sentence_has_no_words_and_keeps_its_place():
    actual = EMBEDDER.embed(["", "the bank", [], " "], layers="all")
    assert [vectors.shape for vectors in actual] == [(3, 0, 8), (3, 2, 8), (3, 0, 8), (3, 0, 8)]
    assert [vectors.shape for vectors in EMBEDDER.embed(["", []], boundaries=True)] == [(2, 8), (2, 8)]
    assert not EMBEDDER.embed(["", []], pooling="max").any()
    assert EMBEDDER.embed([]) == []
    assert EMBEDDER.embed([], layers=[0, 1], pooling="mean").shape == (0, 2, 8)
    assert EMBEDDER.embed([], pooling="mean", return_tensors="pt").shape == (0, 8)


def test_tensors_keep_the_precision_of_the_model_and_arrays_are_float32():
    embedder = ElmoEmbedder(tiny_model().bfloat16(), TOKENIZER)
    text = ["the river bank", "a"]
    for batch_tokens in (2, 100):
        for pooling in (None, "mean", "max"):
            tensors = embedder.embed(text, pooling=pooling, batch_tokens=batch_tokens, return_tensors="pt")
            arrays = embedder.embed(text, pooling=pooling, batch_tokens=batch_tokens)
            for tensor, array in zip(tensors, arrays, strict=True):
                assert tensor.dtype == torch.bfloat16
                assert array.dtype == np.float32
                np.testing.assert_allclose(tensor.float().numpy(), array, rtol=1e-2, atol=1e-2)
    (tensor,) = toy_embedder().embed(["the bank"], return_tensors="pt")
    (tensor * torch.ones(8, requires_grad=True)).sum().backward()  # no tensor of an inference mode


def test_results_hold_no_memory_of_others():
    for layers in ("mix", "all"):
        for vectors in EMBEDDER.embed(["the bank", "a river", "the"], layers=layers):
            assert vectors.base is None or vectors.base.nbytes == vectors.nbytes
            assert vectors.flags.c_contiguous
        for tensor in EMBEDDER.embed(["the bank", "a river", "the"], layers=layers, return_tensors="pt"):
            assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def test_each_distinct_word_goes_through_the_characters_once_over_batches_and_calls():
    embedder, seen = toy_embedder(), []
    embedder.model.token_encoder.characters.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    text = ["the bank of the river", "a river", "the bank", "a bank of a river"] * 5
    embedder.embed(text, batch_tokens=8)
    assert sum(seen) == len({"the", "bank", "of", "river", "a", "<S>", "</S>"})
    embedder.embed([*reversed(text), "new words"], batch_tokens=100)
    assert sum(seen) == 9


def test_a_cache_that_the_model_has_is_kept():
    model = tiny_model()
    model.cache_words(7)
    cache = model.token_encoder.word_cache
    assert ElmoEmbedder(model, TOKENIZER).model.token_encoder.word_cache is cache


@pytest.mark.medium
def test_a_generator_is_read_as_far_as_results_are_asked_for():
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield ["the", "bank"]  # 4 tokens

    vectors = EMBEDDER.embed_iter(endless(), batch_tokens=10)
    assert read == 0
    next(vectors)
    assert read <= CHUNK + 10  # of the tokenizer, beyond a window of 4 batches
    for _ in range(1000):
        next(vectors)
    assert read <= 1000 + CHUNK + 10


def test_what_went_through_before_a_bad_sentence_is_not_lost():
    results = []
    with pytest.raises(TextError, match=r"sentences\[100\]"):
        results.extend(EMBEDDER.embed_iter(iter([*["the bank"] * 100, None]), batch_tokens=10))
    assert len(results) >= 100 - CHUNK - 10


@pytest.mark.medium
def test_batches_depend_on_nothing_but_the_input():
    def shapes(given_sentences):
        seen, model = [], tiny_model()
        model.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape)))
        list(ElmoEmbedder(model, TOKENIZER).embed_iter(given_sentences, batch_tokens=20))
        return seen

    text = [" ".join(["the"] * (length % 7)) for length in range(200)]
    assert shapes(text) == shapes(iter(text)) == shapes(tuple(text))
    assert all(row == 1 and tokens <= 20 for row, tokens in shapes(text))


def test_progress_counts_sentences_and_tokens_up():
    seen = []
    text = ["the bank", "", " ".join(["a"] * 30), "the river"] * 3
    EMBEDDER.embed(text, batch_tokens=12, progress=lambda *done: seen.append(done))
    assert seen[-1] == (len(text), 3 * (4 + 2 + 32 + 4))
    assert seen == sorted(seen)
    assert len(seen) > 6


def test_a_bar_shows_tokens_a_second(capsys):
    EMBEDDER.embed(["the bank", "a river"], progress=True)
    error = capsys.readouterr().err
    assert "2/2" in error
    assert "tokens/s" in error


@pytest.mark.parametrize(
    ("given_sentences", "message"),
    [
        ("the bank", "put it into a list"),
        (b"the bank", "put it into a list"),
        (3, "found 3"),
        (None, "found None"),
        ({"a": 1}, "must be strings or lists of words"),
        (["a", None], r"`sentences\[1\]` must be a string or a list of words, found None"),
        (["a", b"b"], r"`sentences\[1\]`.*Decode"),
        (["a", ["b", 3]], r"`sentences\[1\]\[1\]` must be a word"),
        ([["a"], 3.5], r"`sentences\[1\]`"),
    ],
)
def test_what_is_no_sentence_is_refused_by_its_number(given_sentences, message):
    with pytest.raises(TextError, match=message) as caught:
        EMBEDDER.embed(given_sentences)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "bottom"}, "mix, top, average, all"),
        ({"layers": 3}, "from 0 to 2, found 3"),
        ({"layers": -4}, "found -4"),
        ({"layers": [0, 7]}, "found 7"),
        ({"layers": []}, "empty"),
        ({"layers": True}, "found True"),
        ({"layers": None}, "found None"),
        ({"layers": [1.0]}, "found 1.0"),
        ({"pooling": "sum"}, "'mean', 'max', 'sentence', found 'sum'"),
        ({"batch_tokens": 0}, "1 token or more"),
        ({"batch_tokens": 2.5}, "1 token or more"),
        ({"return_tensors": "tf"}, "'np' or 'pt'"),
        ({"progress": 3}, "`progress`"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_at_once(options, message):
    for ask in (EMBEDDER.embed, EMBEDDER.embed_iter):
        with pytest.raises(ValueError, match=message):
            ask(["the bank"], **options)


def test_a_model_in_training_is_refused_and_an_embedder_sets_it_to_evaluation():
    embedder = ElmoEmbedder(tiny_model().train(), TOKENIZER)
    embedder.embed(["the bank"])
    embedder.model.train()
    with pytest.raises(ModelError, match="eval"):
        embedder.embed(["the bank"])


def test_an_encoder_without_a_mixer_has_no_mix():
    head = ElmoForTokenClassification(ElmoConfig(**TINY, num_labels=2)).eval()
    embedder = ElmoEmbedder(head.elmo, TOKENIZER)
    with pytest.raises(ModelError, match="no mixer"):
        embedder.embed(["the bank"])
    assert embedder.embed(["the bank"], layers="average")[0].shape == (2, 8)


def test_the_shipped_model_answers_by_default_and_by_name():
    embedder = ElmoEmbedder.from_pretrained()
    assert (embedder.hidden_size, embedder.num_layers) == (512, 3)
    text = ["The bank was closed.", "He sat on the bank of the river, and waited."]
    for sentence, vectors in zip(text, embedder.embed(text), strict=True):
        with torch.no_grad():
            expected = embedder.model(**embedder.tokenizer(sentence, return_tensors="pt")).last_hidden_state
        assert_close(vectors, expected[0, 1:-1].numpy())
    small = ElmoEmbedder.from_pretrained("elmo-english-compact", quantization_config=ElmoInt8Config())
    for exact, near in zip(embedder.embed(text, "top"), small.embed(text, "top"), strict=True):
        cosines = (exact * near).sum(-1) / np.linalg.norm(exact, axis=-1) / np.linalg.norm(near, axis=-1)
        assert cosines.min() > 0.99
    half = ElmoEmbedder.from_pretrained(dtype="bfloat16", device="cpu")
    assert half.model.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [ElmoForTokenClassification, ElmoForPreTraining])
def test_the_folder_of_any_head_gives_its_encoder(kind, tmp_path):
    torch.manual_seed(0)
    head = kind(ElmoConfig(**TINY)).eval()
    head.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    embedder = ElmoEmbedder.from_pretrained(tmp_path)
    (vectors,) = embedder.embed(["the river bank"], layers="top")
    with torch.no_grad():
        expected = head.elmo(**TOKENIZER("the river bank", return_tensors="pt")).last_hidden_state
    assert_close(vectors, expected[0, 1:-1].numpy())


def test_a_folder_without_all_weights_is_refused(tmp_path):
    model = tiny_model()
    TOKENIZER.save_pretrained(tmp_path)
    state = {name: value for name, value in model.state_dict().items() if "layers.1" not in name}
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ModelError, match=r"it lacks 4 weights, such as layers\.1"):
        ElmoEmbedder.from_pretrained(tmp_path)


def test_a_folder_that_is_no_model_is_refused_in_one_line(tmp_path):
    for name, message in ((tmp_path, "config.json is missing"), (tmp_path / "nothing", "There is no folder")):
        with pytest.raises(ModelError, match=message) as caught:
            ElmoEmbedder.from_pretrained(name)
        assert "\n" not in str(caught.value)


def test_threads_share_an_embedder():
    text = [[" ".join(["the", "river", "a"][: index % 4]), WORDS[:index]] for index in range(1, 9)] * 3
    expected = [EMBEDDER.embed(some) for some in text]
    with ThreadPoolExecutor(6) as pool:
        for vectors, wanted in zip(pool.map(EMBEDDER.embed, text), expected, strict=True):
            for some, other in zip(vectors, wanted, strict=True):
                assert_close(some, other)


def test_a_document_that_was_given_out_is_not_kept_while_the_next_one_is_embedded(monkeypatch):
    documents = []

    def document(self, *args):
        assert not any(earlier() is not None for earlier in documents)
        result = original(self, *args)
        documents.append(weakref.ref(result))
        return result

    original = EmbeddingRequest._document
    monkeypatch.setattr(EmbeddingRequest, "_document", document)
    text = [["a", "bank"] * 40] * 3
    for _ in EMBEDDER.embed_iter(text, batch_tokens=16):
        pass
    for result in EMBEDDER._request("mix", None, False, 16).iter_unordered(text):
        del result
    assert len(documents) == 6


@pytest.mark.parametrize("pooling", [None, "mean"])
@pytest.mark.parametrize("layers", ["mix", "all", 0, [0, -1]], ids=str)
def test_results_that_come_in_any_order_are_those_of_their_sentences(layers, pooling):
    """Several windows of batches, documents that are longer than a batch, empty sentences."""
    text = [WORDS[: index % 4] * (5 if index % 7 == 6 else 1) for index in range(60)]
    expected = EMBEDDER.embed(text, layers, pooling, batch_tokens=5)
    by_index = {
        index: np.stack(some) if isinstance(layers, list) or layers == "all" else some[0].copy()
        for index, some in EMBEDDER._request(layers, pooling, False, 5).iter_unordered(text)
    }
    assert sorted(by_index) == list(range(len(text)))
    for index, wanted in enumerate(expected):
        assert_close(by_index[index], wanted)


def test_the_room_for_results_is_as_large_as_a_window_needs(monkeypatch):
    rooms = []
    original = EmbeddingRequest._in_order
    monkeypatch.setattr(
        EmbeddingRequest,
        "_in_order",
        lambda self, window, room, report: rooms.append(room.numel()) or original(self, window, room, report),
    )
    short, long = [["a"]] * 22, [["a"] * 14] * 4  # a window each
    actual = EMBEDDER.embed([*short, *short, *long, *short], batch_tokens=16)
    assert [len(vectors) for vectors in actual] == [1] * 44 + [14] * 4 + [1] * 22
    sizes = [tokens * EMBEDDER.hidden_size for tokens in (22, 56)]
    assert rooms == [sizes[0], sizes[0], sizes[1], sizes[0]]
