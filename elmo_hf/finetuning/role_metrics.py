"""Metrics of semantic roles, as the script of CoNLL-2005 (srl-eval) computes them."""

from collections.abc import Sequence

Piece = tuple[int, int]  # the first and the last word
Argument = tuple[str, tuple[Piece, ...]]  # a role and the pieces of its argument
NOT_COUNTED = "V"  # the predicate itself is given


def arguments_of(tags: Sequence[str]) -> list[Argument]:
    """
    The arguments of a predicate from its BIO tags.

    A piece tagged C-ROLE continues the last argument before it with that role: both are one argument. Without such an
    argument it counts as one of that role. R-ROLE is a role of its own.
    """
    arguments: list[tuple[str, list[Piece]]] = []
    last: dict[str, list[Piece]] = {}  # the pieces of the last argument by role
    for role, piece in _pieces(tags):
        continued = role.removeprefix("C-")
        if role != continued and continued in last:
            last[continued].append(piece)
        else:
            last[continued] = [piece]
            arguments.append((continued, last[continued]))
    return [(role, tuple(pieces)) for role, pieces in arguments]


def _pieces(tags: Sequence[str]) -> list[tuple[str, Piece]]:
    """The role and the words of each span. A span ends at the next B- or O, or at an I- of another role."""
    pieces: list[tuple[str, Piece]] = []
    before = "O"
    for place, tag in enumerate(tags):
        if tag.startswith("I-") and before[2:] == tag[2:] and pieces:
            pieces[-1] = (tag[2:], (pieces[-1][1][0], place))
        elif tag != "O":
            pieces.append((tag[2:], (place, place)))
        before = tag
    return pieces


def role_metrics(wanted: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """
    Precision, recall and F1 of arguments over all predicates. An argument is right if its role and all its words are;
    the predicate (`V`) is left out.

    Args:
        wanted, predicted: The BIO tags of each predicate.

    Returns:
        `precision`, `recall`, `f1`, and `perfect`: the share of predicates with all arguments right and no other.
    """
    right = num_wanted = num_predicted = perfect = 0
    for wanted_tags, predicted_tags in zip(wanted, predicted, strict=True):
        gold, output = (
            {argument for argument in arguments_of(tags) if argument[0] != NOT_COUNTED}
            for tags in (wanted_tags, predicted_tags)
        )
        right += len(gold & output)
        num_wanted += len(gold)
        num_predicted += len(output)
        perfect += gold == output
    precision, recall = right / max(num_predicted, 1), right / max(num_wanted, 1)
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if right else 0.0,
        "perfect": perfect / max(len(wanted), 1),
    }


__all__ = ["arguments_of", "role_metrics"]
