"""The settings of a run: schedule, recipes, optimisers; a bad value is refused by its name."""

import json

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoForPreTraining
from elmo_hf.pretraining.settings import PretrainingSettings
from tests.models import TINY

# ---- learning rate


def rates(total: int, steps: int | None = None, **fields) -> list[float]:
    settings = PretrainingSettings(learning_rate=8.0, **fields)
    return [settings.learning_rate_at(step, total) for step in range(total if steps is None else steps)]


def test_the_learning_rate_rises_stays_and_falls():
    assert rates(12, 14, warmup_steps=4, decay_share=1 / 3) == [2, 4, 6, 8, 8, 8, 8, 8, 8, 6, 4, 2, 0, 0]


def test_without_a_schedule_the_learning_rate_stays():
    assert rates(5, 9, warmup_steps=0, decay_share=0.0) == [8.0] * 9


def test_a_rise_that_meets_the_fall_is_cut_off():
    assert rates(4, 5, warmup_steps=100, decay_share=1.0) == pytest.approx([0.08, 0.16, 0.24, 0.32, 0])
    assert rates(4, 5, warmup_steps=4, decay_share=1.0) == [2, 4, 4, 2, 0]


SCHEDULES = {"warmup_steps": st.integers(0, 50), "decay_share": st.floats(0, 1)}


@given(total=st.integers(1, 100), step=st.integers(0, 300), **SCHEDULES)
def test_the_learning_rate_is_never_negative_nor_above_its_height(total, step, warmup_steps, decay_share):
    settings = PretrainingSettings(learning_rate=3.0, warmup_steps=warmup_steps, decay_share=decay_share)
    rate = settings.learning_rate_at(step, total)
    assert 0 <= rate <= 3.0
    if step < total:
        assert rate > 0


@given(total=st.integers(1, 100), more=st.integers(0, 100), **SCHEDULES)
def test_prolonging_a_run_changes_nothing_before_its_fall(total, more, warmup_steps, decay_share):
    fields = {"warmup_steps": warmup_steps, "decay_share": decay_share}
    before = min(int(total - decay_share * total) + 1, total)  # steps before the first lower one
    assert rates(total, before, **fields) == pytest.approx(rates(total + more, before, **fields))


# ---- recipes


def test_the_original_recipe_is_the_originals():
    settings = PretrainingSettings.recipe("original")
    assert (settings.batch_size, settings.window, settings.epochs) == (128, 20, 10)
    assert (settings.clip_norm, settings.loss_scale, settings.reset_probability) == (10.0, 20.0, 0.0)
    assert [settings.learning_rate_at(step, 100) for step in (0, 1, 50, 99, 100)] == [0.2] * 5
    optimizer = settings.build_optimizer(torch.nn.Linear(2, 2))
    assert isinstance(optimizer, torch.optim.Adagrad)
    for group in optimizer.param_groups:
        assert (group["lr"], group["weight_decay"], group["lr_decay"]) == (0.2, 0.0, 0)
        for parameter in group["params"]:
            assert (optimizer.state[parameter]["sum"] == 1.0).all()


def test_the_modern_recipe_is_the_default():
    assert PretrainingSettings.recipe("modern") == PretrainingSettings()
    assert (PretrainingSettings().optimizer, PretrainingSettings().learning_rate) == ("muon", 0.004)


def test_overrides_win_over_a_recipe():
    settings = PretrainingSettings.recipe("original", learning_rate=1, epochs=None, steps=5)
    assert (settings.learning_rate, settings.epochs, settings.steps, settings.clip_norm) == (1, None, 5, 10.0)


def test_an_unknown_recipe_is_refused():
    with pytest.raises(ValueError, match="no recipe 'secret': choose one of modern, original"):
        PretrainingSettings.recipe("secret")


def test_settings_go_through_json():
    settings = PretrainingSettings.recipe("original", steps=3)
    assert PretrainingSettings(**json.loads(json.dumps(settings.as_dict()))) == settings


# ---- bad values

COUNTS = "batch_size window accumulate steps epochs log_every evaluate_every save_every evaluate_words keep_checkpoints"
BAD_VALUES = [
    *((name, value) for name in COUNTS.split() for value in (0, -1)),
    *((name, value) for name in ("reset_probability", "decay_share") for value in (-0.1, 1.1, float("nan"))),
    *((name, value) for name in ("learning_rate", "clip_norm", "loss_scale") for value in (0, -0.1, float("nan"))),
    *((name, -1) for name in ("seed", "weight_decay", "warmup_steps")),
    ("weight_decay", float("nan")),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_value_out_of_range_is_refused_by_its_name(name, value):
    with pytest.raises(ValueError, match=f"^`{name}` must be "):
        PretrainingSettings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimizer", "sgd"),
        ("mixed_precision", "int8"),
        ("batch_size", "many"),
        ("batch_size", 1.5),
        ("steps", "10"),
        ("learning_rate", "fast"),
        ("compile", "no"),
        ("window", None),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_its_name(name, value):
    with pytest.raises(StrictDataclassError, match=f"'{name}'"):
        PretrainingSettings(**{name: value})


def test_an_unknown_setting_is_refused_by_its_name():
    with pytest.raises(TypeError, match="learning_rat"):
        PretrainingSettings.recipe("modern", learning_rat=1.0)


def test_a_run_must_end():
    with pytest.raises(ValueError, match="give `steps` or `epochs`"):
        PretrainingSettings(steps=None, epochs=None)


# ---- optimisers


@pytest.mark.parametrize("optimizer", ["adamw", "adagrad"])
def test_weight_decay_leaves_biases_alone(optimizer):
    model = ElmoForPreTraining(ElmoConfig(**TINY, softmax_type="adaptive"))
    settings = PretrainingSettings(optimizer=optimizer, learning_rate=0.1, weight_decay=0.5)
    stepper = settings.build_optimizer(model)
    names = {parameter: name for name, parameter in model.named_parameters()}
    grouped = [parameter for group in stepper.param_groups for parameter in group["params"]]
    assert sorted(map(names.__getitem__, grouped)) == sorted(names.values())
    with torch.no_grad():
        for parameter in names:
            parameter.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    stepper.step()
    for parameter, name in names.items():
        assert bool((parameter == 1.0).all()) == name.endswith("bias"), name


@pytest.mark.parametrize("optimizer", ["adamw", "adagrad"])
def test_what_is_frozen_is_not_optimised(optimizer):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[0].requires_grad_(False)
    stepper = PretrainingSettings(optimizer=optimizer).build_optimizer(model)
    parameters = [parameter for group in stepper.param_groups for parameter in group["params"]]
    assert [id(parameter) for parameter in parameters] == [id(parameter) for parameter in model[1].parameters()]
