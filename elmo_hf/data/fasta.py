"""
FASTA: sequences of letters, as of proteins, each under a line with its name.

```text
>sp|P69905|HBA_HUMAN Hemoglobin subunit alpha
MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLSFPTTKTYFPHF
DLSHGSAQVKGHGKKVADALTNAVAHVDDMPNALSALSDLHAHKLRV
```
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import TextError
from .text_sources import LONGEST_LINE, Report, lines_or_errors, source_name

LETTERS = re.compile(r"[A-Z]*\*?", re.ASCII)  # a star at the end is a stop codon
FIRST_FOREIGN = re.compile(r"[^A-Z]", re.ASCII)


class FastaRecord(NamedTuple):
    """
    A sequence.

    Attributes:
        id: The first word of its name.
        description: The rest of its name.
        sequence: Its letters, upper case, without white space.
    """

    id: str
    description: str
    sequence: str


def fasta_records(source: str, report: Report = lambda _: None) -> Iterator[FastaRecord | TextError]:
    """Yields the sequences of a file, plain or compressed. One that cannot be read is replaced by its error."""
    reading: _Reading | None = None
    for line_number, line in lines_or_errors(source, report):
        where = f"{source_name(source)}, line {line_number}"
        if isinstance(line, TextError):
            if reading is None:
                yield line
            else:
                reading.error = reading.error or line
        elif line.startswith(">"):
            if reading is not None:
                yield reading.record()
            reading = _Reading(line[1:].strip(), where)
        elif line.startswith(";") or not line.strip():  # a comment, or a blank line
            continue
        elif reading is None:
            raise TextError(f"{where}: a sequence should begin with >, its name and a new line, found {line!r:.60}.")
        else:
            reading.add(line, where)
    if reading is not None:
        yield reading.record()


class _Reading:
    """A sequence that is being read."""

    def __init__(self, name: str, where: str):
        self._id, self._description = [*name.split(None, 1), "", ""][:2]
        self._where, self._parts, self._length = where, [], 0
        self.error = None if self._id else TextError(f"{where}: a sequence should have a name after >.")

    def add(self, line: str, where: str):
        letters = "".join(line.split()).upper()
        self._length += len(letters)
        if self._length > LONGEST_LINE:
            self.error = self.error or TextError(f"{self._where}: a sequence of more than {LONGEST_LINE:,} letters.")
            self._parts = []
        elif LETTERS.fullmatch(letters) is None:
            match = FIRST_FOREIGN.search(letters)
            what = match[0] if match else letters
            self.error = self.error or TextError(
                f"{where}: a sequence should be letters, found {what!r}. Remove the gaps of an alignment."
            )
        else:
            self._parts.append(letters)

    def record(self) -> FastaRecord | TextError:
        sequence = "".join(self._parts).removesuffix("*")
        if self.error is None and "*" in sequence:
            self.error = TextError(f"{self._where}: a sequence has a stop, *, before its end.")
        return self.error or FastaRecord(self._id, self._description.strip(), sequence)


__all__ = ["FastaRecord", "fasta_records"]
