"""`elmo-hf predict`."""

import operator
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from ..data.coreference import CoreferenceDocument, as_coreference_columns, read_coreference
from ..data.roles import as_role_columns, read_role_sentences
from ..data.tables import kind_of, numbered_lines
from ..data.text_sources import STANDARD_INPUT, split_words
from ..errors import FolderError, ModelError, TextError
from .parameters import Device, Precision, Pretokenized, is_given, quiet_transformers

if TYPE_CHECKING:
    from ..data.roles import RoleSentence
    from ..finetuning import LabelledText
    from ..runtime.precisions import Precision as PrecisionName


def predict(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model with a head: a folder, or a name on the Hub.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Text, one sentence per line, or a file or dataset as for training: .conllu, .conll, .jsonl for tags; "
            ".jsonl, .csv, .tsv for labels; .conll, .jsonl for roles and coreference; for answers SQuAD's .json, or "
            ".jsonl with question and context. - is standard input.",
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
    batch_size: Annotated[int, typer.Option(min=1, help="Texts per batch.")] = 32,
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
    from ..modeling.configuration_elmo import HEADS
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    if out is not None and out.is_dir():
        raise FolderError(f"{out} is a folder: name a file.")
    if out is not None and not out.absolute().parent.is_dir():
        raise FolderError(f"There is no folder {out.parent}.")
    kind = kind_of(file)  # a file that does not exist is reported before the model is loaded
    model = find_named_model(model)
    head, tokenizer = finetuning.load_head(model, device=device, precision=precision)
    task = next(entry.task for entry in HEADS if entry.name == type(head).__name__)
    if task not in PREDICTORS:
        raise ModelError(f"{model} is an {type(head).__name__}, whose output has no text format: run it from Python.")
    _refuse_options_of_other_tasks(context, model, task)
    if output_format == "conll" and task in JSON_ONLY:
        raise typer.BadParameter(f"{JSON_ONLY[task]} are written as jsonl.", param_hint="--format")
    if file != STANDARD_INPUT and kind not in READS[task]:
        *others, last = READS[task]
        raise TextError(f"{file}: a model for {task} does not read {kind}: give {', '.join(others)} or a {last}.")
    tagger = None if predicates is None else _load_tagger(predicates, device, precision)
    records = PREDICTORS[task](
        _Request(
            head=head,
            tokenizer=tokenizer,
            file=file,
            pretokenized=pretokenized,
            options=finetuning.reading_options(model),
            as_json=output_format == "jsonl",
            batch_size=batch_size,
            n_best=n_best,
            tagger=tagger,
            predicate_tags=predicate_tags or (),
        )
    )
    _write(records, out)


def _refuse_options_of_other_tasks(context: typer.Context, model: str, task: str):
    """Refuses options that have no effect for the task of the model."""
    for (name, option), (tasks, reason) in TASK_OPTIONS.items():
        if is_given(context, name) and task not in tasks:
            raise typer.BadParameter(f"{model} {reason}: leave it out.", param_hint=option)
    if is_given(context, "predicate_tags") and not is_given(context, "predicates"):
        raise typer.BadParameter("it names tags of --predicates: give both.", param_hint="--predicate-tag")


def _write(records: Iterable[str], out: Path | None):
    """To standard output, or to a file that is complete when it has its name."""
    from ..modeling.encoding_elmo import without_surrogates

    records = map(without_surrogates, records)  # JSON may hold halves of surrogate pairs, UTF-8 may not
    if out is None:
        sys.stdout.writelines(records)
        return
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.writelines(records)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _load_tagger(name: str, device: str | None, precision: "PrecisionName | None") -> tuple[Any, Any]:
    """The tagger that finds predicates, and its tokenizer."""
    from .. import finetuning
    from ..runtime.named_models import find_named_model

    tagger, tokenizer = finetuning.load_head(find_named_model(name), device=device, precision=precision)
    if type(tagger).__name__ != "ElmoForTokenClassification":
        raise typer.BadParameter(f"{name} is no tagger.", param_hint="--predicates")
    return tagger, tokenizer


# ---- the records of each task


class _Request(NamedTuple):
    """
    What is predicted.

    Attributes:
        head, tokenizer: The model.
        file: The input.
        pretokenized: Whether the words of a text are separated by spaces.
        options: How the head's training data were read, and so tables of the same kind.
        as_json: Whether the records are JSON lines, where a task has another format too.
        batch_size: Texts per batch.
        n_best: Answers per question.
        tagger: A tagger that finds the predicates of sentences without marks, and its tokenizer.
        predicate_tags: The tagger's tags of predicates.
    """

    head: Any
    tokenizer: Any
    file: str
    pretokenized: bool
    options: dict[str, Any]
    as_json: bool
    batch_size: int
    n_best: int
    tagger: tuple[Any, Any] | None
    predicate_tags: Sequence[str]


def _predict_tags(request: _Request) -> Iterator[str]:
    from .. import finetuning

    as_text = finetuning.as_json if request.as_json else finetuning.as_conll
    sentences = _read_sentences(request)
    return map(as_text, finetuning.predict_tags(request.head, request.tokenizer, sentences, request.batch_size))


def _predict_labels(request: _Request) -> Iterator[str]:
    from .. import finetuning

    texts = _read_texts(request)
    labels = finetuning.predict_labels(request.head, request.tokenizer, texts, request.batch_size)
    return map(finetuning.as_json, labels)


def _predict_roles(request: _Request) -> Iterator[str]:
    from .. import finetuning

    sentences = _read_role_sentences(request)
    if request.tagger is not None:
        sentences = finetuning.mark_found_predicates(
            *request.tagger, sentences, request.predicate_tags, request.batch_size
        )
    else:
        sentences = _with_hint(sentences)
    as_text = finetuning.as_json if request.as_json else as_role_columns
    return map(as_text, finetuning.predict_roles(request.head, request.tokenizer, sentences, request.batch_size))


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


def _predict_coreference(request: _Request) -> Iterator[str]:
    from .. import finetuning

    as_text = finetuning.as_document_json if request.as_json else as_coreference_columns
    return map(as_text, finetuning.predict_clusters(request.head, request.tokenizer, _read_documents(request)))


def _predict_answers(request: _Request) -> Iterator[str]:
    from .. import finetuning

    if request.file == STANDARD_INPUT:
        raise typer.BadParameter("questions are read from a .json or .jsonl file: name it.", param_hint="FILE")
    questions = finetuning.read_squad(request.file, with_answers=False)
    answers = finetuning.predict_answers(
        request.head, request.tokenizer, questions, request.batch_size, n_best=request.n_best
    )
    return map(finetuning.as_json, answers)


PREDICTORS = {
    "tagging": _predict_tags,
    "classification": _predict_labels,
    "roles": _predict_roles,
    "coreference": _predict_coreference,
    "question-answering": _predict_answers,
}
# The kinds of files that each task reads, as `kind_of` names them.
READS = {
    "tagging": ("text", "conll", "conllu", "jsonl", "dataset"),
    "classification": ("text", "jsonl", "csv", "tsv", "dataset"),
    "roles": ("text", "conll", "jsonl", "dataset"),
    "coreference": ("text", "conll", "jsonl", "dataset"),
    "question-answering": ("json", "jsonl", "dataset"),
}
# The tasks of an option, and what a model of another task does.
TASK_OPTIONS = {
    ("predicates", "--predicates"): (("roles",), "predicts no semantic roles"),
    ("predicate_tags", "--predicate-tag"): (("roles",), "predicts no semantic roles"),
    ("n_best", "--n-best"): (("question-answering",), "answers no questions"),
    ("pretokenized", "--pretokenized"): (("tagging", "roles", "coreference"), "reads texts as they are"),
    ("batch_size", "--batch-size"): (
        ("tagging", "classification", "roles", "question-answering"),
        "reads one document at a time",
    ),
}
JSON_ONLY = {"classification": "labels of texts", "question-answering": "answers"}  # tasks without another format


# ---- readers


def _lines(file: str) -> Iterator[str]:
    return (line.strip() for _, line in numbered_lines(file))


def _has_kind(file: str, *kinds: str) -> bool:
    """Whether the file is a table of one of these kinds, and not a text."""
    return file != STANDARD_INPUT and kind_of(file) in kinds


def _split(line: str, request: _Request) -> list[str]:
    return split_words(line) if request.pretokenized else request.tokenizer.tokenize(line)


def _read_sentences(request: _Request) -> Iterator[list[str]]:
    from .. import finetuning

    if _has_kind(request.file, "conllu", "jsonl", "conll", "dataset"):
        tagged = finetuning.read_tagged(request.file, with_tags=False, **request.options)
        yield from (sentence.words for sentence in tagged)
        return
    for line in _lines(request.file):
        yield _split(line, request)


def _read_texts(request: _Request) -> "Iterator[LabelledText]":
    from .. import finetuning

    is_table = _has_kind(request.file, "jsonl", "csv", "tsv", "dataset")
    if is_table or (request.file != STANDARD_INPUT and finetuning.are_trees(request.file)):
        yield from finetuning.read_labelled(request.file, with_labels=False, **request.options)
        return
    yield from map(finetuning.LabelledText, _lines(request.file))


def _read_role_sentences(request: _Request) -> "Iterator[RoleSentence]":
    from .. import finetuning

    if _has_kind(request.file, "jsonl", "conll", "dataset"):
        yield from read_role_sentences(request.file, with_tags=False, **request.options)
        return
    for line in _lines(request.file):
        yield finetuning.read_marked_predicates(line, None if request.pretokenized else request.tokenizer)


def _read_documents(request: _Request) -> Iterator[CoreferenceDocument]:
    """The documents of a table, or of a text with one sentence per line and blank lines between documents."""
    if _has_kind(request.file, "jsonl", "conll", "dataset"):
        yield from read_coreference(request.file, with_clusters=False, **request.options)
        return
    paragraphs = (list(lines) for blank, lines in groupby(_lines(request.file), key=operator.not_) if not blank)
    for index, lines in enumerate(paragraphs):
        yield CoreferenceDocument(str(index), [_split(line, request) for line in lines])


__all__ = ["predict"]
