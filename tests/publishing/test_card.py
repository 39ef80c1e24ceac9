"""Cards: filled from what is known, valid, and with lines of use that run."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from huggingface_hub import ModelCard

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
    default_model,
)
from elmo_hf.errors import ModelError
from elmo_hf.publishing import Records, is_made_here, write_card
from elmo_hf.runtime.run_records import shown_name
from tests.models import TINY

HISTORY = [
    {"step": 10, "loss": 6.0, "words": 100, "hours": 0.1},
    {"step": 10, "forward_perplexity": 400.0, "backward_perplexity": 380.0, "heldout_words": 50},
    {"step": 20, "loss": 5.0, "words": 200, "hours": 0.2},
    {"step": 20, "forward_perplexity": 150.456, "backward_perplexity": 140.0, "heldout_words": 70},
]
PRETRAINING = {
    "text": {"text": ["/home/me/corpus/*.txt", "wikitext/wikitext-2"], "heldout": ["/home/me/corpus/heldout.txt"]},
    "settings": {"learning_rate": 0.004, "log_every": 20},
}
FINETUNING = {
    "task": "tagging",
    "data": {"train": "/home/me/train.conll", "dev": "/home/me/dev.conll", "test": None},
    "model": default_model(),
    "settings": {"epochs": 3},
    "vectors_file": "/home/me/glove.txt",
}
RESULTS = {"dev": {"loss": 0.5, "f1": 0.87654}, "examples": {"train": 1000, "dev": 100, "test": 0}, "epochs": 3.0}
CLASSES = {
    "encoder": (ElmoModel, {}),
    "language model": (ElmoForPreTraining, {}),
    "tagger": (ElmoForTokenClassification, {"num_labels": 3}),
    "classifier": (ElmoForSequenceClassification, {"num_labels": 2}),
    "classifier of pairs": (ElmoForSequenceClassification, {"num_labels": 2, "text_pairs": True}),
}


def saved(folder, kind="encoder", **fields):
    """A tiny model's folder."""
    model_class, own = CLASSES[kind]
    torch.manual_seed(0)
    model_class(ElmoConfig(**(TINY | own | fields))).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return folder


def records_of(folder, **records):
    """Puts records into a folder as runs leave them there."""
    for name, content in records.items():
        (folder / name.replace("_", ".")).write_text(json.dumps(content))


@pytest.mark.parametrize("kind", CLASSES)
def test_the_three_lines_of_use_run(kind, tmp_path, monkeypatch):
    card = write_card(saved(tmp_path / "model", kind)).read_text()
    (code,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    lines = [line for line in code.splitlines() if line]
    assert len(lines) == 3
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    printed = names.get("vectors") or names.get("tags") or names.get("label")
    assert printed


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("encoder", "feature-extraction"),
        ("language model", "feature-extraction"),
        ("tagger", "token-classification"),
        ("classifier of pairs", "text-classification"),
    ],
)
def test_the_metadata_says_what_the_config_knows(kind, task, tmp_path):
    card = ModelCard.load(write_card(saved(tmp_path / "model", kind)))
    assert card.data.pipeline_tag == task
    assert card.data.library_name == "transformers"
    assert card.data.tags == ["elmo", "bilm"]
    assert "# model\n" in card.content
    assert "[More Information Needed]" not in card.content
    assert "{{" not in card.content
    assert "None" not in card.content


def test_a_pretrained_model_has_its_perplexity_and_its_curve(tmp_path):
    folder = saved(tmp_path / "model", "language model")
    records_of(folder, run_json=PRETRAINING)
    (folder / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in HISTORY))
    card = ModelCard.load(write_card(folder))
    values = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert values == {"Perplexity, forward": 150.46, "Perplexity, backward": 140.0}
    assert card.data.datasets == ["wikitext/wikitext-2"]
    assert "20 steps, 200 words, 0.20 hours" in card.content
    assert "| learning_rate | 0.004 |" in card.content
    assert "`*.txt`" in card.content
    assert "/home/me" not in card.content
    assert "![Held-out perplexity over hours](curve.svg)" in card.content
    assert len(ElementTree.parse(folder / "curve.svg").findall("{http://www.w3.org/2000/svg}polyline")) == 2


def test_a_head_has_its_metrics_its_mix_and_the_language_and_licence_of_its_bilm(tmp_path):
    folder = saved(tmp_path / "model", "tagger")
    card = ModelCard.load(write_card(folder, Records(finetuning=FINETUNING, results=RESULTS)))
    (result,) = card.data.eval_results
    assert (result.dataset_name, result.dataset_split) == ("dev.conll", "dev")
    assert (result.metric_type, result.metric_value) == ("f1", 0.8765)
    assert (card.data.language, card.data.license) == ("en", "cc-by-sa-4.0")
    assert "| dev | 100 | 0.5000 | 0.8765 |" in card.content
    assert "| input | 0.333 | 0.333 | 0.333 | 1.000 |" in card.content
    assert "`LABEL_0`, `LABEL_1`, `LABEL_2`" in card.content
    assert "| biLM | elmo-english-compact |" in card.content
    assert "/home/me" not in card.content
    assert (folder / "mixes.svg").exists()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_model_of_one_direction_has_the_perplexity_of_that(direction, tmp_path):
    folder = saved(tmp_path / "model", "language model", directions=direction)
    other = "backward" if direction == "forward" else "forward"
    history = [{name: value for name, value in record.items() if other not in name} for record in HISTORY]
    card = ModelCard.load(write_card(folder, Records(pretraining=PRETRAINING, history=history)))
    (result,) = card.data.eval_results
    assert result.metric_name == f"Perplexity, {direction}"
    assert f"| {direction} | {result.metric_value:.2f} |" in card.content
    assert len(ElementTree.parse(folder / "curve.svg").findall("{http://www.w3.org/2000/svg}polyline")) == 1


def test_a_perplexity_that_is_no_number_is_not_shown(tmp_path):
    folder = saved(tmp_path / "model", "language model")
    bad = {"step": 30, "forward_perplexity": float("nan"), "backward_perplexity": None, "heldout_words": 7}
    history = [*HISTORY, bad]
    card = ModelCard.load(write_card(folder, Records(pretraining=PRETRAINING, history=history)))
    assert card.data.eval_results is None
    assert "## Perplexity" not in card.content
    assert "nan" not in card.content


def test_what_there_is_none_of_has_no_row(tmp_path):
    run = FINETUNING | {"vectors_file": None, "settings": {"epochs": None}}
    card = write_card(saved(tmp_path / "model", "tagger"), Records(finetuning=run, results=RESULTS)).read_text()
    assert "None" not in card
    assert "1 highway layer," in card
    run = PRETRAINING | {"text": PRETRAINING["text"] | {"heldout": []}}
    card = write_card(saved(tmp_path / "bilm", "language model"), Records(pretraining=run)).read_text()
    assert "held-out" not in card


def test_the_mix_of_an_encoder_is_shown_if_it_has_learned_one(tmp_path):
    folder = saved(tmp_path / "model")
    assert "Learned mix" not in write_card(folder).read_text()
    model = ElmoModel.from_pretrained(folder)
    model.mixer.weights.data[:] = torch.tensor([2.0, 0.0, 0.0])
    model.save_pretrained(folder)
    shares = [f"{share:.3f}" for share in model.mixer.layer_weights().tolist()]
    assert f"| model | {' | '.join(shares)} | 1.000 |" in write_card(folder).read_text()


def test_a_converted_model_says_what_it_was(tmp_path):
    folder = saved(tmp_path / "model")
    files = {"weights": {"name": "weights.hdf5", "sha256": "1f0"}}
    provenance = {"format": "bilm-hdf5", "files": files, "parameters": 93_600_864, "dtype": "float16"}
    records_of(folder, conversion_json=provenance)
    card = write_card(folder).read_text()
    assert (
        "Converted from the format bilm-hdf5 with `elmo-hf convert`, 93,600,864 parameters, stored as float16" in card
    )
    assert "| weights | `weights.hdf5`, SHA-256 `1f0` |" in card


def test_what_was_said_of_a_model_is_kept_when_its_card_is_made_anew(tmp_path):
    folder = saved(tmp_path / "model")
    write_card(
        folder, said={"language": ["en", "pt"], "license": "mit", "datasets": ["me/text"], "base_model": "me/elmo"}
    )
    card = ModelCard.load(write_card(folder, name="me/other", said={"license": "apache-2.0"}))
    assert card.data.language == ["en", "pt"]
    assert card.data.license == "apache-2.0"
    assert (card.data.datasets, card.data.base_model) == (["me/text"], "me/elmo")
    assert '"me/other", trust_remote_code=True' in card.content


def test_all_other_metadata_are_kept_when_a_card_is_made_anew(tmp_path):
    folder = saved(tmp_path / "model")
    card = write_card(folder)
    own = "---\nthumbnail: picture.png\nwidget:\n- text: Hello\n"
    card.write_text(card.read_text().replace("---\n", own, 1).replace("- elmo\n", "- elmo\n- mine\n"))
    data = ModelCard.load(write_card(folder)).data
    assert (data.thumbnail, data.widget) == ("picture.png", [{"text": "Hello"}])
    assert data.tags == ["elmo", "bilm", "mine"]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("me/text", "me/text"),
        ("me/text:config", "me/text:config"),
        ("/home/me/text.txt", "text.txt"),
        ("../me/corpus/*.txt", "*.txt"),
        ("~/me/text.txt", "text.txt"),
        ("C:\\Users\\me\\text.txt", "text.txt"),
        ("file:///home/me/text.txt", "text.txt"),
        ("me/text.txt", "text.txt"),
        ("imdb", "imdb"),
    ],
)
def test_only_names_on_the_hub_are_shown_whole(source, shown):
    assert shown_name(source) == shown


def test_a_card_is_made_here_until_its_mark_is_taken_out(tmp_path):
    folder = saved(tmp_path / "model")
    assert is_made_here(folder)
    card = write_card(folder)
    assert is_made_here(folder)
    card.write_text(card.read_text().rsplit("<!--", 1)[0])
    assert not is_made_here(folder)


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"language": "english"}, "language: 'english' is not a code of ISO 639"),
        ({"license": "my licence"}, "license: 'my licence' is not on the Hub's list"),
        ({"datasets": ["not a name"]}, "datasets: 'not a name' is not a name on the Hub"),
        ({"base_model": "a/b/c"}, "base_model: 'a/b/c' is not a name"),
        ({"language": [True]}, "language: True is not text: put it into quotation marks"),
        ({"license": ["mit", 3]}, "license: 3 is not text"),
    ],
)
def test_metadata_that_the_hub_would_refuse_is_refused_and_nothing_written(said, match, tmp_path):
    folder = saved(tmp_path / "model")
    with pytest.raises(ModelError, match=match):
        write_card(folder, said=said)
    assert not (folder / "README.md").exists()


def test_metadata_that_cannot_be_read_is_named(tmp_path):
    folder = saved(tmp_path / "model")
    (folder / "README.md").write_text("---\nlanguage: [en\n---\n")
    with pytest.raises(ModelError, match=r"README\.md: the metadata cannot be read"):
        write_card(folder)
    assert (folder / "README.md").read_text() == "---\nlanguage: [en\n---\n"


def test_a_bar_in_a_value_does_not_end_its_cell(tmp_path):
    folder = saved(
        tmp_path / "model", "tagger", id2label={0: "a|b", 1: "c", 2: "d"}, label2id={"a|b": 0, "c": 1, "d": 2}
    )
    assert r"`a\|b`, `c`, `d`" in write_card(folder).read_text()


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("run.json", "[]", "should hold a JSON object"),
        ("run.json", "{}", "is malformed"),
        ("run.json", "{", "is not a valid JSON file"),
        ("finetune.json", '{"task": 3}', "is malformed"),
        ("conversion.json", "{}", "is malformed"),
        ("config.json", '{"model_type": "elmo", "cell_size": -8}', "`cell_size` must be greater than 0"),
        ("model.safetensors", "x" * 99, "is malformed"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused_in_a_line_and_nothing_written(name, content, match, tmp_path):
    folder = saved(tmp_path / "model")
    (folder / name).write_text(content)
    with pytest.raises(ModelError, match=match):
        write_card(folder)
    assert not (folder / "README.md").exists()


def test_a_name_with_quotation_marks_is_still_python(tmp_path):
    card = write_card(saved(tmp_path / "model"), name='we"ird').read_text()
    (code,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    compile(code, "card", "exec")
