"""The card of a model, filled from its config and from what training, fine-tuning and conversion have recorded."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from ..errors import ModelError
from ..modeling.configuration_elmo import ElmoConfig
from ..runtime.run_records import Records, is_hub_name, malformed_files, shown_name
from ..runtime.staging import write_atomically
from .content import CardContent, finite_perplexities, split_metrics, task_of
from .curve import draw_curve
from .metadata import check_metadata
from .mix_picture import draw_mixes
from .mixes import Mix, stored_mixes

CARD, CURVE, MIXES = "README.md", "curve.svg", "mixes.svg"
TEMPLATE = Path(__file__).parent / "card_template.md"
# At the end of a card that was made here: such a one is made anew when it is published, any other is kept.
MARK = "<!-- Made by `elmo-hf card`; without this line it stays as you change it. -->"
# What a head has of its biLM's card.
INHERITED = ("language", "license", "license_name", "license_link")
# What follows from config and records; all other metadata are kept when a card is made anew.
MADE = ("library_name", "pipeline_tag", "tags", "model_name", "model-index")


def write_card(
    folder: str | os.PathLike,
    records: Records | None = None,
    *,
    name: str | None = None,
    said: Mapping[str, Any] | None = None,
    out: str | os.PathLike | None = None,
) -> Path:
    """
    Writes `README.md` into a model's folder, and the pictures that it shows beside it.

    Args:
        folder: With config and weights.
        records: How the model was made. Default: what the folder tells.
        name: The model's: its repository, or its folder. Default: the folder's name.
        said: Entries of the metadata that no record knows: `language`, `license`, `datasets`, `base_model`. Default:
            as in the card that is there, whose other entries are kept too.
        out: Where to write instead.

    Returns:
        The card's path.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no model: config.json is missing.")
    out, name = Path(out or folder), name or folder.resolve().name
    with malformed_files(folder):
        records = Records.of(folder) if records is None else records
        config = ElmoConfig.from_pretrained(folder)
        mixes = _learned_mixes(stored_mixes(folder, config))
        metadata = _metadata(folder, config, records, name, said or {})
        check_metadata(metadata.to_dict())
        content = CardContent(config, records, mixes, name)
        card = ModelCard.from_template(metadata, template_path=str(TEMPLATE), mark=MARK, **content.fields())
    if mixes:
        write_atomically(out / MIXES, draw_mixes({place: {"": mix.weights} for place, mix in mixes.items()}))
    if content.has_curve:
        write_atomically(out / CURVE, draw_curve(records.history or []))
    write_atomically(out / CARD, str(card))
    return out / CARD


def is_made_here(folder: str | os.PathLike) -> bool:
    """Whether a folder's card, if it has one, was made by [`write_card`] and is still marked so."""
    return not (Path(folder) / CARD).is_file() or MARK in _read(Path(folder))


def read_metadata(folder: str | os.PathLike) -> dict[str, Any]:
    """The metadata of a folder's card; nothing where there is none."""
    folder = Path(folder)
    if not (folder / CARD).is_file():
        return {}
    text = _read(folder)
    try:
        return ModelCard(text).data.to_dict()
    except Exception as error:  # of YAML, of the card's own classes
        raise ModelError(f"{folder / CARD}: the metadata cannot be read ({' '.join(str(error).split())}).") from error


def _read(folder: Path) -> str:
    try:
        return (folder / CARD).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{folder / CARD} is not UTF-8 text ({error}): save it as such.") from error


def _metadata(folder: Path, config: ElmoConfig, records: Records, name: str, said: Mapping[str, Any]) -> ModelCardData:
    """What is said now, else what was said, else what follows from the records and the card of the biLM."""
    known: dict[str, Any] = {}
    if (run := records.finetuning) is not None:
        inherited = read_metadata(run["model"]) if os.path.isdir(run["model"]) else {}
        known = {entry: inherited[entry] for entry in INHERITED if entry in inherited}
        known["base_model"] = run["model"] if is_hub_name(run["model"]) else None
        known["datasets"] = [run["data"]["train"]] if is_hub_name(run["data"]["train"]) else None
    if (run := records.pretraining) is not None:
        known["datasets"] = [source for source in run["text"]["text"] if is_hub_name(source)]
    old = read_metadata(folder)
    kept = {entry: value for entry, value in old.items() if entry not in MADE}
    chosen = known | kept | {entry: value for entry, value in said.items() if value}
    results = _evaluation(config, records)
    return ModelCardData(
        **{entry: value for entry, value in chosen.items() if value},
        library_name="transformers",
        pipeline_tag=task_of(config),
        tags=list(dict.fromkeys(["elmo", "bilm", *(old.get("tags") or [])])),
        **({"model_name": name.split("/")[-1], "eval_results": results} if results else {}),
    )


def _evaluation(config: ElmoConfig, records: Records) -> list[EvalResult]:
    """Of the model index."""
    if records.finetuning is not None and records.results is not None:
        return [
            _result(task_of(config), shown_name(records.finetuning["data"][split]), split, metric, round(value, 4))
            for split, metrics in split_metrics(records).items()
            for metric, value in metrics.items()
            if metric != "loss" and math.isfinite(value)
        ]
    if (found := records.perplexity()) is not None and records.pretraining is not None:
        data = ", ".join(shown_name(source) for source in records.pretraining["text"]["heldout"])
        return [
            _result("language-modeling", data, "heldout", "perplexity", round(value, 2), f"Perplexity, {direction}")
            for direction, value in finite_perplexities(found).items()
        ]
    return []


def _result(task: str, data: str, split: str, metric: str, value: float, name: str | None = None) -> EvalResult:
    return EvalResult(
        task_type=task,
        dataset_type=data,
        dataset_name=data,
        dataset_split=split,
        metric_type=metric,
        metric_name=name,
        metric_value=value,
    )


def _learned_mixes(mixes: dict[str, Mix]) -> dict[str, Mix]:
    """Without a model's own mixer that is as it was made."""
    own = mixes.get("model")
    if own is not None and max(own.weights) - min(own.weights) < 1e-6 and own.gamma == 1:
        return {place: mix for place, mix in mixes.items() if place != "model"}
    return mixes


__all__ = ["CARD", "is_made_here", "read_metadata", "write_card"]
