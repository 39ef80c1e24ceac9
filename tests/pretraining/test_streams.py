"""Streams read a text as the two language models need it: every word once an epoch, in order, wherever they stop."""

import json
from collections import Counter
from itertools import chain
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.errors import TextError
from elmo_hf.modeling.spelling_elmo import ByteSpelling
from elmo_hf.pretraining import streams as streams_module
from elmo_hf.pretraining.streams import NOT_A_TARGET, Reader, SentenceEncoder, Streams, Window
from elmo_hf.pretraining.text import Corpus
from tests.models import TINY

BYTES = ByteSpelling()
KNOWN = ["the", "cat", "sat", "猫", "."]
TOKENIZER = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", *KNOWN], splitting="whitespace", max_characters_per_token=12)
ENCODE = SentenceEncoder(TOKENIZER, pretokenized=True)
MARKS = ["<S>", "</S>", "<UNK>", "<PAD>"]

Document = list[str]


class Shards:
    """A corpus in memory: for each shard its documents."""

    def __init__(self, documents: list[list[Document]], max_reads: int = 10**9):
        self.shards = [f"shard {index}" for index in range(len(documents))]
        self._documents, self._reads_left = documents, max_reads

    def documents(self, shard: int, start: int = 0):
        self._reads_left -= 1
        assert self._reads_left >= 0, "the text is read again and again"
        return iter([list(document) for document in self._documents[shard][start:]])


def reader_of(documents: list[list[Document]], *, epochs: int | None = 1, seed: int = 0, **options) -> Reader:
    return Reader(Shards(documents), epochs=epochs, seed=seed, **options)


def streams_of(
    documents: list[list[Document]], *, streams=1, window=4, epochs: int | None = 1, seed=0, process=(0, 1), **options
) -> Streams:
    reader = reader_of(documents, epochs=epochs, seed=seed, process=process[0], num_processes=process[1])
    return Streams(reader, ENCODE, streams=streams, window=window, seed=seed, **options)


def numbered(count: int, sentences: int = 1, shards: int = 1) -> list[list[Document]]:
    """Documents that say which they are."""
    documents = [[f"d{index} s{line}" for line in range(sentences)] for index in range(count)]
    return [documents[shard::shards] for shard in range(shards)]


def windows_of(streams: Streams) -> list[Window]:
    return list(iter(streams.take, None))


def same(one: Window, other: Window) -> bool:
    return one.targets == other.targets and all(map(torch.equal, one[:-1], other[:-1]))


# ---- what must come out, the slow way

Step = tuple  # what a direction reads (characters, id) and predicts (id), for both


def steps_of(words: list[str]) -> list[Step]:
    """The steps of a sentence: `<S> w1 … wn </S>` and its neighbours to the right and to the left."""
    slots, bos, eos, unk = TOKENIZER.max_characters_per_token, 0, 1, 2
    ids = [bos, *(KNOWN.index(word) + 3 if word in KNOWN else unk for word in words), eos]
    rows = [BYTES.boundary(257, slots), *BYTES.rows(words, slots), BYTES.boundary(258, slots)]
    last = len(ids) - 1
    return [
        (rows[i].tobytes(), ids[i], ids[i + 1], rows[last - i].tobytes(), ids[last - i], ids[last - i - 1])
        for i in range(last)
    ]


def document_steps(document: Document) -> list[Step]:
    return [step for sentence in document for step in steps_of(sentence.split())]


def read_back(windows: list[Window]) -> list[list[Step]]:
    """The steps of every stream; that what follows a stream's end is empty is checked on the way."""
    streams: list[list[Step]] = [[] for _ in windows[0].labels]
    for window in windows:
        assert window.char_ids.dtype == window.backward_char_ids.dtype == torch.int16
        is_step = window.labels != NOT_A_TARGET
        assert window.targets == is_step.sum() > 0
        assert (is_step[:, 1:] <= is_step[:, :-1]).all()  # the masked part is a tail
        assert torch.equal(is_step, window.backward_labels != NOT_A_TARGET)
        assert (window.labels[~is_step] == -100).all()
        for rows, ids in (window.char_ids, window.input_ids), (window.backward_char_ids, window.backward_input_ids):
            assert torch.equal(is_step, rows.any(dim=-1))
            assert (ids[~is_step] == TOKENIZER.pad_token_id).all()
        assert not window.state_resets[~is_step].any()
        for stream, place in is_step.nonzero().tolist():
            step = []
            for side in ("", "backward_"):
                step.append(getattr(window, f"{side}char_ids")[stream, place].numpy().tobytes())
                step += [getattr(window, f"{side}{name}")[stream, place].item() for name in ("input_ids", "labels")]
            streams[stream].append(tuple(step))
    return streams


def documents_in(steps: list[Step], by_first_word: dict[bytes, int], wanted: list[list[Step]]) -> list[int]:
    """The numbers of the documents that a stream consists of, told by their first words; each must be there whole."""
    indices, place = [], 0
    while place < len(steps):
        index = by_first_word[steps[place + 1][0]]
        assert steps[place : place + len(wanted[index])] == wanted[index]
        indices.append(index)
        place += len(wanted[index])
    return indices


UNKNOWN = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=14)
SENTENCES = st.lists(st.sampled_from([*KNOWN, *MARKS]) | UNKNOWN, min_size=1, max_size=5).map(" ".join)
DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=3), min_size=1, max_size=8)


def shards_of(documents: list[Document], num_shards: int) -> list[list[Document]]:
    """The documents over shards, each with a first word of its own."""
    marked = [[f"d{index} {first}", *others] for index, (first, *others) in enumerate(documents)]
    return [marked[shard::num_shards] for shard in range(num_shards)]


# ---- targets and inputs


@pytest.mark.medium
@settings(max_examples=60)
@given(
    documents=DOCUMENTS,
    num_shards=st.integers(1, 4),
    num_streams=st.integers(1, 5),
    window=st.integers(1, 9),
    num_processes=st.integers(1, 3),
    epochs=st.integers(1, 3),
    at_once=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_every_word_and_closing_boundary_is_predicted_once_an_epoch(
    documents, num_shards, num_streams, window, num_processes, epochs, at_once, seed
):
    """…from the word beside it, document by document, by all processes together; the opening boundary never."""
    num_processes = min(num_processes, len(documents))
    num_streams = min(num_streams, len(documents) // num_processes)
    shards = shards_of(documents, num_shards)
    marked = list(chain.from_iterable(shards))
    wanted = [document_steps(document) for document in marked]
    by_first_word = {steps[1][0]: index for index, steps in enumerate(wanted)}
    read = []
    with mock.patch.object(streams_module, "SENTENCES_AT_ONCE", at_once):
        for process in range(num_processes):
            streams = streams_of(
                shards,
                streams=num_streams,
                window=window,
                epochs=epochs,
                seed=seed,
                process=(process, num_processes),
            )
            for steps in read_back(windows_of(streams)):
                read += documents_in(steps, by_first_word, wanted)
    assert Counter(read) == dict.fromkeys(range(len(marked)), epochs)


def test_a_sentence_as_both_directions_read_and_predict_it():
    (window,) = windows_of(streams_of([[["the cat"]]], window=5))
    bos, eos, the, cat = 0, 1, 3, 4
    assert window.input_ids.tolist() == [[bos, the, cat, 8, 8]]
    assert window.labels.tolist() == [[the, cat, eos, -100, -100]]
    assert window.backward_input_ids.tolist() == [[eos, cat, the, 8, 8]]
    assert window.backward_labels.tolist() == [[cat, the, bos, -100, -100]]
    assert TOKENIZER.convert_char_ids_to_tokens(window.char_ids[0]) == ["<S>", "the", "cat", "<PAD>", "<PAD>"]
    assert TOKENIZER.convert_char_ids_to_tokens(window.backward_char_ids[0])[:3] == ["</S>", "cat", "the"]
    assert window.targets == 3


def test_windows_go_on_where_the_last_one_ended_and_into_the_next_document():
    windows = windows_of(streams_of([[["the cat sat"], ["cat"]]], window=3))
    assert [window.labels.tolist() for window in windows] == [[[3, 4, 5]], [[1, 4, 1]]]
    assert [window.backward_labels.tolist() for window in windows] == [[[5, 4, 3]], [[0, 4, 0]]]


RAW = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)


@settings(max_examples=50)
@given(st.lists(RAW | st.just("I don't like the <S> mat."), min_size=1))
def test_raw_text_is_read_as_the_tokenizer_cuts_it(sentences):
    tokenizer = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", "the", "n't", "."])
    steps, lengths = SentenceEncoder(tokenizer, pretokenized=False)(sentences)
    assert lengths == [len(tokenizer.tokenize(sentence)) + 1 for sentence in sentences]
    start = 0
    for sentence, length in zip(sentences, lengths, strict=True):
        encoded = tokenizer(sentence)
        part = steps.part(start, start + length)
        assert part.inputs.tolist() == encoded["input_ids"][:-1]
        assert part.labels.tolist() == encoded["input_ids"][1:]
        assert part.rows.tolist() == encoded["char_ids"][:-1]
        assert part.backward_inputs.tolist() == encoded["input_ids"][:0:-1]
        assert part.backward_labels.tolist() == encoded["input_ids"][-2::-1]
        assert part.backward_rows.tolist() == encoded["char_ids"][:0:-1]
        assert part.starts.tolist() == [1] + [0] * (length - 1)
        start += length
    assert start == len(steps.starts)


@pytest.mark.parametrize("pretokenized", [True, False])
@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_in_the_text_is_a_word(pretokenized, mark):
    """It has its characters and the id of an unknown word, and is neither a boundary nor padding."""
    steps, lengths = SentenceEncoder(TOKENIZER, pretokenized)([f"the {mark} cat"])
    assert lengths == [4]
    assert steps.inputs.tolist() == [0, 3, 2, 4]
    assert steps.labels.tolist() == [3, 2, 4, 1]
    assert steps.backward_inputs.tolist() == [1, 4, 2, 3]
    assert steps.backward_labels.tolist() == [4, 2, 3, 0]
    assert np.array_equal(steps.rows[2], BYTES.rows([mark], 12)[0])
    assert np.array_equal(steps.backward_rows[2], BYTES.rows([mark], 12)[0])
    assert steps.starts.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_in_treebank_text_is_no_boundary(mark):
    tokenizer = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", "the"], splitting="treebank")
    steps, _ = SentenceEncoder(tokenizer, pretokenized=False)([f"the {mark} the"])
    assert steps.labels.tolist().count(1) == 1
    assert not {0, tokenizer.pad_token_id} & set(steps.labels.tolist())
    assert steps.inputs.tolist().count(0) == 1
    assert set(steps.labels[1:-2].tolist()) == {2}


def test_a_tokenizer_that_takes_marks_for_boundaries_is_overruled():
    tokenizer = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>"], splitting="whitespace", split_special_tokens=False)
    steps, _ = SentenceEncoder(tokenizer, pretokenized=False)(["a </S> <S> b"])
    assert steps.labels.tolist() == [2, 2, 2, 2, 1]


def test_a_tokenizer_that_pads_on_the_left_gives_the_same_steps():
    tokenizer = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", *KNOWN], max_characters_per_token=12, padding_side="left")
    sentences = ["the cat sat", "cat"]
    for actual, expected in zip(SentenceEncoder(tokenizer, True)(sentences)[0], ENCODE(sentences)[0], strict=True):
        assert np.array_equal(actual, expected)


# ---- epochs, shards, processes


def read_epochs(reader: Reader) -> dict[int, list[str]]:
    """By epoch the first sentences of the documents that a reader gives."""
    epochs: dict[int, list[str]] = {}
    while (document := reader.next_document()) is not None:
        epochs.setdefault(reader.position.epoch, []).append(document[0])
    assert reader.next_document() is None
    return epochs


@settings(max_examples=60)
@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9))
def test_processes_read_disjoint_documents_and_together_the_text_in_each_epoch(count, shards, processes, epochs, seed):
    documents = numbered(count, shards=shards)
    whole = read_epochs(reader_of(documents, epochs=epochs, seed=seed))
    for epoch in range(epochs):
        assert sorted(whole[epoch]) == sorted(f"d{document} s0" for document in range(count))
    for process in range(processes):
        options = {"epochs": epochs, "seed": seed, "process": process, "num_processes": processes}
        shares = read_epochs(reader_of(documents, **options))
        assert shares == {epoch: part for epoch in range(epochs) if (part := whole[epoch][process::processes])}


def test_the_order_of_shards_depends_on_seed_and_epoch_only():
    documents = numbered(8, shards=8)
    orders = {seed: read_epochs(reader_of(documents, epochs=3, seed=seed)) for seed in range(5)}
    assert orders[3] == read_epochs(reader_of(documents, epochs=3, seed=3))
    assert orders[3][0] == read_epochs(reader_of(documents, epochs=1, seed=3))[0]
    distinct = {tuple(order) for epochs in orders.values() for order in epochs.values()}
    assert len(distinct) == 15


def test_documents_of_a_shard_stay_in_their_order():
    lines = read_epochs(reader_of(numbered(12, shards=3), seed=1))[0]
    for shard in range(3):
        wanted = [f"d{index} s0" for index in range(shard, 12, 3)]
        start = lines.index(wanted[0])
        assert lines[start : start + 4] == wanted


def test_without_a_number_of_epochs_the_text_never_ends():
    streams = streams_of(numbered(2), streams=2, window=5, epochs=None)
    for _ in range(20):
        assert streams.take().targets == 10
    assert streams.reader.position.epoch > 10


def test_files_are_read_through_the_corpus(tmp_path):
    (tmp_path / "a.txt").write_text("the cat\nsat\n\ncat", "utf-8")
    (tmp_path / "b.txt").write_text("\n\n", "utf-8")
    (tmp_path / "c.txt").write_text("the 猫", "utf-8")
    streams = Streams(Reader(Corpus(tmp_path), epochs=2, seed=0), ENCODE, streams=1, window=100)
    (window,) = windows_of(streams)
    assert Counter(window.labels[0].tolist()) == {3: 4, 4: 4, 5: 2, 6: 2, 1: 8, -100: 80}


# ---- stopping and going on


@pytest.mark.medium
@settings(max_examples=60)
@given(
    documents=DOCUMENTS,
    num_shards=st.integers(1, 3),
    num_streams=st.integers(1, 4),
    window=st.integers(1, 7),
    num_processes=st.integers(1, 2),
    epochs=st.sampled_from([1, 2, None]),
    reset_probability=st.sampled_from([0.0, 0.5, 1.0]),
    reset_documents=st.booleans(),
    at_once=st.integers(1, 3),
    before=st.integers(0, 12),
    blank=st.booleans(),
)
def test_a_stored_position_gives_the_same_windows(
    documents,
    num_shards,
    num_streams,
    window,
    num_processes,
    epochs,
    reset_probability,
    reset_documents,
    at_once,
    before,
    blank,
):
    """Through JSON, at any moment, into streams that have not read a word or already have."""
    num_processes = min(num_processes, len(documents))
    num_streams = min(num_streams, len(documents) // num_processes)
    options = {"streams": num_streams, "window": window, "epochs": epochs, "seed": 5}
    options |= {"reset_probability": reset_probability, "reset_documents": reset_documents}
    options["process"] = (num_processes - 1, num_processes)
    shards = shards_of(documents, num_shards)
    with mock.patch.object(streams_module, "SENTENCES_AT_ONCE", at_once):
        straight = streams_of(shards, **options)
        for _ in range(before):
            straight.take()
        if blank:
            straight.blank()
        stored = json.dumps(straight.state_dict())
        fresh, used = streams_of(shards, **options), streams_of(shards, **options)
        used.take()
        for other in (fresh, used):
            other.load_state_dict(json.loads(stored))
        assert json.dumps(straight.state_dict()) == stored  # looking changes nothing
        for _ in range(8):
            expected = straight.take()
            for other in (fresh, used):
                batch = other.take()
                assert (batch is None) == (expected is None)
                assert expected is None or same(batch, expected)
            assert fresh.state_dict() == straight.state_dict()


@pytest.mark.parametrize("before", [0, 1, 9, 25, 70])
def test_a_position_far_inside_a_long_document_is_kept(before):
    sentences = 3 * streams_module.SENTENCES_AT_ONCE + 7
    documents = numbered(2, sentences)
    straight = streams_of(documents, streams=2, window=7)
    for _ in range(before):
        straight.take()
    resumed = streams_of(documents, streams=2, window=7)
    resumed.load_state_dict(json.loads(json.dumps(straight.state_dict())))
    rest = windows_of(straight)
    assert len(rest) == -(-3 * sentences // 7) - before
    assert all(map(same, windows_of(resumed), rest))


def test_a_long_document_is_read_to_its_end():
    documents = numbered(1, 3 * streams_module.SENTENCES_AT_ONCE + 7)
    (steps,) = read_back(windows_of(streams_of(documents, window=50)))
    assert steps == document_steps(documents[0][0])


def test_a_position_of_another_number_of_streams_is_refused():
    stored = streams_of(numbered(4), streams=2).state_dict()
    with pytest.raises(TextError, match=r"^The run has 2 streams per process, not 3\.$"):
        streams_of(numbered(4), streams=3).load_state_dict(stored)


# ---- resets of the state


def resets_and_starts(streams: Streams) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all windows, where the state is set back and where sentences begin."""
    windows = windows_of(streams)
    starts = torch.cat([(window.input_ids == 0) & (window.labels != NOT_A_TARGET) for window in windows])
    return torch.cat([window.state_resets for window in windows]), starts


@settings(max_examples=40)
@given(DOCUMENTS, st.integers(1, 4), st.integers(1, 7), st.booleans(), st.sampled_from([0.0, 1.0]))
def test_states_are_set_back_never_or_at_every_sentence_and_document(
    documents, num_streams, window, reset_documents, probability
):
    num_streams = min(num_streams, len(documents))
    options = {"reset_probability": probability, "reset_documents": reset_documents}
    streams = streams_of([documents], streams=num_streams, window=window, **options)
    resets, starts = resets_and_starts(streams)
    assert resets.dtype == torch.bool
    if probability == 1.0:
        assert torch.equal(resets, starts)
    else:
        assert resets.sum() == (len(documents) if reset_documents else 0)
        assert not (resets & ~starts).any()


def test_states_are_set_back_at_the_first_word_of_a_document():
    streams = streams_of([[["the cat", "sat"], ["cat", "the"]]], window=9, reset_documents=True)
    assert windows_of(streams)[0].state_resets.tolist() == [[True, *[False] * 4, True, *[False] * 3]]


@pytest.mark.parametrize("reset_documents", [True, False])
def test_some_sentences_set_the_state_back_reproducibly(reset_documents):
    def resets(seed=1, process=0):
        streams = streams_of(
            numbered(8, 100),
            streams=4,
            window=40,
            seed=seed,
            process=(process, 1 + process),
            reset_probability=0.5,
            reset_documents=reset_documents,
        )
        return resets_and_starts(streams)

    reset, starts = resets()
    assert not (reset & ~starts).any()
    assert 320 < reset.sum() < 480  # of 800; the standard deviation is 14
    assert torch.equal(reset, resets()[0])
    assert not torch.equal(reset, resets(seed=2)[0])
    assert not torch.equal(reset[:4], resets(process=1)[0][:4])


# ---- too little text


def test_a_stream_without_a_document_is_refused():
    with pytest.raises(
        TextError,
        match=r"^The text has 2 documents, fewer than the 3 streams: lower the batch size \(--batch-size\), o",
    ):
        streams_of(numbered(2), streams=3).take()


@pytest.mark.parametrize("epochs", [1, 2, None])
@pytest.mark.parametrize(("documents", "num_streams", "count"), [(5, 3, 2), (1, 1, 0)])
def test_a_process_without_documents_for_its_streams_is_refused(epochs, documents, num_streams, count):
    """Not filled up from the next epoch, and never sought in one epoch after the other."""
    reader = Reader(Shards(numbered(documents), max_reads=9), epochs=epochs, seed=0, process=1, num_processes=2)
    with pytest.raises(TextError, match=f"^The text has {count} documents for each of 2 processes, fewer than the"):
        Streams(reader, ENCODE, streams=num_streams, window=4).take()


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
@pytest.mark.parametrize("allow_fewer", [True, False])
@pytest.mark.parametrize("epochs", [1, None])
def test_an_empty_text_is_refused(documents, allow_fewer, epochs):
    with pytest.raises(TextError, match=r"^There is not a single sentence in .*\.$"):
        streams_of(documents, epochs=epochs, allow_fewer=allow_fewer).take()


def test_an_empty_file_is_refused_by_its_name(tmp_path):
    (tmp_path / "a.txt").write_text("\n \n", "utf-8")
    streams = Streams(Reader(Corpus(tmp_path), epochs=1, seed=0), ENCODE, streams=1, window=4)
    with pytest.raises(TextError, match=r"not a single sentence in .*a\.txt\.$") as caught:
        streams.take()
    assert "\n" not in str(caught.value)


def test_streams_may_stay_empty_where_that_is_allowed():
    windows = windows_of(streams_of(numbered(2, 3), streams=4, window=5, allow_fewer=True))
    assert [len(steps) for steps in read_back(windows)] == [9, 9, 0, 0]


# ---- windows for a model


@pytest.mark.parametrize("softmax_type", ["full", "sampled", "adaptive"])
def test_a_blank_window_gives_every_weight_a_gradient_of_nothing(softmax_type):
    streams = streams_of(numbered(3), streams=3, window=4, reset_probability=1.0)
    blank = streams.blank()
    assert blank.targets == 0
    assert (blank.labels == NOT_A_TARGET).all()
    assert (blank.backward_labels == NOT_A_TARGET).all()
    assert blank.char_ids.any(dim=-1).sum() == blank.backward_char_ids.any(dim=-1).sum() == 1
    torch.manual_seed(0)
    config = ElmoConfig(
        **TINY | {"max_characters_per_token": 12}, softmax_type=softmax_type, softmax_samples=3, token_inputs="both"
    )
    model = ElmoForPreTraining(config).train()
    output = model(**blank.model_inputs(), num_items_in_batch=7)
    output.loss.backward()
    assert output.loss == 0
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_a_window_is_what_the_model_takes():
    torch.manual_seed(0)
    config = ElmoConfig(**TINY | {"max_characters_per_token": 12, "vocab_size": 8}, token_inputs="both")
    model = ElmoForPreTraining(config).eval()
    streams = streams_of([[["the cat sat", "the 猫 ."], ["cat"]]], streams=2, window=5, reset_probability=1.0)
    state, losses, targets = None, 0.0, 0
    for window in windows_of(streams):
        output = model(**window.model_inputs(torch.device("cpu")), initial_state=state, num_items_in_batch=1)
        state, losses, targets = output.states, losses + output.loss, targets + window.targets
    whole = (
        streams_of([[[sentence]]], window=9, reset_probability=1.0).take()
        for sentence in ("the cat sat", "the 猫 .", "cat")
    )
    expected = sum(model(**window.model_inputs(), num_items_in_batch=1).loss for window in whole)
    torch.testing.assert_close(losses, expected)
    assert targets == 10


def test_any_number_of_characters_is_read():
    ranges = (range(0x4E00, 0x9FA6), range(0xAC00, 0xD7A4), range(0x3400, 0x4DB6))
    characters = [chr(code) for codes in ranges for code in codes]
    assert len(characters) > 2**15
    tokenizer = ElmoTokenizer(characters=["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", *characters])
    sentence = "".join(characters[-3:])
    reader = reader_of([[[sentence]]])
    (window,) = windows_of(Streams(reader, SentenceEncoder(tokenizer, pretokenized=True), streams=1, window=2, seed=0))
    expected = tokenizer([[sentence]], is_split_into_words=True, return_tensors="pt")["char_ids"]
    assert int(expected.max()) > 2**15
    assert torch.equal(window.char_ids.long()[0], expected[0, :2])


def test_a_long_sentence_does_not_pad_many_short_ones():
    calls = []

    def spy(sentences):
        calls.append((len(sentences), max(map(len, sentences))))
        return ENCODE(sentences)

    stream = streams_module._Stream(spy)
    stream.begin([*["the cat"] * 63, "a " * 50_000])
    with mock.patch.object(streams_module, "CHARACTERS_AT_ONCE", 2**18):
        while stream.take(10_000) is not None:
            pass
    assert len(calls) > 1
    assert all(count == 1 or count * longest <= 2**18 for count, longest in calls)
