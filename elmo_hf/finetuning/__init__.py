"""Fine-tuning of heads: data, training with transformers' Trainer, metrics and prediction."""

from ..data.squad import Answer, Question, read_squad
from .answer_metrics import answer_metrics
from .classification_data import LabelledText, are_trees, read_labelled
from .coreference_metrics import coreference_metrics
from .coreference_prediction import as_document_json, predict_clusters
from .prediction import LabelledResult, as_conll, as_json, load_head, predict_answers, predict_labels, predict_tags
from .role_metrics import role_metrics
from .role_prediction import mark_found_predicates, predict_roles, read_marked_predicates
from .run import FinetuningRun, TaskData, reading_options
from .settings import FinetuningSettings
from .tagging_data import TaggedSentence, read_tagged
from .tasks import TASKS, ClassificationTask, CoreferenceTask, QuestionAnsweringTask, RolesTask, TaggingTask
from .training import HeadTrainer, build_head
from .word_vectors import WordVectors, learned_vectors, vectors_from_file

__all__ = [
    "TASKS",
    "Answer",
    "ClassificationTask",
    "CoreferenceTask",
    "FinetuningRun",
    "FinetuningSettings",
    "HeadTrainer",
    "LabelledResult",
    "LabelledText",
    "Question",
    "QuestionAnsweringTask",
    "RolesTask",
    "TaggedSentence",
    "TaggingTask",
    "TaskData",
    "WordVectors",
    "answer_metrics",
    "are_trees",
    "as_conll",
    "as_document_json",
    "as_json",
    "build_head",
    "coreference_metrics",
    "learned_vectors",
    "load_head",
    "mark_found_predicates",
    "predict_answers",
    "predict_clusters",
    "predict_labels",
    "predict_roles",
    "predict_tags",
    "read_labelled",
    "read_marked_predicates",
    "read_squad",
    "read_tagged",
    "reading_options",
    "role_metrics",
    "vectors_from_file",
]
