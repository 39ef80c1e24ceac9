"""Models for others: their cards with the pictures, and the way to the Hub and back."""

from .card import is_made_here, write_card
from .curve import draw_curve
from .hub import pull_model, push_model
from .mix_picture import draw_mixes
from .records import Records, read_history

__all__ = [
    "Records",
    "draw_curve",
    "draw_mixes",
    "is_made_here",
    "pull_model",
    "push_model",
    "read_history",
    "write_card",
]
