"""Writes folders with small models."""

import torch

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
from tests.embedding.toy import TOKENIZER
from tests.models import TINY, tiny_model

BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def write_encoder(folder, **fields) -> str:
    """A tiny model."""
    tiny_model(**fields).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return str(folder)


def write_tagger(folder, labels) -> str:
    """A tagger whose weights are random, and large enough for it to give many different tags."""
    torch.manual_seed(1)
    config = ElmoConfig(**TINY, task_layer_size=8, id2label=dict(enumerate(labels)))
    config.label2id = {label: index for index, label in enumerate(labels)}
    model = ElmoForTokenClassification(config).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(30)
    model.save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return str(folder)
