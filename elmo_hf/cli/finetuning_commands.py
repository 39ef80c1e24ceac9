"""`elmo-hf finetune` and `elmo-hf predict`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from transformers.utils import logging

from .. import finetuning
from ..classification_elmo import ElmoForTokenClassification
from ..configuration_elmo import ElmoConfig
from ..default_model import default_model, find_model
from ..finetuning.settings import FinetuningSettings
from ..processes import this_process
from ..records import kind_of, numbered_lines
from .parameters import bad_parameters, parse_assignments

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
    _finetune("tagging", out, (train, dev, test), options, model, resume, (vectors, vectors_size), assignments)


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
    assignments: Assignments = None,
    text_name: Annotated[str | None, typer.Option(help="The column of the text.", show_default=False)] = None,
    pair_name: Annotated[str | None, typer.Option(help="The column of the second text.", show_default=False)] = None,
    label_name: Annotated[str | None, typer.Option(help="The column of the label.", show_default=False)] = None,
):
    """
    A label for each text or pair of texts: JSON lines, CSV, TSV, datasets.

    Example: elmo-hf finetune classification --train train.csv --dev dev.csv --out my-classifier
    """
    options = {"text_name": text_name, "pair_name": pair_name, "label_name": label_name}
    _finetune("classification", out, (train, dev, test), options, model, resume, (vectors, vectors_size), assignments)


def _finetune(
    task: Literal["tagging", "classification"],
    out: Path,
    sources: tuple[str | None, str | None, str | None],
    options: dict[str, Any],
    model: str | None,
    resume: bool,
    vectors: tuple[str | None, int | None],
    assignments: list[str] | None,
):
    logging.set_verbosity_error()  # of transformers: what is wrong is in our own message
    with bad_parameters():
        if resume:
            results = finetuning.FinetuningRun.resume(out)
        else:
            train, dev, test = (source and _absolute(source) for source in sources)
            if train is None or dev is None:
                raise ValueError("Examples are needed: give --train and --dev (or --resume).")
            chosen = parse_assignments(assignments)
            settings = {
                name: value for name, value in chosen.items() if name in FinetuningSettings.__dataclass_fields__
            }
            fields = {name: value for name, value in chosen.items() if name not in settings}
            if unknown := sorted(fields.keys() - ElmoConfig.__dataclass_fields__.keys()):
                raise ValueError(f"Neither the settings nor the config have a field {', '.join(unknown)}.")
            run = finetuning.FinetuningRun(
                task=task,
                data=finetuning.TaskData(train, dev, test, options),
                model=_absolute(find_model(model)) if model else default_model(),
                fields=fields,
                settings=settings,
                vectors_file=vectors[0] and _absolute(vectors[0]),
                vectors_size=vectors[1],
            )
            results = run.begin(out)
    if not this_process().is_main_process:
        return
    for split, metrics in results.items():
        typer.echo(f"{split}: " + ", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    typer.echo(f"{out}: the model and its card")


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
):
    """
    Tags or labels for text.

    Example: elmo-hf predict my-tagger sentences.txt
    """
    logging.set_verbosity_error()
    head, tokenizer = finetuning.load_head(model)
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
    lines = (line for line in sys.stdin) if file == "-" else (line for _, line in numbered_lines(file))
    return (line.strip() for line in lines if line.strip())


def _sentences(file: str, tokenizer, pretokenized: bool, options: dict[str, Any]) -> Iterator[list[str]]:
    if file != "-" and kind_of(file) in ("conllu", "jsonl", "conll", "dataset"):
        yield from (sentence.words for sentence in finetuning.read_tagged(file, with_tags=False, **options))
        return
    for line in _lines(file):
        yield line.split() if pretokenized else tokenizer.tokenize(line)


def _texts(file: str, options: dict[str, Any]) -> Iterator[finetuning.LabelledText]:
    if file != "-" and kind_of(file) in ("jsonl", "csv", "tsv", "dataset"):
        yield from finetuning.read_labelled(file, with_labels=False, **options)
        return
    yield from map(finetuning.LabelledText, _lines(file))


__all__ = ["finetune", "predict"]
