"""`elmo-hf finetune` and `elmo-hf predict`."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from transformers.utils import logging

from .. import finetuning
from ..classification_elmo import ElmoForTokenClassification
from ..configuration_elmo import ElmoConfig
from ..extras import require
from ..finetuning.settings import FinetuningSettings
from ..model_loading import find_device
from ..processes import this_process
from ..publishing.records import RESULTS
from ..records import kind_of, numbered_lines
from ..text_sources import split_words
from .models import find_named_model
from .parameters import Device, Precision, bad_parameters, parse_assignments

finetune = typer.Typer()

Train = Annotated[str | None, typer.Option(help="Examples to learn from.", show_default=False)]
Dev = Annotated[str | None, typer.Option(help="Examples to stop and choose by.", show_default=False)]
Test = Annotated[str | None, typer.Option(help="Examples to report on.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", help="The folder to write; new or empty.", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option("--model", help="The biLM. Default: the model that comes with elmo-hf.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
Vectors = Annotated[
    str | None, typer.Option(help="Word vectors beside ELMo: a GloVe or word2vec text file.", show_default=False)
]
VectorSize = Annotated[
    int | None, typer.Option(help="Word vectors beside ELMo, of this size, learned.", show_default=False)
]
MaxVectors = Annotated[
    int, typer.Option(help="Words to take from the beginning of --vectors beside those of the data.")
]
MaxTrain = Annotated[
    int | None, typer.Option(help="Learn from so many examples, chosen at random.", show_default=False)
]
TrainShare = Annotated[float | None, typer.Option(help="Learn from this share of the examples.", show_default=False)]
Epochs = Annotated[
    int | None, typer.Option(help="At most. Default: 20, more for fewer than 1,000 examples.", show_default=False)
]
BatchSize = Annotated[
    int | None, typer.Option(help="Default: 32, fewer for fewer than 640 examples.", show_default=False)
]
LearningRate = Annotated[
    float | None, typer.Option(help="Default: 0.001; 0.002 for fewer than 640 examples.", show_default=False)
]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Evaluations on --dev without a better result before it stops. Default: 5, more for small data.",
        show_default=False,
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option(
        "--seed",
        help="May be repeated: one head each, of which the best on --dev is saved; the results have the mean and the "
        "range. Default: 0.",
        show_default=False,
    ),
]
TrainingDevice = Annotated[
    Literal["cpu", "cuda"] | None,
    typer.Option("--device", help="Default: GPUs if there are any, else the CPU.", show_default=False),
]
TrainingPrecision = Annotated[
    Literal["fp32", "bf16", "int8"] | None,
    typer.Option(
        "--precision",
        help="bf16: under autocast, for GPUs. int8: a frozen biLM of 8-bit weights. Default: fp32.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any setting of the training or field of the config: --set epochs=10 --set tag_decoder=crf",
        show_default=False,
    ),
]


@finetune.callback(invoke_without_command=True)
def finetune_group(context: typer.Context):
    """Train a tagger or a classifier on ELMo."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@finetune.command("tagging")
def finetune_tagging(
    out: Out,
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
    field: Annotated[str, typer.Option(help="Of CoNLL-U.")] = "upos",
    word_column: Annotated[int, typer.Option(help="Of columns, from 0.")] = 0,
    tag_column: Annotated[int, typer.Option(help="Of columns; -1 is the last.")] = -1,
    words_name: Annotated[str | None, typer.Option(help="Of JSON lines and datasets.", show_default=False)] = None,
    tags_name: Annotated[str | None, typer.Option(help="Of JSON lines and datasets.", show_default=False)] = None,
):
    """
    A tag for each word: CoNLL columns, CoNLL-U, JSON lines, datasets.

    Example: elmo-hf finetune tagging --train train.conll --dev dev.conll --test test.conll --out my-tagger
    """
    options = {
        "field": field,
        "word_column": word_column,
        "tag_column": tag_column,
        "words_name": words_name,
        "tags_name": tags_name,
    }
    data = _Data(train, dev, test, options, max_train, train_share)
    given = _settings(epochs, batch_size, learning_rate, patience, precision)
    _finetune(
        "tagging",
        out,
        data,
        model,
        resume,
        _Vectors(vectors, vectors_size, max_vectors),
        given,
        seeds,
        device,
        assignments,
    )


@finetune.command("classification")
def finetune_classification(
    out: Out,
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
    text_name: Annotated[str | None, typer.Option(help="The column of the text.", show_default=False)] = None,
    pair_name: Annotated[str | None, typer.Option(help="The column of the second text.", show_default=False)] = None,
    label_name: Annotated[str | None, typer.Option(help="The column of the label.", show_default=False)] = None,
    text_column: Annotated[
        int | None,
        typer.Option(help="Of CSV and TSV without names in the first line: its number, from 0.", show_default=False),
    ] = None,
    pair_column: Annotated[int | None, typer.Option(help="As --text-column.", show_default=False)] = None,
    label_column: Annotated[int | None, typer.Option(help="As --text-column.", show_default=False)] = None,
):
    """
    A label for each text or pair of texts: JSON lines, CSV, TSV, datasets.

    Example: elmo-hf finetune classification --train train.csv --dev dev.csv --out my-classifier
    """
    options: dict[str, Any] = {"text_name": text_name, "pair_name": pair_name, "label_name": label_name}
    options |= {"text_column": text_column, "pair_column": pair_column, "label_column": label_column}
    data = _Data(train, dev, test, options, max_train, train_share)
    given = _settings(epochs, batch_size, learning_rate, patience, precision)
    _finetune(
        "classification",
        out,
        data,
        model,
        resume,
        _Vectors(vectors, vectors_size, max_vectors),
        given,
        seeds,
        device,
        assignments,
    )


class _Data(NamedTuple):
    """Where the examples are, as they were named."""

    train: str | None
    dev: str | None
    test: str | None
    options: dict[str, Any]
    max_train: int | None
    train_share: float | None

    def of_task(self) -> finetuning.TaskData:
        if self.train is None or self.dev is None:
            raise ValueError("Examples are needed: give --train and --dev (or --resume).")
        return finetuning.TaskData(
            _absolute(self.train),
            _absolute(self.dev),
            self.test and _absolute(self.test),
            self.options,
            self.max_train,
            self.train_share,
        )


class _Vectors(NamedTuple):
    """Static word vectors."""

    file: str | None
    size: int | None
    max_words: int


def _settings(epochs, batch_size, learning_rate, patience, precision) -> dict[str, Any]:
    """Those that were given."""
    values = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "patience": patience}
    return {name: value for name, value in (values | {"precision": precision}).items() if value is not None}


def _finetune(
    task: Literal["tagging", "classification"],
    out: Path,
    data: _Data,
    model: str | None,
    resume: bool,
    vectors: _Vectors,
    settings: dict[str, Any],
    seeds: list[int] | None,
    device: Literal["cpu", "cuda"] | None,
    assignments: list[str] | None,
):
    require("finetuning")
    logging.set_verbosity_error()  # of transformers: what is wrong is in our own message
    _choose_device(device)
    with bad_parameters():
        if resume:
            finetuning.FinetuningRun.resume(out)
        else:
            chosen = parse_assignments(assignments)
            fields = {
                name: value for name, value in chosen.items() if name not in FinetuningSettings.__dataclass_fields__
            }
            if unknown := sorted(fields.keys() - ElmoConfig.__dataclass_fields__.keys()):
                raise ValueError(f"Neither the settings nor the config have a field {', '.join(unknown)}.")
            settings = {name: value for name, value in chosen.items() if name not in fields} | settings
            run = finetuning.FinetuningRun(
                task=task,
                data=data.of_task(),
                model=_absolute(find_named_model(model)),
                fields=fields,
                settings=settings | ({"seed": seeds[0]} if seeds else {}),
                vectors_file=vectors.file and _absolute(vectors.file),
                vectors_size=vectors.size,
                max_vectors=vectors.max_words,
                seeds=seeds if seeds and len(seeds) > 1 else [],
            )
            run.begin(out)
    if this_process().is_main_process:
        _report(json.loads((out / RESULTS).read_text("utf-8")))
        typer.echo(f"{out}: the model and its card")


def _choose_device(device: Literal["cpu", "cuda"] | None):
    """The Trainer takes GPUs where there are any."""
    if device == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"
    elif device == "cuda":
        find_device(device)


def _report(results: dict[str, Any]):
    """Metrics of the model that was saved, and over the seeds."""
    for split in ("dev", "test"):
        if split in results:
            typer.echo(f"{split}: " + ", ".join(f"{name} {value:.4f}" for name, value in results[split].items()))
    for split, means in results.get("mean", {}).items():
        ranges = results["range"][split]
        found = (f"{name} {mean:.4f} ({ranges[name][0]:.4f}–{ranges[name][1]:.4f})" for name, mean in means.items())
        typer.echo(f"{split}, mean and range of {len(results['seeds'])} seeds: " + ", ".join(found))
    if "seeds" in results:
        typer.echo(f"saved: the head of seed {results['seed']}, the best on the development data")


def _absolute(source: str) -> str:
    """So that a run can be resumed from anywhere; names on the Hub stay."""
    return os.path.abspath(source) if os.path.exists(source) else source


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A tagger or a classifier: a folder, or a name on the Hub.")
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Text, a sentence a line; .conll, .conllu, .jsonl, .csv or .tsv for words and pairs, read as the "
            "examples of the training were; - is standard input.",
        ),
    ] = "-",
    out: Annotated[Path | None, typer.Option("--out", help="Default: standard output.", show_default=False)] = None,
    output_format: Annotated[
        Literal["conll", "jsonl"] | None,
        typer.Option("--format", help="Default: conll for tags, jsonl for labels.", show_default=False),
    ] = None,
    pretokenized: Annotated[bool, typer.Option("--pretokenized", help="Words are what blanks separate.")] = False,
    batch_size: Annotated[int, typer.Option(help="Texts read at once.")] = 32,
    device: Device = None,
    precision: Precision = None,
):
    """
    Tags or labels for text: one line in, one record out. A blank line has no tags, and no label.

    Example: elmo-hf predict my-tagger sentences.txt
    """
    logging.set_verbosity_error()
    model = find_named_model(model)
    head, tokenizer = finetuning.load_head(model, device=device, precision=precision)
    options = finetuning.reading_options(model)
    if isinstance(head, ElmoForTokenClassification):
        sentences = _sentences(file, tokenizer, pretokenized, options)
        write = finetuning.as_json if output_format == "jsonl" else finetuning.as_conll
        answers = map(write, finetuning.predict_tags(head, tokenizer, sentences, batch_size))
    else:
        if output_format == "conll":
            raise typer.BadParameter("labels of texts are written as jsonl.", param_hint="--format")
        answers = map(finetuning.as_json, finetuning.predict_labels(head, tokenizer, _texts(file, options), batch_size))
    if out is None:
        sys.stdout.writelines(answers)
        return
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.writelines(answers)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _lines(file: str) -> Iterator[str]:
    return (line.strip() for _, line in numbered_lines(file))


def _sentences(file: str, tokenizer, pretokenized: bool, options: dict[str, Any]) -> Iterator[list[str]]:
    if file != "-" and kind_of(file) in ("conllu", "jsonl", "conll", "dataset"):
        yield from (sentence.words for sentence in finetuning.read_tagged(file, with_tags=False, **options))
        return
    for line in _lines(file):
        yield split_words(line) if pretokenized else tokenizer.tokenize(line)


def _texts(file: str, options: dict[str, Any]) -> Iterator[finetuning.LabelledText]:
    if file != "-" and kind_of(file) in ("jsonl", "csv", "tsv", "dataset"):
        yield from finetuning.read_labelled(file, with_labels=False, **options)
        return
    yield from map(finetuning.LabelledText, _lines(file))


__all__ = ["finetune", "predict"]
