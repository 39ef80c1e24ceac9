"""A toy task that a tiny head learns: names of persons among other words."""

import json
import random
from pathlib import Path

import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.finetuning import FinetuningRun, LabelledText, TaggedSentence, TaskData

FIRST, LAST = ["Anna", "Bert", "Cora", "Dora"], ["Meyer", "Smith"]
OTHERS = ["the", "cat", "saw", "a", "dog", "on", "mat", "with", "red", "hat"]
SIZES = {
    "vocab_size": 8,
    "char_filters": [[1, 8], [2, 16], [3, 16]],
    "num_highway_layers": 1,
    "cell_size": 24,
    "projection_size": 12,
}
SETTINGS = {"epochs": 6, "batch_size": 16, "learning_rate": 0.02}
FIELDS = {"task_layer_size": 12}


def sentences(count: int, seed: int) -> list[TaggedSentence]:
    """Random ones, with `B-PER` and `I-PER` for names."""
    generator, examples = random.Random(seed), []
    for _ in range(count):
        words, tags = [], []
        for _ in range(generator.randint(1, 5)):
            if generator.random() < 0.4:
                name = [generator.choice(FIRST), *([generator.choice(LAST)] if generator.random() < 0.5 else [])]
                words += name
                tags += ["B-PER", "I-PER"][: len(name)]
            else:
                words.append(generator.choice(OTHERS))
                tags.append("O")
        examples.append(TaggedSentence(words, tags))
    return examples


def texts(count: int, seed: int) -> list[LabelledText]:
    """Random ones; the label says whether there is a name."""
    return [
        LabelledText(" ".join(sentence.words), None, "person" if "B-PER" in sentence.tags else "nobody")
        for sentence in sentences(count, seed)
    ]


def write_conll(path: Path, tagged: list[TaggedSentence]) -> str:
    """As columns."""
    blocks = ("".join(f"{word}\t{tag}\n" for word, tag in zip(*sentence, strict=True)) for sentence in tagged)
    path.write_text("\n".join(blocks), encoding="utf-8")
    return str(path)


def write_jsonl(path: Path, labelled: list[LabelledText]) -> str:
    """As JSON lines."""
    lines = (json.dumps({"text": example.text, "label": example.label}) + "\n" for example in labelled)
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


VERBS = ["saw", "held", "fed"]


def write_questions(path: Path, count: int, seed: int, without_answer: bool = False) -> str:
    """Who did what: two names, two verbs, and a question about one of them, or about the third verb."""
    generator, paragraphs = random.Random(seed), []
    for index in range(count):
        names, verbs = generator.sample(FIRST, 2), generator.sample(VERBS, 3)
        context = " , ".join(f"{name} {verb} the dog" for name, verb in zip(names, verbs, strict=False))
        asked = generator.randrange(3 if without_answer else 2)
        answers = [{"text": names[asked], "answer_start": context.index(names[asked])}] if asked < 2 else []
        question = {"id": str(index), "question": f"Who {verbs[asked]} the dog ?", "answers": answers}
        question |= {"is_impossible": not answers} if without_answer else {}
        paragraphs.append({"context": context, "qas": [question]})
    path.write_text(json.dumps({"data": [{"title": "toy", "paragraphs": paragraphs}]}), encoding="utf-8")
    return str(path)


def questions_run(folder: Path, without_answer: bool = False, **changes) -> FinetuningRun:
    """As [`tagging_run`]."""
    data = TaskData(
        *(write_questions(folder / f"{name}.json", count, seed, without_answer)
          for seed, (name, count) in enumerate([("train", 400), ("dev", 40), ("test", 40)]))
    )  # fmt: skip
    arguments = {"model": write_bilm(folder / "bilm"), "fields": FIELDS, "settings": SETTINGS} | changes
    return FinetuningRun("question-answering", data, **arguments)


def write_bilm(folder: Path) -> str:
    """A biLM with random weights, and its tokenizer."""
    torch.manual_seed(0)
    ElmoForPreTraining(ElmoConfig(**SIZES)).save_pretrained(folder)
    ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", "the", "cat", "a", "dog", "on"]).save_pretrained(folder)
    return str(folder)


def tagging_run(folder: Path, **changes) -> FinetuningRun:
    """A run on files that are written into the folder."""
    data = TaskData(
        *(write_conll(folder / f"{name}.conll", sentences(count, seed))
          for seed, (name, count) in enumerate([("train", 160), ("dev", 40), ("test", 40)]))
    )  # fmt: skip
    arguments = {"model": write_bilm(folder / "bilm"), "fields": FIELDS, "settings": SETTINGS} | changes
    return FinetuningRun("tagging", data, **arguments)


def classification_run(folder: Path, **changes) -> FinetuningRun:
    """As [`tagging_run`]."""
    data = TaskData(
        *(write_jsonl(folder / f"{name}.jsonl", texts(count, seed))
          for seed, (name, count) in enumerate([("train", 240), ("dev", 40)]))
    )  # fmt: skip
    arguments = {"model": write_bilm(folder / "bilm"), "fields": FIELDS, "settings": SETTINGS} | changes
    return FinetuningRun("classification", data, **arguments)
