"""Models described, one folder each: its card, and how it was made."""
