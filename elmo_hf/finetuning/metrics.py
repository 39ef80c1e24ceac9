"""How good predictions are, in the measures of the field."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def span_metrics(wanted: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of whole spans, as the CoNLL shared tasks count them (seqeval)."""
    from seqeval.metrics import f1_score, precision_score, recall_score

    measures: dict[str, Any] = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
    rows = [[[_as_bioes(tag) for tag in tags] for tags in side] for side in (wanted, found)]
    return {name: float(measure(*rows, zero_division=0)) for name, measure in measures.items()}


def _as_bioes(tag: str) -> str:
    """The same of BILOU, which seqeval does not know."""
    return {"U-": "S-", "L-": "E-"}.get(tag[:2], tag[:2]) + tag[2:]


def classification_metrics(found: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """Accuracy, and F1 as the mean over the labels that occur."""
    from sklearn.metrics import f1_score

    return {
        "accuracy": float((found == wanted).mean()),
        "macro_f1": float(f1_score(wanted, found, average="macro", zero_division=0)),
    }


def multi_label_metrics(found: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """Both `(texts, labels)`: F1 as the mean over labels and over all decisions, and the share of texts all right."""
    from sklearn.metrics import f1_score

    return {
        "accuracy": float((found == wanted).all(axis=1).mean()),
        "macro_f1": float(f1_score(wanted, found, average="macro", zero_division=0)),
        "micro_f1": float(f1_score(wanted, found, average="micro", zero_division=0)),
    }


def regression_metrics(found: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    """The mean squared error, and Pearson's correlation (0 where one side does not vary)."""
    varies = len(found) > 1 and found.std() > 0 and wanted.std() > 0
    return {
        "mse": float(np.square(found - wanted).mean()),
        "pearson": float(np.corrcoef(found, wanted)[0, 1]) if varies else 0.0,
    }


__all__ = ["classification_metrics", "multi_label_metrics", "regression_metrics", "span_metrics"]
