"""AllenNLP's side of `benchmarks.tokenizer`, run as a worker in its environment."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from simple_elmo_pytorch.models.elmo import batch_to_ids

from benchmarks.peers import serve

if __name__ == "__main__":
    torch.set_num_threads(1)
    sentences = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))

    def measure(batch: int) -> dict[str, Any]:
        """Words per second of the processor's time."""
        begin = time.process_time()
        for start in range(0, len(sentences), batch):
            batch_to_ids(sentences[start : start + batch])
        return {"words/s": sum(map(len, sentences)) / (time.process_time() - begin)}

    serve({"measure": measure})
