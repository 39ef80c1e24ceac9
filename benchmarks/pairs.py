"""
ELMo in a head for pairs of texts, with and without what `docs/decisions/pairs.md` describes:

    python -m benchmarks.pairs --json benchmarks/results/pairs.json

Accuracy on SICK (the task `pairs` of `benchmarks.tasks`) with GloVe's vectors beside ELMo, for several seeds. Runs that
the file has are not repeated.
"""

import argparse
import json
from pathlib import Path

import torch

from benchmarks.task_setups import SETUPS
from benchmarks.tasks import CORPORA, run
from elmo_hf import ElmoLayerCache, ElmoModel, default_model

HEADS = {
    "without ELMo": ("glove", {}),
    "with ELMo": ("elmo+glove", {}),
    "layers not normalised": ("elmo+glove", {"elmo_layer_norm": False}),
    "dropout of 0.5 on the mix": ("elmo+glove", {"elmo_dropout": 0.5}),
}


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--head", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    results = json.loads(options.json.read_text("utf-8")) if options.json.exists() else {}
    setup = SETUPS["pairs"].setup(CORPORA)
    bilm = ElmoModel.from_pretrained(default_model(), dtype=torch.float32).eval()
    bilm.freeze_bilm()
    layers = ElmoLayerCache(bilm)
    for seed in range(options.seeds):
        for head in options.head:
            accuracies = results.setdefault(head, {})
            if str(seed) in accuracies:
                continue
            inputs, fields = HEADS[head]
            changed = setup._replace(fields=setup.fields | fields)
            result = run(changed, default_model(), inputs, None, seed, layers, int8=False)
            accuracies[str(seed)] = round(100 * result["metric"], 2)
            print(f"{head}, seed {seed}: {accuracies[str(seed)]}", flush=True)
            options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
