"""Publishing: model cards with their pictures, and upload to and download from the Hub."""

from ..runtime.run_records import Records, read_history
from .card import is_made_here, write_card
from .curve import draw_curve
from .hub import pull_model, push_model, push_space
from .mix_picture import draw_mixes

__all__ = [
    "Records",
    "draw_curve",
    "draw_mixes",
    "is_made_here",
    "pull_model",
    "push_model",
    "push_space",
    "read_history",
    "write_card",
]
