"""
A run of `elmo-hf pretrain` in a folder small enough to be committed, and back, so that it can go on on another machine:

    python -m elmo_hf.model_cards.carry_run store RUN FOLDER
    python -m elmo_hf.model_cards.carry_run restore FOLDER RUN --text 'english-*.txt.xz' --heldout heldout.txt.xz

The folder has the weights in 8 bits, the position in the text, the settings and the history. It has no text and no
state of the optimiser: a restored run continues with the document after the last one begun, from a zero state, and its
optimiser has seen a few batches with a learning rate of zero.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.pretraining import PretrainingSettings, Run, RunText
from elmo_hf.pretraining.checkpoints import newest_intact, read_manifest
from elmo_hf.pretraining.training import CHECKPOINTS, Pretrainer, Progress

RUN, HISTORY, POSITION, WEIGHTS = "run.json", "history.jsonl", "position.json", "weights.safetensors"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
SCALE, LARGEST = ".scale", 127
WARM_UP_STEPS = 60  # several times as long as the optimisers' averages


def store(run: Path, folder: Path):
    """
    Writes the newest checkpoint of a run.

    Args:
        run: The folder of the run.
        folder: Is made; files of the same names are replaced.
    """
    checkpoint = newest_intact(run / CHECKPOINTS)
    if checkpoint is None:
        raise FileNotFoundError(f"{run} has no complete checkpoint.")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(pack(load_file(checkpoint / "model.safetensors")), folder / WEIGHTS)
    for name in ("config.json", *TOKENIZER, HISTORY):
        shutil.copyfile(run / name, folder / name)
    description = json.loads((run / RUN).read_text("utf-8"))
    kept = {name: description[name] for name in ("settings", "tracker")}
    kept["text"] = {name: description["text"][name] for name in ("column", "split", "pretokenized")}
    streams = json.loads((checkpoint / "streams-0.json").read_text("utf-8"))
    progress = read_manifest(checkpoint)["progress"]
    _write(folder / RUN, kept)
    _write(folder / POSITION, {"progress": progress, "reader": streams["reader"]})


def restore(folder: Path, run: Path, text: list[str], heldout: list[str]) -> Progress:
    """
    Makes a run that `elmo-hf pretrain --resume` continues.

    Args:
        folder: Written by [`store`].
        run: A new folder.
        text, heldout: The sources that the run was begun with.
    """
    description = json.loads((folder / RUN).read_text("utf-8"))
    position = json.loads((folder / POSITION).read_text("utf-8"))
    model = ElmoForPreTraining(ElmoConfig.from_pretrained(folder))
    model.load_state_dict(unpack(load_file(folder / WEIGHTS)))
    settings = PretrainingSettings(**description["settings"])
    sources = RunText(text, heldout, **description["text"])
    begun = Run.begin(run, model, ElmoTokenizer.from_pretrained(folder), sources, settings, description["tracker"])
    trainer = begun.trainer
    for checkpoint in (run / CHECKPOINTS).iterdir():  # of the untrained run
        shutil.rmtree(checkpoint)
    trainer.streams.reader.load_state_dict(position["reader"])
    trainer.streams._must_fill = False  # the next documents may be the last of an epoch
    _fill_averages(trainer)
    trainer.streams.reader.load_state_dict(position["reader"])
    for stream in trainer.streams._streams:
        stream.load_state_dict({"sentences": [], "offset": 0, "is_new": False})
    trainer.state = None
    trainer.progress = Progress(**position["progress"])
    shutil.copyfile(folder / HISTORY, run / HISTORY)
    trainer.save()
    return trainer.progress


def pack(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights in 8 bits, with a scale per row. Vectors stay as they are."""
    packed = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            packed[name] = weight
            continue
        scale = weight.abs().amax(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / LARGEST
        packed[name], packed[name + SCALE] = (weight / scale).round().to(torch.int8), scale
    return packed


def unpack(packed: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights that [`pack`] was given, each to half a step of its row's scale."""
    names = [name for name in packed if not name.endswith(SCALE)]
    return {name: packed[name] * packed[name + SCALE] if name + SCALE in packed else packed[name] for name in names}


def _fill_averages(trainer: Pretrainer):
    """Updates the optimiser's averages without a change of the weights."""
    trainer.model.train()
    for _ in range(WARM_UP_STEPS):
        if (window := trainer.streams.take()) is None:
            break
        trainer._accumulate([window], window.targets)
        trainer._clip()
        for group in trainer.optimizer.param_groups:
            group["lr"] = 0.0
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()


def _write(path: Path, values: dict[str, Any]):
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def main():
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="python -m elmo_hf.model_cards.carry_run", description=__doc__.split("\n\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, first, second in (("store", "run", "folder"), ("restore", "folder", "run")):
        command = commands.add_parser(name)
        command.add_argument(first, type=Path)
        command.add_argument(second, type=Path)
    commands.choices["restore"].add_argument("--text", nargs="+", required=True)
    commands.choices["restore"].add_argument("--heldout", nargs="*", default=[])
    options = parser.parse_args()
    if options.command == "store":
        store(options.run, options.folder)
    else:
        progress = restore(options.folder, options.run, options.text, options.heldout)
        hours = progress.cpu_seconds / 3600
        print(f"{options.run}: {progress.step:,} steps, {progress.words:,} words, {hours:.2f} CPU hours")


if __name__ == "__main__":
    main()
