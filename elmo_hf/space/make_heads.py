"""
Trains the taggers of the page on a biLM, and stores them without it:

    python -m elmo_hf.space.make_heads CORPORA

CORPORA is a folder with `ud-english-ewt` and `wnut17`. Each head takes a few minutes on one core. To be run again when
the model that comes with the package has changed.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ..finetuning import FinetuningRun, TaskData, load_head
from ..runtime.default_model import default_model
from ..runtime.run_records import RESULTS
from .stored_heads import BILM_WEIGHTS, FOLDER, StoredHead, save_head, sha256

CARD = "README.md"


class Recipe(NamedTuple):
    """
    How a head is made.

    Attributes:
        title: What it tags.
        folder: Of the corpora.
        files: Training, development and test data in this folder.
        data, license: The name and the licence of the data.
        fields: The config fields of the head.
        epochs: The number of epochs.
        metrics: The names of the metrics to store.
    """

    title: str
    folder: str
    files: tuple[str, str, str]
    data: str
    license: str
    fields: dict[str, Any]
    epochs: int
    metrics: tuple[str, ...]


SIZES = {"num_task_layers": 1, "task_layer_size": 128}
RECIPES = {
    "parts-of-speech": Recipe(
        title="Parts of speech",
        folder="ud-english-ewt",
        files=("en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", "en_ewt-ud-test.conllu"),
        data="Universal Dependencies English Web Treebank",
        license="CC BY-SA 4.0",
        fields=SIZES,
        epochs=4,
        metrics=("accuracy",),
    ),
    "entities": Recipe(
        title="Entities",
        folder="wnut17",
        files=("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
        data="WNUT 2017 Emerging and Rare Entity Recognition",
        license="CC BY 4.0",
        fields=SIZES | {"tag_decoder": "crf"},
        epochs=10,
        metrics=("precision", "recall", "f1"),
    ),
}


def make_head(recipe: Recipe, corpora: Path, model: str, out: Path):
    """
    Trains a head and stores it, with its card.

    Args:
        recipe: What to train, and how.
        corpora: The folder of the corpora.
        model: The folder of the biLM.
        out: The folder to write.
    """
    train, dev, test = (str(corpora / recipe.folder / name) for name in recipe.files)
    with tempfile.TemporaryDirectory() as temporary:
        run = Path(temporary) / "run"
        data = TaskData(train, dev, test)
        FinetuningRun("tagging", data, model, fields=recipe.fields, settings={"epochs": recipe.epochs}).begin(run)
        results = json.loads((run / RESULTS).read_text("utf-8"))["test"]
        tagger, _ = load_head(str(run))
    head = StoredHead(
        title=recipe.title,
        bilm=Path(model).name,
        bilm_sha256=sha256(Path(model) / BILM_WEIGHTS),
        labels=tagger.config.label_names,
        fields=recipe.fields,
        data=recipe.data,
        license=recipe.license,
        results={name: round(results[name], 4) for name in recipe.metrics},
    )
    save_head(out, head, tagger)
    (out / CARD).write_text(card_of(head), encoding="utf-8")


def card_of(head: StoredHead) -> str:
    """The card of a stored head."""
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in head.results.items())
    return (
        f"# {head.title}\n\n"
        f"A tagger of {len(head.labels)} labels on top of {head.bilm}, for the page (`elmo-hf space`). The biLM is not "
        "stored here, only the weights of the head, in half precision.\n\n"
        f"- Training data: {head.data}, {head.license}. The weights have the same licence.\n"
        f"- Test data of the same corpus: {metrics}.\n"
        "- Made by `python -m elmo_hf.space.make_heads CORPORA`.\n"
    )


def main():
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m elmo_hf.space.make_heads", description=__doc__.split("\n\n")[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--head", choices=RECIPES, action="append", help="only this one; may be repeated")
    parser.add_argument("--model", default=default_model(), help="folder of the biLM")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the heads")
    options = parser.parse_args()
    for name in options.head or RECIPES:
        make_head(RECIPES[name], options.corpora, options.model, options.out / name)
        sizes = {path.name: path.stat().st_size for path in sorted((options.out / name).iterdir())}
        print("\n".join(f"{name}/{file:<20}{size:>10,}" for file, size in sizes.items()))


if __name__ == "__main__":
    main()
