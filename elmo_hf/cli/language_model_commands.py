"""`elmo-hf score`, `elmo-hf next`, `elmo-hf previous`, `elmo-hf substitutes` and `elmo-hf similar`."""

import csv
import json
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..data.tables import kind_of
from ..errors import TextError
from .parameters import (
    DEFAULT_MODEL,
    FILES,
    Column,
    Device,
    HowMany,
    Model,
    ModelOfInputs,
    Precision,
    Pretokenized,
    Split,
    bad_parameters,
    model_and_inputs,
    quiet_transformers,
    refuse_unused_column_and_split,
)

if TYPE_CHECKING:
    from ..corpus.readers import ReadingOptions
    from ..data.sentences import Sentence
    from ..language_model import ElmoLanguageModel, TextScore
    from ..runtime.precisions import Precision as PrecisionName


def score(
    context: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] INPUT",
            help=f"Model folder, or name on the Hub. {DEFAULT_MODEL} Inputs: {FILES[0].lower()}{FILES[1:]}",
            show_default=False,
        ),
    ],
    model: ModelOfInputs = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the scores of each token, as JSON lines.")] = False,
    output_format: Annotated[
        Literal["surprisal"] | None,
        typer.Option(
            "--format",
            help="Format of the output. surprisal: a table, separated by tabs, with one row per word: its surprisal "
            "in bits, forward, backward and both; whether it is unknown; its length and log frequency. Default: one "
            "line per text.",
            show_default=False,
        ),
    ] = None,
    column: Column = None,
    split: Split = "train",
    pretokenized: Pretokenized = False,
    device: Device = None,
    precision: Precision = None,
):
    """
    Print the natural log-probabilities of lines or words.

    The columns are forward, backward, both, and the number of predicted tokens. With --format surprisal they are the
    surprisals of each word.

    Example: elmo-hf score my-elmo sentences.txt
    """
    if tokens and output_format is not None:
        raise typer.BadParameter("the table and --tokens are two formats: choose one.", param_hint="--format")
    from ..corpus.readers import ReadingOptions

    name, inputs = model_and_inputs(arguments, model)
    refuse_unused_column_and_split(context, map(kind_of, inputs))
    lm = _load(name, device, precision)
    scores = lm.score_iter(_texts(inputs, ReadingOptions(column=column, split=split, pretokenized=pretokenized)))
    if output_format == "surprisal":
        _write_surprisals(lm, scores)
        return
    write = _as_json if tokens else _as_columns
    for text_score in scores:
        typer.echo(write(text_score))


def _texts(inputs: list[str], options: "ReadingOptions") -> "Iterator[Sentence]":
    """The records of all inputs. A bar is shown on standard error unless the scores are shown in the terminal."""
    from tqdm import tqdm

    sources = [options.open(name) for name in inputs]
    sizes = [source.size for source in sources if source.size is not None]
    total = sum(sizes) if len(sizes) == len(sources) else None
    disable = True if sys.stdout.isatty() else None  # `None`: no bar if standard error is not a terminal
    with tqdm(total=total, desc="scoring", unit="B", unit_scale=True, disable=disable) as bar:
        for source in sources:
            for record in source.read(bar.update):
                if isinstance(record, TextError):
                    raise record
                yield record.text if record.words is None else record.words


def _as_columns(text_score: "TextScore") -> str:
    sums = (text_score.forward_sum, text_score.backward_sum, text_score.both_sum)
    return "\t".join([*(f"{value:.4f}" for value in sums), str(text_score.perplexity.targets)])


def _as_json(text_score: "TextScore") -> str:
    values = {
        name: None if log_probs is None else [round(value, 6) for value in log_probs.tolist()]
        for name, log_probs in (("forward", text_score.forward), ("backward", text_score.backward))
    }
    return json.dumps(
        {"tokens": text_score.tokens, "unknown": text_score.unknown.tolist()} | values, ensure_ascii=False
    )


def _write_surprisals(lm: "ElmoLanguageModel", scores: "Iterator[TextScore]"):
    """Prints a header and one row per word, quoted as R and pandas read it; what the model does not have is empty."""
    from ..language_model import FrequencyEstimate, WordSurprisal, word_surprisals

    frequencies = FrequencyEstimate(lm.tokenizer, lm.model.config.vocab_size)
    # The dialect quotes both characters of its line ending in a word; the lines themselves end as everywhere else.
    lines: Any = SimpleNamespace(write=lambda line: sys.stdout.write(line.removesuffix("\r\n") + "\n"))
    table = csv.writer(lines, dialect="excel-tab")
    table.writerow(WordSurprisal._fields)
    for line_number, text_score in enumerate(scores, start=1):
        for word in word_surprisals(text_score, line_number, frequencies):
            row = word._asdict() | {"unknown": int(word.unknown)}
            table.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in row.values()])


def next_words(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The beginning of a sentence.", show_default=False)],
    model: Model = None,
    k: HowMany = 10,
    device: Device = None,
    precision: Precision = None,
):
    """
    Print the most likely words after a text.

    Each word is preceded by its log-probability.

    Example: elmo-hf next "He sat on the"
    """
    with bad_parameters():
        for word, log_prob in _load(model, device, precision).next_words(text, k):
            typer.echo(f"{log_prob:8.3f}  {word}")


def previous_words(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The end of a sentence.", show_default=False)],
    model: Model = None,
    k: HowMany = 10,
    device: Device = None,
    precision: Precision = None,
):
    """
    Print the most likely words before a text.

    Each word is preceded by its log-probability.

    Example: elmo-hf previous "of the river."
    """
    with bad_parameters():
        for word, log_prob in _load(model, device, precision).previous_words(text, k):
            typer.echo(f"{log_prob:8.3f}  {word}")


def substitutes(
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help='A sentence with one word marked: "on the **bank**".', show_default=False),
    ],
    model: Model = None,
    k: HowMany = 10,
    device: Device = None,
    precision: Precision = None,
    rarity: Annotated[float, typer.Option(help="How strongly to prefer rare words, from 0 (not at all) to 1.")] = 0.0,
):
    """
    Print words that fit in place of a word.

    Each one is preceded by its log-probability given the words before the marked word (forward), those after it
    (backward), and both.

    Example: elmo-hf substitutes "He sat on the **bank** of the river."
    """
    with bad_parameters():
        candidates = _load(model, device, precision).substitutes(text, k=k, rarity=rarity)
    typer.echo(f"{'both':>8}{'forward':>9}{'backward':>9}")
    for word, log_prob, forward, backward in candidates:
        typer.echo(f"{log_prob:8.3f}{forward:9.3f}{backward:9.3f}  {word}")


def similar(
    word: Annotated[
        str, typer.Argument(metavar="WORD", help="Any word, in the vocabulary or not.", show_default=False)
    ],
    model: Model = None,
    k: HowMany = 10,
    device: Device = None,
    precision: Precision = None,
    vectors: Annotated[
        Literal["softmax", "encoder"] | None,
        typer.Option(
            help="Vectors to compare. softmax: by meaning (words that occur in the same contexts); encoder: by "
            "spelling. Default: softmax for a word in the vocabulary, encoder for any other.",
            show_default=False,
        ),
    ] = None,
):
    """
    Print the words most similar to a word.

    The vectors do not depend on a context. Each word is preceded by the cosine.

    Example: elmo-hf similar Paris
    """
    with bad_parameters():
        for neighbor, similarity in _load(model, device, precision).static_neighbors(word, k, vectors):
            typer.echo(f"{similarity:6.3f}  {neighbor}")


def _load(model: str | None, device: str | None, precision: "PrecisionName | None") -> "ElmoLanguageModel":
    from ..language_model import ElmoLanguageModel
    from ..runtime.model_loading import find_device, precision_options
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    name = find_named_model(model)
    return ElmoLanguageModel.from_pretrained(name, device=find_device(device), **precision_options(name, precision))


__all__ = ["next_words", "previous_words", "score", "similar", "substitutes"]
