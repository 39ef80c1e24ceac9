"""Metrics of predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def span_metrics(wanted: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of whole spans, as the CoNLL shared tasks count them (seqeval)."""
    from seqeval.metrics import f1_score, precision_score, recall_score

    measures: dict[str, Any] = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
    rows = [[[_as_bioes(tag) for tag in tags] for tags in side] for side in (wanted, predicted)]
    return {name: float(measure(*rows, zero_division=0)) for name, measure in measures.items()}


def _as_bioes(tag: str) -> str:
    """Converts a BILOU tag, which seqeval does not know, to BIOES. Other tags are unchanged."""
    return {"U-": "S-", "L-": "E-"}.get(tag[:2], tag[:2]) + tag[2:]


def classification_metrics(predicted: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """Accuracy, and macro F1 over the labels that occur."""
    from sklearn.metrics import f1_score

    return {
        "accuracy": float((predicted == wanted).mean()),
        "macro_f1": float(f1_score(wanted, predicted, average="macro", zero_division=0)),
    }


def multi_label_metrics(predicted: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """Macro and micro F1, and the share of texts with all labels right. Both arrays are `(texts, labels)`."""
    from sklearn.metrics import f1_score

    return {
        "accuracy": float((predicted == wanted).all(axis=1).mean()),
        "macro_f1": float(f1_score(wanted, predicted, average="macro", zero_division=0)),
        "micro_f1": float(f1_score(wanted, predicted, average="micro", zero_division=0)),
    }


def regression_metrics(predicted: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """Mean squared error, and Pearson's correlation (0 if one of the arrays is constant)."""
    varies = len(predicted) > 1 and predicted.std() > 0 and wanted.std() > 0
    return {
        "mse": float(np.square(predicted - wanted).mean()),
        "pearson": float(np.corrcoef(predicted, wanted)[0, 1]) if varies else 0.0,
    }


__all__ = ["classification_metrics", "multi_label_metrics", "regression_metrics", "span_metrics"]
