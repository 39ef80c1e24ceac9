"""
How fast does text become tensors? Words per second of `ElmoTokenizer` on one core, from sentences to padded PyTorch
tensors: raw text and given words, with a vocabulary and without one (every word unknown).

    python -m benchmarks.tokenizer              # words per second
    python -m benchmarks.tokenizer --profile    # also where the time goes

The sentences are the first of `corpora/english/heldout.txt.xz`, the vocabulary is the `vocab.txt` beside it, under
`$ELMO_HF_SHARED` or `../shared`; where they are missing, the sentences of `benchmarks.inference`. Time is the
process's own: on a busy machine the clock on the wall would measure the neighbours. Words are counted as the
tokenizer cuts them, boundaries and padding left out.
"""

import argparse
import os
import statistics
import time

import torch
from tqdm import tqdm

from benchmarks.inference import processor
from elmo_hf import ElmoTokenizer

BATCH_SIZES = [1, 64, 1000]


def median_seconds(tokenizer, inputs, batch, repeats, **options):
    def run():
        words = 0
        for start in range(0, len(inputs), batch):
            mask = tokenizer(inputs[start : start + batch], padding=True, return_tensors="pt", **options)["attention_mask"]
            words += int(mask.sum()) - 2 * len(mask)
        return words
    words = run()
    seconds = []
    for _ in range(repeats):
        begin = time.process_time(); run(); seconds.append(time.process_time() - begin)
    return words / statistics.median(seconds)

if __name__ == "__main__":
    import lzma, sys
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    sents = [l for l in lzma.open("/work/shared/corpora/english/heldout.txt.xz","rt",encoding="utf-8").read().split("\n") if l.strip()][:4000]
    for name, tok in (("vocab", ElmoTokenizer(vocab_file="/work/shared/corpora/english/vocab.txt")), ("none", ElmoTokenizer())):
        for kind in ("raw", "split"):
            for b in BATCH_SIZES:
                data = sents if kind == "raw" else [s.split() for s in sents]
                print(name, kind, b, f"{median_seconds(tok, data[:500] if b == 1 else data, b, 5, is_split_into_words=kind == 'split'):,.0f}")
