"""The program beside an exported model that runs it without torch and transformers."""

import re
from importlib import resources
from string import Template
from typing import cast

from ..modeling.modeling_heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification
from ..modeling.pretrained_elmo import ElmoPreTrainedModel
from ..modeling.spelling_elmo import CodePointSpelling
from ..modeling.tokenization_elmo import ElmoTokenizer
from .model_graph import input_names

# A line of `example.txt` with such a mark is only for models that have all the named features.
MARK = re.compile(r"^(?P<line>.*?)  #\? (?P<features>.+)$")


def example_program(model: ElmoPreTrainedModel, tokenizer: ElmoTokenizer) -> str:
    """The text of `example.py` for a model and its tokenizer."""
    spelling = tokenizer.spelling
    bos, eos = cast(int, tokenizer.bos_token_id), cast(int, tokenizer.eos_token_id)
    fields = {
        "slots": tokenizer.max_characters_per_token,
        "begin": spelling.begin_word,
        "end": spelling.end_word,
        "pad": spelling.pad,
        "boundaries": {bos: spelling.begin_sentence, eos: spelling.end_sentence},
        "unknown": tokenizer.unk_token_id,
        "unknown_code": spelling.unknown if isinstance(spelling, CodePointSpelling) else None,
        "pad_word": tokenizer.pad_token_id,
        "longest": tokenizer.max_word_length,
        "is_text": bool(tokenizer.split_special_tokens),
    }
    template = resources.files("elmo_hf.export").joinpath("example.txt").read_text("utf-8")
    features = _features(model, tokenizer)
    lines = [line for line in (_chosen(line, features) for line in template.splitlines()) if line is not None]
    return Template("\n".join(lines) + "\n").substitute(fields)


def _features(model: ElmoPreTrainedModel, tokenizer: ElmoTokenizer) -> set[str]:
    names = input_names(model)
    is_tagger = isinstance(model, ElmoForTokenClassification)
    is_classifier = isinstance(model, ElmoForSequenceClassification)
    has = {
        "ids": "input_ids" in names,
        "characters": "char_ids" in names,
        "pairs": "token_type_ids" in names,
        "single": "token_type_ids" not in names,
        "codes": "char_ids" in names and tokenizer.characters is not None,
        "cut": tokenizer.max_word_length is not None,
        "literal": bool(tokenizer.split_special_tokens) and not tokenizer.boundary_words,
        "tagger": is_tagger,
        "classifier": is_classifier,
        "labels": is_tagger or is_classifier,
        "encoder": not (is_tagger or is_classifier),
    }
    return {name for name, present in has.items() if present} | ({"json"} if has["labels"] or has["codes"] else set())


def _chosen(line: str, features: set[str]) -> str | None:
    """The line without its mark; `None` if it is not for these features."""
    if (match := MARK.match(line)) is None:
        return line
    conditions = match["features"].split(", ")
    fits = all((name.removeprefix("not ") in features) != name.startswith("not ") for name in conditions)
    return match["line"] if fits else None


__all__ = ["example_program"]
