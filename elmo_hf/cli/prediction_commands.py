"""`elmo-hf predict`."""

import operator
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..data.coreference import CoreferenceDocument, as_coreference_columns, read_coreference
from ..data.roles import as_role_columns, read_role_sentences
from ..data.tables import kind_of, numbered_lines
from ..data.text_sources import split_words
from .parameters import Device, Precision, Pretokenized, quiet_transformers

if TYPE_CHECKING:
    from ..data.roles import RoleSentence
    from ..finetuning import LabelledText


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model with a head: a folder, or a name on the Hub.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Text, one sentence per line; or .conll, .conllu, .jsonl, .csv or .tsv for words and pairs of texts, "
            "read in the same way as the training data; for questions SQuAD's .json, or .jsonl with question and "
            "context; - for standard input.",
        ),
    ] = "-",
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write. Default: standard output.", show_default=False)
    ] = None,
    output_format: Annotated[
        Literal["conll", "jsonl"] | None,
        typer.Option(
            "--format",
            help="Format of the output. Default: conll for tags, roles and coreference, jsonl for labels and answers.",
            show_default=False,
        ),
    ] = None,
    pretokenized: Pretokenized = False,
    predicates: Annotated[
        str | None,
        typer.Option(
            "--predicates",
            metavar="TAGGER",
            help="For semantic roles: a tagger that finds the predicates of sentences in which none is marked as "
            "**word**. A folder, or a name on the Hub.",
            show_default=False,
        ),
    ] = None,
    predicate_tags: Annotated[
        list[str] | None,
        typer.Option(
            "--predicate-tag",
            help="Tag of predicates in the output of --predicates. May be repeated. Default: the tags of verbs "
            "(VERB, V, VB, VBD ...).",
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Texts per batch.")] = 32,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Answers per question.")] = 1,
    device: Device = None,
    precision: Precision = None,
):
    """
    Predict tags, labels, semantic roles, coreference or answers.

    Each line of the input becomes one record of the output. A blank line gets no tags and no label.

    Example: elmo-hf predict my-tagger sentences.txt
    """
    from .. import finetuning
    from ..errors import ModelError
    from ..modeling.configuration_elmo import HEADS
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    model = find_named_model(model)
    head, tokenizer = finetuning.load_head(model, device=device, precision=precision)
    options = finetuning.reading_options(model)
    task = next(entry.task for entry in HEADS if entry.name == type(head).__name__)
    if task != "roles" and (predicates or predicate_tags):
        raise typer.BadParameter(f"{model} predicts no semantic roles.", param_hint="--predicates")
    if task == "roles":
        role_sentences = _role_sentences(file, tokenizer, pretokenized, options)
        if predicates is not None:
            tagger, tagger_tokenizer = finetuning.load_head(
                find_named_model(predicates), device=device, precision=precision
            )
            if type(tagger).__name__ != "ElmoForTokenClassification":
                raise typer.BadParameter(f"{predicates} is no tagger.", param_hint="--predicates")
            role_sentences = finetuning.mark_found_predicates(
                tagger, tagger_tokenizer, role_sentences, predicate_tags or (), batch_size
            )
        else:
            role_sentences = _with_hint(role_sentences)
        write = finetuning.as_json if output_format == "jsonl" else as_role_columns
        answers = map(write, finetuning.predict_roles(head, tokenizer, role_sentences, batch_size))
    elif task == "coreference":
        documents = _documents(file, tokenizer, pretokenized, options)
        write = finetuning.as_document_json if output_format == "jsonl" else as_coreference_columns
        answers = map(write, finetuning.predict_clusters(head, tokenizer, documents))
    elif task == "tagging":
        sentences = _sentences(file, tokenizer, pretokenized, options)
        write = finetuning.as_json if output_format == "jsonl" else finetuning.as_conll
        answers = map(write, finetuning.predict_tags(head, tokenizer, sentences, batch_size))
    elif task == "question-answering":
        if output_format == "conll":
            raise typer.BadParameter("answers are written as jsonl.", param_hint="--format")
        if file == "-":
            raise typer.BadParameter("questions are read from a .json or .jsonl file: name it.", param_hint="FILE")
        questions = finetuning.read_squad(file, with_answers=False)
        answers = map(
            finetuning.as_json, finetuning.predict_answers(head, tokenizer, questions, batch_size, n_best=n_best)
        )
    elif task != "classification":
        raise ModelError(f"{model} is an {type(head).__name__}, whose output has no text format: run it from Python.")
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


def _sentences(file: str, tokenizer: Any, pretokenized: bool, options: dict[str, Any]) -> Iterator[list[str]]:
    from .. import finetuning

    if file != "-" and kind_of(file) in ("conllu", "jsonl", "conll", "dataset"):
        yield from (sentence.words for sentence in finetuning.read_tagged(file, with_tags=False, **options))
        return
    for line in _lines(file):
        yield split_words(line) if pretokenized else tokenizer.tokenize(line)


def _documents(
    file: str, tokenizer: Any, pretokenized: bool, options: dict[str, Any]
) -> "Iterator[CoreferenceDocument]":
    """Of a text, one sentence per line and blank lines between documents."""
    if file != "-" and kind_of(file) in ("jsonl", "conll", "dataset"):
        yield from read_coreference(file, with_clusters=False, **options)
        return
    paragraphs = (list(lines) for blank, lines in groupby(_lines(file), key=operator.not_) if not blank)
    for index, lines in enumerate(paragraphs):
        sentences = [split_words(line) if pretokenized else tokenizer.tokenize(line) for line in lines]
        yield CoreferenceDocument(str(index), sentences)


def _role_sentences(file: str, tokenizer: Any, pretokenized: bool, options: dict[str, Any]) -> "Iterator[RoleSentence]":
    from .. import finetuning

    if file != "-" and kind_of(file) in ("jsonl", "conll", "dataset"):
        yield from read_role_sentences(file, with_tags=False, **options)
        return
    for line in _lines(file):
        yield finetuning.read_marked_predicates(line, None if pretokenized else tokenizer)


def _with_hint(sentences: "Iterable[RoleSentence]") -> "Iterator[RoleSentence]":
    """Yields the sentences, and says how to name predicates if none of them has any."""
    has_words = has_predicates = False
    for sentence in sentences:
        has_words, has_predicates = has_words or bool(sentence.words), has_predicates or bool(sentence.predicates)
        yield sentence
    if has_words and not has_predicates:
        typer.echo(
            "elmo-hf: no predicate is given, so there are no roles: mark predicates as **word** in text, or name a "
            "tagger that finds them with --predicates.",
            err=True,
        )


def _texts(file: str, options: dict[str, Any]) -> "Iterator[LabelledText]":
    from .. import finetuning

    if file != "-" and kind_of(file) in ("jsonl", "csv", "tsv", "dataset"):
        yield from finetuning.read_labelled(file, with_labels=False, **options)
        return
    yield from map(finetuning.LabelledText, _lines(file))


__all__ = ["predict"]
