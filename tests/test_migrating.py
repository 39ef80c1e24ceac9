"""What docs/migrating.md puts beside the old libraries' lines gives what those lines are defined to give."""

import ast
import re
import shlex
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers.utils import logging

from elmo_hf import ElmoConfig, cli
from elmo_hf.conversion import write_bilm_hdf5
from elmo_hf.finetuning.settings import FinetuningSettings
from tests.conftest import ROOT
from tests.models import reference_of, tiny_model

pytestmark = pytest.mark.medium

TEXT = (ROOT / "docs/migrating.md").read_text("utf-8")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
FILE = "The bank was closed .\nGood morning\nNo\n" * 30  # more than a batch


def snippets() -> dict[str, str]:
    """The Python under each heading; under the first one is what all others go on from."""
    parts = re.split(r"^#+ (.*)\n", TEXT, flags=re.MULTILINE)[1:]
    blocks_of = {
        heading: re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL)
        for heading, part in zip(parts[::2], parts[1::2], strict=True)
    }
    assert all(len(blocks) <= 1 for blocks in blocks_of.values()), "a heading has one snippet at most"
    return {heading: blocks[0] for heading, blocks in blocks_of.items() if blocks}


START, *HEADINGS = snippets()


def commands(beginning: str) -> list[list[str]]:
    """The documented commands that begin so, cut into words."""
    lines = TEXT.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith(beginning)]


@pytest.fixture
def bilm(tmp_path, monkeypatch, capsys):
    """The reference for `my-elmo`, which the document's first command makes of `options.json` and `weights.hdf5`."""
    monkeypatch.chdir(tmp_path)
    model = tiny_model(scale=3.0, dropout=0.1)
    write_bilm_hdf5(model, tmp_path / "options.json", tmp_path / "weights.hdf5")
    verbosity = logging.get_verbosity()
    monkeypatch.setattr(sys, "argv", commands("elmo-hf convert bilm-hdf5")[0])
    with pytest.raises(SystemExit) as end:
        cli.main()
    logging.set_verbosity(verbosity)
    assert end.value.code == 0
    (tmp_path / "sentences.txt").write_text(FILE, "utf-8")
    return reference_of(model)


@pytest.fixture
def run(bilm):
    """Runs what all snippets go on from and the snippet under a heading, and gives their variables."""

    def run(heading: str) -> SimpleNamespace:
        names: dict = {}
        torch.manual_seed(0)
        for block in (snippets()[START], snippets()[heading]):
            exec(block, names)
        names.pop("__builtins__")
        return SimpleNamespace(**names)

    return run


def spelled(word: str) -> list[int]:
    """A word's character ids, as the original defines them."""
    row = [258, *word.encode("utf-8")[:48], 259]
    return [char_id + 1 for char_id in row + [260] * (50 - len(row))]


def bilm_layers(bilm, words: list[str], state=None):
    """All layers `(3, words + 2, size)`, boundaries included, and the state after the sentence."""
    begin, end = ([259, mark, 260] + [261] * 47 for mark in (257, 258))
    rows = [begin, *map(spelled, words), end]
    return bilm.sentence([bilm.token_vector(np.array(row)) for row in rows], state)


def word_layers(bilm, words: list[str], state=None) -> np.ndarray:
    """What the old libraries gave: `(3, words, size)`, boundaries dropped."""
    return bilm_layers(bilm, words, state)[0][:, 1:-1]


def padded(rows: list[np.ndarray], axis: int) -> np.ndarray:
    """One array of several, zero after the end of shorter ones."""
    longest = max(row.shape[axis] for row in rows)
    ends = [
        [(0, longest - row.shape[axis] if dimension == axis else 0) for dimension in range(row.ndim)] for row in rows
    ]
    return np.stack([np.pad(row, end) for row, end in zip(rows, ends, strict=True)])


def assert_close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), expected, **TOLERANCE)


def assert_half_dropped(actual, expected):
    """Dropout of one half: a value is gone, or twice what it was."""
    actual = actual.detach().numpy()
    is_kept = actual != 0
    assert 0.2 < is_kept[expected != 0].mean() < 0.8
    assert_close(actual, np.where(is_kept, 2 * expected, 0))


CHECKS = {}


def under(heading: str):
    """The check of the snippet under a heading."""

    def add(check):
        CHECKS[heading] = check
        return check

    return add


@under("`Elmo`")
def vectors_are_the_mean_of_the_layers_without_boundaries(names, bilm):
    assert_close(names.vectors, padded([word_layers(bilm, words).mean(axis=0) for words in names.sentences], 0))
    assert names.mask.tolist() == [[1] * 5, [1, 1, 0, 0, 0]]
    assert_close(
        names.output.last_hidden_state,  # keep_sentence_boundaries
        padded([bilm_layers(bilm, words)[0].mean(axis=0) for words in names.sentences], 0),
    )


@under("`batch_to_ids`")
def character_ids_are_those_of_the_words_alone(names, bilm):
    expected = padded([np.array(list(map(spelled, words))) for words in names.sentences], 0)
    np.testing.assert_array_equal(names.character_ids, expected)
    assert names.words == names.sentences


@under("`Elmo` in a network that learns")
def each_mixer_has_dropout_of_its_own_and_learns_alone(names, bilm):
    expected = padded([word_layers(bilm, words).mean(axis=0) for words in names.sentences], 0)
    assert_half_dropped(names.first, expected)
    assert_half_dropped(names.second, expected)
    assert ((names.first == 0) != (names.second == 0)).any()
    (names.first + names.second).square().sum().backward()
    assert all(mixer.weights.grad.abs().sum() > 0 for mixer in names.mixers)
    assert not any(parameter.requires_grad for parameter in names.elmo.parameters())


@under("Arguments of `Elmo` and `ElmoTokenEmbedder`")
def the_first_layer_is_normalised_over_words_and_boundaries(names, bilm):
    layers = [bilm_layers(bilm, words)[0][1] for words in names.sentences]
    values = np.concatenate(layers)
    expected = padded([(layer - values.mean()) / values.std() for layer in layers], 0)
    assert_close(names.elmo(**names.batch).last_hidden_state.detach(), expected)
    assert_half_dropped(names.elmo.train()(**names.batch).last_hidden_state, expected)


@under("`ElmoEmbedder`")
def a_sentence_is_an_array_of_layers_words_and_size(names, bilm):
    for vectors, words in zip(names.vectors, names.sentences, strict=True):
        assert isinstance(vectors, np.ndarray)
        assert_close(vectors, word_layers(bilm, words))


@under("`allennlp elmo`, `embed_file`")
def the_file_has_an_array_for_each_line_by_its_number(names, bilm):
    lines = FILE.splitlines()
    with names.h5py.File("vectors.hdf5") as file:
        assert sorted(file, key=int) == [str(index) for index in range(len(lines))]
        for index, line in enumerate(lines):
            assert_close(file[str(index)][...], word_layers(bilm, line.split()))


@under("simple_elmo")
def all_layers_choices_and_the_texts_are_of_the_words_alone(names, bilm):
    layers = [word_layers(bilm, words) for words in names.sentences]
    assert_close(names.all_layers, padded(layers, 1))
    assert_close(names.top, padded([each[-1] for each in layers], 0))
    assert_close(names.average, padded([each.mean(axis=0) for each in layers], 0))
    means = np.stack([each.mean(axis=(0, 1)) for each in layers])
    assert_close(names.texts, means / np.linalg.norm(means, axis=-1, keepdims=True))
    assert_close(names.layer_means, np.stack([each.mean(axis=1) for each in layers]))


@under("ELMoForManyLangs: `Embedder.sents2elmo`")
def sentences_are_arrays_of_the_mean_one_layer_or_all(names, bilm):
    for words, mean, first, every in zip(names.sentences, names.vectors, names.first, names.every, strict=True):
        layers = word_layers(bilm, words)
        assert_close(mean, layers.mean(axis=0))
        assert_close(first, layers[1])
        assert_close(every, layers)


@under("bilm-tf: `Batcher`, `BidirectionalLanguageModel`")
def what_the_graph_gave_is_there_under_the_same_names(names, bilm):
    begin, end = ([259, mark, 260] + [261] * 47 for mark in (257, 258))
    rows = [np.array([begin, *map(spelled, words), end]) for words in names.sentences]
    np.testing.assert_array_equal(names.ids, padded(rows, 0))
    layers = [word_layers(bilm, words) for words in names.sentences]
    assert_close(names.lm_embeddings, padded(layers, 1))
    assert_close(names.weighted_op, padded([each.mean(axis=0) for each in layers], 0))
    assert names.lengths.tolist() == [len(words) for words in names.sentences]
    assert names.mask.tolist() == [[1] * 5, [1, 1, 0, 0, 0]]


@under("bilm-tf: `dump_bilm_embeddings`")
def the_state_goes_on_from_line_to_line(names, bilm):
    state = None
    with names.h5py.File("embeddings.hdf5") as file:
        assert len(file) == len(FILE.splitlines())
        for index, line in enumerate(FILE.splitlines()[:6]):  # rounding grows from line to line
            layers, state = bilm_layers(bilm, line.split(), state)
            assert_close(file[str(index)][...], layers[:, 1:-1])


@under("State, and warming up")
def the_second_call_goes_on_from_the_end_of_the_first(names, bilm):
    for row, words in enumerate(names.sentences):
        (cold, state), here = bilm_layers(bilm, words), slice(len(words) + 2)
        warm, state = bilm_layers(bilm, words, state)
        assert_close(names.first.last_hidden_state[row, here], cold.mean(axis=0))
        assert_close(names.second.last_hidden_state[row, here], warm.mean(axis=0))
        assert np.abs(warm - cold).max() > 0.01
        if row == 0:
            next_batch = names.tokenizer([["Why", "?"]], is_split_into_words=True, return_tensors="pt")
            vectors = names.model(**next_batch, initial_state=names.fewer).last_hidden_state[0].detach()
            assert_close(vectors, bilm_layers(bilm, ["Why", "?"], state)[0].mean(axis=0))


@under("`ElmoTokenEmbedder` in a configuration")
def the_tagger_has_the_given_head_on_the_frozen_bilm(names, bilm):
    assert names.tagger.config.tag_decoder == "crf"
    assert names.tagger.config.freeze_bilm
    is_zero = (names.logits == 0).all(dim=-1)
    assert is_zero.tolist() == [[True, *[False] * 5, True], [True, False, False, *[True] * 4]]
    layers = names.tagger(**names.batch, output_hidden_states=True).hidden_states
    assert_close(np.stack(layers, axis=1)[0, :, 1:-1], word_layers(bilm, names.sentences[0]))


def test_every_snippet_has_a_check():
    assert list(CHECKS) == HEADINGS


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_new_lines_give_what_the_old_lines_define(heading, run, bilm):
    CHECKS[heading](run(heading), bilm)


def test_shapes_in_comments_are_those_of_the_tensors(run):
    size, checked = 2 * 4, 0  # instead of 1024
    for heading in HEADINGS:
        names, snippet = run(heading), snippets()[heading]
        for variables, shape in re.findall(r"^([\w, ]+) = .*  # (\([\d, ]+\))", snippet, flags=re.MULTILINE):
            expected = tuple(size if length == 1024 else length for length in ast.literal_eval(shape))
            for variable in variables.split(", "):
                assert getattr(names, variable).shape == expected, variable
                checked += 1
    assert checked >= 10


def test_the_documented_arguments_of_from_pretrained_are_fields_of_the_config():
    _, table = TEXT.split("|---|---|---|\n", 1)
    arguments = []
    for row in table.split("\n\n")[0].splitlines():
        _, ours, heads = row.split("|")[1:-1]
        arguments += re.findall(r"`(\w+)=([^`]+)`", ours + heads)
    for name, value in arguments:
        fields = {name: ast.literal_eval(value), "word_vector_size": 3}
        assert getattr(ElmoConfig(**fields), name) == fields[name]
    assert {name for name, _ in arguments} >= {"mixer_dropout", "mixer_weights", "freeze_bilm", "elmo_places"}


def test_the_documented_settings_of_finetuning_exist():
    known = ElmoConfig.__dataclass_fields__.keys() | FinetuningSettings.__dataclass_fields__.keys()
    names = re.findall(r"--set (\w+)=", TEXT)
    assert names
    assert set(names) <= known
