"""`elmo-hf analyze …`"""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import FolderError
from ..runtime.extras import require
from .example_columns import classification_columns, tagging_columns
from .finetuning_commands import (
    Assignments,
    TrainingDevice,
    TrainingPrecision,
    Vectors,
    VectorSize,
    check_vectors,
    choose_device,
    settings_and_fields,
)
from .parameters import (
    DEFAULT_MODEL,
    FILES,
    Device,
    HowMany,
    Model,
    Precision,
    Pretokenized,
    bad_parameters,
    is_given,
    load_embedder,
    parse_layer,
    quiet_transformers,
)

analyze = typer.Typer()

PICTURE_ENDINGS = (".png", ".svg")

Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON.", show_default=False)
]
Picture = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE", help="Draw the results: .png or .svg.", show_default=False),
]
Work = Annotated[
    Path | None,
    typer.Option(
        "--work",
        metavar="DIR",
        help="Folder for intermediate results: after a stop, the same command continues there.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]
Seeds = Annotated[
    list[int] | None,
    typer.Option(
        "--seed", min=0, help="Random seed. May be repeated, for means and ranges. Default: 0.", show_default=False
    ),
]


@analyze.callback(invoke_without_command=True)
def analyze_group(context: typer.Context):
    """Find out what the layers of a model know."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@analyze.command("senses")
def analyze_senses(
    train: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN",
            help="Text with senses to learn from: SemCor's columns, XML of the unified evaluation framework, or lines "
            "of sentence, position (counted from 0) and sense, separated by tabs. Plain or compressed.",
            show_default=False,
        ),
    ],
    test: Annotated[
        str | None,
        typer.Argument(metavar="TEST", help="Text to test on. Without it, give --test-share.", show_default=False),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(help="Test on this share of the documents of TRAIN, chosen at random.", show_default=False),
    ] = None,
    neighbors: Annotated[
        int, typer.Option(min=0, help="Occurrences that vote in k-NN; 0: no k-NN, which needs less memory.")
    ] = 1,
    first_senses: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="WordNet's index.sense: its first senses are a second baseline, and the answers for words that are "
            "not in TRAIN. Default: such words count as wrong.",
            show_default=False,
        ),
    ] = None,
    train_keys: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Senses of TRAIN, if it is XML. Default: X.gold.key.txt beside X.data.xml."),
    ] = None,
    test_keys: Annotated[
        str | None, typer.Option(metavar="FILE", help="Senses of TEST, if it is XML. Default: as --train-keys.")
    ] = None,
    sense_format: Annotated[
        Literal["semcor", "xml", "plain"] | None,
        typer.Option("--input-format", help="Format of the texts. Default: by their first lines.", show_default=False),
    ] = None,
    seed: Seed = 0,
    model: Model = None,
    work: Work = None,
    json_file: Json = None,
    picture: Picture = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    Find word senses by the nearest vector, layer by layer.

    Each sense is the mean of its vectors in the training text. The table also has the nearest single occurrences, the
    most frequent sense as baseline, and each part of speech.

    Example: elmo-hf analyze senses semcor.tsv --test-share 0.2 --picture senses.png
    """
    _check_outputs(json_file, picture)
    if (test is None) == (test_share is None):
        raise typer.BadParameter("name a text to test on or give --test-share, not both.", param_hint="TEST")
    if test is None and test_keys is not None:
        raise typer.BadParameter("there is no TEST that it belongs to: leave it out.", param_hint="--test-keys")
    from .. import analysis

    quiet_transformers()
    with bad_parameters():
        first = None if first_senses is None else analysis.read_first_senses(first_senses)
        learn = analysis.read_senses(train, keys=train_keys, kind=sense_format)
        if test is None:
            learn, ask = analysis.split_by_document(learn, test_share or 0.0, seed)
        else:
            ask = analysis.read_senses(test, keys=test_keys, kind=sense_format)
        results = analysis.senses(
            load_embedder(model, device, precision),
            learn,
            ask,
            neighbors=neighbors,
            first_senses=first,
            seed=seed,
            work=work,
            progress=_has_terminal(),
        )
    _report(results, json_file, picture, analysis.draw_senses)


@analyze.command("probe")
def analyze_probe(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Tagged text to learn from.", show_default=False)],
    dev: Annotated[
        str, typer.Argument(metavar="DEV", help="Tagged text that chooses the weights.", show_default=False)
    ],
    test: Annotated[
        str | None, typer.Argument(metavar="TEST", help="Tagged text to test on.", show_default=False)
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Column that holds the words: a number counted from 0 for .conll, a name for .jsonl and datasets. "
            "Default: 0; words or tokens.",
            show_default=False,
        ),
    ] = None,
    tag_column: Annotated[
        str | None,
        typer.Option(
            help="Column that holds the tags: a field for .conllu, a number for .conll, a name for .jsonl and "
            "datasets. Default: upos; -1; tags, ner_tags, pos_tags or labels.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Epochs; more for small data, so that there are at least 2,000 steps.")
    ] = 10,
    seeds: Seeds = None,
    model: Model = None,
    work: Work = None,
    json_file: Json = None,
    picture: Picture = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    Train linear classifiers on each layer.

    One classifier reads each frozen layer, one their mix and one all layers together. The table has the accuracy on all
    words and on words that are not in the training text, and the most frequent tag of each word as baseline.

    Example: elmo-hf analyze probe train.conllu dev.conllu test.conllu --tag-column xpos
    """
    _check_outputs(json_file, picture)
    columns = tagging_columns(train, column, tag_column)
    from .. import analysis
    from ..data.tables import kind_of

    quiet_transformers()
    with bad_parameters():
        sources = [("train", train), ("validation", dev), *([] if test is None else [("test", test)])]
        require(*(kind_of(source) for _, source in sources))
        parts = [analysis.read_tagged(source, split=split, **columns) for split, source in sources]
        settings = analysis.ProbeSettings(epochs=epochs)
        embedder = load_embedder(model, device, precision)
        results = analysis.probe(
            embedder,
            *parts,
            seeds=seeds or [0],
            settings=settings,
            work=work,
            progress=_has_terminal(),
            train_name=train,
        )
    _report(results, json_file, picture, analysis.draw_probe)


@analyze.command("samples")
def analyze_samples(
    task: Annotated[
        Literal["tagging", "classification"], typer.Argument(metavar="TASK", help="tagging or classification.")
    ],
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Training data.", show_default=False)],
    dev: Annotated[str, typer.Argument(metavar="DEV", help="Development data.", show_default=False)],
    work: Annotated[
        Path,
        typer.Option(
            "--work",
            metavar="DIR",
            help="Folder for the heads: after a stop, the same command continues there.",
            show_default=False,
        ),
    ],
    test: Annotated[str | None, typer.Argument(metavar="TEST", help="Data to test on.", show_default=False)] = None,
    shares: Annotated[
        str, typer.Option(metavar="SHARE,SHARE,...", help="Shares of the training data.")
    ] = "0.001,0.01,0.1,1",
    seeds: Seeds = None,
    model: Model = None,
    vectors: Vectors = None,
    vectors_size: VectorSize = None,
    assignments: Assignments = None,
    column: Annotated[
        str | None, typer.Option(help="Column with the words or texts, as in elmo-hf finetune.", show_default=False)
    ] = None,
    tag_column: Annotated[
        str | None, typer.Option(help="Column with the tags, as in elmo-hf finetune tagging.", show_default=False)
    ] = None,
    pair_column: Annotated[
        str | None,
        typer.Option(help="Column with second texts, as in elmo-hf finetune classification.", show_default=False),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="Column with the labels, as in elmo-hf finetune classification.", show_default=False),
    ] = None,
    json_file: Json = None,
    picture: Picture = None,
    device: TrainingDevice = None,
    precision: TrainingPrecision = None,
):
    """
    Measure how much training data ELMo saves.

    The same head is trained with and without ELMo on growing shares of the training data. Both have static word
    vectors: learned ones of size 100, or those of --vectors.

    Example: elmo-hf analyze samples tagging train.conll dev.conll --work my-heads --seed 0 --seed 1 --seed 2
    """
    require("finetuning")
    _check_outputs(json_file, picture)
    parsed_shares = _parse_shares(shares)
    check_vectors(vectors)
    columns = _task_columns(task, train, column, tag_column, pair_column, label_column)
    from .. import analysis
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    choose_device(device)
    with bad_parameters():
        settings, fields = settings_and_fields(assignments)
        settings |= {} if precision is None else {"precision": precision}
        curve = analysis.samples(
            task,
            analysis.TaskData(train, dev, test, columns),
            work,
            model=find_named_model(model),
            shares=parsed_shares,
            seeds=seeds or [0],
            fields=fields,
            settings=settings,
            vectors_file=vectors,
            vectors_size=vectors_size,
            report=lambda line: typer.echo(line, err=True),
        )
    _report(curve, json_file, picture, analysis.draw_samples)


@analyze.command("layers")
def analyze_layers(
    context: typer.Context,
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER",
            help="Fine-tuned models whose mixing weights to show: folders, or names on the Hub.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            metavar="INPUT",
            help=f"Text on which to measure the similarities of --model's vectors. May be repeated. {FILES}",
            show_default=False,
        ),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences of the text to take, chosen at random.")] = 5000,
    seed: Seed = 0,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help=f"Model for --text: a folder, or a name on the Hub. {DEFAULT_MODEL}", show_default=False
        ),
    ] = None,
    pretokenized: Pretokenized = False,
    json_file: Json = None,
    picture: Picture = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    Show mixing weights and similarities of layers.

    For fine-tuned models: the share of each layer in the mixes that they learned. For a text: the cosines between
    layers, the anisotropy (mean cosine of random words), the self-similarity of words and the similarity within
    sentences, for each layer.

    Example: elmo-hf analyze layers my-tagger my-classifier --text corpus.txt --picture layers.svg
    """
    _check_outputs(json_file, picture)
    if not folders and not text:
        raise typer.BadParameter("name fine-tuned models, or a text with --text, or both.", param_hint="FOLDER")
    for name in ("model", "sentences", "seed", "pretokenized", "device", "precision"):
        if not text and is_given(context, name):
            raise typer.BadParameter("it is for --text: leave it out, or name a text.", param_hint=f"--{name}")
    from .. import analysis

    quiet_transformers()
    with bad_parameters():
        mixes = analysis.mixing_weights(folders) if folders else None
        similarity = None
        if text:
            chosen = analysis.read_sentences(
                text, most=sentences, seed=seed, pretokenized=pretokenized, has_bar=_has_terminal()
            )
            embedder = load_embedder(model, device, precision)
            words = [sentence.words for sentence in embedder.tokenize(chosen)]
            similarity = analysis.layer_similarity(embedder, words, progress=_has_terminal())
    results = {"mixes": mixes, "similarity": similarity}
    typer.echo("\n\n".join(part.table() for part in results.values() if part is not None))
    _write(results, json_file, picture, lambda _: analysis.draw_layers(mixes, similarity))


@analyze.command("neighbors-table")
def analyze_neighbors_table(
    corpus: Annotated[list[str], typer.Argument(metavar="INPUT", help=FILES, show_default=False)],
    questions: Annotated[
        list[str],
        typer.Option(
            "--sentence",
            metavar="TEXT",
            help='A sentence with one word marked: "they saw a **play**". May be repeated.',
            show_default=False,
        ),
    ],
    k: HowMany = 5,
    layers: Annotated[
        str, typer.Option(metavar="mix|top|average|N", help="Layer to take the vectors from; 0 is the token layer.")
    ] = "top",
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Static word vectors to compare with: a text file in GloVe or word2vec format. Default: layer 0, for "
            "the words of the corpus.",
            show_default=False,
        ),
    ] = None,
    any_word: Annotated[
        bool, typer.Option("--any-word", help="Look for uses of any word. Default: of the marked word only.")
    ] = False,
    sentences: Annotated[
        int | None,
        typer.Option(
            min=1, help="Sentences of the corpus to take, chosen at random. Default: all.", show_default=False
        ),
    ] = None,
    seed: Seed = 0,
    model: Model = None,
    pretokenized: Pretokenized = False,
    json_file: Json = None,
    picture: Picture = None,
    device: Device = None,
    precision: Precision = None,
):
    """
    Compare nearest uses with nearest static vectors.

    For each marked word: the words with the nearest static vectors, and the uses in the corpus whose vectors are
    nearest to this use.

    Example: elmo-hf analyze neighbors-table corpus.txt --sentence "They saw a **play** at the theatre ."
    """
    _check_outputs(json_file, picture)
    check_vectors(vectors)
    from .. import analysis
    from ..data.marked_words import read_marked

    quiet_transformers()
    for question in questions:
        read_marked(question)  # a mistake is reported before the corpus is read
    with bad_parameters():
        chosen = analysis.read_sentences(
            corpus, most=sentences, seed=seed, pretokenized=pretokenized, has_bar=_has_terminal()
        )
        table = analysis.neighbors_table(
            load_embedder(model, device, precision),
            chosen,
            questions,
            k=k,
            layers=parse_layer(layers),
            vectors=vectors,
            same_word=not any_word,
            progress=_has_terminal(),
        )
    _report(table, json_file, picture, analysis.draw_neighbors)


# ---- parts of several commands


def _check_outputs(json_file: Path | None, picture: Path | None):
    """Refuses files that cannot be written, and a picture that cannot be drawn, before any work is done."""
    if picture is not None:
        if picture.suffix.lower() not in PICTURE_ENDINGS:
            raise typer.BadParameter(
                f"the name should end in {' or '.join(PICTURE_ENDINGS)}, found {picture}.", param_hint="--picture"
            )
        require("picture")
    for path in (json_file, picture):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            problem = "is a folder" if path.is_dir() else f"cannot be written: there is no folder {path.parent}"
            raise FolderError(f"{path} {problem}.")


def _report(results: Any, json_file: Path | None, picture: Path | None, draw: Any):
    typer.echo(results.table())
    _write(results, json_file, picture, draw)


def _write(results: Any, json_file: Path | None, picture: Path | None, draw: Any):
    from .. import analysis

    if json_file is not None:
        analysis.write_json(json_file, results)
    if picture is not None:
        analysis.save_picture(draw(results), picture)


def _has_terminal() -> bool:
    """Whether progress bars are shown."""
    return sys.stderr.isatty()


def _parse_shares(shares: str) -> list[float]:
    try:
        parsed = [float(share) for share in shares.split(",")]
    except ValueError:
        parsed = []
    if not parsed or not all(0 < share <= 1 for share in parsed):
        raise typer.BadParameter(
            f"shares are numbers above 0 and at most 1, separated by commas, found {shares!r}.", param_hint="--shares"
        )
    return parsed


def _task_columns(
    task: str,
    train: str,
    column: str | None,
    tag_column: str | None,
    pair_column: str | None,
    label_column: str | None,
) -> dict[str, Any]:
    """The options of a task's reader; columns of the other task are refused."""
    if task == "tagging":
        _refuse_given({"--pair-column": pair_column, "--label-column": label_column}, "classification")
        return tagging_columns(train, column, tag_column)
    _refuse_given({"--tag-column": tag_column}, "tagging")
    return classification_columns(train, column, pair_column, label_column)


def _refuse_given(options: dict[str, str | None], task: str):
    for option, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"this column belongs to {task}.", param_hint=option)


__all__ = ["analyze"]
