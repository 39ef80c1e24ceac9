"""One folder per model: its card, and how it was made."""
