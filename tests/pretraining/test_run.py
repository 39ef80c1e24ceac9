"""A run is begun or not at all, survives any kill, alone or in company, and ends in a model that loads."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from elmo_hf.errors import CheckpointError, FolderError, RunError, TextError
from elmo_hf.pretraining import Corpus, Run, RunText, SentenceEncoder, checkpoints, perplexity
from elmo_hf.pretraining import run as run_module
from elmo_hf.publishing import read_history, write_card
from tests.locked import HOLD_LOCK
from tests.pretraining.forked import ENVIRONMENT, run_plan
from tests.pretraining.runs import (
    command_line,
    count_targets,
    random_documents,
    recorded_losses,
    tiny_language_model,
    tiny_settings,
    tiny_tokenizer,
    write_text,
    write_words,
)
from tests.pretraining.test_training import files_of_at_most

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = random_documents([3, 1, 4, 2, 5, 3])


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt", DOCUMENTS)


@pytest.fixture
def begin(text):
    """Begins a tiny run."""

    def begin(folder, *, sources=None, heldout=(), tracker=None, **changes):
        run_text = RunText([str(text)] if sources is None else sources, [str(path) for path in heldout])
        run_text.pretokenized = True
        return Run.begin(folder, tiny_language_model(), tiny_tokenizer(), run_text, tiny_settings(**changes), tracker)

    return begin


def description(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


# ---- The folder.


def test_a_finished_run_is_a_model_folder_that_the_auto_classes_load(begin, text, tmp_path):
    run = begin(tmp_path / "run", heldout=[text], steps=5)
    result = run.train()
    model = AutoModelForPreTraining.from_pretrained(tmp_path / "run")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert tokenizer.get_vocab() == run.tokenizer.get_vocab()
    assert perplexity(model, SentenceEncoder(tokenizer, True), Corpus(text)) == result
    trained = run.trainer.unwrapped.state_dict()
    assert [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, trained[name])] == []

    encoder = AutoModel.from_pretrained(tmp_path / "run").eval()
    batch = tokenizer("the cat sees a zebra", return_tensors="pt", return_token_type_ids=False)
    labels = {"labels": batch["input_ids"].roll(-1), "backward_labels": batch["input_ids"].roll(1)}
    with torch.no_grad():
        top = encoder(**batch, output_hidden_states=True).hidden_states[-1]
        output = model.eval()(**batch, **labels)
    torch.testing.assert_close(top, output.last_hidden_state)
    for loss, part, wanted in zip(
        (output.forward_loss, output.backward_loss), top.chunk(2, dim=-1), labels.values(), strict=True
    ):
        torch.testing.assert_close(-model.softmax.log_probs(part[0])[range(7), wanted[0]].mean(), loss)


def test_a_finished_run_has_a_card_with_its_perplexity(begin, text, tmp_path):
    result = begin(tmp_path / "run", heldout=[text], steps=5).train()
    card = ModelCard.load(tmp_path / "run" / "README.md")
    rounded = [round(value, 2) for value in (result.forward, result.backward)]
    assert [value.metric_value for value in card.data.eval_results] == rounded
    assert "\n# run\n" in card.content
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir() if path.is_file()}
    assert len(modes) == 1  # weights are for the same eyes as the rest


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_model_of_one_direction_is_trained_to_the_end(text, tmp_path, direction):
    model = tiny_language_model(directions=direction)
    Run.begin(
        tmp_path / "run", model, tiny_tokenizer(), RunText([str(text)], [str(text)]), tiny_settings(steps=2)
    ).train()
    assert f"| {direction} | " in (tmp_path / "run" / "README.md").read_text()


def test_what_was_said_on_a_card_and_a_card_written_by_hand_stay_when_a_run_goes_on(begin, tmp_path):
    folder = tmp_path / "run"
    begin(folder, steps=2).train()
    write_card(folder, said={"license": "mit"})
    Run.resume(folder, steps=3).train()
    assert ModelCard.load(folder / "README.md").data.license == "mit"
    (folder / "README.md").write_text("Mine.\n")
    Run.resume(folder, steps=4).train()
    assert (folder / "README.md").read_text() == "Mine.\n"


def test_config_tokenizer_and_a_first_checkpoint_are_there_from_the_beginning(begin, tmp_path):
    begin(tmp_path / "new" / "run", steps=5)
    folder = tmp_path / "new" / "run"
    assert AutoTokenizer.from_pretrained(folder).vocab_size == 23
    assert checkpoints.newest_complete(folder / "checkpoints").name == "step-00000000"
    assert not (folder / "model.safetensors").exists()
    assert Run.resume(folder).train() is None
    assert (folder / "model.safetensors").exists()


def test_the_schedule_is_as_long_as_the_text(begin, tmp_path):
    run = begin(tmp_path / "run", epochs=2, accumulate=2)
    assert run.trainer.total_steps == -(-2 * count_targets(DOCUMENTS) // (2 * 5 * 2))


def test_the_same_seed_gives_the_same_run(begin, tmp_path):
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        begin(tmp_path / name, steps=4, seed=seed).train()
    assert recorded_losses(tmp_path / "one") == recorded_losses(tmp_path / "same")
    assert recorded_losses(tmp_path / "one") != recorded_losses(tmp_path / "other")


# ---- A run that cannot begin leaves nothing behind.


def paths_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("kind", ["run", "files", "file"])
def test_a_folder_in_use_is_refused_and_untouched(begin, tmp_path, kind):
    folder = tmp_path / "used"
    if kind == "run":
        begin(folder, steps=1)
    elif kind == "files":
        folder.mkdir()
        (folder / "mine").write_text("precious")
    else:
        folder.write_text("precious")
    before = paths_in(tmp_path)
    with pytest.raises(
        (FolderError, RunError),
        match="already holds a run: continue with --resume" if kind == "run" else "not an empty",
    ):
        begin(folder, steps=1)
    assert paths_in(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"batch_size": 7}, r"The text has 6 documents, fewer than the 7 streams: lower the batch size"),
        ({"sources": []}, "No text was given"),
        ({"sources": ["missing.txt"]}, "No such file or folder: missing.txt"),
        ({"heldout": ["missing.txt"]}, "No such file or folder: missing.txt"),
        ({"sources": ["{folder}/empty.txt"]}, "not a single sentence in"),
        ({"heldout": ["{folder}/empty.txt"]}, "not a single sentence in"),
        ({"sources": ["{folder}/binary"]}, "binary, line 1, is not UTF-8 text"),
        ({"heldout": ["{folder}/binary"]}, "binary, line 1, is not UTF-8 text"),
        ({"tracker": "nonsense"}, "There is no tracker 'nonsense' here: .* choose one of .*tensorboard"),
        ({"tracker": "wandb"}, "There is no tracker 'wandb' here: install its package"),
    ],
    ids=str,
)
@pytest.mark.parametrize("limit", [{"steps": 5}, {"epochs": 1}], ids=str)
@pytest.mark.parametrize("exists", [False, True])
def test_a_mistake_at_the_start_leaves_the_folder_as_it_was(begin, tmp_path, arguments, error, limit, exists):
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    arguments = {
        name: [part.format(folder=tmp_path) for part in value] if isinstance(value, list) else value
        for name, value in arguments.items()
    }
    if exists:
        (tmp_path / "new" / "run").mkdir(parents=True)
    before = paths_in(tmp_path)
    with pytest.raises((TextError, RunError), match=error) as caught:
        begin(tmp_path / "new" / "run", **(arguments | limit))
    assert "\n" not in str(caught.value)
    assert paths_in(tmp_path) == before


@pytest.mark.parametrize("exists", [False, True])
def test_a_first_checkpoint_that_cannot_be_written_leaves_nothing(begin, tmp_path, exists):
    if exists:
        (tmp_path / "new" / "run").mkdir(parents=True)
    before = paths_in(tmp_path)
    with files_of_at_most(9_000), pytest.raises((CheckpointError, OSError)):
        begin(tmp_path / "new" / "run", steps=1)
    assert paths_in(tmp_path) == before
    begin(tmp_path / "new" / "run", steps=1)


# ---- Resume.


def test_there_must_be_a_run_to_resume(begin, tmp_path):
    with pytest.raises(RunError, match=r"holds no run \(run.json is missing\): leave out --resume"):
        Run.resume(tmp_path)
    run = begin(tmp_path / "run", steps=1)
    (run.folder / "checkpoints" / "step-00000000" / "model.safetensors").unlink()
    with pytest.raises(RunError, match="has no complete checkpoint: the run never began; remove the folder"):
        Run.resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"batch_size": 3}, "was made by a run of .*'batch_size': 2"),
        ({"learning_rat": 1}, "learning_rat cannot be changed on resume"),
        ({"dropout": 0.5, "steps": 9}, "dropout cannot be changed on resume"),
        ({"learning_rate": "high"}, "learning_rate"),
        ({"steps": 0}, "steps"),
        ({"seed": 1}, "seed cannot be changed on resume"),
        ({"optimizer": "adagrad"}, "optimizer cannot be changed on resume"),
    ],
    ids=str,
)
def test_a_resume_with_a_mistake_does_not_change_the_run(begin, tmp_path, changes, error):
    begin(tmp_path / "run", steps=2)
    before = description(tmp_path / "run")
    with pytest.raises(Exception, match=error):
        Run.resume(tmp_path / "run", **changes)
    assert description(tmp_path / "run") == before
    Run.resume(tmp_path / "run").train()


def test_more_steps_prolong_a_run_as_if_it_had_been_begun_with_them(begin, tmp_path):
    constant = {"decay_share": 0.0}
    begin(tmp_path / "long", steps=8, **constant).train()
    begin(tmp_path / "run", steps=3, **constant).train()
    again = Run.resume(tmp_path / "run", steps=8)
    assert again.trainer.total_steps == 8
    again.train()
    assert recorded_losses(tmp_path / "run") == recorded_losses(tmp_path / "long")
    assert description(tmp_path / "run")["settings"]["steps"] == 8


def prolonged(begin, folder: Path, decay_share: float, damage: bool) -> tuple[dict[int, float], bytes]:
    """The learning rates by step, and the weights, of a run of 6 steps that is prolonged to 10, after damage or not."""
    begin(folder, steps=6, save_every=2, decay_share=decay_share).train()
    if damage:
        newest = max((folder / "checkpoints").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        weights = next(newest.rglob("*.safetensors"))
        weights.write_bytes(weights.read_bytes()[:-1])
    again = Run.resume(folder, steps=10)
    assert again.trainer.progress.step == (4 if damage else 6)
    again.train()
    rates = {
        record["step"]: record["learning_rate"]
        for record in read_history(folder / "history.jsonl")
        if "learning_rate" in record
    }
    return rates, (folder / "model.safetensors").read_bytes()


def test_a_prolonged_run_that_repeats_steps_has_other_weights_only_by_the_longer_schedule(begin, tmp_path):
    rates, weights = prolonged(begin, tmp_path / "whole", 1.0, damage=False)
    repeated, other = prolonged(begin, tmp_path / "damaged", 1.0, damage=True)
    assert {step for step in rates if rates[step] != repeated[step]} == {5, 6}  # steps that 6 planned, and 10 repeat
    assert all(repeated[step] > rates[step] for step in (5, 6))
    assert other != weights
    constant = [prolonged(begin, tmp_path / f"constant-{damage}", 0.0, damage) for damage in (False, True)]
    assert constant[0] == constant[1]


def test_a_run_of_one_epoch_goes_on_with_a_second(begin, tmp_path):
    begin(tmp_path / "run", epochs=1, decay_share=0.0).train()
    steps = max(recorded_losses(tmp_path / "run"))
    again = Run.resume(tmp_path / "run", epochs=2)
    assert again.trainer.total_steps == 2 * description(tmp_path / "run")["total_steps"] / 2
    assert again.trainer.settings.learning_rate_at(steps + 1, again.trainer.total_steps) > 0
    again.train()
    assert again.trainer.progress.words == 2 * count_targets(DOCUMENTS)


def test_more_steps_go_on_after_the_last_epoch(begin, tmp_path):
    begin(tmp_path / "run", epochs=1).train()
    steps = max(recorded_losses(tmp_path / "run"))
    again = Run.resume(tmp_path / "run", steps=steps + 5, epochs=None)
    again.train()
    assert max(recorded_losses(tmp_path / "run")) == steps + 5


def test_a_finished_run_that_is_resumed_is_finished(begin, text, tmp_path):
    run = begin(tmp_path / "run", heldout=[text], steps=3)
    result = run.train()
    weights = (tmp_path / "run" / "model.safetensors").read_bytes()
    (tmp_path / "run" / "model.safetensors").unlink()  # killed after the last checkpoint
    assert Run.resume(tmp_path / "run").train() == result
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights


def test_the_precision_of_a_run_is_chosen_once(begin, tmp_path):
    begin(tmp_path / "run", steps=1)
    assert Run.resume(tmp_path / "run", mixed_precision="auto").trainer.settings.mixed_precision == "no"


def test_a_model_that_cannot_be_written_is_one_line_and_the_run_can_be_finished(begin, tmp_path):
    run = begin(tmp_path / "run", steps=2)
    run.trainer.train()
    before = paths_in(tmp_path)
    with files_of_at_most(5_000), pytest.raises(CheckpointError, match=r"could not be written .* resume") as caught:
        run.save_model()
    assert "\n" not in str(caught.value)
    assert paths_in(tmp_path) == before
    Run.resume(tmp_path / "run").train()
    AutoModel.from_pretrained(tmp_path / "run")


def test_a_tracker_gets_the_last_evaluation_too(begin, text, tmp_path):
    pytest.importorskip("tensorboard")
    run = begin(tmp_path / "run", heldout=[text], steps=2, tracker="tensorboard")
    (tracker,) = run.trainer.accelerator.trackers
    with mock.patch.object(tracker, "finish", side_effect=tracker.finish) as finish:
        run.train()
    finish.assert_called_once_with()
    written = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*tfevents*"))
    assert b"backward_perplexity" in written
    assert b"loss" in written


def test_a_damaged_checkpoint_costs_the_steps_since_the_one_before_and_no_number(begin, tmp_path):
    begin(tmp_path / "whole", steps=9, save_every=3).train()
    begin(tmp_path / "run", steps=9, save_every=3).train()
    damaged = tmp_path / "run" / "checkpoints" / "step-00000009" / "random_states_0.pkl"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 4
    damaged.write_bytes(content)
    again = Run.resume(tmp_path / "run")
    assert again.trainer.progress.step == 6
    again.train()
    assert recorded_losses(tmp_path / "run") == recorded_losses(tmp_path / "whole")
    assert Run.resume(tmp_path / "run").trainer.progress.step == 9


def test_a_damaged_checkpoint_does_not_outlive_good_ones(begin, tmp_path):
    folder = tmp_path / "run" / "checkpoints"
    begin(tmp_path / "run", steps=9, save_every=3).train()
    weights = folder / "step-00000009" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = Run.resume(tmp_path / "run", keep_checkpoints=1)
    again.trainer.progress.step += 1
    again.trainer.save()
    assert checkpoints.newest_intact(folder).name == "step-00000007"


@pytest.mark.parametrize("optimizer", ["muon", "adamw", "adagrad"])
def test_a_changed_weight_decay_is_that_of_the_resumed_run(begin, tmp_path, optimizer):
    begin(tmp_path / "run", steps=2, optimizer=optimizer, weight_decay=0.01).train()
    again = Run.resume(tmp_path / "run", steps=3, weight_decay=0.5)
    assert {group["weight_decay"] for group in again.trainer.optimizer.param_groups} in ({0.5}, {0.5, 0.0})


def test_what_the_length_of_a_run_was_planned_with_stays(begin, tmp_path):
    begin(tmp_path / "steps", steps=2)
    with pytest.raises(RunError, match="has a number of steps"):
        Run.resume(tmp_path / "steps", epochs=5)
    begin(tmp_path / "epochs", epochs=1, steps=None)
    with pytest.raises(RunError, match="window cannot be changed"):
        Run.resume(tmp_path / "epochs", window=2)


def test_a_pattern_of_files_is_found_from_another_folder(begin, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begin(tmp_path / "run", sources=["te*.txt"], steps=2)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Run.resume(tmp_path / "run").train()


def _replace_a_word(path: Path):
    path.write_text(path.read_text("utf-8").replace("e", "a", 1), "utf-8")


def _add_a_sentence(path: Path):
    path.write_text(path.read_text("utf-8") + "the cat sees\n", "utf-8")


@pytest.mark.parametrize("change", [_replace_a_word, _add_a_sentence])
@pytest.mark.parametrize("part", ["text", "heldout"])
def test_text_that_has_changed_since_the_run_was_begun_is_named(begin, text, tmp_path, part, change):
    heldout = write_text(tmp_path / "heldout.txt", random_documents([4], seed=8))
    begin(tmp_path / "run", heldout=[heldout], steps=2)
    changed = text if part == "text" else heldout
    before = changed.read_text("utf-8")
    change(changed)
    with pytest.raises(RunError, match=rf"{changed.name} has changed since the run was begun\. Put the text back"):
        Run.resume(tmp_path / "run")
    changed.write_text(before, "utf-8")
    Run.resume(tmp_path / "run").train()


def test_another_file_in_the_folder_of_the_text_is_noticed(begin, tmp_path):
    (tmp_path / "texts").mkdir()
    write_text(tmp_path / "texts" / "a.txt", DOCUMENTS)
    begin(tmp_path / "run", sources=[str(tmp_path / "texts")], steps=2)
    write_text(tmp_path / "texts" / "b.txt", DOCUMENTS)
    with pytest.raises(RunError, match="begun with 1 file of text, now there are 2"):
        Run.resume(tmp_path / "run")


def test_a_run_that_another_process_has_is_refused_and_untouched(begin, tmp_path):
    begin(tmp_path / "run", steps=2).train()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path / "run")], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
        with pytest.raises(RunError, match=f"is in use by process {holder.pid}: wait for it to end"):
            Run.resume(tmp_path / "run", steps=4)
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
    finally:
        holder.kill()
        holder.communicate()
    Run.resume(tmp_path / "run", steps=4).train()
    assert max(recorded_losses(tmp_path / "run")) == 4
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_run_that_another_process_begins_meanwhile_is_refused_and_untouched(begin, tmp_path, monkeypatch):
    other = tmp_path / "run"

    def begin_other(*_):
        other.mkdir()
        (other / "run.json").write_text("of the other")

    monkeypatch.setattr(run_module, "_check_text", begin_other)
    with pytest.raises(RunError, match="already holds a run"):
        begin(other, steps=1)
    assert {path.name: path.read_text() for path in other.iterdir()} == {"run.json": "of the other"}


def test_the_card_counts_all_steps_of_a_run_that_was_prolonged(begin, tmp_path):
    begin(tmp_path / "run", steps=5, log_every=3).train()
    Run.resume(tmp_path / "run", steps=7).train()
    card = (tmp_path / "run" / "README.md").read_text("utf-8")
    words = Run.resume(tmp_path / "run").trainer.progress.words
    assert f"`elmo-hf pretrain`: 7 steps, {words:,} words" in card
    assert "| steps | 7 |" in card


# ---- Killed for real. The commands are those of the command line, in processes of their own.


@pytest.fixture
def vocab(tmp_path):
    return write_words(tmp_path / "vocab.txt")


@pytest.mark.slow
def test_a_run_killed_at_any_moment_ends_as_if_it_had_not_been(text, vocab, tmp_path):
    settings = {"steps": 60, "save_every": 2, "evaluate_every": 5, "seed": random.randrange(1000)}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    kill = {"signal": signal.SIGKILL, "delay": 0.05}
    resume = ["pretrain", "--resume", "--out", str(killed)]
    *results, last, _ = run_plan(
        [
            {"arguments": command_line(text, vocab, killed, **settings), "after": 3} | kill,
            *({"arguments": resume, "after": steps} | kill for steps in (1, 2, 5, 1, 3, 7)),
            {"arguments": resume},
            {"arguments": command_line(text, vocab, whole, **settings)},
        ]
    )
    codes = [code for result in results for code in result["codes"]]
    assert codes[0] == -signal.SIGKILL
    assert set(codes) <= {-signal.SIGKILL, 0}  # a fast machine may be done early
    assert last["codes"] == [0]
    assert "continuing after step" in last["output"][0]
    assert recorded_losses(killed) == recorded_losses(whole)
    assert sorted(recorded_losses(whole)) == list(range(1, 61))
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert sorted(path.name for path in (killed / "checkpoints").iterdir()) == ["step-00000058", "step-00000060"]
    names = [{path.name for path in folder.iterdir()} for folder in (killed, whole)]
    assert names[0] == names[1]


# ---- Two processes. Of the documents every other one goes to each: the second has little to read.

UNEVEN = random_documents([6, 2, 5, 2, 7], seed=3)
PAIR = {
    "window": 2,
    "seed": 3,
    "dropout": 0.0,
    "reset_probability": 0.0,
    "softmax_type": "adaptive",
    "softmax_cutoffs": [5, 20],
    "save_every": 4,
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Folder, and what came of each command."""
    folder = tmp_path_factory.mktemp("pairs")
    text, vocab = write_text(folder / "text.txt", UNEVEN), write_words(folder / "vocab.txt")

    def begin(name, **changes):
        return command_line(text, vocab, folder / name, **(PAIR | changes))

    def resume(name):
        return ["pretrain", "--resume", "--out", str(folder / name)]

    random_parts = {"dropout": 0.2, "reset_probability": 0.5, "softmax_type": "sampled", "softmax_cutoffs": None}
    kill = {"signal": signal.SIGKILL, "after": 6, "delay": 0.02}
    stop = {"signal": signal.SIGTERM, "after": 3, "rank": 1}
    plan = {
        "single": {"arguments": begin("single", batch_size=4, steps=1)},
        "whole": {"arguments": begin("whole"), "processes": 2},
        "random": {"arguments": begin("random", **random_parts), "processes": 2},
        "killed": {"arguments": begin("killed", **random_parts), "processes": 2} | kill,
        "alone": {"arguments": resume("killed")},
        "resumed": {"arguments": resume("killed"), "processes": 2},
        "stopped": {"arguments": begin("stopped", **random_parts), "processes": 2} | stop,
        "resumed after stop": {"arguments": resume("stopped"), "processes": 2},
        "full disk": {"arguments": begin("full"), "processes": 2, "full_disk": 1},
        "too few": {"arguments": begin("few", batch_size=3), "processes": 2},
    }
    return folder, dict(zip(plan, run_plan(list(plan.values())), strict=True))


def words_of(folder: Path) -> int:
    manifest = checkpoints.read_manifest(checkpoints.newest_complete(folder / "checkpoints"))
    return manifest["progress"]["words"]


@pytest.mark.slow
def test_two_processes_read_the_text_once_though_one_is_done_early(pairs):
    folder, results = pairs
    for name in ("whole", "random"):
        assert results[name]["codes"] == [0, 0], results[name]["errors"]
        assert words_of(folder / name) == count_targets(UNEVEN)
        assert results[name]["output"][1] == ""
    manifest = checkpoints.read_manifest(checkpoints.newest_complete(folder / "whole" / "checkpoints"))
    assert manifest["processes"] == 2


@pytest.mark.slow
def test_two_processes_end_with_the_same_weights(pairs):
    _, results = pairs
    for name in ("whole", "random", "resumed"):
        first, second = results[name]["weights"]
        assert first == second


@pytest.mark.slow
def test_two_processes_make_the_step_that_one_with_all_the_streams_makes(pairs):
    folder, _ = pairs
    first, other = (read_history(folder / name / "history.jsonl")[0] for name in ("single", "whole"))
    assert first["words"] == other["words"]
    assert first["loss"] == pytest.approx(other["loss"], rel=1e-6)
    assert first["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-5)


@pytest.mark.slow
def test_two_processes_go_on_exactly_after_a_kill(pairs):
    folder, results = pairs
    assert results["killed"]["codes"][0] == -signal.SIGKILL
    assert results["resumed"]["codes"] == [0, 0], results["resumed"]["errors"]
    assert recorded_losses(folder / "killed") == recorded_losses(folder / "random")
    assert results["resumed"]["weights"] == results["random"]["weights"]
    assert words_of(folder / "killed") == count_targets(UNEVEN)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_and_saves_both(pairs):
    folder, results = pairs
    assert results["stopped"]["codes"] == [0, 0], results["stopped"]["errors"]
    message, silence = results["stopped"]["output"]
    assert "stopped and saved after step 4\n" in message
    assert f"to continue: elmo-hf pretrain --resume --out {folder / 'stopped'}" in message
    assert silence == ""
    assert results["resumed after stop"]["codes"] == [0, 0], results["resumed after stop"]["errors"]
    assert recorded_losses(folder / "stopped") == recorded_losses(folder / "random")


@pytest.mark.slow
def test_another_number_of_processes_is_refused_in_one_line(pairs):
    _, results = pairs
    assert results["alone"]["codes"] == [2]
    (line,) = results["alone"]["errors"]
    assert line.startswith("elmo-hf: ")
    assert "'processes': 2" in line
    assert line.count("\n") == 1


@pytest.mark.slow
def test_a_full_disk_of_one_process_stops_both_with_one_line(pairs):
    folder, results = pairs
    assert results["full disk"]["codes"] == [2, 2]
    lines = [errors.splitlines()[-1] for errors in results["full disk"]["errors"]]
    good = folder / "full" / "checkpoints" / "step-00000000"
    for line, reason in zip(lines, ["in another process", "No space left on device"], strict=True):
        assert f"The checkpoint of step 4 could not be written ({reason}" in line.replace("[Errno 28] ", "")
        assert f"The last good one is {good}: make room and resume." in line
    assert [path.name for path in good.parent.iterdir()] == [good.name]


@pytest.mark.slow
def test_too_few_documents_for_all_processes_leave_nothing_behind(pairs):
    folder, results = pairs
    assert results["too few"]["codes"][0] == 2
    assert "The text has 5 documents, fewer than the 6 streams" in results["too few"]["errors"][0]
    assert not (folder / "few").exists()


@pytest.mark.slow
def test_torchrun_launches_two_processes_on_a_cpu(vocab, tmp_path):
    text = write_text(tmp_path / "text.txt", UNEVEN)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "elmo_hf.cli"]
    result = subprocess.run(
        [sys.executable, *launcher, *command_line(text, vocab, tmp_path / "run", **PAIR)],
        env=os.environ | ENVIRONMENT | {"ACCELERATE_USE_CPU": "true"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert words_of(tmp_path / "run") == count_targets(UNEVEN)
    assert result.stdout.count("steps, ") == 1
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("*/streams-*"))[-1] == "streams-1.json"
    AutoModel.from_pretrained(tmp_path / "run")
