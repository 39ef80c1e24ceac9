"""The loop learns, goes on exactly where it stopped, and never loses what it had."""

import errno
import json
import math
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch

from elmo_hf.errors import CheckpointError, DivergenceError
from elmo_hf.pretraining import Corpus, checkpoints, perplexity
from elmo_hf.pretraining.settings import RECIPES
from elmo_hf.publishing import read_history
from tests.full_disk import files_of_at_most
from tests.pretraining.runs import (
    REPETITIVE,
    count_targets,
    random_documents,
    recorded_losses,
    tiny_language_model,
    tiny_pretrainer,
    write_text,
)

DOCUMENTS = random_documents([3, 1, 4, 2, 5, 3])


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt", DOCUMENTS)


@pytest.fixture
def repetitive(tmp_path):
    return write_text(tmp_path / "repetitive.txt", REPETITIVE)


def names(folder: Path) -> list[str]:
    """All that is in the folder of checkpoints, what is half-written included."""
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def weights(trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.unwrapped.state_dict().items()}


def assert_same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]):
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def before_step(trainer, step_number: int, action):
    """Has `action` called before the step of this number, counted from 1."""
    step = trainer.step

    def wrapped():
        if trainer.progress.step + 1 == step_number:
            action()
        return step()

    trainer.step = wrapped


# ---- It learns.


@pytest.mark.medium
@pytest.mark.parametrize(
    ("recipe", "fields"),
    [
        ("modern", {"softmax_type": "full"}),
        ("modern", {"softmax_type": "adaptive", "softmax_cutoffs": [8, 14]}),
        ("original", {"softmax_type": "sampled", "softmax_samples": 10}),
    ],
    ids=["full", "adaptive", "original recipe"],
)
def test_the_loss_falls_on_a_repetitive_text(repetitive, tmp_path, recipe, fields):
    settings = {"learning_rate": 0.03, "clip_norm": 1.0} if recipe == "modern" else dict(RECIPES["original"])
    settings |= {"steps": 150, "epochs": None, "reset_probability": 0.5, "evaluate_every": 150, "batch_size": 3}
    model = tiny_language_model(**({"dropout": 0.0, "cell_size": 16, "projection_size": 8} | fields))
    trainer = tiny_pretrainer(tmp_path / "run", repetitive, heldout=repetitive, model=model, **settings)
    before = trainer.evaluate()
    assert min(before.forward, before.backward) > 15  # of 23 words
    trainer.train()
    losses = list(recorded_losses(tmp_path / "run").values())
    assert sum(losses[-10:]) < 0.4 * sum(losses[:10])
    after = trainer.evaluate()
    assert max(after.forward, after.backward) < 3


def test_an_estimate_of_words_and_time_is_printed_when_the_first_steps_have_been_timed(text, tmp_path, capsys):
    trainer = tiny_pretrainer(tmp_path / "run", text, steps=30, epochs=None, show_progress=True)
    words = trainer.train().words
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("estimate: ")]
    match = re.fullmatch(
        r"estimate: ([\d,]+) words/s, ([\d,]+) words per hour; 30 steps are ([\d,]+) words and take 00:00 from now, .*",
        line,
    )
    per_second, per_hour, total = (int(value.replace(",", "")) for value in match.groups())
    assert per_hour == pytest.approx(3600 * per_second, abs=1800)
    assert total == words


def test_a_short_run_prints_no_estimate(text, tmp_path, capsys):
    tiny_pretrainer(tmp_path / "run", text, steps=24, epochs=None, show_progress=True).train()
    assert "estimate" not in capsys.readouterr().out


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_model_of_one_direction_records_that_directions_perplexity(text, tmp_path, direction):
    model = tiny_language_model(directions=direction)
    tiny_pretrainer(tmp_path / "run", text, heldout=text, model=model, steps=2, epochs=None, evaluate_every=2).train()
    (record,) = (entry for entry in read_history(tmp_path / "run" / "history.jsonl") if "heldout_words" in entry)
    assert record.keys() == {"step", f"{direction}_perplexity", "heldout_words"}


def test_an_epoch_predicts_every_word_and_boundary_once(text, tmp_path):
    trainer = tiny_pretrainer(tmp_path / "run", text, epochs=1, total_steps=10)
    assert trainer.train().words == count_targets(DOCUMENTS)
    assert trainer.step() is None


@pytest.mark.medium
def test_accumulated_windows_make_one_update(text, tmp_path):
    progresses = {
        windows: tiny_pretrainer(tmp_path / str(windows), text, epochs=1, total_steps=10, accumulate=windows).train()
        for windows in (1, 2, 3, 100)
    }
    assert [progresses[windows].step for windows in (2, 3, 100)] == [
        -(-progresses[1].step // windows) for windows in (2, 3, 100)
    ]
    assert {progress.words for progress in progresses.values()} == {count_targets(DOCUMENTS)}


def test_accumulated_windows_give_the_mean_over_their_words(text, tmp_path):
    results = []
    for windows, width in [(1, 8), (2, 4), (4, 2)]:
        model = tiny_language_model(dropout=0.0, softmax_type="full")
        trainer = tiny_pretrainer(
            tmp_path / str(windows), text, model=model, steps=1, accumulate=windows, window=width, reset_probability=0.0
        )
        optimizer, gradients = trainer.optimizer.optimizer, {}
        optimizer.register_step_pre_hook(lambda *_, stored=gradients, of=model: stored.update(gradients_of(of)))
        results.append((trainer.step(), gradients))
    (whole, whole_gradients), *others = results
    for result, gradients in others:
        assert result.words == whole.words
        assert result.loss == pytest.approx(whole.loss, rel=1e-6)
        # Up to the softmax it is the same function; below, the gradient ends at a window's start.
        torch.testing.assert_close(gradients["softmax.bias"], whole_gradients["softmax.bias"])


def gradients_of(model) -> dict[str, torch.Tensor]:
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("recipe", ["modern", "original"])
def test_the_learning_rate_follows_the_schedule(text, tmp_path, recipe):
    settings = {"warmup_steps": 3, "decay_share": 0.5} if recipe == "modern" else dict(RECIPES["original"])
    trainer = tiny_pretrainer(
        tmp_path / "run", text, **(settings | {"steps": 10, "epochs": None, "learning_rate": 0.1})
    )
    trainer.train()
    rates = [record["learning_rate"] for record in read_history(tmp_path / "run" / "history.jsonl")]
    assert rates == [trainer.settings.learning_rate_at(step, 10) for step in range(10)]
    expected = [1 / 3, 2 / 3, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2] if recipe == "modern" else [1] * 10
    assert rates == pytest.approx([0.1 * share for share in expected])


@pytest.mark.parametrize(("loss_scale", "clip_norm"), [(1.0, 1e9), (20.0, 1e9), (1.0, 0.01), (20.0, 0.01)])
def test_the_gradients_norm_is_recorded_before_and_bounded_after(text, tmp_path, loss_scale, clip_norm):
    expected = tiny_pretrainer(tmp_path / "plain", text, steps=1, clip_norm=1e9).step()
    trainer = tiny_pretrainer(tmp_path / "run", text, steps=1, clip_norm=clip_norm, loss_scale=loss_scale)
    applied = {}
    trainer.optimizer.optimizer.register_step_pre_hook(lambda *_: applied.update(gradients_of(trainer.unwrapped)))
    result = trainer.step()
    assert result.loss == expected.loss
    assert result.gradient_norm == pytest.approx(loss_scale * expected.gradient_norm, rel=1e-5)
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in applied.values()))
    assert norm == pytest.approx(min(clip_norm, result.gradient_norm), rel=1e-3)


def test_the_length_of_the_schedule_must_be_known(text, tmp_path):
    with pytest.raises(ValueError, match="`total_steps` must be given"):
        tiny_pretrainer(tmp_path / "run", text, epochs=1)


# ---- Records.


def test_the_history_has_loss_speed_and_full_softmax_perplexity_of_each_direction(text, tmp_path):
    heldout = write_text(tmp_path / "heldout.txt", random_documents([2, 3], seed=1))
    trainer = tiny_pretrainer(tmp_path / "run", text, heldout=heldout, steps=8, log_every=2, evaluate_every=4)
    trainer.train()
    records = read_history(tmp_path / "run" / "history.jsonl")
    losses = [record for record in records if "loss" in record]
    assert [record["step"] for record in losses] == [2, 4, 6, 8]
    for record in losses:
        assert record.keys() >= {"learning_rate", "gradient_norm", "words", "hours"}
        assert 1 < record["loss"] < 4
        assert record["words_per_second"] > 0
    assert 0 < losses[0]["cpu_hours"] < losses[-1]["cpu_hours"]
    evaluations = [record for record in records if "forward_perplexity" in record]
    assert [record["step"] for record in evaluations] == [4, 8]
    model = trainer.unwrapped
    result = perplexity(model, trainer.encode, Corpus(heldout))
    assert model.training
    assert model.softmax.num_samples  # of which the held-out perplexity knows nothing
    last = evaluations[-1]
    assert (last["forward_perplexity"], last["backward_perplexity"], last["heldout_words"]) == tuple(result)


def test_a_recorded_loss_is_the_mean_since_the_record_before(text, tmp_path):
    for every in (1, 3):
        tiny_pretrainer(tmp_path / str(every), text, steps=6, log_every=every).train()
    each, means = recorded_losses(tmp_path / "1"), recorded_losses(tmp_path / "3")
    assert means == {last: (each[last - 2] + each[last - 1] + each[last]) / 3 for last in (3, 6)}


def test_evaluation_changes_nothing_but_the_history(text, tmp_path):
    losses = []
    for every in (1, 1000):
        trainer = tiny_pretrainer(tmp_path / str(every), text, heldout=text, steps=6, evaluate_every=every)
        trainer.train()
        losses.append(recorded_losses(tmp_path / str(every)))
    assert losses[0] == losses[1]


@pytest.mark.parametrize("tracker", [None, "tensorboard"])
def test_event_files_are_written_for_a_tracker_only(text, tmp_path, tracker):
    if tracker is not None:
        pytest.importorskip("tensorboard")
    trainer = tiny_pretrainer(tmp_path / "run", text, heldout=text, steps=2, evaluate_every=2, tracker=tracker)
    trainer.train()
    trainer.accelerator.end_training()
    events = list((tmp_path / "run").rglob("*tfevents*"))
    if tracker is None:
        assert events == []
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["checkpoints", "history.jsonl"]
    else:
        written = b"".join(path.read_bytes() for path in events)
        assert [tag for tag in (b"loss", b"words_per_second", b"backward_perplexity") if tag not in written] == []


# ---- Exact resume.


def stopped_at(folder: Path, step: int, other: Path) -> Path:
    """A run as it would be if it had been killed after the checkpoint of this step."""
    shutil.copytree(folder, other)
    for name in names(other):
        if name > checkpoints.checkpoint_name(step):
            shutil.rmtree(other / "checkpoints" / name)
    return other


@pytest.mark.medium
@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({}, {}),
        ({}, {"optimizer": "adagrad", "accumulate": 2, "epochs": 3}),
        ({"softmax_type": "adaptive", "softmax_cutoffs": [8, 14], "token_inputs": "both"}, {"window": 3}),
        ({}, {"optimizer": "muon"}),
    ],
    ids=["sampled", "accumulated", "adaptive", "muon"],
)
def test_a_resumed_run_repeats_the_uninterrupted_one_bit_for_bit(tmp_path, fields, settings):
    texts = [write_text(tmp_path / f"{part}.txt", random_documents([3, 4, 2], seed=part)) for part in range(3)]
    settings = {"steps": 30, "save_every": 7, "keep_checkpoints": 9, "evaluate_every": 5} | settings

    def trainer(folder, seed):
        return tiny_pretrainer(
            folder, texts, heldout=texts[0], model=tiny_language_model(seed=seed, **fields), **settings
        )

    whole = trainer(tmp_path / "whole", 0)
    last = whole.train().step
    losses = recorded_losses(tmp_path / "whole")
    assert len(set(losses.values())) == last >= 15
    for step in (7, 14):
        folder = stopped_at(tmp_path / "whole", step, tmp_path / str(step))
        again = trainer(folder, 1 + step)  # other weights to begin with
        torch.rand(step)  # and another random state
        assert again.resume()
        assert recorded_losses(folder) == {done: loss for done, loss in losses.items() if done <= step}
        assert again.train().words == whole.progress.words
        assert recorded_losses(folder) == losses
        assert_same_weights(weights(again), weights(whole))


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_step_end_saves_and_the_run_goes_on_exactly(text, tmp_path, signum):
    whole = tiny_pretrainer(tmp_path / "whole", text, steps=9, log_every=4)
    whole.train()
    stopped = tiny_pretrainer(tmp_path / "run", text, steps=9, log_every=4)
    before_step(stopped, 3, lambda: os.kill(os.getpid(), signum))
    handlers = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    assert stopped.train().step == 3
    assert stopped.was_interrupted
    assert names(tmp_path / "run") == ["step-00000003"]
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == handlers

    again = tiny_pretrainer(tmp_path / "run", text, model=tiny_language_model(seed=5), steps=9, log_every=4)
    assert again.resume()
    assert again.train().step == 9
    assert not again.was_interrupted
    assert_same_weights(weights(again), weights(whole))
    # A record is the mean over the steps since the last one, the steps before the stop included.
    assert recorded_losses(tmp_path / "run") == recorded_losses(tmp_path / "whole")


def test_the_same_loop_can_go_on_after_a_signal(text, tmp_path):
    trainer = tiny_pretrainer(tmp_path / "run", text, steps=6)
    before_step(trainer, 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert trainer.train().step == 2
    assert trainer.train().step == 6
    assert not trainer.was_interrupted


def test_a_second_signal_is_not_waited_for(text, tmp_path):
    trainer, handler = tiny_pretrainer(tmp_path / "run", text, steps=9), signal.getsignal(signal.SIGINT)

    def interrupt_twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before_step(trainer, 3, interrupt_twice)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert trainer.progress.step == 2
    assert signal.getsignal(signal.SIGINT) is handler


def test_nothing_is_resumed_where_there_is_no_checkpoint(text, tmp_path):
    assert not tiny_pretrainer(tmp_path / "run", text, steps=1).resume()


@pytest.mark.parametrize("change", [{"batch_size": 3}, {"processes": 2}], ids=str)
def test_streams_of_another_shape_are_refused_in_one_line(text, tmp_path, change):
    tiny_pretrainer(tmp_path / "run", text, steps=2).train()
    if "processes" in change:
        manifest = tmp_path / "run" / "checkpoints" / "step-00000002" / "checkpoint.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
        change = {}
    with pytest.raises(CheckpointError) as caught:
        tiny_pretrainer(tmp_path / "run", text, steps=2, **change).resume()
    assert "was made by a run of" in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- Checkpoints.


def test_old_checkpoints_go_when_newer_ones_are_complete(text, tmp_path):
    tiny_pretrainer(tmp_path / "run", text, steps=7, save_every=2, keep_checkpoints=3).train()
    assert names(tmp_path / "run") == ["step-00000004", "step-00000006", "step-00000007"]


def test_a_kill_while_a_checkpoint_is_written_does_not_cost_the_one_before(text, tmp_path):
    settings = {"steps": 8, "save_every": 3}
    whole = tiny_pretrainer(tmp_path / "whole", text, **settings)
    whole.train()
    folder = stopped_at(tmp_path / "whole", 6, tmp_path / "run")
    good = folder / "checkpoints" / "step-00000006"
    shutil.copytree(good, good.with_name(".step-00000007.partial"))
    torn = shutil.copytree(good, good.with_name("step-00000007"))
    os.truncate(torn / "optimizer.bin", 1000)
    again = tiny_pretrainer(folder, text, model=tiny_language_model(seed=5), **settings)
    assert again.resume()
    assert again.progress.step == 6
    again.train()
    assert recorded_losses(folder) == recorded_losses(tmp_path / "whole")
    assert names(folder) == ["step-00000006", "step-00000008"]


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


FAILURES = {
    "model": lambda patch, trainer: patch.setattr(trainer.accelerator, "save_state", full_disk),
    "state": lambda patch, trainer: patch.setattr("elmo_hf.pretraining.training.save_file", full_disk),
    "folder": lambda patch, trainer: patch.setattr(Path, "mkdir", full_disk),
    "manifest": lambda patch, trainer: patch.setattr("os.fsync", full_disk),
    "safetensors": 5_000,  # smaller than the weights
    "torch": 15_000,  # smaller than the optimiser's state, larger than the weights
}


@pytest.mark.medium
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_full_disk_is_one_line_and_costs_no_checkpoint(text, tmp_path, monkeypatch, failure):
    whole = tiny_pretrainer(tmp_path / "whole", text, steps=6, save_every=2)
    whole.train()
    trainer = tiny_pretrainer(tmp_path / "run", text, steps=6, save_every=2)
    save = trainer.save

    def failing_save():
        if trainer.progress.step < 4:
            return save()
        with monkeypatch.context() as patch, files_of_at_most(failure if isinstance(failure, int) else 10**9):
            if callable(failure):
                failure(patch, trainer)
            save()

    trainer.save = failing_save
    with pytest.raises(CheckpointError) as caught:
        trainer.train()
    message = str(caught.value)
    good = tmp_path / "run" / "checkpoints" / "step-00000002"
    assert message.startswith("The checkpoint of step 4 could not be written (")
    assert f"The last good one is {good}: make room and resume." in message
    assert "\n" not in message
    assert names(tmp_path / "run") == ["step-00000002"]
    assert checkpoints.is_complete(good)

    again = tiny_pretrainer(tmp_path / "run", text, model=tiny_language_model(seed=5), steps=6, save_every=2)
    assert again.resume()
    again.train()
    assert recorded_losses(tmp_path / "run") == recorded_losses(tmp_path / "whole")


# ---- Divergence.


def poison_loss(value: float):
    def poison(trainer):
        trainer.unwrapped.register_forward_hook(lambda *call: call[-1].__setitem__("loss", call[-1].loss * value))

    return poison


def poison_gradient(trainer):
    trainer.unwrapped.softmax.bias.register_hook(lambda gradient: gradient * math.inf)


@pytest.mark.parametrize(
    "poison", [poison_loss(math.nan), poison_loss(100.0), poison_gradient], ids=["nan", "exploding", "gradient"]
)
@pytest.mark.parametrize("save_every", [2, 1000])
def test_a_useless_loss_stops_the_run_before_it_reaches_the_weights(text, tmp_path, poison, save_every):
    trainer = tiny_pretrainer(tmp_path / "run", text, steps=9, save_every=save_every)
    kept = {}

    def begin_to_diverge():
        kept.update(weights(trainer))
        poison(trainer)

    before_step(trainer, 4, begin_to_diverge)
    with pytest.raises(DivergenceError) as caught:
        trainer.train()
    message = str(caught.value)
    assert message.startswith("Step 4: the loss is ")
    last = "the start" if save_every > 4 else tmp_path / "run" / "checkpoints" / "step-00000002"
    assert f"The last good checkpoint is {last}: resume" in message
    assert "\n" not in message
    assert_same_weights(kept, weights(trainer))
    assert list(recorded_losses(tmp_path / "run")) == [1, 2, 3]
    if save_every == 2:
        assert names(tmp_path / "run") == ["step-00000002"]
    else:
        assert not (tmp_path / "run" / "checkpoints").exists()
