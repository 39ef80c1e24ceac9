"""The content of a card: the fields of its template."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import counted
from ..modeling.configuration_elmo import HEADS, ElmoConfig, ModelClass
from ..runtime.run_records import Records, shown_name
from .mixes import Mix

CALLS = {
    "feature-extraction": 'vectors = model("He sat on the bank of the river.")[0]  # {size} values per token',
    "token-classification": 'tags = model("He sat on the bank of the river.")  # a tag and its score for each word',
    "text-classification": 'label = model("He sat on the bank of the river.")  # a label and its score',
    "pairs": 'label = model({{"text": "He sat by the river.", "text_pair": "He was at the bank."}})',
}
ANSWERING = (
    "from transformers import AutoModelForQuestionAnswering, AutoTokenizer",
    "",
    "model = AutoModelForQuestionAnswering.from_pretrained({name}, trust_remote_code=True)",
    "tokenizer = AutoTokenizer.from_pretrained({name}, trust_remote_code=True)",
    'answers = model.answer(tokenizer, "Who sat on the bank?", "Anna sat on the bank of the river.", n_best=3)',
)
NOTE = (
    "The repository contains the code of the model. If the package `elmo-hf` is installed, `import elmo_hf` replaces "
    "`trust_remote_code=True`."
)
# Of heads without Auto class, by name. A new head may have none: its card then ends with the loading.
CLASS_CALLS = {
    "ElmoForSemanticRoles": [
        'batch = tokenizer(["He sat on the bank ."], return_tensors="pt")',
        'predicate = (batch["input_ids"] < 0).int()',
        "predicate[0, 2] = 1  # sat; <S> is at 0",
        "labels = model(**batch, predicate_mask=predicate).logits.argmax(-1)[0]  # one for each word",
        "roles = [model.config.id2label[int(label)] for label in labels[1:-1]]",
    ],
    "ElmoForCoreference": [
        'batch = tokenizer(["Anna saw a cat .", "She fed it ."], padding=True, return_tensors="pt")',
        "clusters = model(**batch).clusters[0]  # first word, last word and cluster of each mention",
    ],
}
CLASS_NOTE = (
    "The repository contains the code of the model. If the package `elmo-hf` is installed, the class is "
    "`elmo_hf.{name}`{predict}."
)
PREDICT_NOTE = ", and `elmo-hf predict` runs it on text"
HEAD_FIELDS = ["elmo_places", "mixer_weights", "mixer_l2", "elmo_dropout", "freeze_bilm", "word_vector_size"]
HEAD_FIELDS += ["num_task_layers", "task_layer_size", "classifier_dropout"]


class CardContent(NamedTuple):
    """
    The content of a model card.

    Args:
        config: The model's config.
        records: The records of how the model was made.
        mixes: The learned mixing weights, by place.
        name: The name of the model.
    """

    config: ElmoConfig
    records: Records
    mixes: dict[str, Mix]
    name: str

    @property
    def has_curve(self) -> bool:
        return len([record for record in self.records.history or [] if finite_perplexities(record)]) > 1

    def fields(self) -> dict[str, Any]:
        metrics = split_metrics(self.records)
        names = list(dict.fromkeys(metric for values in metrics.values() for metric in values))
        return {
            "name": self.name.split("/")[-1],
            "description": self._description(),
            "usage": self._usage(),
            "usage_note": self._usage_note(),
            "model_rows": self._model_rows(),
            "perplexities": self._perplexities(),
            "heldout_words": (self.records.perplexity() or {}).get("heldout_words"),
            "metric_names": names,
            "result_rows": [self._result_row(split, values, names) for split, values in metrics.items()],
            "num_layers": self.config.num_hidden_layers + 1,
            "mix_rows": [
                [place, *(f"{weight:.3f}" for weight in mix.weights), f"{mix.gamma:.3f}"]
                for place, mix in self.mixes.items()
            ],
            "how": self._how(),
            "has_curve": self.has_curve,
            "data_rows": _cells(self._data()),
            "setting_rows": _cells(self._settings()),
            "limits": self._limits(),
        }

    def _perplexities(self) -> list[tuple[str, str]]:
        record = self.records.perplexity() if self.records.pretraining is not None else None
        return [(direction, f"{value:.2f}") for direction, value in finite_perplexities(record or {}).items()]

    def _description(self) -> str:
        elmo = "[ELMo](https://arxiv.org/abs/1802.05365)"
        task, head = task_of(self.config), head_of(self.config)
        if head is not None and head.name == "ElmoForSemanticRoles":
            return f"Finds semantic roles with {elmo}: the arguments of a predicate, as BIO tags."
        if head is not None and head.name == "ElmoForCoreference":
            return f"Finds coreference with {elmo}: the clusters of mentions in a document."
        if task == "token-classification":
            return f"Tags words with {elmo}."
        if task == "text-classification":
            return f"Classifies {'pairs of texts' if self.config.text_pairs else 'texts'} with {elmo}."
        if task == "question-answering":
            nothing = ", or says that there is none" if self.config.allow_no_answer else ""
            return f"Finds the answer to a question in a text{nothing}, with {elmo}."
        if task != "feature-extraction":
            return f"A model for {task} with {elmo}."
        sources = {"characters": "its characters", "words": "a word table", "both": "its characters, a word table"}
        source = sources[self.config.token_inputs]
        return (
            f"{elmo}, deep contextualised word representations: a language model in {_directions(self.config)} that "
            f"gives each word vectors of {self.config.hidden_size} values, computed from {source} and "
            "its sentence."
        )

    def _usage_note(self) -> str:
        head = head_of(self.config)
        if head is None or head.auto_class is not None:
            return NOTE
        return CLASS_NOTE.format(name=head.name, predict=PREDICT_NOTE if head.task else "")

    def _usage(self) -> str:
        head = head_of(self.config)
        if head is not None and head.auto_class is None:
            return self._class_usage(head)
        task = task_of(self.config)
        if task == "question-answering":  # no pipeline of transformers 5: the model itself answers
            return "\n".join(line.format(name=json.dumps(self.name)) for line in ANSWERING)
        kind = "pairs" if task == "text-classification" and self.config.text_pairs else task
        call = CALLS.get(kind, 'output = model("He sat on the bank of the river.")')
        return "\n".join(
            [
                "from transformers import pipeline",
                "",
                f'model = pipeline("{task}", {json.dumps(self.name)}, trust_remote_code=True)',
                call.format(size=self.config.hidden_size),
            ]
        )

    def _class_usage(self, head: ModelClass) -> str:
        """The usage of a head without Auto class."""
        return "\n".join(
            [
                "from transformers import AutoTokenizer",
                "from transformers.dynamic_module_utils import get_class_from_dynamic_module",
                "",
                f"name = {json.dumps(self.name)}",
                f'model_class = get_class_from_dynamic_module("{head.module}.{head.name}", name)',
                "model = model_class.from_pretrained(name).eval()",
                "tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True)",
                *CLASS_CALLS.get(head.name, []),
            ]
        )

    def _model_rows(self) -> list[tuple[str, Any]]:
        config = self.config
        projected = "" if config.projection_size is None else f", projected to {config.projection_size}"
        layers, highway = _count(config.num_hidden_layers, "layer"), _count(config.num_highway_layers, "highway layer")
        rows = [("biLM", f"{layers} of {config.cell_size} cells{projected}, per direction")]
        if config.uses_characters:
            filters = f"{config.char_feature_size} filters of widths {_widths(config)}"
            rows.append(("characters", f"{filters}, {highway}, up to {config.max_characters_per_token} per word"))
        if config.uses_words:
            rows.append(("words", f"{config.vocab_size:,}, with {config.word_embedding_size} values each"))
        if "ElmoForPreTraining" in (config.architectures or []):
            rows.append(("softmax", f"{config.softmax_type}, over {config.vocab_size:,} words"))
        if task_of(config) in ("token-classification", "text-classification"):
            rows.append(("labels", ", ".join(f"`{label}`" for label in config.label_names)))
        return _cells(dict(rows))

    def _result_row(self, split: str, values: Mapping[str, float], names: Sequence[str]) -> list[str]:
        examples = (self.records.results or {}).get("examples", {}).get(split)
        count = "" if examples is None else f"{examples:,}"
        return [split, count, *(f"{values[name]:.4f}" if name in values else "" for name in names)]

    def _how(self) -> str:
        records = self.records
        if records.finetuning is not None:
            seeds = len((records.results or {}).get("seeds", []))
            best = f"; the best of {seeds} seeds on the development data" if seeds > 1 else ""
            return f"Trained with `elmo-hf finetune {records.finetuning['task']}`{best}."
        if records.pretraining is not None:
            done = records.progress()
            sizes = (
                f": {counted(done['step'], 'step')}, {counted(done['words'], 'word')}, {done['hours']:.2f} hours"
                if done
                else ""
            )
            return f"Pretrained with `elmo-hf pretrain`{sizes}."
        if records.conversion is not None:
            source = records.conversion
            return (
                f"Converted from the format {source['format']} with `elmo-hf convert`, {source['parameters']:,} "
                f"parameters, stored as {source['dtype']}. It gives the vectors of the original implementation."
            )
        return "The folder of the model has no record of it."

    def _data(self) -> dict[str, Any]:
        records = self.records
        if (run := records.finetuning) is not None:
            splits = {split: run["data"].get(split) for split in ("train", "dev", "test")}
            return {split: f"`{shown_name(source)}`" for split, source in splits.items() if source}
        if (run := records.pretraining) is not None:
            parts = {"text": run["text"]["text"], "held-out": run["text"]["heldout"]}
            return {what: ", ".join(f"`{shown_name(source)}`" for source in names) for what, names in parts.items()}
        files = (records.conversion or {}).get("files", {})
        return {use: f"`{file['name']}`, SHA-256 `{file['sha256']}`" for use, file in files.items()}

    def _settings(self) -> dict[str, Any]:
        config, records = self.config, self.records
        if (run := records.finetuning) is not None:
            own = [field for head in HEADS if head.task == run["task"] for field in head.fields]
            fields = {field: getattr(config, field) for field in (*HEAD_FIELDS, *own)}
            vectors = {} if run["vectors_file"] is None else {"word vectors": shown_name(run["vectors_file"])}
            return {"biLM": shown_name(run["model"])} | fields | run["settings"] | vectors
        if (run := records.pretraining) is not None:
            quiet = {"log_every", "save_every", "keep_checkpoints", "evaluate_every", "evaluate_words", "compile"}
            return {"dropout": config.dropout} | {
                name: value for name, value in run["settings"].items() if name not in quiet
            }
        return {}

    def _limits(self) -> list[str]:
        limits = [
            "It reflects the texts that it was trained on, with their views and gaps, and knows nothing more recent."
        ]
        if task_of(self.config) == "feature-extraction":
            limits.append(
                "Each sentence is a separate sequence: the vector of a word depends only on its own sentence."
            )
        else:
            limits.append(
                "The results were measured on texts like those that it was trained on. Expect lower results on others."
            )
        return limits


def task_of(config: ElmoConfig) -> str:
    """The name of the pipeline that runs a model."""
    head = head_of(config)
    return "feature-extraction" if head is None else head.pipeline


def head_of(config: ElmoConfig) -> ModelClass | None:
    """The entry of the registry for the saved class; `None` if it is not a head."""
    return next((head for head in HEADS if head.name in (config.architectures or [])), None)


def split_metrics(records: Records) -> dict[str, dict[str, float]]:
    """The metrics of each split."""
    return {split: records.results[split] for split in ("dev", "test") if split in (records.results or {})}


def finite_perplexities(record: Mapping[str, Any]) -> dict[str, float]:
    """The finite perplexities of a history record, by direction."""
    values = {direction: record.get(f"{direction}_perplexity") for direction in ("forward", "backward")}
    return {direction: value for direction, value in values.items() if value is not None and math.isfinite(value)}


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _directions(config: ElmoConfig) -> str:
    return "both directions" if config.directions == "both" else f"the {config.directions} direction"


def _widths(config: ElmoConfig) -> str:
    widths = [width for width, _ in config.char_filters]
    return f"{min(widths)} to {max(widths)}"


def _cells(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows of a Markdown table, with bars escaped and without empty values."""
    shown = {name: str(value) for name, value in values.items() if value is not None and value != ""}
    return [(name, text.replace("|", "\\|").replace("\n", " ")) for name, text in shown.items()]


__all__ = ["CardContent", "finite_perplexities", "split_metrics", "task_of"]
