"""What the tabs compute, without a browser."""

import zipfile

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoForPreTraining, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.data.occurrences import TokenizedSentence
from elmo_hf.errors import ConversionError, ModelError, TextError
from elmo_hf.language_model import ElmoLanguageModel
from elmo_hf.space import convert_tab, mix_tab
from elmo_hf.space.convert_tab import convert_files, write_example
from elmo_hf.space.input_limits import SENTENCES, checked_lines, checked_text
from elmo_hf.space.language_model_tab import answer_language_model, read_sentence, surprise
from elmo_hf.space.mix_tab import answer_mix, mix_layers, own_weights
from elmo_hf.space.neighbours_tab import answer_neighbours, find_neighbours
from elmo_hf.space.page import build_page
from elmo_hf.space.page_model import PageModel, load_tagger
from elmo_hf.space.page_texts import language_of, texts_of
from elmo_hf.space.senses_tab import answer_senses, compare_uses, find_clusters, silhouette
from elmo_hf.space.tag_tab import TaggedSpan, answer_tags, spans_of, tag_sentences
from tests.models import TINY

BANK = "They sat on the **bank** of the river."


# ---- input


@pytest.mark.parametrize("text", [None, "", " \n "])
def test_empty_input_is_refused_with_a_remedy(text):
    with pytest.raises(TextError, match="The text is empty: write something, or click on an example"):
        checked_text(text, "The text")


def test_long_input_is_refused_with_both_numbers():
    with pytest.raises(TextError, match="has 10,000 characters; this page accepts at most 2,000"):
        checked_text("a" * 10_000, "The text")
    with pytest.raises(TextError, match="has 9 lines; this page accepts at most 8"):
        checked_lines("a\n\n" * 9, "The text", 8)


# ---- senses


def test_uses_in_two_groups_are_two_clusters():
    cosines = np.full((5, 5), 0.1)
    cosines[np.ix_([0, 2], [0, 2])] = cosines[np.ix_([1, 3, 4], [1, 3, 4])] = 0.9
    np.fill_diagonal(cosines, 1)
    assert find_clusters(cosines).tolist() == [0, 1, 0, 1, 1]
    assert find_clusters(np.ones((2, 2))).tolist() == [0, 0]


def test_the_silhouette_is_that_of_its_definition():
    distances = np.array([[0, 1, 4], [1, 0, 2], [4, 2, 0]], float)
    assert silhouette(distances, np.array([0, 0, 1])) == pytest.approx((3 / 4 + 1 / 2 + 0) / 3)


@pytest.mark.medium
def test_the_uses_of_a_word_are_compared_in_every_layer(model):
    word, sentences = model.texts.senses[0]
    senses = compare_uses(model, word, sentences)
    assert senses.cosines.shape == (model.embedder.num_layers + 1, len(sentences), len(sentences))
    np.testing.assert_allclose(senses.cosines[0], 1, atol=1e-5)  # layer 0 sees the word alone
    assert senses.cosines[1:].min() < 0.9
    assert senses.points.shape == (len(sentences), 2)


@pytest.mark.medium
def test_a_word_is_found_in_any_case_and_missing_words_are_named(model):
    assert len(compare_uses(model, "Bank", ["The bank is closed.", "Bank holidays!"]).uses) == 2
    with pytest.raises(TextError, match="'tree' should be in at least two places, found 1"):
        compare_uses(model, "tree", ["A tree.", "Street"])
    with pytest.raises(TextError, match=f"compares at most {2 * SENTENCES}"):
        compare_uses(model, "a", ["a " * 20])


# ---- neighbours and mixes


@pytest.mark.medium
def test_neighbours_come_from_the_text_in_order(model):
    neighbours = find_neighbours(model, BANK, same_word=True, distinct=False)
    assert {use.word for _, use in neighbours} == {"bank"}
    assert [cosine for cosine, _ in neighbours] == sorted((cosine for cosine, _ in neighbours), reverse=True)
    assert len({use.word for _, use in find_neighbours(model, BANK, same_word=False, distinct=True)}) == 10
    assert "does not contain this word" in answer_neighbours(model, "a **zebra** there", True, False)


@pytest.mark.medium
def test_the_mix_with_the_models_own_weights_is_the_models_own_vector(model):
    weights, gamma = own_weights(model)
    mixed = mix_layers(model, BANK, gamma, weights)
    (vectors,) = model.embedder.embed([BANK.replace("*", "")], model.index.layers)
    np.testing.assert_allclose(mixed.vector, vectors[4], atol=1e-5)


@pytest.mark.medium
def test_weights_decide_the_neighbours_and_gamma_only_the_length(model):
    token, top = (mix_layers(model, BANK, 1.0, weights) for weights in ([1, 0, 0], [0, 0, 2]))
    assert token.neighbours[0][0] == pytest.approx(1, abs=1e-3)  # "bank" itself, whatever the sentence
    assert [use.word for _, use in token.neighbours] != [use.word for _, use in top.neighbours]
    doubled = mix_layers(model, BANK, 2.0, [1, 0, 0])
    np.testing.assert_allclose(doubled.vector, 2 * token.vector)
    assert doubled.neighbours == token.neighbours
    with pytest.raises(TextError, match="give at least one layer a weight above 0"):
        mix_layers(model, BANK, 1.0, [0, 0, 0])


@pytest.mark.medium
@pytest.mark.parametrize(("gamma", "highest"), [(0.9, 3), (4.67, 5)])
def test_the_slider_of_gamma_starts_at_the_models_own(model, monkeypatch, gamma, highest):
    monkeypatch.setattr(mix_tab, "own_weights", lambda _: ([0.2, 0.3, 0.5], gamma))
    components = [component["props"] for component in build_page([model]).get_config_file()["components"]]
    (slider,) = (props for props in components if props.get("label") == "γ")
    assert (slider["value"], slider["maximum"]) == (gamma, highest)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no mark", "No word is marked"),
        ("**two** of **them**", "2 words are marked"),
        ("an empty **** one", "no word between the marks"),
        ("a part of the ri**ver** only", "not one word: the tokenizer reads river there"),
    ],
)
def test_marks_that_are_wrong_are_explained(model, text, problem):
    with pytest.raises(TextError, match=problem):
        answer_mix(model, text, 1.0, 1, 1, 1)


# ---- the language model


@pytest.mark.medium
def test_surprise_is_the_mean_of_both_directions_in_bits(model):
    reading = read_sentence(model.language_model, BANK)
    expected = -reading.score.both[1:-1] / 2 / np.log(2)
    np.testing.assert_allclose(surprise(reading.score), expected)
    assert reading.substitutes == model.language_model.substitutes(BANK, k=8)
    assert read_sentence(model.language_model, "No mark here.").substitutes is None
    assert "(end of the sentence)" in answer_language_model(model, "The cat sat on the mat.")


# ---- tags


def test_words_with_bio_tags_are_merged_and_others_are_not():
    sentence = TokenizedSentence("a b c d e", list("abcde"), [(2 * place, 2 * place + 1) for place in range(5)])
    assert spans_of(sentence, ["B-x", "I-x", "O", "B-x", "B-y"]) == [
        TaggedSpan(0, 3, "x"),
        TaggedSpan(6, 7, "x"),
        TaggedSpan(8, 9, "y"),
    ]
    assert spans_of(sentence, ["I-x", "I-y", "O", "I-y", "I-y"]) == [
        TaggedSpan(0, 1, "x"),
        TaggedSpan(2, 3, "y"),
        TaggedSpan(6, 9, "y"),
    ]
    assert [span.label for span in spans_of(sentence, ["X", "X", "Y", "O", "X"])] == ["X", "X", "Y", "X"]
    assert [span.label for span in spans_of(sentence, ["B-x", "E-x", "S-x", "X", "I-y"])] == ["x", "x", "X", "y"]


@pytest.mark.medium
def test_the_taggers_of_the_page_find_people_and_verbs(model):
    titles = {tagger.title: tagger for tagger in model.taggers}
    ((text, spans),) = tag_sentences(titles["Entities"], ["Maria Sharapova flew from Moscow to Paris."])
    assert ("Maria Sharapova", "person") in [(text[span.start : span.end], span.label) for span in spans]
    ((text, spans),) = tag_sentences(titles["Parts of speech"], ["They can fish."])
    assert [span.label for span in spans][0::3] == ["PRON", "PUNCT"]
    with pytest.raises(TextError, match="There is no tagger"):
        answer_tags(model, "Nothing", "text")


@pytest.mark.medium
def test_any_tagger_can_be_added_and_other_models_cannot(tmp_path):
    torch.manual_seed(0)
    config = ElmoConfig(**(TINY | {"id2label": {0: "O", 1: "B-x"}}))
    ElmoForTokenClassification(config).save_pretrained(tmp_path / "tagger")
    ElmoTokenizer().save_pretrained(tmp_path / "tagger")
    tagger = load_tagger(str(tmp_path / "tagger"))
    assert tagger.title == "tagger"
    assert len(tagger.mixes()["input"]) == 3
    assert len(tag_sentences(tagger, ["a b"])) == 1
    with pytest.raises(ModelError):
        load_tagger("elmo-english-compact")


# ---- conversion


@pytest.mark.medium
def test_a_converted_checkpoint_is_a_zip_of_a_folder_that_loads(tmp_path):
    options, weights = write_example(tmp_path)
    plan = convert_files(options, weights, tmp_path / "out.zip")
    assert plan.config.projection_size == 8
    zipfile.ZipFile(tmp_path / "out.zip").extractall(tmp_path)
    assert ElmoEmbedder.from_pretrained(tmp_path / "elmo").hidden_size == 16


@pytest.mark.medium
def test_a_full_disk_leaves_nothing_of_a_conversion(tmp_path, monkeypatch, model):
    import gradio as gr

    def fill(options, weights, out):
        out.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(convert_tab, "convert_files", fill)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    with gr.Blocks() as page:
        convert_tab.lay_out_convert(model)
    (convert,) = (function.fn for function in page.fns.values() if function.name == "convert")
    with pytest.raises(OSError, match="No space left"):
        convert(None, None)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.medium
def test_files_that_cannot_be_converted_are_refused_without_the_folders_of_the_server(tmp_path, monkeypatch):
    options, weights = write_example(tmp_path)
    (tmp_path / "text.hdf5").write_text("text")
    (tmp_path / "huge.json").write_text((tmp_path / "options.json").read_text().replace(": 16", ": 99999999"))
    for bad, needle in (
        ((None, weights), "Two files are needed"),
        ((options, str(tmp_path / "gone.hdf5")), "gone.hdf5 is not on the server any more: upload it again"),
        ((options, str(tmp_path / "text.hdf5")), "text.hdf5"),
        ((weights, weights), "weights.hdf5"),
        ((str(tmp_path / "huge.json"), weights), "99999999"),
    ):
        with pytest.raises(ConversionError, match=needle) as caught:
            convert_files(*bad, tmp_path / "out.zip")
        assert str(tmp_path) not in str(caught.value)
    monkeypatch.setattr(convert_tab, "UPLOAD_BYTES", 1000)
    with pytest.raises(ConversionError, match="this page accepts at most 1,000"):
        convert_files(options, weights, tmp_path / "out.zip")


# ---- other precisions, other models


@pytest.mark.medium
@pytest.mark.parametrize(("precision", "loss"), [("bf16", 0.02), ("int8", 0.02)])
def test_every_tab_works_in_the_precision_that_is_asked_for(model, precision, loss):
    own = PageModel.load(precision=precision)
    if precision == "bf16":
        assert own.embedder.model.dtype == torch.bfloat16
    else:
        assert own.embedder.model.config.quantization_config is not None
    for tagger in own.taggers:
        assert tagger.model.elmo is own.embedder.model
    ((text, spans),) = tag_sentences(own.taggers[0], ["Maria Sharapova flew from Moscow to Paris."])
    assert ("Maria Sharapova", "person") in [(text[span.start : span.end], span.label) for span in spans]
    word, sentences = own.texts.senses[0]
    cosines, expected = (compare_uses(one, word, sentences).cosines for one in (own, model))
    np.testing.assert_allclose(cosines, expected, atol=loss)
    assert find_neighbours(own, BANK, same_word=True, distinct=False)
    assert "bits" in answer_language_model(own, BANK)
    assert "<mark>" in answer_mix(own, BANK, 1.0, 1, 1, 1)


def test_the_language_is_that_of_most_words():
    assert language_of(["<S>", "的", "一", "苹果"]) == "zh"
    assert language_of(["<S>", "the", "的"]) == "en"
    assert language_of([]) == "en"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_example_of_a_sense_contains_its_word(language):
    texts = texts_of(language)
    assert all(word in sentence for word, sentences in texts.senses for sentence in sentences)
    assert all(text.count("**") == 2 for text in texts.marked)


@pytest.mark.medium
def test_a_chinese_model_has_chinese_examples_that_all_work():
    torch.manual_seed(0)
    texts = texts_of("zh")
    words = ["<S>", "</S>", "<UNK>", *sorted(set("".join(texts.corpus))), "苹果", "杜鹃"]
    sizes = {"vocab_size": len(words), "softmax_cutoffs": [50, 100], "softmax_samples": 40}
    lm = ElmoForPreTraining(ElmoConfig(**(TINY | sizes)))
    language_model = ElmoLanguageModel(lm, ElmoTokenizer(vocab=words, segmenter="jieba"))
    model = PageModel("zh", ElmoEmbedder(lm.elmo, language_model.tokenizer), language_model)
    assert model.texts == texts
    for word, sentences in texts.senses:
        assert answer_senses(model, word, "\n".join(sentences)).count("<mark>") == len(sentences)
    for text in texts.marked:
        assert "<mark>" in answer_neighbours(model, text, True, False)
        assert "<mark>" in answer_mix(model, text, 1.0, 1, 1, 1)
    for text in texts.sentences:
        assert "bits" in answer_language_model(model, text)


@pytest.mark.medium
def test_a_model_without_softmax_says_so_in_the_tab_of_the_language_model(tmp_path):
    write_example(tmp_path)
    convert_tab.conversion.convert_bilm_hdf5(tmp_path / "options.json", tmp_path / "weights.hdf5", tmp_path / "elmo")
    model = PageModel.load(str(tmp_path / "elmo"))
    assert model.taggers == []
    with pytest.raises(ModelError, match="elmo has no softmax"):
        answer_language_model(model, "text")
    page = build_page([model])
    texts = [component["props"].get("value") for component in page.get_config_file()["components"]]
    assert any("There is no tagger for this model" in text for text in texts if isinstance(text, str))
