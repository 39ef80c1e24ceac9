"""
The tasks of `python -m benchmarks.tasks`: the examples of each, and its head. A task is one entry of `SETUPS`.

The corpora are folders of `$ELMO_HF_SHARED/corpora`, or `../shared/corpora`; `--corpora` names another place.
"""

import random
import tarfile
import zipfile
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from elmo_hf.data.coreference import CoreferenceDocument, parse_documents
from elmo_hf.data.roles import read_roles
from elmo_hf.data.tables import numbered_lines
from elmo_hf.finetuning import (
    ClassificationTask,
    CoreferenceTask,
    LabelledText,
    QuestionAnsweringTask,
    RolesTask,
    TaggingTask,
    read_labelled,
    read_squad,
    read_tagged,
)


class TaskSetup(NamedTuple):
    """
    The examples of a task, and its head.

    Args:
        task: The task of `elmo_hf.finetuning`.
        train, dev, test: The examples.
        fields: The fields of the head's config.
        settings: The settings of the training that differ from those of all tasks.
    """

    task: Any
    train: list[Any]
    dev: list[Any]
    test: list[Any]
    fields: dict[str, Any]
    settings: dict[str, Any]


class TaskEntry(NamedTuple):
    """
    An entry of the registry.

    Args:
        corpus: The folder of the data.
        description: The data, its licence and where it comes from.
        load: Reads the data from the folder.
        language: The language of the data. Heads are built on the model that comes with the package for it.
    """

    corpus: str
    description: str
    load: Callable[[Path], TaskSetup]
    language: str = "en"

    def setup(self, corpora: Path) -> TaskSetup:
        """Reads the data. Ends with a message that names the data if they are not there."""
        folder = corpora / self.corpus
        if not folder.is_dir():
            raise SystemExit(f"{folder} is missing: {self.description}. --corpora names the folder that holds it.")
        return self.load(folder)


# Written out for the first three tasks, so that their numbers do not change with the defaults.
FIRST_FIELDS = {
    "num_task_layers": 1,
    "task_lstm_type": "bidirectional",
    "train_word_vectors": True,
    "mixer_weights": "learned",
    "elmo_places": "input",
    "elmo_layer_norm": False,
    "elmo_dropout": 0.5,
    "classifier_dropout": 0.2,
    "mixer_l2": 0.001,
}


def chosen(examples: list[Any], count: int) -> list[Any]:
    """Examples chosen at random, the same in every run."""
    return random.Random(0).sample(examples, count)


def load_pos(folder: Path) -> TaskSetup:
    splits = [read_tagged(str(folder / f"en_ewt-ud-{split}.conllu")) for split in ("train", "dev", "test")]
    task = TaggingTask.of([example for split in splits for example in split])
    return TaskSetup(task, *splits, fields=FIRST_FIELDS | {"task_layer_size": 200}, settings={"epochs": 5})


def load_chinese_pos(folder: Path) -> TaskSetup:
    sentences = read_tagged(str(folder / "zh_gsdsimp-ud-dev.conllu"))
    random.Random(0).shuffle(sentences)
    splits = sentences[:300], sentences[300:400], sentences[400:]
    fields = FIRST_FIELDS | {"task_layer_size": 200}
    return TaskSetup(TaggingTask.of(sentences), *splits, fields=fields, settings={"epochs": 30, "batch_size": 8})


def load_entities(folder: Path) -> TaskSetup:
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    splits = [read_tagged(str(folder / name)) for name in names]
    task = TaggingTask.of([example for split in splits for example in split])
    fields = FIRST_FIELDS | {"task_layer_size": 200, "tag_decoder": "crf"}
    return TaskSetup(task, *splits, fields=fields, settings={"epochs": 15})


def load_polarity(folder: Path) -> TaskSetup:
    texts = []
    with zipfile.ZipFile(folder / "sentence_polarity.zip") as archive:
        for label in ("neg", "pos"):
            lines = archive.read(f"sentence_polarity/rt-polarity.{label}").decode("latin-1").splitlines()
            texts += [LabelledText(line.strip(), None, label) for line in lines if line.strip()]
    random.Random(0).shuffle(texts)
    tenth = len(texts) // 10
    splits = texts[2 * tenth :], texts[:tenth], texts[tenth : 2 * tenth]
    fields = FIRST_FIELDS | {"task_layer_size": 150, "pooling": "max"}
    return TaskSetup(ClassificationTask.of(texts), *splits, fields=fields, settings={"epochs": 6})


def load_entailment(folder: Path) -> TaskSetup:
    splits = [read_labelled(str(folder / f"{split}.tsv")) for split in ("train", "dev", "test")]
    task = ClassificationTask.of([example for split in splits for example in split])
    fields = {"task_layer_size": 100, "pair_attention": "esim", "elmo_places": "both"}
    return TaskSetup(task, *splits, fields=fields, settings={"epochs": 20})


def load_pairs(folder: Path) -> TaskSetup:
    train, dev = (
        [
            LabelledText(first, second, label)
            for _, first, second, _, label in (line.split("\t") for _, line in numbered_lines(str(path)))
        ][1:]
        for path in (folder / "SICK_train.txt", folder / "SICK_trial.txt")
    )
    fields = {"task_layer_size": 150, "pair_attention": True}
    settings = {"epochs": 20}
    return TaskSetup(ClassificationTask.of(train), train[:-1000], dev, train[-1000:], fields, settings)


def load_roles(folder: Path) -> TaskSetup:
    train, dev, test = (read_roles(str(folder / f"{split}.conll.xz")) for split in ("train", "dev", "test"))
    task = RolesTask.of([*train, *dev, *test])
    fields = {"task_layer_size": 150, "num_task_layers": 2}
    settings = {"epochs": 12, "batch_size": 16}
    return TaskSetup(task, chosen(train, 10_000), chosen(dev, 500), test, fields, settings)


def load_coreference(folder: Path) -> TaskSetup:
    documents: list[CoreferenceDocument] = []
    with tarfile.open(folder / "coref-conll.tar.xz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            if (file := archive.extractfile(member)) is not None:
                lines = enumerate(file.read().decode("utf-8").splitlines(), start=1)
                documents += parse_documents(
                    (f"{member.name}, line {line_number}", line) for line_number, line in lines
                )
    random.Random(0).shuffle(documents)
    fields = {"task_layer_size": 100, "span_size": 100, "span_ratio": 0.3, "max_antecedents": 50}
    train = [beginning(document, 800) for document in documents[20:]]
    settings = {"epochs": 15, "batch_size": 1}
    return TaskSetup(CoreferenceTask(), train, documents[:10], documents[10:20], fields, settings)


def beginning(document: CoreferenceDocument, num_words: int) -> CoreferenceDocument:
    """The first sentences of a document with at most so many words, and the clusters of two mentions in them."""
    ends = accumulate(map(len, document.sentences))
    sentences = document.sentences[: max(sum(end <= num_words for end in ends), 1)]
    last = sum(map(len, sentences)) - 1
    clusters = [[span for span in cluster if span[1] <= last] for cluster in document.clusters or ()]
    return document._replace(sentences=sentences, clusters=[cluster for cluster in clusters if len(cluster) > 1])


def load_questions(folder: Path) -> TaskSetup:
    questions = read_squad(str(folder / "squad-1.1-40-articles.json.xz"))
    articles = list(dict.fromkeys(question.article for question in questions))
    parts = [{*articles[:30]}, {*articles[30:35]}, {*articles[35:]}]  # no article is in two parts
    train, dev, test = ([question for question in questions if question.article in part] for part in parts)
    fields = {"task_layer_size": 80, "elmo_dropout": 0.2}
    settings = {"epochs": 15, "batch_size": 16}
    train = [question for question in train if len(question.context) <= 800]
    return TaskSetup(QuestionAnsweringTask.of(questions), train, chosen(dev, 300), test, fields, settings)


SETUPS = {
    "pos": TaskEntry(
        corpus="ud-english-ewt",
        description="UD English EWT, CC BY-SA 4.0, https://github.com/UniversalDependencies/UD_English-EWT",
        load=load_pos,
    ),
    "chinese pos": TaskEntry(
        corpus="ud-chinese-gsdsimp",
        description="UD Chinese GSDSimp, CC BY-SA 4.0, https://github.com/UniversalDependencies/UD_Chinese-GSDSimp",
        load=load_chinese_pos,
        language="zh",
    ),
    "entities": TaskEntry(
        corpus="wnut17",
        description="WNUT-17, CC BY 4.0, https://github.com/leondz/emerging_entities_17",
        load=load_entities,
    ),
    "polarity": TaskEntry(
        corpus="sentence-polarity",
        description="sentences of film reviews (Pang & Lee 2005), CC BY 4.0, nltk.download('sentence_polarity')",
        load=load_polarity,
    ),
    "entailment": TaskEntry(
        corpus="nli-snli-counterfactual",
        description="SNLI pairs with counterfactual revisions (Kaushik et al. 2020), Apache-2.0 and CC BY-SA 4.0, "
        "https://github.com/acmi-lab/counterfactually-augmented-data",
        load=load_entailment,
    ),
    "pairs": TaskEntry(
        corpus="sick",
        description="SICK, CC BY-NC-SA 3.0, https://doi.org/10.5281/zenodo.2787612",
        load=load_pairs,
    ),
    "roles": TaskEntry(
        corpus="srl-propbank-ewt",
        description="PropBank's semantic roles on UD English EWT, CC BY-SA 4.0, "
        "https://github.com/propbank/propbank-release",
        load=load_roles,
    ),
    "coreference": TaskEntry(
        corpus="coref-litbank",
        description="LitBank, 100 novels of about 2,000 words, CC BY 4.0, https://github.com/dbamman/litbank",
        load=load_coreference,
    ),
    "questions": TaskEntry(
        corpus="squad-articles",
        description="40 articles of SQuAD 1.1's development part, CC BY-SA 4.0, "
        "https://rajpurkar.github.io/SQuAD-explorer",
        load=load_questions,
    ),
}

__all__ = ["SETUPS", "TaskEntry", "TaskSetup"]
