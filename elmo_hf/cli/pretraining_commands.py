"""`elmo-hf vocab`, `elmo-hf pretrain` and `elmo-hf perplexity`."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from accelerate.utils import set_seed
from transformers.utils import logging

from .. import pretraining
from ..extras import require
from ..model_loading import find_device, precision_options
from ..processes import this_process
from ..tokenization_elmo import ElmoTokenizer
from ..vocabulary_elmo import write_vocabulary
from .models import find_named_model
from .parameters import Device, Precision, bad_parameters, model_and_texts, parse_assignments

Text = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT...",
        help="Files (plain, gz, bz2, xz, zst), folders, glob patterns, or datasets on disk or by name. One sentence a "
        "line, a blank line between documents.",
        show_default=False,
    ),
]
Pretokenized = Annotated[
    bool, typer.Option("--pretokenized", help="Words are what blanks separate; else the tokenizer finds them.")
]
Splitting = Annotated[Literal["treebank", "whitespace"], typer.Option(help="How the tokenizer cuts raw text.")]
Segmenter = Annotated[
    str | None, typer.Option(help='For text without blanks: "character", "run" or "jieba".', show_default=False)
]
Column = Annotated[str, typer.Option(help="The column of a dataset that holds the text.")]
Split = Annotated[str, typer.Option(help="The split of a dataset.")]


def vocab(
    text: Text,
    out: Annotated[Path, typer.Option("--out", help="The vocabulary file to write.", show_default=False)],
    size: Annotated[int, typer.Option(help="Words at most, <S>, </S> and <UNK> included.")] = 100_000,
    min_count: Annotated[int, typer.Option(help="Rarer words are left out.")] = 3,
    pretokenized: Pretokenized = False,
    splitting: Splitting = "treebank",
    segmenter: Segmenter = None,
    column: Column = "text",
    split: Split = "train",
):
    """
    The vocabulary of a text: its most frequent words, one a line.

    Example: elmo-hf vocab corpus/*.txt.gz --size 100000 --out vocab.txt
    """
    if out.exists():
        raise typer.BadParameter(f"{out} exists: name another file, or remove it.", param_hint="--out")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {out.parent}.", param_hint="--out")
    require(segmenter or "")
    corpus = pretraining.Corpus(text or [], column=column, split=split)
    with bad_parameters():
        tokenizer = ElmoTokenizer(**_tokenizer_options(splitting, segmenter))
        found = pretraining.build_vocabulary(
            corpus, tokenizer, size=size, min_count=min_count, pretokenized=pretokenized
        )
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        write_vocabulary(found.words, temporary)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
    share = found.covered / found.tokens
    typer.echo(f"{out}: {len(found.words):,} words cover {share:.2%} of {found.tokens:,} tokens")


def pretrain(
    text: Text = None,
    out: Annotated[Path, typer.Option("--out", help="The run's folder; in the end it holds the model.")] = Path(
        "elmo-run"
    ),
    vocab: Annotated[
        Path | None, typer.Option(help="vocab.txt, as `elmo-hf vocab` writes it.", show_default=False)
    ] = None,
    heldout: Annotated[
        list[str] | None, typer.Option(help="Held-out text for perplexity; may be repeated.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    from_model: Annotated[
        str | None,
        typer.Option("--from", metavar="MODEL", help="Start from a model, not from fresh weights.", show_default=False),
    ] = None,
    extend_vocab: Annotated[
        bool, typer.Option("--extend-vocab", help="With --from: add the words of --vocab that the model lacks.")
    ] = False,
    recipe: Annotated[Literal["modern", "original"], typer.Option(help="Optimiser, schedule, softmax.")] = "modern",
    size: Annotated[
        Literal["compact", "small", "medium", "original"], typer.Option(help="Of a fresh model.")
    ] = "compact",
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting of the recipe or field of the config: --set learning_rate=0.001 --set dropout=0.2",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.", show_default=False)] = None,
    epochs: Annotated[int | None, typer.Option(help="Times through the text.", show_default=False)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Streams of text per process.", show_default=False)] = None,
    pretokenized: Pretokenized = False,
    splitting: Splitting = "treebank",
    segmenter: Segmenter = None,
    column: Column = "text",
    split: Split = "train",
    tracker: Annotated[
        str | None, typer.Option(help="A tracker that Accelerate knows, e.g. tensorboard.", show_default=False)
    ] = None,
):
    """
    Pretrain a biLM: on one CPU, or on many processes when launched with torchrun or accelerate.

    Example: elmo-hf pretrain corpus/*.txt.gz --vocab vocab.txt --heldout heldout.txt --out my-elmo
    """
    require(segmenter or "", tracker or "")
    logging.set_verbosity_error()  # of transformers: what is wrong with a model is in our own message
    given = {"steps": steps, "epochs": epochs, "batch_size": batch_size}
    if steps and not epochs:
        given["epochs"] = None  # the text is read again until the steps are done
    chosen = {name: value for name, value in given.items() if value is not None or (name == "epochs" and steps)}
    with bad_parameters():
        chosen = parse_assignments(assignments) | chosen
        if resume:
            run = pretraining.Run.resume(out, **chosen)
        else:
            names = {field.name for field in fields(pretraining.PretrainingSettings)}
            settings = pretraining.PretrainingSettings.recipe(
                recipe, **{name: value for name, value in chosen.items() if name in names}
            )
            set_seed(settings.seed)  # for fresh weights
            model, tokenizer = pretraining.starting_point(
                find_named_model(from_model) if from_model else None,
                vocab,
                extend_vocabulary=extend_vocab,
                size=size,
                recipe=recipe,
                fields={name: value for name, value in chosen.items() if name not in names},
                tokenizer_options=_tokenizer_options(splitting, segmenter),
            )
            run = pretraining.Run.begin(
                out,
                model,
                tokenizer,
                pretraining.RunText(_absolute(text), _absolute(heldout), column, split, pretokenized),
                settings,
                tracker,
            )
    _train(run, compare=from_model is not None)


def _train(run: pretraining.Run, compare: bool):
    """Trains, and says what came of it; with `compare` also where the perplexity was before."""
    say = typer.echo if this_process().is_main_process else lambda _: None
    trainer = run.trainer
    if trainer.progress.step:
        say(f"{run.folder}: going on after step {trainer.progress.step:,}")
    if compare and (before := trainer.evaluate()):
        say(f"before: perplexity forward {before.forward:.2f}, backward {before.backward:.2f}")
        say(f"({pretraining.protocol(carry_state=False)}; {before.targets:,} words)")
    after = run.train()
    if trainer.was_interrupted:
        say(f"stopped and saved after step {trainer.progress.step:,}; elmo-hf pretrain --resume --out {run.folder}")
        return
    if after:
        say(f"after: perplexity forward {after.forward:.2f}, backward {after.backward:.2f}")
        say(f"({pretraining.protocol(carry_state=False)}; {after.targets:,} words)")
    progress = trainer.progress
    say(f"{run.folder}: {progress.step:,} steps, {progress.words:,} words, {progress.seconds / 3600:.2f} hours")


def perplexity(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] FILE...",
            help="A model folder or a name on the Hub (default: the model that comes with elmo-hf), and the texts.",
            show_default=False,
        ),
    ],
    pretokenized: Pretokenized = False,
    column: Column = "text",
    split: Split = "test",
    device: Device = None,
    precision: Precision = None,
):
    """
    Perplexity of each direction on each text: every sentence from a zero state, and with the state carried.

    Example: elmo-hf perplexity my-elmo heldout.txt
    """
    named, files = model_and_texts(arguments)
    corpora = [pretraining.Corpus(file, column=column, split=split) for file in files]
    model_name = find_named_model(named)
    logging.set_verbosity_error()  # of transformers: what is wrong with a model is in our own message
    model, tokenizer = pretraining.load_language_model(model_name, **precision_options(model_name, precision))
    model.to(find_device(device))
    encode = pretraining.SentenceEncoder(tokenizer, pretokenized)
    typer.echo(f"{'text':<32}{'state':>10}{'forward':>10}{'backward':>10}{'words':>12}")
    for file, corpus in zip(files, corpora, strict=True):
        for state in ("zero", "carried"):
            found = pretraining.perplexity(model, encode, corpus, carry_state=state == "carried")
            name = os.path.basename(os.path.normpath(file))[-30:]
            typer.echo(f"{name:<32}{state:>10}{found.forward:>10.2f}{found.backward:>10.2f}{found.targets:>12,}")
    typer.echo(f"({pretraining.protocol(carry_state=False)}; carried: along each document)")


def _tokenizer_options(splitting: str, segmenter: str | None) -> dict[str, Any]:
    return {"splitting": splitting} | ({"segmenter": segmenter} if segmenter else {})


def _absolute(sources: list[str] | None) -> list[str]:
    """For the run's folder, which may be resumed from elsewhere. Globs and names stay as they are."""
    return [os.path.abspath(source) if os.path.exists(source) else source for source in sources or []]


__all__ = ["perplexity", "pretrain", "vocab"]
