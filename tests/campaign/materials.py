"""Tiny models, runs, indexes and checkpoints, made with the commands themselves."""

import json
import signal
import tarfile
from dataclasses import dataclass
from pathlib import Path

import torch

from elmo_hf.runtime.manifests import MANIFEST
from tests.campaign.commands import run
from tests.conversion.test_allennlp import tiny_state_dict
from tests.conversion.tiny_original import TinyOriginal
from tests.finetuning.toy import classification_run, tagging_run
from tests.pretraining.runs import command_line, random_documents, write_text, write_words

SENTENCES = "the cat sat on the mat .\n\nAnna saw the dog with a red hat .\nthe bank of the river\n"
FAST = ["--set", "batch_size=16", "--set", "learning_rate=0.02", "--set", "task_layer_size=12"]
EPOCHS = 4  # of a head's training
SEEDS = ["--seed", "0", "--seed", "1"]
PRETRAINING = {"steps": 12, "save_every": 4, "evaluate_every": 6}


@dataclass(frozen=True)
class Materials:
    """
    What the campaign damages, all below one folder.

    Attributes:
        text: Sentences, one per line.
        corpus, heldout, vocab: Of pretraining.
        bilm: A language model's folder.
        tagger, classifier: Folders of finished heads.
        finetuning: The folder of the tagger's training, killed after two of its epochs.
        seeds: The folder of a training with two seeds, killed after the first.
        both_seeds: The same at its end.
        pretraining: The folder of a finished run.
        interrupted: The same, killed after two thirds of its steps.
        index: An index of `text`.
        hdf5, allennlp: Folders with the files of old checkpoints.
    """

    folder: Path

    def __getattr__(self, name: str) -> Path:
        return self.folder / {"text": "text.txt", "corpus": "corpus.txt", "vocab": "vocab.txt"}.get(name, name)

    def pretrain(self, out: Path) -> list[str]:
        """The arguments of a run."""
        return [*command_line(self.corpus, self.vocab, out, **PRETRAINING), "--heldout", str(self.corpus)]

    def finetune(self, out: Path) -> list[str]:
        """The arguments of a head's training."""
        files = [f"--{split}={self.folder / split}.conll" for split in ("train", "dev")]
        return [
            "finetune",
            "tagging",
            *files,
            "--model",
            str(self.bilm),
            "--out",
            str(out),
            "--epochs",
            str(EPOCHS),
            *FAST,
        ]


def make_materials(folder: Path) -> Materials:
    """Makes them; a command that fails is an error."""
    made = Materials(folder)
    made.text.write_text(SENTENCES, "utf-8")
    write_text(made.corpus, random_documents([3, 4, 2, 5]))
    write_words(made.vocab)
    tagging_run(folder)
    classification_run(folder)
    files = [f"--{split}={folder / split}.jsonl" for split in ("train", "dev")]
    commands = [
        made.finetune(made.tagger),
        ["finetune", "classification", *files, "--model", made.bilm, "--out", made.classifier, "--epochs", "2", *FAST],
        made.pretrain(made.pretraining),
        ["index", made.text, "--model", made.bilm, "--out", made.index, "--exact"],
    ]
    for command in commands:
        outcome = run(*command)
        assert outcome.code == 0, outcome
    _interrupt_pretraining(made)
    _interrupt_finetuning(made)
    _interrupt_seeds(made)
    made.hdf5.mkdir()
    original = TinyOriginal(made.hdf5)
    original.options.rename(made.hdf5 / "options.json")
    original.weights.rename(made.hdf5 / "weights.hdf5")
    _write_allennlp(made.allennlp)
    return made


def _interrupt_pretraining(made: Materials):
    """Kills a run when its second checkpoint, after that of the beginning, is complete."""
    checkpoint = made.interrupted / "checkpoints" / f"step-{2 * PRETRAINING['save_every']:08d}"
    outcome = run(*made.pretrain(made.interrupted), kill_when=(checkpoint / MANIFEST).exists)
    assert outcome.code == -signal.SIGKILL, outcome
    assert not (made.interrupted / "model.safetensors").exists()


def _interrupt_finetuning(made: Materials):
    """Kills the tagger's training when it has two checkpoints."""
    checkpoints = made.finetuning / "checkpoints"
    outcome = run(*made.finetune(made.finetuning), kill_when=lambda: len([*checkpoints.glob(f"*/{MANIFEST}")]) == 2)
    assert outcome.code == -signal.SIGKILL, outcome
    assert not (made.finetuning / "results.json").exists()


def _interrupt_seeds(made: Materials):
    """Trains two seeds, and kills the same training when the first one is done."""
    outcome = run(*made.finetune(made.both_seeds), *SEEDS)
    assert outcome.code == 0, outcome
    outcome = run(*made.finetune(made.seeds), *SEEDS, kill_when=(made.seeds / ".seeds.json").exists)
    assert outcome.code == -signal.SIGKILL, outcome
    assert not (made.seeds / "results.json").exists()


def _write_allennlp(folder: Path):
    folder.mkdir()
    torch.save(tiny_state_dict(), folder / "weights.th")
    (folder / "config.json").write_text(json.dumps({"model": {"type": "simple_tagger"}}))
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(folder / "weights.th", "weights.th")
        archive.add(folder / "config.json", "config.json")
