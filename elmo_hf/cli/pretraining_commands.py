"""`elmo-hf vocab`, `elmo-hf pretrain` and `elmo-hf perplexity`."""

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import counted
from ..runtime.extras import require
from .parameters import (
    DEFAULT_MODEL,
    Device,
    ModelOfInputs,
    Precision,
    Pretokenized,
    Split,
    bad_parameters,
    is_given,
    model_and_inputs,
    parse_assignments,
    quiet_transformers,
    refuse_beside_resume,
    refuse_unused_column_and_split,
)

if TYPE_CHECKING:
    from .. import pretraining

TEXTS = (
    "Files (plain, gz, bz2, xz, zst), folders, glob patterns, or datasets on disk or by name. Text has one sentence "
    "per line and a blank line between documents; each row of a .jsonl, .csv, .tsv or .parquet file is a document."
)
Inputs = Annotated[list[str] | None, typer.Argument(metavar="INPUT", help=TEXTS, show_default=False)]
Splitting = Annotated[
    Literal["treebank", "whitespace"], typer.Option(help="How the tokenizer splits raw text into words.")
]
Segmenter = Annotated[
    Literal["character", "run", "jieba"] | None,
    typer.Option(
        help="How to segment text without spaces between words: each character is a word, a run of such characters is "
        "a word, or jieba (Chinese).",
        show_default=False,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the run in --out after its last checkpoint, with the options that it was begun with. --steps, "
        "--epochs and settings of the training (--set) may be changed.",
    ),
]
APPLIED_ON_RESUME = ("out", "resume", "steps", "epochs", "batch_size", "assignments")
Column = Annotated[
    str | None,
    typer.Option(
        "--column",
        help="Column of a table or a dataset that holds the text. Default: text or sentence.",
        show_default=False,
    ),
]


def vocab(
    context: typer.Context,
    inputs: Inputs,
    out: Annotated[Path, typer.Option("--out", help="File to write.", show_default=False)],
    size: Annotated[int, typer.Option(min=1, help="Maximum number of words, including <S>, </S> and <UNK>.")] = 100_000,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 3,
    pretokenized: Pretokenized = False,
    splitting: Splitting = "treebank",
    segmenter: Segmenter = None,
    column: Column = None,
    split: Split = "train",
):
    """
    Write the vocabulary of a text.

    It holds the most frequent words, one per line.

    Example: elmo-hf vocab corpus/*.txt.gz --size 100000 --out vocab.txt
    """
    if out.exists():
        raise typer.BadParameter(f"{out} exists: name another file, or remove it.", param_hint="--out")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {out.parent}.", param_hint="--out")
    require(segmenter or "")
    from .. import pretraining
    from ..modeling.tokenization_elmo import ElmoTokenizer
    from ..modeling.tokenizer_files_elmo import write_vocabulary

    quiet_transformers()
    corpus = pretraining.Corpus(inputs or [], column=column, split=split)
    refuse_unused_column_and_split(context, corpus.kinds)
    with bad_parameters():
        tokenizer = ElmoTokenizer(**_tokenizer_options(splitting, segmenter))
        vocabulary = pretraining.build_vocabulary(
            corpus, tokenizer, size=size, min_count=min_count, pretokenized=pretokenized
        )
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        write_vocabulary(vocabulary.words, temporary)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    words, tokens = counted(len(vocabulary.words), "word"), counted(vocabulary.tokens, "token")
    typer.echo(f"{out}: {words} cover {vocabulary.covered / vocabulary.tokens:.2%} of {tokens}")


def pretrain(
    context: typer.Context,
    inputs: Inputs = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the run, which holds the model when the training is done.")
    ] = Path("elmo-run"),
    vocab: Annotated[
        Path | None, typer.Option(help="Vocabulary file, as `elmo-hf vocab` writes it.", show_default=False)
    ] = None,
    heldout: Annotated[
        list[str] | None,
        typer.Option(help="Held-out text to measure the perplexity on. May be repeated.", show_default=False),
    ] = None,
    resume: Resume = False,
    from_model: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Model folder, or name on the Hub, to start from. Default: random weights.",
            show_default=False,
        ),
    ] = None,
    extend_vocab: Annotated[
        bool, typer.Option("--extend-vocab", help="With --from: add the words of --vocab that the model does not have.")
    ] = False,
    recipe: Annotated[Literal["modern", "original"], typer.Option(help="Optimiser, schedule and softmax.")] = "modern",
    size: Annotated[
        Literal["compact", "small", "medium", "original"], typer.Option(help="Size of a new model.")
    ] = "compact",
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting of the training or field of the config: --set learning_rate=0.001 --set dropout=0.2. May "
            "be repeated.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of optimiser steps.", show_default=False)] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of passes over the text.", show_default=False)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Streams of text per batch and process.", show_default=False)
    ] = None,
    pretokenized: Pretokenized = False,
    splitting: Splitting = "treebank",
    segmenter: Segmenter = None,
    spelling: Annotated[
        Literal["bytes", "code-points"],
        typer.Option(
            help="What a new model reads of a word: its UTF-8 bytes, or its Unicode characters, with a table of those "
            "in --vocab. The latter is better for Chinese."
        ),
    ] = "bytes",
    column: Column = None,
    split: Split = "train",
    tracker: Annotated[
        str | None, typer.Option(help="Experiment tracker of Accelerate, such as tensorboard.", show_default=False)
    ] = None,
):
    """
    Pretrain a biLM.

    The training runs in one process, on an accelerator if there is one, or in many when launched with torchrun or
    accelerate.

    Example: elmo-hf pretrain corpus/*.txt.gz --vocab vocab.txt --heldout heldout.txt --out my-elmo
    """
    if resume:
        refuse_beside_resume(context, APPLIED_ON_RESUME)
    for name in ("segmenter", "spelling", "splitting", "size"):
        if from_model and is_given(context, name):
            raise typer.BadParameter(
                "--from takes the tokenizer and the size of the model as they are: leave it out.",
                param_hint=f"--{name}",
            )
    require(segmenter or "", tracker or "")
    from accelerate.utils import set_seed

    from .. import pretraining
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    with bad_parameters():
        chosen = parse_assignments(assignments) | _length_and_batch_size(steps, epochs, batch_size)
        if resume:
            run = pretraining.Run.resume(out, **chosen)
        else:
            if is_given(context, "column") or is_given(context, "split"):
                corpus = pretraining.Corpus([*(inputs or []), *(heldout or [])], column=column, split=split)
                refuse_unused_column_and_split(context, corpus.kinds)
            settings, fields = _settings_and_fields(recipe, chosen)
            set_seed(settings.seed)  # of a new model's weights
            language_model, tokenizer = pretraining.starting_point(
                find_named_model(from_model) if from_model else None,
                vocab,
                extend_vocabulary=extend_vocab,
                spelling=spelling,
                size=size,
                recipe=recipe,
                fields=fields,
                tokenizer_options=_tokenizer_options(splitting, segmenter),
            )
            text = pretraining.RunText(inputs or [], heldout or [], column, split, pretokenized)
            run = pretraining.Run.begin(out, language_model, tokenizer, text, settings, tracker)
    _train(run, compare=from_model is not None)


def _length_and_batch_size(steps: int | None, epochs: int | None, batch_size: int | None) -> dict[str, int | None]:
    """The settings among these options that are given."""
    options = {"steps": steps, "epochs": epochs, "batch_size": batch_size}
    chosen = {name: value for name, value in options.items() if value is not None}
    # With a number of steps only, the text is read again until they are done.
    return chosen | ({"epochs": None} if steps and not epochs else {})


def _settings_and_fields(
    recipe: Literal["modern", "original"], chosen: dict[str, Any]
) -> "tuple[pretraining.PretrainingSettings, dict[str, Any]]":
    """The settings of a recipe with the chosen values, and the chosen fields of the config: all other names."""
    from .. import pretraining

    names = {field.name for field in dataclasses.fields(pretraining.PretrainingSettings)}
    settings = {name: value for name, value in chosen.items() if name in names}
    fields = {name: value for name, value in chosen.items() if name not in names}
    return pretraining.PretrainingSettings.recipe(recipe, **settings), fields


def _train(run: "pretraining.Run", compare: bool):
    """Trains and prints the results; with `compare` also the perplexity before the training."""
    from .. import pretraining
    from ..runtime.processes import this_process

    say = typer.echo if this_process().is_main_process else lambda _: None
    protocol = pretraining.protocol(carry_state=False)
    trainer = run.trainer
    if trainer.progress.step:
        say(f"{run.folder}: continuing after step {trainer.progress.step:,}")
    if compare and (before := trainer.evaluate()):
        say(f"before: perplexity forward {before.forward:.2f}, backward {before.backward:.2f}")
        say(f"({protocol}; {counted(before.targets, 'word')})")
    after = run.train()
    progress = trainer.progress
    if trainer.was_interrupted:
        say(f"stopped and saved after step {progress.step:,}")
        say(f"to continue: elmo-hf pretrain --resume --out {run.folder}")
        return
    if after:
        say(f"after: perplexity forward {after.forward:.2f}, backward {after.backward:.2f}")
        say(f"({protocol}; {counted(after.targets, 'word')})")
    steps, words = counted(progress.step, "step"), counted(progress.words, "word")
    say(f"{run.folder}: {steps}, {words}, {progress.seconds / 3600:.2f} hours")


def perplexity(
    context: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] INPUT",
            help=f"Model folder, or name on the Hub. {DEFAULT_MODEL} Inputs: {TEXTS[0].lower()}{TEXTS[1:]}",
            show_default=False,
        ),
    ],
    model: ModelOfInputs = None,
    pretokenized: Pretokenized = False,
    column: Column = None,
    split: Split = "test",
    device: Device = None,
    precision: Precision = None,
):
    """
    Print the perplexity of texts.

    It is measured for each direction, with a zero state at the beginning of every sentence, and with the state carried
    from sentence to sentence.

    Example: elmo-hf perplexity my-elmo heldout.txt
    """
    from .. import pretraining
    from ..runtime.model_loading import find_device, precision_options
    from ..runtime.named_models import find_named_model

    quiet_transformers()
    model_name, inputs = model_and_inputs(arguments, model)
    corpora = [pretraining.Corpus(source, column=column, split=split) for source in inputs]
    refuse_unused_column_and_split(context, set().union(*(corpus.kinds for corpus in corpora)))
    name = find_named_model(model_name)
    language_model, tokenizer = pretraining.load_language_model(name, **precision_options(name, precision))
    language_model.to(find_device(device))
    encode = pretraining.SentenceEncoder(tokenizer, pretokenized)
    typer.echo(f"{'text':<32}{'state':>10}{'forward':>10}{'backward':>10}{'words':>12}")
    for source, corpus in zip(inputs, corpora, strict=True):
        title = os.path.basename(os.path.normpath(source))[-30:]
        for state in ("zero", "carried"):
            result = pretraining.perplexity(language_model, encode, corpus, carry_state=state == "carried")
            typer.echo(f"{title:<32}{state:>10}{result.forward:>10.2f}{result.backward:>10.2f}{result.targets:>12,}")
    typer.echo(f"({pretraining.protocol(carry_state=False)}; carried: along each document)")


def _tokenizer_options(splitting: str, segmenter: str | None) -> dict[str, Any]:
    return {"splitting": splitting} | ({"segmenter": segmenter} if segmenter else {})


__all__ = ["perplexity", "pretrain", "vocab"]
