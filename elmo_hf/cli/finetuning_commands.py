"""`elmo-hf finetune …`"""

import functools
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..errors import RunError, TextError, did_you_mean
from ..runtime.extras import require
from ..runtime.precisions import Precision
from .example_columns import classification_columns, tagging_columns
from .parameters import (
    Model,
    bad_parameters,
    is_given,
    parse_assignments,
    quiet_transformers,
    refuse_beside_resume,
)

if TYPE_CHECKING:
    from .. import finetuning

finetune = typer.Typer()

APPLIED_ON_RESUME = ("out", "resume", "device")

Train = Annotated[str | None, typer.Option(help="File or dataset with the training data.", show_default=False)]
Dev = Annotated[
    str | None,
    typer.Option(
        help="File or dataset with the development data, which decides when to stop and which checkpoint to keep.",
        show_default=False,
    ),
]
Test = Annotated[
    str | None, typer.Option(help="File or dataset with the test data, to report results on.", show_default=False)
]
Vectors = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Word vectors to use in addition to ELMo: a text file in GloVe or word2vec format.",
        show_default=False,
    ),
]
VectorSize = Annotated[
    int | None,
    typer.Option(min=1, help="Size of word vectors to learn from scratch, in addition to ELMo.", show_default=False),
]
MaxVectors = Annotated[
    int,
    typer.Option(min=0, help="Words to read from the beginning of --vectors, in addition to the words of the data."),
]
MaxTrain = Annotated[
    int | None, typer.Option(min=1, help="Train on this many examples, chosen at random.", show_default=False)
]
TrainShare = Annotated[
    float | None,
    typer.Option(help="Train on this share of the examples (0 to 1), chosen at random.", show_default=False),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Maximum number of epochs. Default: 20; more if an epoch has fewer than 30 steps.",
        show_default=False,
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, help="Examples per batch. Default: 32; fewer for fewer than 640 examples.", show_default=False),
]
LearningRate = Annotated[
    float | None,
    typer.Option(help="Learning rate. Default: 0.001; 0.002 for fewer than 640 examples.", show_default=False),
]
Patience = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Stop after this many evaluations on --dev without an improvement. Default: 5; more for small data.",
        show_default=False,
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option(
        "--seed",
        min=0,
        help="Random seed. May be repeated: a head is trained with each seed, the best on --dev is saved, and the "
        "results list the mean and the range. Default: 0.",
        show_default=False,
    ),
]
RunFolder = Annotated[
    Path,
    typer.Option(
        "--out",
        help="Folder of the run, which holds the model when the training is done; new or empty, unless --resume is "
        "given.",
        show_default=False,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the run in --out after its last checkpoint, with the options that it was begun with. Only "
        "--device may be given with it.",
    ),
]
TrainingDevice = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="Device to train on: cpu, or the accelerator of this machine, such as cuda. Default: all accelerators, or "
        "the CPU.",
        show_default=False,
    ),
]
TrainingPrecision = Annotated[
    Precision | None,
    typer.Option(
        "--precision",
        help="bf16: autocast, for GPUs; int8: a frozen biLM with 8-bit weights. Default: fp32.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any setting of the training or field of the config: --set epochs=10 --set tag_decoder=crf. May be "
        "repeated.",
        show_default=False,
    ),
]


@finetune.callback(invoke_without_command=True)
def finetune_group(context: typer.Context):
    """Train a tagger, a classifier or another head on top of ELMo."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _train(
    context: typer.Context,
    out: RunFolder,
    train: Train = None,
    dev: Dev = None,
    test: Test = None,
    model: Model = None,
    resume: Resume = False,
    vectors: Vectors = None,
    vectors_size: VectorSize = None,
    max_vectors: MaxVectors = 50_000,
    max_train: MaxTrain = None,
    train_share: TrainShare = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    patience: Patience = None,
    seeds: Seeds = None,
    device: TrainingDevice = None,
    precision: TrainingPrecision = None,
    assignments: Assignments = None,
    *,
    task: str,
    reading_options: Callable[[str | None], dict[str, Any]],
):
    """
    Trains a head. All arguments but `task` and `reading_options` are options of every task.

    Args:
        task: The name of the task.
        reading_options: Gives the options of the task's reader for the source of the training data.
    """
    require("finetuning")
    if resume:
        _resume(task, out, context, device)
        return
    if vectors is None and is_given(context, "max_vectors"):
        raise typer.BadParameter("it limits the words of --vectors: give both.", param_hint="--max-vectors")
    check_vectors(vectors)
    data = _Data(train, dev, test, reading_options(train), max_train, train_share)
    settings = _settings(epochs, batch_size, learning_rate, patience, precision)
    static = _Vectors(vectors, vectors_size, max_vectors)
    _begin(task, out, data, model, static, settings, seeds, device, assignments)


def _command(task: str) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., None]]:
    """
    Makes the command of a task. It has the options of [`_train`] and those of the decorated function, which returns the
    options of the task's reader for them and `train`; the docstring of that function is the help.
    """
    shared = {
        name: parameter
        for name, parameter in inspect.signature(_train).parameters.items()
        if parameter.kind is not parameter.KEYWORD_ONLY
    }

    def decorate(reading_options: Callable[..., dict[str, Any]]) -> Callable[..., None]:
        parameters = inspect.signature(reading_options).parameters
        own = {name: parameter for name, parameter in parameters.items() if name not in shared}

        @functools.wraps(reading_options)
        def command(**options: Any):
            of_reader = {name: options.pop(name) for name in own}
            read = functools.partial(reading_options, **of_reader)
            _train(**options, task=task, reading_options=read)

        options = [*shared.values(), *own.values()]
        command.__signature__ = inspect.Signature(options)  # ty: ignore[missing-attribute]
        command.__annotations__ = {option.name: option.annotation for option in options}
        return finetune.command(task)(command)

    return decorate


@_command("tagging")
def finetune_tagging(
    train: str | None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Column that holds the words: a name for .jsonl and datasets, a number counted from 0 for .conll. "
            "Default: words or tokens; for .conll 0.",
            show_default=False,
        ),
    ] = None,
    tag_column: Annotated[
        str | None,
        typer.Option(
            help="Column that holds the tags: a name for .jsonl and datasets, a field for .conllu, a number counted "
            "from 0 for .conll (-1 is the last). Default: tags, ner_tags, pos_tags or labels; for .conllu upos; for "
            ".conll -1.",
            show_default=False,
        ),
    ] = None,
) -> dict[str, Any]:
    """
    Train a tagger.

    It predicts one tag per word. The data are CoNLL columns, CoNLL-U, JSON lines or datasets.

    Example: elmo-hf finetune tagging --train train.conll --dev dev.conll --test test.conll --out my-tagger
    """
    return tagging_columns(train, column, tag_column)


@_command("classification")
def finetune_classification(
    train: str | None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Column that holds the text: a name, or for .csv and .tsv without a header line a number counted from "
            "0. Default: text, sentence, sentence1, premise, question or question1.",
            show_default=False,
        ),
    ] = None,
    pair_column: Annotated[
        str | None,
        typer.Option(
            help="Column that holds the second text of a pair: a name or a number. Default: text_pair, pair, "
            "sentence2, hypothesis or question2, if there is one.",
            show_default=False,
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="Column that holds the label: a name or a number. Default: label, labels, gold_label or score.",
            show_default=False,
        ),
    ] = None,
    phrases: Annotated[
        bool,
        typer.Option(
            "--phrases", help="Train on every phrase of the Stanford Sentiment Treebank, not on whole sentences only."
        ),
    ] = False,
) -> dict[str, Any]:
    """
    Train a classifier.

    It predicts a label per text or pair of texts. The data are JSON lines (SNLI's and MultiNLI's too), CSV, TSV, trees
    of the Stanford Sentiment Treebank or datasets.

    Example: elmo-hf finetune classification --train train.csv --dev dev.csv --out my-classifier
    """
    columns = classification_columns(train, column, pair_column, label_column)
    return columns | ({"phrases": True} if phrases else {})


@_command("roles")
def finetune_roles(train: str | None) -> dict[str, Any]:
    """
    Train a semantic role labeller.

    It predicts the arguments of each predicate. The data are columns (number, word, tag, roleset or -, and one column
    of BIO tags per predicate), JSON lines or datasets (words, predicates, tags). Each predicate is one example.

    Example: elmo-hf finetune roles --train train.conll --dev dev.conll --out my-roles
    """
    return {}


@_command("coreference")
def finetune_coreference(train: str | None) -> dict[str, Any]:
    """
    Train a coreference model.

    It finds the clusters of mentions in documents. The data are the columns of CoNLL-2012, or JSON lines or datasets
    (sentences, clusters). Each document is one example.

    Example: elmo-hf finetune coreference --train train.conll --dev dev.conll --out my-coreference
    """
    return {}


@_command("question-answering")
def finetune_question_answering(train: str | None) -> dict[str, Any]:
    """
    Train a question answering model.

    It finds the span of a context that answers a question. The data are SQuAD's JSON (1.1, or 2.0 with questions that
    have no answer), JSON lines or datasets with context, question and answers.

    Example: elmo-hf finetune question-answering --train train-v1.1.json --dev dev-v1.1.json --out my-answers
    """
    return {}


class _Data(NamedTuple):
    """The examples, as they are named on the command line."""

    train: str | None
    dev: str | None
    test: str | None
    options: dict[str, Any]
    max_train: int | None
    train_share: float | None

    def of_task(self) -> "finetuning.TaskData":
        from .. import finetuning

        if self.train is None or self.dev is None:
            raise ValueError(
                "Give training and development data with --train and --dev, or continue a run with --resume."
            )
        return finetuning.TaskData(self.train, self.dev, self.test, self.options, self.max_train, self.train_share)


class _Vectors(NamedTuple):
    """Static word vectors."""

    file: str | None
    size: int | None
    max_words: int


def _settings(epochs, batch_size, learning_rate, patience, precision) -> dict[str, Any]:
    """The settings that were given."""
    values = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "patience": patience}
    return {name: value for name, value in (values | {"precision": precision}).items() if value is not None}


def _begin(
    task: str,
    out: Path,
    data: _Data,
    model: str | None,
    vectors: _Vectors,
    settings: dict[str, Any],
    seeds: list[int] | None,
    device: str | None,
    assignments: list[str] | None,
):
    from .. import finetuning
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    choose_device(device)
    with bad_parameters():
        assigned, fields = settings_and_fields(assignments)
        settings = assigned | settings
        run = finetuning.FinetuningRun(
            task=task,
            data=data.of_task(),
            model=find_named_model(model),
            fields=fields,
            settings=settings | ({"seed": seeds[0]} if seeds else {}),
            vectors_file=vectors.file,
            vectors_size=vectors.size,
            max_vectors=vectors.max_words,
            seeds=seeds if seeds and len(seeds) > 1 else [],
        )
        run.begin(out)
    _report(out)


def _resume(task: str, out: Path, context: typer.Context, device: str | None):
    refuse_beside_resume(context, APPLIED_ON_RESUME)
    from .. import finetuning
    from ..runtime.run_records import RESULTS

    quiet_transformers()
    choose_device(device)
    with bad_parameters():
        if (begun := finetuning.FinetuningRun.load(out).task) != task:
            remedy = f"elmo-hf finetune {begun} --resume --out {out} continues it."
            if (out / RESULTS).exists():
                remedy = f"it is finished, and its results are in {RESULTS}."
            raise RunError(f"{out} holds a run of {begun}: {remedy}")
        finetuning.FinetuningRun.resume(out)
    _report(out)


def settings_and_fields(assignments: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `--set` gives to the training, and what to the head's config; other names are refused."""
    from ..finetuning.settings import FinetuningSettings
    from ..modeling.configuration_elmo import ElmoConfig

    chosen = parse_assignments(assignments)
    of_training = FinetuningSettings.__dataclass_fields__.keys()
    fields = {name: value for name, value in chosen.items() if name not in of_training}
    known = of_training | ElmoConfig.__dataclass_fields__.keys()
    if unknown := [f"{name!r}{did_you_mean(name, known)}" for name in sorted(fields.keys() - known)]:
        raise ValueError(f"There is no setting or field of the config {', '.join(unknown)}.")
    return {name: value for name, value in chosen.items() if name not in fields}, fields


def check_vectors(file: str | None):
    """Refuses a file of word vectors that does not exist, before any data are read."""
    if file is not None and not os.path.exists(file):
        raise TextError(f"No such file or folder: {file}.")


def choose_device(device: str | None):
    """Tells the Trainer to use the CPU, or checks that the device exists. By default it uses all accelerators."""
    from ..runtime.model_loading import find_device

    if device is None:
        return
    place = find_device(device)
    if place.type == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"
    elif place.index is not None:
        raise typer.BadParameter(
            f"training takes all accelerators: give {place.type} without a number, and choose one with "
            f"CUDA_VISIBLE_DEVICES={place.index}.",
            param_hint="--device",
        )


def _report(out: Path):
    """Prints the metrics of the saved model, and their mean and range over the seeds."""
    from ..runtime.processes import this_process
    from ..runtime.run_records import RESULTS

    if not this_process().is_main_process:
        return
    results = json.loads((out / RESULTS).read_text("utf-8"))
    for split in ("dev", "test"):
        if split in results:
            typer.echo(f"{split}: " + ", ".join(f"{name} {value:.4f}" for name, value in results[split].items()))
    for split, means in results.get("mean", {}).items():
        ranges = results["range"][split]
        values = (f"{name} {mean:.4f} ({ranges[name][0]:.4f}–{ranges[name][1]:.4f})" for name, mean in means.items())
        typer.echo(f"{split}, mean and range of {len(results['seeds'])} seeds: " + ", ".join(values))
    if "seeds" in results:
        typer.echo(f"saved: the head with seed {results['seed']}, the best on the development data")
    typer.echo(f"{out}: the model and its card")


__all__ = ["choose_device", "finetune", "settings_and_fields"]
