"""Question answering: attention beside plain PyTorch, the loss by the book, and answers with offsets into the text."""

import math
import random
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from torch.testing import assert_close
from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding, Trainer, TrainingArguments, set_seed

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForQuestionAnswering, ElmoTokenizer
from elmo_hf.modeling.modeling_question_answering_elmo import (
    IMPOSSIBLE,
    ElmoBidaf,
    ElmoContextAttention,
    answer_batch,
    best_spans,
    context_words,
    windows,
)
from tests.models import TINY

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "a", "mat"]
SIZES = TINY | {"vocab_size": len(WORDS), "task_layer_size": 3}
QUESTIONS = ["who sat ?", "what", "where is the mat now"]
CONTEXTS = ["the cat sat on a mat", "a dog", "the mat sat on the cat today"]
HEADS = [
    {},
    {"num_task_layers": 0},
    {"elmo_places": "both", "word_vector_size": 5, "allow_no_answer": True},
    {"elmo_places": "output", "word_vector_size": 5, "num_task_layers": 2},
    {"elmo_places": "none", "word_vector_size": 5, "allow_no_answer": True},
    {"freeze_bilm": False, "elmo_places": "both"},
]


@pytest.fixture(scope="module")
def tokenizer():
    return ElmoTokenizer(vocab=WORDS)


def head(seed: int = 0, **fields) -> ElmoForQuestionAnswering:
    torch.manual_seed(seed)
    return ElmoForQuestionAnswering(ElmoConfig(**(SIZES | fields))).eval()


def pairs(tokenizer, side: str = "right", rows=slice(None)):
    return tokenizer(QUESTIONS[rows], CONTEXTS[rows], padding=True, padding_side=side, return_tensors="pt")


# ---- layers


def rows_and_masks():
    torch.manual_seed(0)
    masks = [torch.arange(width) < torch.tensor(lengths).unsqueeze(1) for width, lengths in ((5, [5, 3]), (3, [1, 3]))]
    return [torch.randn(*mask.shape, 4) * mask.unsqueeze(-1) for mask in masks], masks


def trilinear(layer, one, other):
    parts = [part.weight[0] for part in (layer.first, layer.second, layer.product)]
    rows = [torch.stack([a @ parts[0] + b @ parts[1] + (a * b) @ parts[2] for b in other]) for a in one]
    return torch.stack(rows)


def test_attention_in_both_directions_is_bidaf():
    (contexts, questions), (context_mask, question_mask) = rows_and_masks()
    layer = ElmoBidaf(4, 6).eval()
    actual = layer(contexts, questions, context_mask, question_mask)
    for row in range(2):
        context, question = contexts[row][context_mask[row]], questions[row][question_mask[row]]
        scores = trilinear(layer.scores, context, question)
        attended = scores.softmax(dim=1) @ question
        of_context = scores.amax(dim=1).softmax(dim=0) @ context
        joined = torch.cat([context, attended, context * attended, of_context * attended], dim=-1)
        assert_close(actual[row][context_mask[row]], torch.relu(layer.project(joined)))


def test_in_training_equal_words_of_a_text_stay_equal():
    torch.manual_seed(0)
    model = head(elmo_places="both", word_vector_size=5).train()
    words, mask = torch.randn(2, 1, 6).expand(2, 7, 6), torch.ones(2, 7, dtype=torch.bool)
    layers = [ElmoBidaf(6, 4, 0.5).train()(words, words, mask, mask)]
    layers += [model.input_mixer([torch.ones(2, 7, 8)] * 3), model.output_mixer([torch.ones(2, 7, 8)] * 3)]
    layers.append(model.dropout(torch.ones(2, 7, 40)))
    assert all(torch.equal(layer, layer[:, :1].expand_as(layer)) for layer in layers)
    assert not torch.equal(layers[-1][0], layers[-1][1])  # another mask for each text


def test_self_attention_is_residual_and_no_word_attends_to_itself():
    (contexts, _), (mask, _) = rows_and_masks()
    layer = ElmoContextAttention(4).eval()
    actual = layer(contexts, mask)
    read = layer.recurrent(contexts, mask)
    for row in range(2):
        words = read[row][mask[row]]
        scores = trilinear(layer.scores, words, words).masked_fill(torch.eye(len(words)).bool(), -math.inf)
        attended = scores.softmax(dim=1) @ words
        joined = torch.cat([words, attended, words * attended], dim=-1)
        assert_close(actual[row][mask[row]], contexts[row][mask[row]] + torch.relu(layer.project(joined)))


# ---- the head


@pytest.mark.parametrize("fields", HEADS, ids=str)
def test_a_pair_has_the_same_logits_alone_in_a_batch_and_padded_on_either_side(tokenizer, fields):
    model = head(**fields)
    with torch.no_grad():
        right, left = (model(**pairs(tokenizer, side)) for side in ("right", "left"))
        for row in range(3):
            single = model(**pairs(tokenizer, rows=slice(row, row + 1)))
            for name in ("start_logits", "end_logits"):
                expected = single[name][0]
                assert_close(right[name][row, : len(expected)], expected, atol=1e-5, rtol=0)
                assert_close(left[name][row, -len(expected) :], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("fields", HEADS, ids=str)
def test_every_parameter_that_learns_gets_a_gradient_and_a_saved_head_gives_the_same_logits(
    tokenizer, tmp_path, fields
):
    model, batch = head(**fields).train(), pairs(tokenizer)
    first = 3 + torch.tensor([3, 1, 5])
    model(**batch, start_positions=first, end_positions=first + 1).loss.backward()
    unused = [name for name, part in model.named_parameters() if part.requires_grad and part.grad is None]
    assert not unused
    model.eval().save_pretrained(tmp_path)
    loaded, info = AutoModelForQuestionAnswering.from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is ElmoForQuestionAnswering
    assert not any(info.values())
    with torch.no_grad():
        assert torch.equal(loaded(**batch).start_logits, model(**batch).start_logits)


def test_the_loss_is_the_mean_cross_entropy_of_start_and_end(tokenizer):
    model, batch = head(), pairs(tokenizer)
    start, end = torch.tensor([6, 4, -100]), torch.tensor([7, 5, -100])
    output = model(**batch, start_positions=start, end_positions=end)
    expected = [
        functional.cross_entropy(logits[:2], wanted[:2])
        for logits, wanted in ((output.start_logits, start), (output.end_logits, end))
    ]
    assert_close(output.loss, sum(expected) / 2)
    shared = model(**batch, start_positions=start, end_positions=end, num_items_in_batch=4).loss
    assert_close(shared, output.loss / 2)


def test_only_words_of_the_context_can_be_an_answer_and_the_first_boundary_stands_for_none(tokenizer):
    batch = pairs(tokenizer, rows=slice(0, 1))  # <S> who sat ? </S> <S> the cat sat on a mat </S>
    for allow, possible in ((False, range(6, 12)), (True, [0, *range(6, 12)])):
        logits = head(allow_no_answer=allow)(**batch).start_logits[0]
        assert (logits > IMPOSSIBLE).nonzero().flatten().tolist() == list(possible)


@pytest.mark.parametrize("places", [(1, 7), (6, 5), (0, 0), (6, 12), (6, 99), (-1, 6)])
def test_an_answer_outside_the_context_is_refused(tokenizer, places):
    start, end = (torch.tensor([place]) for place in places)
    with pytest.raises(ValueError, match=r"Row 0: .* not words of the context"):
        head()(**pairs(tokenizer, rows=slice(0, 1)), start_positions=start, end_positions=end)


def test_a_text_without_a_context_is_refused(tokenizer):
    single = tokenizer(QUESTIONS, padding=True, return_tensors="pt")
    for batch in (single, {name: value for name, value in single.items() if name != "token_type_ids"}):
        with pytest.raises(ValueError, match=r"tokenizer\(question, context\)"):
            head()(**batch)
    batch = pairs(tokenizer)
    with pytest.raises(ValueError, match="0 for the question and 1 for the context"):
        head()(**(batch | {"token_type_ids": batch["token_type_ids"] + 1}))
    with pytest.raises(ValueError, match=r"`start_positions` must have shape \(3,\)"):
        head()(**batch, start_positions=torch.tensor([1, 2]), end_positions=torch.tensor([1, 2, 3]))


def test_cached_layers_give_the_same_logits_and_a_shared_context_is_stored_once(tokenizer):
    model = head(elmo_places="both")
    batch = tokenizer(QUESTIONS, [CONTEXTS[0]] * 3, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(**batch).start_logits
        cache = model.cache_layers()
        for _ in range(2):
            assert_close(model(**batch).start_logits, expected, atol=1e-5, rtol=0)
        assert len(cache) == 4  # three questions and one context


def test_a_head_on_a_bilm_keeps_its_weights_and_half_precision_is_near(tokenizer, tmp_path):
    torch.manual_seed(0)
    ElmoForPreTraining(ElmoConfig(**SIZES)).save_pretrained(tmp_path)
    model = AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    assert not any(part.requires_grad for part in model.elmo.parameters())
    batch = pairs(tokenizer)
    with torch.no_grad():
        expected = model(**batch).start_logits
        assert_close(model.to(torch.bfloat16)(**batch).start_logits, expected, atol=0.05, rtol=0.05)


# ---- answers


@given(
    logits=st.lists(st.tuples(st.floats(-9, 9, width=32), st.floats(-9, 9, width=32)), max_size=8),
    max_words=st.integers(1, 9),
    n_best=st.integers(1, 12),
)
def test_the_best_spans_are_those_of_all_spans(logits, max_words, n_best):
    start, end = torch.tensor(logits).view(-1, 2).unbind(dim=1)
    every = [float(start[i] + end[j]) for i in range(len(logits)) for j in range(i, min(i + max_words, len(logits)))]
    spans = best_spans(start, end, max_words, n_best)
    assert [span.score for span in spans] == sorted(every, reverse=True)[:n_best]
    assert all(span.score == float(start[span.start] + end[span.end]) for span in spans)
    assert len({span[:2] for span in spans}) == len(spans)


@given(count=st.integers(0, 30), max_words=st.integers(1, 8), stride=st.integers(0, 7))
def test_windows_have_every_word_and_every_short_span(count, max_words, stride):
    stride = min(stride, max_words - 1)
    words = [str(index) for index in range(count)]
    parts = list(windows(0, words, max_words, stride))
    assert all(len(part.words) <= max_words and part.words == words[part.first :][:max_words] for part in parts)
    for first in range(count - stride):  # a span of `stride + 1` words is whole in one window
        assert any(part.first <= first and first + stride < part.first + len(part.words) for part in parts)


@pytest.mark.parametrize("allow", [False, True])
def test_answers_are_cut_from_the_raw_text_best_first(tokenizer, allow):
    model = head(allow_no_answer=allow)
    text = "  The “old” cat,\n sat on\ta mat.  "
    answers = model.answer(tokenizer, "who?", text, n_best=500)
    assert all(answer["answer"] == text[answer["start"] : answer["end"]] for answer in answers)
    assert [answer["score"] for answer in answers] == sorted((answer["score"] for answer in answers), reverse=True)
    assert any(answer["answer"] == "" for answer in answers) == allow
    several = model.answer(tokenizer, ["who?", "what?", "why?"], [text, "", text], n_best=500)
    assert_close(torch.tensor([a["score"] for a in several[0]]), torch.tensor([a["score"] for a in answers]))
    assert several[1] == []
    assert model.answer(tokenizer, [], []) == []


def test_the_scores_of_all_answers_of_a_short_context_sum_to_at_most_one(tokenizer):
    model = head(allow_no_answer=True)
    answers = model.answer(tokenizer, "who?", "the cat sat on a mat", n_best=1000)
    assert len(answers) == 21 + 1
    assert 0 < sum(answer["score"] for answer in answers) <= 1


def test_a_long_context_is_read_in_windows(tokenizer):
    model, text = head(), " ".join(WORDS[3:] * 20)
    (best,) = model.answer(tokenizer, "who?", text, max_words=12, stride=4)
    assert best["answer"] == text[best["start"] : best["end"]]
    words = text.split()
    window_answers = [  # each window as a context of its own
        model.answer(tokenizer, "who?", " ".join(words[first : first + 12]), max_words=12, stride=4)[0]["answer"]
        for first in range(0, len(words) - 4, 8)
    ]
    assert best["answer"] in window_answers
    with pytest.raises(ValueError, match="`stride` less than `max_words`"):
        model.answer(tokenizer, "who?", text, max_words=12, stride=12)
    with pytest.raises(ValueError, match="two lists of the same length"):
        answer_batch(model, tokenizer, ["a", "b"], ["c"])


def test_words_and_their_offsets_are_those_of_the_tokenizer(tokenizer):
    text = "The “old” cat didn't sit."
    words, spans = context_words(tokenizer, text)
    assert words == [text[start:end] for start, end in spans] == tokenizer.tokenize(text)


@pytest.mark.slow
def test_a_stock_trainer_learns_to_find_the_word_that_the_question_names(tmp_path):
    set_seed(0)
    words = ["ant", "bee", "cat", "dog", "eel", "fox"]
    tokenizer = ElmoTokenizer(vocab=[*WORDS[:3], *words])
    generator = random.Random(0)
    examples = []
    for _ in range(240):
        context = generator.sample(words, 4)
        place = generator.randrange(4)
        encoded = dict(tokenizer(context[place], " ".join(context)))
        answer = 4 + place  # after <S>, the question, </S> and <S>
        examples.append(encoded | {"start_positions": answer, "end_positions": answer})
    sizes = {"vocab_size": len(tokenizer), "task_layer_size": 24, "word_vector_size": 16, "elmo_dropout": 0.0}
    model = ElmoForQuestionAnswering(ElmoConfig(**(SIZES | sizes)))
    arguments = TrainingArguments(
        str(tmp_path), num_train_epochs=15, learning_rate=0.01, per_device_train_batch_size=16, report_to="none",
        disable_tqdm=True, use_cpu=True, save_strategy="no",
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=examples[:200], data_collator=DataCollatorWithPadding(tokenizer))
    trainer.train()
    start, end = trainer.predict(examples[200:]).predictions[:2]
    wanted = [example["start_positions"] for example in examples[200:]]
    assert np.mean((start.argmax(-1) == wanted) & (end.argmax(-1) == wanted)) > 0.9


def test_a_row_without_a_context_is_refused_beside_others(tokenizer):
    batch = pairs(tokenizer)
    batch["token_type_ids"][1] = 0
    with pytest.raises(ValueError, match="a row without a context"):
        head()(**batch)


@pytest.mark.parametrize("training", [False, True])
def test_answers_leave_the_mode_of_the_model_as_it_is(tokenizer, training):
    model = head().train(training)
    with mock.patch.object(type(model.elmo), "train", autospec=True, side_effect=type(model.elmo).train) as switched:
        model.answer(tokenizer, QUESTIONS, CONTEXTS, batch_size=1)
    assert model.training == training
    assert switched.call_count == 2 * training  # a switch would drop the packed weights


def test_dropout_between_task_layers_drops_the_same_dimensions_in_all_words():
    model = head(num_task_layers=2, classifier_dropout=0.5).train()
    dropped = model.task_lstm.dropout(torch.ones(2, 7, 40))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
