"""
What the models of a frozen repository give. Also run as a script, by whoever has the repository's code and not this
package:

    python numbers.py FOLDER TRUST_REMOTE_CODE
"""

import json
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

SENTENCES = ["The cat sat on the mat, didn't it?", "我在IBM工作 .", "Anna"]
OTHERS = ["A dog.", "他在这里。", "the mat"]


@torch.no_grad()
def numbers_of(folder: Path, trust_remote_code: bool) -> dict[str, list]:
    """Layers, losses, emissions and logits of the folders `bilm`, `tagger` and `classifier`."""

    def load(auto, name):
        return auto.from_pretrained(folder / name, trust_remote_code=trust_remote_code)

    tokenizer, encoder = load(AutoTokenizer, "bilm"), load(AutoModel, "bilm")
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    layers = encoder(**batch, output_hidden_states=True).hidden_states
    bilm = load(AutoModelForPreTraining, "bilm")
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    inputs = {name: batch[name] for name in ("char_ids", "attention_mask")}
    losses = bilm(**inputs, labels=labels, backward_labels=labels)
    words = load(AutoTokenizer, "tagger")(SENTENCES, padding=True, return_tensors="pt")
    tagger = load(AutoModelForTokenClassification, "tagger")(**words)
    pairs = load(AutoTokenizer, "classifier")(SENTENCES, OTHERS, padding=True, return_tensors="pt")
    classifier = load(AutoModelForSequenceClassification, "classifier")(**pairs)
    return {
        "char_ids": batch["char_ids"].tolist(),
        "layers": torch.stack(layers).tolist(),
        "mix": encoder(**batch).last_hidden_state.tolist(),
        "losses": [losses.forward_loss.item(), losses.backward_loss.item()],
        "emissions": tagger.emissions.tolist(),
        "tags": tagger.logits.argmax(dim=-1).tolist(),
        "labels": classifier.logits.tolist(),
    }


if __name__ == "__main__":
    print(json.dumps(numbers_of(Path(sys.argv[1]), sys.argv[2] == "True")))
