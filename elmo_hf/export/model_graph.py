"""The graphs of whole models: which inputs and outputs an encoder, a tagger and a classifier have."""

from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_elmo import ElmoModel
from ..modeling.modeling_heads_elmo import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTaskModel
from ..modeling.pretrained_elmo import ElmoPreTrainedModel
from .graph import INT, Graph, Value
from .head_graph import Sentences, classifier, mix, tagger
from .recurrent_graph import bilm_layers
from .token_graph import token_vectors

# The models that have a graph.
EXPORTED = (ElmoModel, ElmoForTokenClassification, ElmoForSequenceClassification)


def input_names(model: ElmoPreTrainedModel) -> list[str]:
    """The inputs of a model's graph."""
    config = model.config
    has_words = config.uses_words or (isinstance(model, ElmoTaskModel) and model.word_vectors is not None)
    has_pairs = isinstance(model, ElmoForSequenceClassification) and config.text_pairs
    names = ["input_ids"] if has_words else []
    names += ["char_ids"] if config.uses_characters else []
    return [*names, "attention_mask", *(["token_type_ids"] if has_pairs else [])]


def model_graph(model: ElmoPreTrainedModel) -> Graph:
    """
    The graph of a model of one of the classes `EXPORTED`, in fp32. Its inputs are integers (int64), those of
    [`input_names`]; its outputs are fp32:

    - encoder: `last_hidden_state` `(batch, words, hidden_size)`, the mix, and `hidden_states` `(layers, batch, words,
      hidden_size)`, the token layer first; zero where masked.
    - tagger: `logits` `(batch, words, num_labels)`, zero at boundaries and padding, and with a CRF `emissions`.
    - classifier: `logits` `(batch, num_labels)`.
    """
    graph, config = Graph(), model.config
    shapes: dict[str, list[int | str]] = {name: ["batch", "words"] for name in input_names(model)}
    if "char_ids" in shapes:
        shapes["char_ids"] = ["batch", "words", config.max_characters_per_token]
    inputs = {name: graph.input(name, INT, shape) for name, shape in shapes.items()}
    mask = ~inputs["attention_mask"].equals(0)
    segments = inputs.get("token_type_ids")

    layers: list[Value] = []
    encoder: ElmoModel | None = getattr(model, "elmo", None) if isinstance(model, ElmoTaskModel) else model  # ty: ignore[invalid-assignment]
    if encoder is not None:
        tokens = token_vectors(graph, encoder.token_encoder, config, inputs, mask)
        layers = bilm_layers(graph, encoder, tokens, mask, segments)
    if isinstance(model, ElmoModel):
        assert model.mixer is not None
        mixed = mix(graph, model.mixer, layers, mask)
        graph.output("last_hidden_state", mixed, ["batch", "words", config.hidden_size])
        stacked = graph.concat([layer.unsqueeze(0) for layer in layers], axis=0)
        graph.output("hidden_states", stacked, [len(layers), "batch", "words", config.hidden_size])
        return graph
    sentences = Sentences(graph, _word_mask(graph, config, inputs, mask), segments)
    labels = len(config.label_names)
    if isinstance(model, ElmoForTokenClassification):
        for name, scores in tagger(graph, model, layers, sentences, inputs.get("input_ids")).items():
            graph.output(name, scores, ["batch", "words", labels])
    else:
        assert isinstance(model, ElmoForSequenceClassification)
        logits = classifier(graph, model, layers, sentences, inputs.get("input_ids"))
        graph.output("logits", logits, ["batch", labels])
    return graph


def _word_mask(graph: Graph, config: ElmoConfig, inputs: dict[str, Value], mask: Value) -> Value:
    """The mask without sentence boundaries, `(batch, words)`, as in [`word_mask`]."""
    if config.uses_characters:
        ids = inputs["char_ids"].gather(graph.weight(1, INT), axis=2)  # the first character, after the begin mark
        ends = [config.char_bos_id, config.char_eos_id]
    else:
        ids = inputs["input_ids"]
        ends = [
            config.bos_token_id,
            *(config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]),
        ]
    for end in ends:
        if end is not None:
            mask = mask & ~ids.equals(end)
    return mask


__all__ = ["EXPORTED", "input_names", "model_graph"]
