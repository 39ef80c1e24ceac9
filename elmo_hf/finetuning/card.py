"""The card of a trained head: data, metrics and the mix that it has learned."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from ..classification_elmo import ElmoTaskModel
from .mix_picture import draw_mixes

if TYPE_CHECKING:
    from .run import FinetuningRun

TASKS = {"tagging": "token-classification", "classification": "text-classification"}
SHOWN = ["elmo_places", "mixer_weights", "mixer_l2", "elmo_dropout", "freeze_bilm", "word_vector_size"]
SHOWN += ["num_task_layers", "task_layer_size", "classifier_dropout"]
PICTURE = "mixes.svg"


def write_card(
    folder: Path,
    run: "FinetuningRun",
    model: ElmoTaskModel,
    sizes: dict[str, int],
    results: dict[str, dict[str, float]],
):
    """
    Writes a model card, and beside it a picture of the mix.

    Args:
        folder: Where to.
        run: What was done.
        model: What came of it.
        sizes: Examples of each split.
        results: Metrics of each split.
    """
    name, data_name = folder.parent.name, os.path.basename(os.path.normpath(run.data.train))
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=TASKS[run.task],
        tags=["elmo"],
        model_name=name,
        eval_results=[
            EvalResult(
                task_type=TASKS[run.task],
                dataset_type=data_name,
                dataset_name=data_name,
                dataset_split=split,
                metric_type=metric,
                metric_value=round(value, 4),
            )
            for split, metrics in results.items()
            for metric, value in metrics.items()
            if metric != "loss"
        ],
    )
    kind = "tagger of words" if run.task == "tagging" else "classifier of texts"
    sections = [
        f"# {name}\n\nA {kind} on [ELMo](https://arxiv.org/abs/1802.05365), made with `elmo-hf finetune {run.task}`.",
        _usage(name, run.task),
        "## Results\n\n" + _results(results, sizes),
        "## The mix that it learned\n\n" + _mixes(model),
        "## Data\n\n"
        + "\n".join(f"- {split}: `{_short(getattr(run.data, split))}`" for split in sizes if getattr(run.data, split)),
        "## Settings\n\n" + _settings(run, model),
    ]
    card = ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(sections) + "\n")
    (folder / "README.md").write_text(str(card), encoding="utf-8")
    if mixes := layer_mixes(model):
        picture = draw_mixes({place: {"": weights} for place, weights in mixes.items()})
        (folder / PICTURE).write_text(picture, encoding="utf-8")


def layer_mixes(model: ElmoTaskModel) -> dict[str, list[float]]:
    """What each layer weighs in the mix, by the place of the mixer."""
    places = {"input": model.input_mixer, "output": model.output_mixer}
    return {place: mixer.layer_weights().tolist() for place, mixer in places.items() if mixer is not None}


def _usage(name: str, task: str) -> str:
    lines = ["import elmo_hf", "from transformers import pipeline", ""]
    return "\n".join(["```python", *lines, f'pipeline("{TASKS[task]}", "{name}")("Write a text here.")', "```"])


def _results(results: dict[str, dict[str, float]], sizes: dict[str, int]) -> str:
    metrics = list(dict.fromkeys(metric for values in results.values() for metric in values))
    lines = ["| split | examples | " + " | ".join(metrics) + " |", "|---|---|" + "---|" * len(metrics)]
    for split, values in results.items():
        cells = [f"{values[metric]:.4f}" if metric in values else "" for metric in metrics]
        lines.append(f"| {split} | {sizes[split]:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mixes(model: ElmoTaskModel) -> str:
    mixes = layer_mixes(model)
    if not mixes:
        return "None: this head has no ELMo in it."
    number = model.config.num_hidden_layers + 1
    lines = [
        "| place | " + " | ".join(f"layer {layer}" for layer in range(number)) + " | γ |",
        "|---" * (number + 2) + "|",
    ]
    for place, weights in mixes.items():
        mixer = getattr(model, f"{place}_mixer")
        cells = " | ".join(f"{weight:.3f}" for weight in weights)
        lines.append(f"| {place} | {cells} | {mixer.gamma.item():.3f} |")
    return f"![Mixing weights]({PICTURE})\n\n" + "\n".join(lines)


def _settings(run: "FinetuningRun", model: ElmoTaskModel) -> str:
    fields = {name: getattr(model.config, name) for name in SHOWN}
    fields["tag_decoder" if run.task == "tagging" else "pooling"] = (
        model.config.tag_decoder if run.task == "tagging" else model.config.pooling
    )
    shown = {"biLM": _short(run.model), **fields, **run.settings}
    if run.vectors_file is not None:
        shown["word vectors"] = _short(run.vectors_file)
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in shown.items())])


def _short(source: str) -> str:
    """A name on the Hub as it is, of a path the last part: a card tells nothing of the machine."""
    return os.path.basename(os.path.normpath(source)) if os.path.exists(source) else source


__all__ = ["layer_mixes", "write_card"]
