"""Predicts the clusters of documents, lazily."""

import json
from collections.abc import Iterable, Iterator

import torch

from ..data.coreference import CoreferenceDocument
from ..modeling.modeling_coreference_elmo import ElmoForCoreference
from ..modeling.tokenization_elmo import ElmoTokenizer
from .prediction import refuse_training
from .tasks import CoreferenceTask, clusters_of


@torch.no_grad()
def predict_clusters(
    model: ElmoForCoreference, tokenizer: ElmoTokenizer, documents: Iterable[CoreferenceDocument]
) -> Iterator[CoreferenceDocument]:
    """Yields the documents with their clusters, in order, one at a time."""
    refuse_training(model)
    task = CoreferenceTask()
    for document in documents:
        clusters = []
        if any(document.sentences):
            features = task.features(document._replace(clusters=None), tokenizer)
            batch = task.collate([features], tokenizer).to(model.device)
            clusters = clusters_of(model(**batch).clusters[0].cpu().numpy())
        yield document._replace(clusters=clusters)


def as_document_json(document: CoreferenceDocument) -> str:
    """One line of JSON."""
    values = {"name": document.name, "sentences": document.sentences, "clusters": document.clusters}
    return json.dumps(values, ensure_ascii=False) + "\n"


__all__ = ["as_document_json", "predict_clusters"]
