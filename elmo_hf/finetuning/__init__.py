"""Fine-tuning of heads: data, training with transformers' Trainer, metrics and prediction."""

from .classification_data import LabelledText, read_labelled
from .coreference_metrics import coreference_metrics
from .coreference_prediction import as_document_json, predict_clusters
from .prediction import LabelledResult, as_conll, as_json, load_head, predict_labels, predict_tags
from .role_metrics import role_metrics
from .role_prediction import mark_found_predicates, predict_roles, read_marked_predicates
from .run import FinetuningRun, TaskData, reading_options
from .settings import FinetuningSettings
from .tagging_data import TaggedSentence, read_tagged
from .tasks import TASKS, ClassificationTask, CoreferenceTask, RolesTask, TaggingTask
from .training import HeadTrainer, build_head
from .word_vectors import WordVectors, learned_vectors, vectors_from_file

__all__ = [
    "TASKS",
    "ClassificationTask",
    "CoreferenceTask",
    "FinetuningRun",
    "FinetuningSettings",
    "HeadTrainer",
    "LabelledResult",
    "LabelledText",
    "RolesTask",
    "TaggedSentence",
    "TaggingTask",
    "TaskData",
    "WordVectors",
    "as_conll",
    "as_document_json",
    "as_json",
    "build_head",
    "coreference_metrics",
    "learned_vectors",
    "load_head",
    "mark_found_predicates",
    "predict_clusters",
    "predict_labels",
    "predict_roles",
    "predict_tags",
    "read_labelled",
    "read_marked_predicates",
    "read_tagged",
    "reading_options",
    "role_metrics",
    "vectors_from_file",
]
