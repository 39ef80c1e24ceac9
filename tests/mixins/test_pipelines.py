"""transformers' PipelineTesterMixin over our models. What a task's answers are is ours: the distribution lacks it."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from transformers import pipeline

from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from tests.mixins.source import find_source, leave_out, stock_tests
from tests.models import TINY

pytestmark = pytest.mark.slow
TEXTS = ["This is a simple test .", "Another one", "the U.S.-based cat isn't here"]
LABELS = ["contradiction", "neutral", "entailment"]


class ElmoForEntailment(ElmoForSequenceClassification):
    """A classifier of pairs; the mixin has one model for each class."""


TASKS = {
    "feature-extraction": ElmoModel,
    "text-classification": ElmoForSequenceClassification,
    "token-classification": ElmoForTokenClassification,
    "zero-shot": ElmoForEntailment,
}


def save_models(folder: Path):
    """Writes what the mixin takes from the Hub: tiny models, each with its tokenizer, and a list of them."""
    tokenizer = ElmoTokenizer().train_new_from_iterator(TEXTS, vocab_size=20)
    torch.manual_seed(0)
    fields = TINY | {"vocab_size": tokenizer.vocab_size, "task_layer_size": 3}
    fields |= {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    for kind in TASKS.values():
        config = ElmoConfig(**fields, text_pairs=kind is ElmoForEntailment)
        for part in (kind(config), tokenizer):
            part.save_pretrained(folder / "elmo" / kind.__name__)
    classes = {"tokenizer_classes": ["ElmoTokenizer"], "processor_classes": []}
    (folder / "reports").mkdir()
    summary = {kind.__name__: classes for kind in TASKS.values()}
    (folder / "reports" / "tiny_model_summary.json").write_text(json.dumps(summary))


find_source()  # before models are made for it
FOLDER = tempfile.TemporaryDirectory(prefix="elmo-hf-pipelines-")
save_models(Path(FOLDER.name))
with mock.patch.dict(os.environ, TRANSFORMERS_TINY_MODEL_PATH=FOLDER.name):
    common = stock_tests("test_pipeline_mixin")


class TaskTests:
    """What the mixin asks a task's tests for: a pipeline with examples, and whether its answers are right."""

    task: str
    options: dict = {}

    def get_test_pipeline(self, model, tokenizer, dtype):
        return pipeline(self.task, model=model, tokenizer=tokenizer, dtype=dtype, **self.options), TEXTS

    def run_pipeline_test(self, pipe, examples):
        answers = pipe(examples)
        assert len(answers) == len(examples)
        for text, answer in zip(examples, answers, strict=True):
            self.check(pipe, text, answer)
            single = pipe(text)
            self.check(pipe, text, single[0] if self.task == "text-classification" else single)

    def check(self, pipe, text, answer):
        raise NotImplementedError


class FeatureExtractionTests(TaskTests):
    task = "feature-extraction"

    def check(self, pipe, text, answer):
        words = len(pipe.tokenizer(text)["input_ids"])
        vectors = np.array(answer)
        assert vectors.shape == (1, words, pipe.model.config.hidden_size)
        assert np.isfinite(vectors).all()


class TextClassificationTests(TaskTests):
    task = "text-classification"

    def check(self, pipe, text, answer):
        assert answer["label"] in pipe.model.config.label2id
        assert 0 <= answer["score"] <= 1


class TokenClassificationTests(TaskTests):
    task = "token-classification"

    def check(self, pipe, text, answer):
        assert [entry["word"] for entry in answer] == pipe.tokenizer.tokenize(text)
        assert [text[entry["start"] : entry["end"]] for entry in answer] == [entry["word"] for entry in answer]
        assert {entry["entity"] for entry in answer} <= set(pipe.model.config.label2id)


class ZeroShotTests(TaskTests):
    task = "zero-shot-classification"
    options = {"candidate_labels": ["animals", "politics", "sports"]}

    def check(self, pipe, text, answer):
        assert answer["sequence"] == text
        assert sorted(answer["labels"]) == self.options["candidate_labels"]
        assert sum(answer["scores"]) == pytest.approx(1, abs=1e-2)


OURS = {
    "feature-extraction": {"test": FeatureExtractionTests},
    "text-classification": {"test": TextClassificationTests},
    "token-classification": {"test": TokenClassificationTests},
    "zero-shot": {"test": ZeroShotTests},
}


@mock.patch.dict(common.pipeline_test_mapping, OURS)
class PipelineTest(common.PipelineTesterMixin, unittest.TestCase):
    pipeline_model_mapping = TASKS


NO_WORDS = "words are all that ELMo reads and answers with"
leave_out(
    PipelineTest,
    {
        "test_pipeline_any_to_any*": NO_WORDS,
        "test_pipeline_audio_classification*": NO_WORDS,
        "test_pipeline_automatic_speech_recognition*": NO_WORDS,
        "test_pipeline_depth_estimation*": NO_WORDS,
        "test_pipeline_document_question_answering*": NO_WORDS,
        "test_pipeline_image_*": NO_WORDS,
        "test_pipeline_mask_generation*": NO_WORDS,
        "test_pipeline_object_detection*": NO_WORDS,
        "test_pipeline_text_to_audio*": NO_WORDS,
        "test_pipeline_video_classification*": NO_WORDS,
        "test_pipeline_fill_mask*": "each of the language models reads one side of a word, and there is no mask",
        "test_pipeline_table_question_answering*": "there is no head for tables",
        "test_pipeline_text_generation*": "the language models rate words, and do not write",
        "test_pipeline_zero_shot_audio_classification*": NO_WORDS,
        "test_pipeline_zero_shot_image_classification*": NO_WORDS,
        "test_pipeline_zero_shot_object_detection*": NO_WORDS,
    },
)
