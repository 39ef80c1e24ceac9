"""
The values that the models of a frozen repository compute. Also run as a script, with the repository's code and without
this package:

    python numbers.py FOLDER TRUST_REMOTE_CODE
"""

import json
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)
from transformers.dynamic_module_utils import get_class_from_dynamic_module

SENTENCES = ["The cat sat on the mat, didn't it?", "我在IBM工作 .", "Anna"]
OTHERS = ["A dog.", "他在这里。", "the mat"]


@torch.no_grad()
def numbers_of(folder: Path, trust_remote_code: bool) -> dict[str, list]:
    """Layers, losses, emissions and logits of the folders `bilm`, `tagger` and `classifier`, and of newer ones."""

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
    numbers = {
        "char_ids": batch["char_ids"].tolist(),
        "layers": torch.stack(layers).tolist(),
        "mix": encoder(**batch).last_hidden_state.tolist(),
        "losses": [losses.forward_loss.item(), losses.backward_loss.item()],
        "emissions": tagger.emissions.tolist(),
        "tags": tagger.logits.argmax(dim=-1).tolist(),
        "labels": classifier.logits.tolist(),
    }
    if (folder / "esim").exists():
        numbers |= numbers_of_newer_heads(folder, trust_remote_code, batch, pairs)
        numbers["sentences"] = encoder.sentence_vectors(**batch).tolist()
    return numbers


def numbers_of_newer_heads(folder: Path, trust_remote_code: bool, batch, pairs) -> dict[str, list]:
    """Logits of the folders `esim`, `roles`, `coreference` and `questions`, whose archives are newer."""

    def load(name: str, auto=None, module: str = "", class_name: str = ""):
        if auto is not None:
            return auto.from_pretrained(folder / name, trust_remote_code=trust_remote_code)
        if trust_remote_code:  # there is no Auto class
            return get_class_from_dynamic_module(f"{module}.{class_name}", folder / name).from_pretrained(folder / name)
        import elmo_hf

        return getattr(elmo_hf, class_name).from_pretrained(folder / name)

    predicates = torch.zeros_like(batch["input_ids"])
    predicates[:, 1] = 1
    roles = load("roles", module="modeling_roles_elmo", class_name="ElmoForSemanticRoles")
    coreference = load("coreference", module="modeling_coreference_elmo", class_name="ElmoForCoreference")
    spans = torch.tensor([[[0, 1, 0], [4, 5, 0], [7, 7, 1], [8, 8, 1]]])
    clusters = coreference(**batch, labels=spans)
    answers = load("questions", AutoModelForQuestionAnswering)(**pairs)
    return {
        "esim": load("esim", AutoModelForSequenceClassification)(**pairs).logits.tolist(),
        "roles": roles(**batch, predicate_mask=predicates).logits.tolist(),
        "coreference": [clusters.loss.item()],
        "clusters": clusters.clusters.tolist(),
        "answers": torch.stack([answers.start_logits, answers.end_logits]).clamp(min=-100).tolist(),
    }


if __name__ == "__main__":
    print(json.dumps(numbers_of(Path(sys.argv[1]), sys.argv[2] == "True")))
