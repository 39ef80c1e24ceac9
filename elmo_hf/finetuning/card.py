"""The card of a trained head: data, metrics and the mix that it has learned."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from ..classification_elmo import ElmoTaskModel
from ..mixer_elmo import ElmoMixer

if TYPE_CHECKING:
    from .run import FinetuningRun

TASKS = {"tagging": "token-classification", "classification": "text-classification"}
SHOWN = (
    "elmo_places",
    "mixer_weights",
    "mixer_l2",
    "elmo_dropout",
    "freeze_bilm",
    "word_vector_size",
    "num_task_layers",
)
SHOWN += ("task_layer_size", "classifier_dropout")


def write_card(
    path: Path,
    run: "FinetuningRun",
    model: ElmoTaskModel,
    sizes: dict[str, int],
    results: dict[str, dict[str, float]],
):
    """
    Writes a model card.

    Args:
        run: What was done.
        model: What came of it.
        sizes: Examples of each split.
        results: Metrics of each split.
    """
    name, data_name = path.parent.parent.name, os.path.basename(os.path.normpath(run.data.train))
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
    path.write_text(str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(sections) + "\n")), encoding="utf-8")


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
    places = {"input": model.input_mixer, "output": model.output_mixer}
    mixers = {place: mixer for place, mixer in places.items() if isinstance(mixer, ElmoMixer)}
    number = model.config.num_hidden_layers + 1
    lines = [
        "| place | " + " | ".join(f"layer {layer}" for layer in range(number)) + " | γ |",
        "|---" * (number + 2) + "|",
    ]
    with torch.no_grad():
        for place, mixer in mixers.items():
            weights = " | ".join(f"{weight:.3f}" for weight in mixer.layer_weights().tolist())
            lines.append(f"| {place} | {weights} | {mixer.gamma.item():.3f} |")
    return "\n".join(lines)


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


__all__ = ["write_card"]
