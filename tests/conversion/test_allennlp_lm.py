"""Archives of AllenNLP's own language models: the vectors and losses of plain torch modules in that layout."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForPreTraining, AutoTokenizer
from typer.testing import CliRunner

from elmo_hf import ElmoLanguageModel
from elmo_hf.cli import app
from elmo_hf.conversion import convert_allennlp, convert_path, plan_conversion
from tests.conversion.refusals import assert_refused
from tests.conversion.test_allennlp import archive_file, saved

WORDS = ["@@UNKNOWN@@", "<S>", "</S>", "The", "cat", "sat", ".", "Good", "morning"]
SENTENCES = [["The", "cat", "sat", "."], ["Good", "morning"], ["zebra", "The"]]
SIZE, CHARACTERS, FILTERS = 8, 5, [[1, 4], [2, 6]]
EMBEDDER = "_text_field_embedder.token_embedder_token_characters."
ENCODER = f"{EMBEDDER}_encoder._module."


class LanguageModel(torch.nn.Module):
    """The formulas of AllenNLP's `bidirectional-language-model` over torch's own modules."""

    def __init__(self, layers=1, bidirectional=True, highways=2, activation="relu"):
        super().__init__()
        width = sum(filters for _, filters in FILTERS)
        self.table = torch.nn.Embedding(262, CHARACTERS)
        self.convolutions = torch.nn.ModuleList(torch.nn.Conv1d(CHARACTERS, out, size) for size, out in FILTERS)
        self.highways = torch.nn.ModuleList(torch.nn.Linear(width, 2 * width) for _ in range(highways))
        self.projection = torch.nn.Linear(width, SIZE)
        self.lstm = torch.nn.LSTM(SIZE, SIZE, layers, batch_first=True, bidirectional=bidirectional)
        self.softmax = torch.nn.Linear(SIZE, len(WORDS) + 1)  # one row for each id, and ids count from the padding
        self.activation = getattr(torch, activation)

    def token_vectors(self, char_ids):
        characters = self.table(char_ids).transpose(1, 2)
        vectors = torch.cat([self.activation(layer(characters).amax(-1)) for layer in self.convolutions], dim=-1)
        for highway in self.highways:
            new, gate = highway(vectors).chunk(2, dim=-1)
            vectors = gate.sigmoid() * vectors + (1 - gate.sigmoid()) * new.relu()
        return self.projection(vectors)

    def archive(self, softmax="full") -> dict[str, torch.Tensor]:
        """The state dict as AllenNLP names it."""
        tensors = {f"{EMBEDDER}_embedding._module.weight": self.table.weight, "_last_average_loss": torch.zeros(1)}
        modules = {f"char_conv_{index}": layer for index, layer in enumerate(self.convolutions)}
        modules |= {f"_highways._layers.{index}": layer for index, layer in enumerate(self.highways)}
        for name, module in (modules | {"_projection": self.projection}).items():
            tensors |= {f"{ENCODER}{name}.{key}": value for key, value in module.state_dict().items()}
        tensors |= {f"_contextualizer._module.{key}": value for key, value in self.lstm.state_dict().items()}
        weight, bias, name = self.softmax.weight, self.softmax.bias, "_softmax_loss.softmax_"
        if softmax == "sparse":
            tensors |= {f"{name}w.weight": weight, f"{name}b.weight": bias.unsqueeze(1)}
        else:
            tensors |= {f"{name}w": weight if softmax == "sampled" else weight.t(), f"{name}b": bias}
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def experiment(contextualizer=None, encoder=None, model=None, indexer=None, reader=None) -> dict:
    """The `config.json` of an archive."""
    contextualizer = {"type": "lstm", "input_size": SIZE, "hidden_size": SIZE} | (contextualizer or {})
    encoder = {"type": "cnn-highway", "filters": FILTERS, "num_highway": 2, "projection_dim": SIZE} | (encoder or {})
    characters = {"type": "character_encoding", "embedding": {"num_embeddings": 262}, "encoder": encoder}
    indexers = {"tokens": {"type": "single_id"}, "token_characters": {"type": "elmo_characters"} | (indexer or {})}
    boundaries = {"start_tokens": ["<S>"], "end_tokens": ["</S>"]}
    embedders = {"token_embedders": {"tokens": {"type": "empty"}, "token_characters": characters}}
    return {
        "dataset_reader": {"type": "simple_language_modeling", "token_indexers": indexers}
        | boundaries
        | (reader or {}),
        "model": {
            "type": "bidirectional-language-model",
            "text_field_embedder": embedders,
            "contextualizer": contextualizer,
        }
        | (model or {}),
    }


BOTH = {"bidirectional": True}


def archive(folder, tensors=None, words=WORDS, **parts):
    """A `model.tar.gz`."""
    tensors = LanguageModel().archive() if tensors is None else tensors
    members = {"weights.th": saved(tensors), "config.json": json.dumps(experiment(**parts)).encode()}
    if words is not None:
        members["vocabulary/tokens.txt"] = ("\n".join(words) + "\n").encode()
    return archive_file(folder, members)


def refused(folder, match, **parts):
    path = archive(folder, **parts)
    assert_refused(folder, lambda out: convert_allennlp(path, out), match)


@pytest.mark.parametrize("softmax", ["full", "sampled", "sparse"])
@pytest.mark.parametrize(
    ("layers", "bidirectional", "highways", "activation"),
    [(1, True, 2, "relu"), (1, True, 0, "tanh"), (1, False, 1, "relu"), (3, False, 2, "tanh")],
)
def test_vectors_and_losses_are_those_of_the_layout(tmp_path, layers, bidirectional, highways, activation, softmax):
    torch.manual_seed(layers)
    source = LanguageModel(layers, bidirectional, highways, activation)
    contextualizer = {"bidirectional": bidirectional, "num_layers": layers}
    encoder = {"num_highway": highways, "activation": activation}
    options = {} if softmax == "full" else {"num_samples": 4, "sparse_embeddings": softmax == "sparse"}
    path = archive(tmp_path, source.archive(softmax), contextualizer=contextualizer, encoder=encoder, model=options)
    out = convert_allennlp(path, tmp_path / "out")
    model, tokenizer = AutoModelForPreTraining.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    scores = ElmoLanguageModel(model, tokenizer).score(SENTENCES)
    for words, score in zip(SENTENCES, scores, strict=True):
        batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        targets = [WORDS.index(word) if word in WORDS else 0 for word in ("<S>", *words, "</S>")]
        with torch.no_grad():
            hidden_states = model.elmo(**batch, output_hidden_states=True).hidden_states
            tokens = source.token_vectors(batch["char_ids"][0])
            top = source.lstm(tokens[None])[0]
            logits = [source.softmax(half).log_softmax(-1)[0] for half in top.split(SIZE, dim=-1)]
        torch.testing.assert_close(hidden_states[0][0, :, :SIZE], tokens, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(hidden_states[-1], top, rtol=1e-6, atol=1e-6)
        forward = [logits[0][place, target].item() for place, target in enumerate(targets[1:])]
        np.testing.assert_allclose(np.sum(score.forward), sum(forward), rtol=1e-5)
        if bidirectional:
            backward = [logits[1][place + 1, target].item() for place, target in enumerate(targets[:-1])]
            np.testing.assert_allclose(np.sum(score.backward), sum(backward), rtol=1e-5)


def test_detection_and_the_dry_run_know_the_softmax(tmp_path):
    path = archive(tmp_path, contextualizer=BOTH)
    assert plan_conversion(path).model_class.__name__ == "ElmoForPreTraining"
    result = CliRunner().invoke(app, ["convert", str(path), "--dry-run"])
    assert result.exit_code == 0
    assert "found: allennlp" in result.output
    assert '"both"' in result.output


# ---- What is refused


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (
            {"type": "bidirectional_language_model_transformer"},
            "found 'bidirectional_language_model_transformer', which",
        ),
        ({"type": "gated-cnn-encoder"}, "another architecture than ELMo's"),
        ({"type": "gru", **BOTH}, "another architecture"),
        ({"type": "stacked_bidirectional_lstm", "num_layers": 2}, "reads both directions"),
        ({"num_layers": 2, **BOTH}, "`lstm` in both directions with 2 layers, is no ELMo"),
        ({"input_size": 16, **BOTH}, "input_size 16 and hidden_size 8"),
        ({"num_layers": "two"}, "num_hidden_layers"),
        ({"num_layers": 10**9}, "num_hidden_layers. must be 1000 or less"),
        ({"num_layers": 2}, "lacks _contextualizer._module.bias_ih_l1"),
        ({}, "holds _contextualizer._module.bias_ih_l0_reverse"),
    ],
)
def test_other_contextualizers_are_refused_with_the_reason(tmp_path, kind, reason):
    refused(tmp_path, reason, contextualizer=kind)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"encoder": {"type": "cnn"}}, "character encoder must be 'cnn-highway' for an ELMo, found 'cnn'"),
        ({"encoder": {"do_layer_norm": True}}, "do_layer_norm"),
        ({"encoder": {"projection_location": "after_cnn"}}, "projection_location"),
        ({"encoder": {"filters": None}}, "config.json"),
        ({"indexer": {"type": "characters"}}, "indexer of the characters must be 'elmo_characters'"),
        ({"reader": {"start_tokens": None}}, "start_tokens of the dataset reader must be"),
        ({"words": ["@@UNKNOWN@@", "The"]}, "tokens.txt"),
        ({"words": [*WORDS, "more"]}, "softmax_w should have shape"),
        ({"words": None}, "give the model.tar.gz"),
        ({"tensors": LanguageModel().archive() | {f"{EMBEDDER}_embedding._module.weight": torch.ones(())}}, "embedder"),
        ({"tensors": LanguageModel().archive() | {"_text_field_embedder.token_embedder_tokens.weight": torch.ones(2)}},
         "token_embedder_tokens.weight"),
    ],
)  # fmt: skip
def test_what_no_elmo_has_is_refused(tmp_path, parts, reason):
    refused(tmp_path, reason, **({"contextualizer": BOTH} | parts))


def test_the_weights_alone_are_refused(tmp_path):
    torch.save(LanguageModel().archive(), tmp_path / "best.th")
    assert_refused(tmp_path, lambda out: convert_allennlp(tmp_path / "best.th", out), "give the model.tar.gz")


def test_a_model_around_a_language_model_embedder_is_refused(tmp_path):
    name = "_text_field_embedder.token_embedder_tokens._lm._contextualizer._forward_transformer.norm.gamma"
    torch.save({name: torch.zeros(2)}, tmp_path / "best.th")
    reason = "`language_model_token_embedder`, which is not read: such embedders take only transformers and gated"
    assert_refused(tmp_path, lambda out: convert_path(tmp_path / "best.th", out), reason)


def test_options_and_vocabulary_are_refused_where_the_archive_has_its_own(tmp_path):
    path = archive(tmp_path, contextualizer=BOTH)
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    assert_refused(tmp_path, lambda out: convert_allennlp(path, out, vocab=tmp_path / "vocab.txt"), "leave out")
