"""`elmo-hf score`, `elmo-hf next`, `elmo-hf previous`, `elmo-hf substitutes` and `elmo-hf similar`."""

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Literal

import typer
from tqdm import tqdm
from transformers.utils import logging

from ..embedding.readers import ReadingOptions
from ..embedding.sentences import Sentence
from ..errors import TextError
from ..language_model import ElmoLanguageModel, TextScore
from ..model_loading import Precision as PrecisionName
from ..model_loading import find_device, precision_options
from .models import find_named_model
from .parameters import Device, Precision, bad_parameters, model_and_texts

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A model folder or a name on the Hub. Default: the model that comes with elmo-hf.",
        show_default=False,
    ),
]
Number = Annotated[int, typer.Option("-k", "--number", help="How many words.")]


def score(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] INPUT...",
            help="A model folder or a name on the Hub (default: the model that comes with elmo-hf), and files as for "
            "`elmo-hf embed`: text (one sentence a line), .conll, .jsonl, .csv ...; - is standard input.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="The model; all arguments are then inputs.", show_default=False)
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Every token's, as JSON lines.")] = False,
    pretokenized: Annotated[
        bool, typer.Option("--pretokenized", help="Words are what blanks separate; else the tokenizer finds them.")
    ] = False,
    device: Device = None,
    precision: Precision = None,
):
    """
    How likely each line is: its log-probability forward, backward and both, and how many tokens were predicted.

    Example: elmo-hf score my-elmo sentences.txt
    """
    name, inputs = model_and_texts(arguments, model)
    lm = _load(name, device, precision)
    write = _as_json if tokens else _as_columns
    for text_score in lm.score_iter(_texts(inputs, ReadingOptions(words=pretokenized))):
        typer.echo(write(text_score))


def _texts(inputs: list[str], options: ReadingOptions) -> Iterator[Sentence]:
    """The records of all inputs; a bar on standard error where nothing else is on the screen."""
    sources = [options.open(name) for name in inputs]
    sizes = [source.size for source in sources if source.size is not None]
    total = sum(sizes) if len(sizes) == len(sources) else None
    hidden = True if sys.stdout.isatty() else None  # `None`: where standard error is no screen
    with tqdm(total=total, desc="scoring", unit="B", unit_scale=True, disable=hidden) as bar:
        for source in sources:
            for record in source.read(bar.update):
                if isinstance(record, TextError):
                    raise record
                yield record.text if record.words is None else record.words


def _as_columns(found: TextScore) -> str:
    sums = (found.forward_sum, found.backward_sum, found.both_sum)
    return "\t".join([*(f"{value:.4f}" for value in sums), str(found.perplexity.targets)])


def _as_json(found: TextScore) -> str:
    values = {
        name: None if log_probs is None else [round(value, 6) for value in log_probs.tolist()]
        for name, log_probs in (("forward", found.forward), ("backward", found.backward))
    }
    return json.dumps({"tokens": found.tokens, "unknown": found.unknown.tolist()} | values, ensure_ascii=False)


def next_words(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The beginning of a sentence.", show_default=False)],
    model: Model = None,
    number: Number = 10,
    device: Device = None,
    precision: Precision = None,
):
    """
    The most likely words after a text, and their log-probability.

    Example: elmo-hf next "He sat on the"
    """
    with bad_parameters():
        for word, log_prob in _load(model, device, precision).next_words(text, number):
            typer.echo(f"{log_prob:8.3f}  {word}")


def previous_words(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The end of a sentence.", show_default=False)],
    model: Model = None,
    number: Number = 10,
    device: Device = None,
    precision: Precision = None,
):
    """
    The most likely words before a text, and their log-probability.

    Example: elmo-hf previous "of the river."
    """
    with bad_parameters():
        for word, log_prob in _load(model, device, precision).previous_words(text, number):
            typer.echo(f"{log_prob:8.3f}  {word}")


def substitutes(
    text: Annotated[
        str,
        typer.Argument(metavar="TEXT", help='A sentence with one word marked: "on the **bank**".', show_default=False),
    ],
    model: Model = None,
    number: Number = 10,
    device: Device = None,
    precision: Precision = None,
    rarity: Annotated[float, typer.Option(help="How much rare words are preferred: 0 to 1.")] = 0.0,
):
    """
    Words that fit in another's place, by their log-probability after what stands before and before what stands after.

    Example: elmo-hf substitutes "He sat on the **bank** of the river."
    """
    with bad_parameters():
        found = _load(model, device, precision).substitutes(text, k=number, rarity=rarity)
    typer.echo(f"{'both':>8}{'forward':>9}{'backward':>9}")
    for word, log_prob, forward, backward in found:
        typer.echo(f"{log_prob:8.3f}{forward:9.3f}{backward:9.3f}  {word}")


def similar(
    word: Annotated[str, typer.Argument(metavar="WORD", help="Known or not.", show_default=False)],
    model: Model = None,
    number: Number = 10,
    device: Device = None,
    precision: Precision = None,
    vectors: Annotated[
        Literal["softmax", "encoder"] | None,
        typer.Option(
            help="softmax compares by meaning (words that occur in the same contexts), encoder by spelling. Default: "
            "softmax for a word of the vocabulary, encoder for any other.",
            show_default=False,
        ),
    ] = None,
):
    """
    The words whose vectors are nearest, whatever the context, and their cosine.

    Example: elmo-hf similar Paris
    """
    with bad_parameters():
        for neighbor, similarity in _load(model, device, precision).static_neighbors(word, number, vectors):
            typer.echo(f"{similarity:6.3f}  {neighbor}")


def _load(model: str | None, device: str | None, precision: PrecisionName | None) -> ElmoLanguageModel:
    logging.set_verbosity_error()  # of transformers: what is wrong is in our own message
    name = find_named_model(model)
    return ElmoLanguageModel.from_pretrained(name, device=find_device(device), **precision_options(name, precision))


__all__ = ["next_words", "previous_words", "score", "similar", "substitutes"]
