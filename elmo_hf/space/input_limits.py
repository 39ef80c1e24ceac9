"""What the page accepts. Longer or empty input gets a message before the model is run."""

from ..errors import TextError, counted

CHARACTERS = 2_000  # of a text
SENTENCES = 8  # in which a word is compared
LINES = 20  # of a text to tag
WORD_CHARACTERS = 100
UPLOAD_BYTES = 400 * 2**20  # of each uploaded file, and of the converted weights


def checked_text(text: str | None, name: str, characters: int = CHARACTERS) -> str:
    """A text without blanks around it, if it is not empty and not too long."""
    text = (text or "").strip()
    if not text:
        raise TextError(f"{name} is empty: write something, or click on an example.")
    if len(text) > characters:
        raise TextError(f"{name} has {counted(len(text), 'character')}; this page accepts at most {characters:,}.")
    return text


def checked_lines(text: str | None, name: str, lines: int) -> list[str]:
    """The lines of a text that are not blank, if there are not too many."""
    nonblank = [line.strip() for line in checked_text(text, name).splitlines() if line.strip()]
    if len(nonblank) > lines:
        raise TextError(f"{name} has {counted(len(nonblank), 'line')}; this page accepts at most {lines}.")
    return nonblank


__all__ = ["CHARACTERS", "LINES", "SENTENCES", "UPLOAD_BYTES", "WORD_CHARACTERS", "checked_lines", "checked_text"]
