"""Predicts tags, labels and answers with a trained head, lazily."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch

from ..data.roles import RoleSentence
from ..data.squad import Question
from ..data.tables import refuse_broken_columns
from ..errors import ModelError, TextError
from ..modeling.configuration_elmo import HEADS, ElmoConfig
from ..modeling.modeling_heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification
from ..modeling.modeling_question_answering_elmo import ElmoForQuestionAnswering, answer_batch
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.model_loading import Precision, load_model, loading_errors
from ..runtime.threads import cpu_slots
from .classification_data import LabelledText
from .question_answering_task import MAX_CONTEXT, OVERLAP
from .tagging_data import TaggedSentence

CHUNK = 16  # batches whose items are sorted by length


class LabelledResult(NamedTuple):
    """
    The prediction for a text.

    Args:
        example: The text.
        label: The predicted label: a name, all names with a probability above one half, or a score; `None` for a text
            without words.
        scores: The probability of every label; empty for a regression and for a text without words.
    """

    example: LabelledText
    label: str | list[str] | float | None
    scores: dict[str, float]


class AnsweredQuestion(NamedTuple):
    """
    The answers to a question.

    Args:
        question: The question and its context.
        answers: The best answers, as [`ElmoForQuestionAnswering.answer`] gives them; none for a context without words.
    """

    question: Question
    answers: list[dict[str, Any]]


def load_head(name: str, *, device: str | None = None, precision: Precision | None = None) -> tuple[Any, ElmoTokenizer]:
    """
    Loads the head that a config names, an [`ElmoTaskModel`] such as a tagger or a classifier, and its tokenizer.

    Args:
        name: A folder, or a name on the Hub.
        device, precision: As in [`load_model`].
    """
    with loading_errors(name):
        # Not the Auto class: it would ask on standard input whether to run the code of a foreign model.
        config = ElmoConfig.get_config_dict(name)[0]
        if (model_type := config.get("model_type")) != ElmoConfig.model_type:
            raise ModelError(f"{name} should hold a model of type elmo, found {model_type}.")
        architectures = config.get("architectures") or []
        for head in HEADS:
            if head.name in architectures:
                model = load_model(head.model_class, name, device=device, precision=precision)
                return model, ElmoTokenizer.from_pretrained(name)
    raise ModelError(
        f"{name} is not a model with a head, such as a tagger or a classifier: `elmo-hf finetune` makes one."
    )


def predict_tags(
    model: ElmoForTokenClassification,
    tokenizer: ElmoTokenizer,
    sentences: Iterable[list[str]],
    batch_size: int = 32,
) -> Iterator[TaggedSentence]:
    """Yields the sentences with their tags, in order. A sentence without words has no tags."""
    return (sentence for sentence, _ in predict_scored_tags(model, tokenizer, sentences, batch_size))


def predict_scored_tags(
    model: ElmoForTokenClassification,
    tokenizer: ElmoTokenizer,
    sentences: Iterable[list[str]],
    batch_size: int = 32,
) -> Iterator[tuple[TaggedSentence, list[float]]]:
    """
    Yields the sentences with their tags, in order, and the probability of each tag (of a CRF, nearly its marginal
    probability, as the pipeline of transformers has it).
    """

    def answer(batch: list[list[str]]) -> list[tuple[TaggedSentence, list[float]]]:
        inputs = tokenizer(batch, is_split_into_words=True, padding=True, padding_side="right", return_tensors="pt").to(
            model.device
        )
        with cpu_slots(model.device):
            logits = model(**inputs).logits.float()
        labels, scores = logits.argmax(dim=-1).tolist(), logits.softmax(dim=-1).amax(dim=-1).tolist()
        names = model.config.label_names
        return [
            (TaggedSentence(words, [names[label] for label in row[1 : len(words) + 1]]), scored[1 : len(words) + 1])
            for words, row, scored in zip(batch, labels, scores, strict=True)
        ]

    refuse_training(model)
    return in_batches(sentences, answer, len, batch_size, lambda words: (TaggedSentence(words, []), []))


def refuse_training(model: Any):
    """Raises an error for a model in training mode."""
    if model.training:
        raise ModelError("The model is in training mode, where dropout changes its output: call model.eval() first.")


def predict_labels(
    model: ElmoForSequenceClassification,
    tokenizer: ElmoTokenizer,
    texts: Iterable[LabelledText],
    batch_size: int = 32,
) -> Iterator[LabelledResult]:
    """Yields the texts with their labels, in order."""
    names = model.config.label_names
    kind = model.config.problem_type

    def answer(batch: list[LabelledText]) -> list[LabelledResult]:
        pairs = [str(example.pair) for example in batch] if model.config.text_pairs else None
        inputs = tokenizer([example.text for example in batch], pairs, padding=True, return_tensors="pt")
        with cpu_slots(model.device):
            logits = model(**inputs.to(model.device)).logits.float()
        return [_result(example, row, names, kind) for example, row in zip(batch, logits, strict=True)]

    def length(example: LabelledText) -> int:
        words = len(tokenizer.tokenize(example.text, example.pair))
        if words and model.config.text_pairs and example.pair is None:
            raise TextError(f"The model classifies pairs of texts, and {example.text!r:.60} has no second text.")
        if words and not model.config.text_pairs and example.pair is not None:
            raise TextError(f"The model classifies single texts, and {example.text!r:.60} is one of a pair.")
        return words

    refuse_training(model)
    return in_batches(texts, answer, length, batch_size, lambda example: LabelledResult(example, None, {}))


def predict_answers(
    model: ElmoForQuestionAnswering,
    tokenizer: ElmoTokenizer,
    questions: Iterable[Question],
    batch_size: int = 32,
    n_best: int = 1,
) -> Iterator[AnsweredQuestion]:
    """Yields the questions with their best answers, in order."""
    questions = iter(questions)
    while chunk := list(islice(questions, CHUNK * batch_size)):
        texts = [question.question for question in chunk], [question.context for question in chunk]
        answers = answer_batch(model, tokenizer, *texts, n_best, batch_size, MAX_CONTEXT, OVERLAP)
        yield from map(AnsweredQuestion, chunk, answers)


def _result(example: LabelledText, logits: torch.Tensor, names: list[str], kind: str | None) -> LabelledResult:
    if kind == "regression":
        return LabelledResult(example, logits[0].item(), {})
    several = kind == "multi_label_classification"
    scores = dict(zip(names, (logits.sigmoid() if several else logits.softmax(dim=-1)).tolist(), strict=True))
    label = [name for name in names if scores[name] > 0.5] if several else max(names, key=scores.__getitem__)
    return LabelledResult(example, label, scores)


def in_batches(
    items: Iterable[Any],
    answer: Callable[[list[Any]], list[Any]],
    length: Callable[[Any], int],
    batch_size: int,
    without_words: Callable[[Any], Any],
) -> Iterator[Any]:
    """
    Yields one answer per item, in order. Items of similar length share a batch. Answers are computed without gradients.

    Args:
        answer: Runs the model on a batch.
        length: The number of words of an item.
        without_words: The answer for an item without words.
    """
    items = iter(items)
    while chunk := list(islice(items, CHUNK * batch_size)):
        lengths = [length(item) for item in chunk]
        answers = [None if words else without_words(item) for item, words in zip(chunk, lengths, strict=True)]
        order = sorted((place for place in range(len(chunk)) if lengths[place]), key=lengths.__getitem__)
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            with torch.no_grad():  # here, as a decorator of the caller would end before the first answer is asked for
                results = answer([chunk[place] for place in places])
            for place, result in zip(places, results, strict=True):
                answers[place] = result
        yield from answers


def as_conll(sentence: TaggedSentence) -> str:
    """One line per word with its tag, then a blank line."""
    refuse_broken_columns(sentence.words)
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(sentence.words, sentence.tags or (), strict=True)) + "\n"


def as_json(result: TaggedSentence | RoleSentence | LabelledResult | AnsweredQuestion) -> str:
    """One line of JSON."""
    if isinstance(result, AnsweredQuestion):
        names = {"id": result.question.id, "question": result.question.question}
        return json.dumps(names | {"answers": result.answers}, ensure_ascii=False) + "\n"
    if isinstance(result, (TaggedSentence, RoleSentence)):
        values: dict[str, Any] = result._asdict()
    else:
        texts = {"text": result.example.text} | ({"text_pair": result.example.pair} if result.example.pair else {})
        values = texts | {"label": result.label} | ({"scores": result.scores} if result.scores else {})
    return json.dumps(values, ensure_ascii=False) + "\n"


__all__ = [
    "AnsweredQuestion",
    "LabelledResult",
    "as_conll",
    "as_json",
    "in_batches",
    "load_head",
    "predict_answers",
    "predict_labels",
    "predict_scored_tags",
    "predict_tags",
    "refuse_training",
]
