"""Side by side with what users would run instead: `python -m benchmarks.<name>` from the repository's root."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Where texts and vocabularies are looked for.
SHARED = Path(os.environ.get("ELMO_HF_SHARED", ROOT.parent / "shared"))
