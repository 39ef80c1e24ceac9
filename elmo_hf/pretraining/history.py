"""The history of a run: one JSON object per line, also sent to Accelerate's trackers."""

import json
import os
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from ..runtime.run_records import history_lines


class History:
    """
    Appends the records of a run to a file.

    Args:
        path: The file. It is created with the first record.
        accelerator: Its trackers get the values too.
    """

    def __init__(self, path: Path, accelerator: Accelerator):
        self.path, self.accelerator = path, accelerator

    def add(self, step: int, values: dict[str, Any]):
        """Appends a record. Only the main process calls this."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | values) + "\n")
        self.accelerator.log(values, step=step)

    def forget_after(self, step: int):
        """Removes the records after a step, since a resumed run repeats these steps."""
        if not self.accelerator.is_main_process or not self.path.exists():
            return
        lines = [line for line, record in history_lines(self.path) if record["step"] <= step]
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text("".join(lines), encoding="utf-8")
        os.replace(temporary, self.path)


__all__ = ["History"]
