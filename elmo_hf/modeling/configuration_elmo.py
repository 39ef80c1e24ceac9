# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
ELMo configuration: the sizes and options of a biLM (Peters et al. 2018, https://arxiv.org/abs/1802.05365) and its
heads, and the registry of the model classes.
"""

import copy
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple

from transformers import PreTrainedConfig

from .checks_elmo import MAX_LABELS, check_extra_fields, read_json_object

try:  # a dependency of transformers; outside `try`, transformers would ask for it when it loads remote code
    from huggingface_hub.dataclasses import strict
except ImportError as error:
    raise ImportError("ELMo's config needs a newer huggingface_hub: pip install -U transformers") from error


class ModelClass(NamedTuple):
    """
    An entry of the registry of model classes. The Auto map, registration, loading, publishing and the commands read the
    registry. A new head is a class, an entry in `HEADS` and a test file.

    Attributes:
        name (`str`): The class.
        module (`str`): The file that defines it.
        auto_class (`str`, *optional*): The Auto class that loads it; `None` if transformers has none for its task.
        parts (`tuple[str, ...]`): The names in a state dict of the modules that it has in addition to the encoder.
            They are ignored when an encoder is loaded from its weights. (`HEAD_PARTS` has those of all heads.)
        pipeline (`str`): The pipeline that runs it. For a class without an Auto class, the task under which the Hub
            lists it.
        task (`str`, *optional*): The task of `elmo-hf finetune` that trains it.
        fields (`tuple[str, ...]`): Fields of the config that only this class reads.
    """

    name: str
    module: str
    auto_class: str | None = None
    parts: tuple[str, ...] = ()
    pipeline: str = "feature-extraction"
    task: str | None = None
    fields: tuple[str, ...] = ()

    @property
    def model_class(self) -> Any:
        """The class itself. Imports its file."""
        return getattr(import_module(f".{self.module}", __package__), self.name)


# The modules that [`ElmoTaskModel`] gives to every head.
HEAD_PARTS = ("input_mixer", "output_mixer", "word_vectors", "task_lstm")
HEADS = (
    ModelClass(
        name="ElmoForSequenceClassification",
        module="modeling_heads_elmo",
        auto_class="AutoModelForSequenceClassification",
        parts=("cross_attention", "biattention", "esim", "pooling", "classifier"),
        pipeline="text-classification",
        task="classification",
        fields=("pooling", "classifier_type", "text_pairs", "pair_attention"),
    ),
    ModelClass(
        name="ElmoForTokenClassification",
        module="modeling_heads_elmo",
        auto_class="AutoModelForTokenClassification",
        parts=("classifier", "crf"),
        pipeline="token-classification",
        task="tagging",
        fields=("tag_decoder",),
    ),
    ModelClass(
        name="ElmoForSemanticRoles",
        module="modeling_roles_elmo",
        parts=("predicate_embeddings", "classifier", "crf"),
        pipeline="token-classification",
        task="roles",
        fields=("tag_decoder", "predicate_size"),
    ),
    ModelClass(
        name="ElmoForCoreference",
        module="modeling_coreference_elmo",
        parts=("spans", "antecedents"),
        pipeline="token-classification",
        task="coreference",
        fields=("max_span_width", "span_ratio", "max_antecedents", "span_size"),
    ),
    ModelClass(
        name="ElmoForQuestionAnswering",
        module="modeling_question_answering_elmo",
        auto_class="AutoModelForQuestionAnswering",
        parts=("bidaf", "self_attention", "span_scores", "no_answer"),
        pipeline="question-answering",
        task="question-answering",
        fields=("max_answer_words", "allow_no_answer"),
    ),
)
MODELS = (
    ModelClass("ElmoModel", "modeling_elmo", "AutoModel"),
    ModelClass("ElmoForPreTraining", "modeling_elmo", "AutoModelForPreTraining", parts=("softmax",)),
    *HEADS,
)
# Auto class → "file.class", for `trust_remote_code` where this package is not installed.
AUTO_MAP = {entry.auto_class: f"{entry.module}.{entry.name}" for entry in MODELS if entry.auto_class is not None}
# Matches the weights of pretraining and of heads, which an encoder does not have.
NON_ENCODER_KEYS = rf"^({'|'.join(sorted({*HEAD_PARTS, *(part for entry in MODELS for part in entry.parts)}))})\."


# (width, filters) of the released English models.
ORIGINAL_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]

# Upper bounds, far above any real model. With larger values, building a model would take very long before its weights
# are checked, or sizes would not fit into 64 bits.
MAX_VALUES = {
    **dict.fromkeys(["vocab_size", "num_word_vectors"], 10**9),
    **dict.fromkeys(["cell_size", "projection_size", "word_embedding_size", "word_vector_size"], 10**6),
    **dict.fromkeys(["task_layer_size", "char_vocab_size", "char_feature_size", "softmax_tail_ratio"], 10**6),
    **dict.fromkeys(["max_characters_per_token", "char_embedding_size", "max_answer_words", "span_ratio"], 1000),
    **dict.fromkeys(["num_hidden_layers", "num_highway_layers", "num_task_layers", "max_span_width"], 1000),
    **dict.fromkeys(["max_antecedents", "span_size", "predicate_size"], 10**6),
}
MAX_ENTRIES, MAX_CRF_LABELS = 1000, 5000  # of a list, of a CRF


def _check_filter_pairs(filters: list[list[int]]):
    for entry in filters:
        if len(entry) != 2 or min(entry) <= 0:
            raise ValueError(f"`char_filters` must hold [width, number] pairs greater than 0, found {entry}.")


def check_mixer_weights(name: str, weights: str | Sequence[float], num_layers: int):
    """Refuses everything except "learned", "top", and a list with one probability per layer, token layer first."""
    if isinstance(weights, str):
        if weights not in ("learned", "top"):
            raise ValueError(f"`{name}` must be 'learned', 'top' or a list of probabilities, found {weights!r}.")
    elif len(weights) != num_layers:
        raise ValueError(f"`{name}` must hold {num_layers} probabilities, one per layer, found {len(weights)}.")
    elif not all(weight >= 0 for weight in weights) or abs(sum(weights) - 1) > 1e-6:
        raise ValueError(f"`{name}` must be probabilities that sum to 1, found {list(weights)}.")


@strict
class ElmoConfig(PreTrainedConfig):
    r"""
    Configuration of [`ElmoModel`]. The defaults are the original model: 2 layers of 4096 cells projected to 512,
    93.6 million parameters, a vector of 1024 per word.

    Args:
        vocab_size (`int`): Words known to the language model, boundaries and `<UNK>` included. They are the targets of
            pretraining; the vectors of a character model do not depend on them.
        pad_token_id (`int`, *optional*): Word id of padding. Default: `vocab_size`, the first id after the words.
        token_inputs (`"characters"`, `"words"` or `"both"`): What a token's vector is computed from: its characters, a
            row of a word table, or both concatenated (word first).
        char_vocab_size (`int`): Rows of the character table; row 0 is the padding of a whole token.
        char_pad_id (`int`): Character id that pads a word to `max_characters_per_token`.
        char_bos_id, char_eos_id (`int`): Character ids of a sentence's boundaries, which pooling and heads leave out.
        max_characters_per_token (`int`): Character slots per word, begin and end mark included.
        char_embedding_size (`int`): Size of a character's vector.
        char_filters (`list[list[int]]`): `[width, number of filters]` of each convolution.
        char_activation (`"relu"` or `"tanh"`): Applied after the maximum over positions.
        num_highway_layers (`int`): Highway layers over the filters' outputs.
        word_embedding_size (`int`, *optional*): Row size of the word table. Default: the token vector's size.
        token_projection (`bool`, *optional*): Whether a linear layer maps the features to the token vector. Default:
            only where the sizes differ, as in the original.
        num_hidden_layers (`int`): Recurrent layers.
        cell_size (`int`): LSTM cells per direction and layer.
        projection_size (`int`, *optional*): The size that a layer's output is projected to; `None`: no projection.
        cell_clip, projection_clip (`float`, *optional*): Bounds of cell and projected output; `None`: no bound.
        forget_bias (`float`): Added to the forget gate at run time; not part of the stored bias.
        skip_connections (`bool`): Add a layer's input to its output, from the second layer on.
        directions (`"both"`, `"forward"` or `"backward"`): Which language models it has.
        dropout (`float`): Dropout on the recurrent layers' inputs and, in pretraining, on the top output.
        softmax_type (`"full"`, `"sampled"` or `"adaptive"`): The softmax layer of pretraining. A sampled one has the
            weights of a full one, and is computed in full in evaluation.
        softmax_samples (`int`): Words drawn for a sampled softmax.
        softmax_cutoffs (`list[int]`, *optional*): The first word of each group of rare words of an adaptive softmax.
            Default: 1/20 and 1/4 of the vocabulary.
        softmax_tail_ratio (`int`): How many times smaller each group's vectors are than those of the group before.
        mixer_weights (`"learned"`, `"top"` or `list[float]`): How [`ElmoModel`] mixes its layers: learned softmax
            weights, the top layer only, or fixed probabilities, one per layer (token layer first).
        mixer_layer_norm (`bool`): The original's normalisation over the batch before mixing. The vectors then depend
            on the other sentences of the batch.
        mixer_dropout (`float`): Dropout after the mix, in training only.
        sentence_layers (`list[int]`, *optional*): The layers of the pooling "sentence", which makes sentence vectors
            ([`ElmoSentencePooling`]). Default: the model does not have this pooling.
        sentence_size (`int`, *optional*): The size of these sentence vectors. Default: `hidden_size`.
        freeze_bilm (`bool`): Whether the biLM stays fixed when a head is trained.
        elmo_places (`"input"`, `"output"`, `"both"` or `"none"`): Where a head uses ELMo: in the input of its task
            layers, [x; ELMo], in their output, [h; ELMo], or nowhere, as a baseline. Each place has a mixer of its
            own, with `mixer_weights` and `mixer_layer_norm`.
        elmo_layer_norm (`bool`): Whether a head's mixers normalise each vector of each layer by its own mean and
            variance, unless `mixer_layer_norm` is set. It helps with pairs of texts.
        elmo_dropout (`float`): Dropout on a head's ELMo vectors, in training only.
        mixer_l2 (`float`): How strongly a head's loss pulls its mixing weights towards the mean of the layers.
        word_vector_size (`int`, *optional*): Size of the static word vectors of a head; `None`: it has none.
        num_word_vectors (`int`, *optional*): Size of the vocabulary of the head's own tokenizer, whose `input_ids` are
            the rows of the word vectors. Default: `vocab_size`.
        train_word_vectors (`bool`): Whether the word vectors are trained.
        num_task_layers (`int`): Layers of a head's LSTM. With 0 it has none, and a tagger is a linear probe.
        task_layer_size (`int`): The size of this LSTM, per direction.
        task_lstm_type (`"bidirectional"` or `"alternating"`): A BiLSTM, or layers of `task_layer_size` with highway
            connections that alternate between forward and backward (He et al. 2017).
        classifier_dropout (`float`): Dropout around a head's task layers, in training only.
        tag_decoder (`"softmax"` or `"crf"`): Whether a tagger decodes each label independently, or whole sentences.
            The labels of semantic roles are valid BIO in both cases.
        predicate_size (`int`): Size of the embedding that marks the predicate of semantic roles.
        max_span_width (`int`): The longest mention of coreference, in words.
        span_ratio (`float`): How many candidate mentions per word coreference selects in a document.
        max_antecedents (`int`): The number of preceding candidates that a mention is compared with.
        span_size (`int`): Size of a span's vector, and of the layers that score it.
        pooling (`"mean"`, `"max"`, `"attention"` or `"biattentive"`): How a classifier pools the words of a text; the
            last one is the paper's sentiment model.
        classifier_type (`"linear"` or `"maxout"`): The last layers of a classifier: one linear layer, or three maxout
            layers as in the paper's sentiment model.
        text_pairs (`bool`): Whether a classifier reads pairs of texts.
        pair_attention (`bool` or `"esim"`): Whether the words of a pair's texts attend to each other. `True`: before
            ELMo at the output, and the pooled texts are compared. `"esim"`: the paper's entailment model, with ELMo at
            the output of the first BiLSTM; it pools by mean and maximum, and has a hidden layer.
        max_answer_words (`int`): The maximum length of an answer, in words.
        allow_no_answer (`bool`): Whether a question may have no answer in its context, as in SQuAD 2.0.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel

    >>> config = ElmoConfig(cell_size=1024, projection_size=128, num_highway_layers=1)  # the "small" original
    >>> model = ElmoModel(config)
    >>> config.hidden_size
    256
    ```"""

    model_type = "elmo"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["hidden_states", "states", "emissions"]

    vocab_size: int = 793471
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 1
    pad_token_id: int | None = None

    token_inputs: Literal["characters", "words", "both"] = "characters"
    char_vocab_size: int = 262
    char_pad_id: int = 261
    char_bos_id: int = 257
    char_eos_id: int = 258
    max_characters_per_token: int = 50
    char_embedding_size: int = 16
    char_filters: list[list[int]] = field(
        default_factory=lambda: [list(pair) for pair in ORIGINAL_FILTERS], metadata={"validator": _check_filter_pairs}
    )
    char_activation: Literal["relu", "tanh"] = "relu"
    num_highway_layers: int = 2
    word_embedding_size: int | None = None
    token_projection: bool | None = None

    num_hidden_layers: int = 2
    cell_size: int = 4096
    projection_size: int | None = 512
    cell_clip: float | int | None = 3.0
    projection_clip: float | int | None = 3.0
    forget_bias: float | int = 1.0
    skip_connections: bool = True
    directions: Literal["both", "forward", "backward"] = "both"
    dropout: float | int = 0.1

    softmax_type: Literal["full", "sampled", "adaptive"] = "full"
    softmax_samples: int = 8192
    softmax_cutoffs: list[int] | None = None
    softmax_tail_ratio: int = 4

    mixer_weights: str | list[float | int] = "learned"
    mixer_layer_norm: bool = False
    mixer_dropout: float | int = 0.0

    sentence_layers: list[int] | None = None
    sentence_size: int | None = None

    freeze_bilm: bool = True
    elmo_places: Literal["input", "output", "both", "none"] = "input"
    elmo_layer_norm: bool = False
    elmo_dropout: float | int = 0.5
    mixer_l2: float | int = 0.001
    word_vector_size: int | None = None
    num_word_vectors: int | None = None
    train_word_vectors: bool = True
    num_task_layers: int = 1
    task_layer_size: int = 256
    task_lstm_type: Literal["bidirectional", "alternating"] = "bidirectional"
    classifier_dropout: float | int = 0.2
    tag_decoder: Literal["softmax", "crf"] = "softmax"
    predicate_size: int = 100
    max_span_width: int = 10
    span_ratio: float | int = 0.4
    max_antecedents: int = 100
    span_size: int = 150
    pooling: Literal["mean", "max", "attention", "biattentive"] = "max"
    classifier_type: Literal["linear", "maxout"] = "linear"
    text_pairs: bool = False
    pair_attention: bool | Literal["esim"] = False
    max_answer_words: int = 17
    allow_no_answer: bool = False

    def __post_init__(self, **kwargs):
        check_extra_fields(self, kwargs)
        if self.pad_token_id is None:
            self.pad_token_id = self.vocab_size
        if self.uses_words and self.word_embedding_size is None:
            self.word_embedding_size = self.output_size
        if self.token_projection is None:
            self.token_projection = self.feature_size != self.output_size
        if self.word_vector_size is not None and self.num_word_vectors is None:
            self.num_word_vectors = self.vocab_size
        if self.sentence_layers is not None and self.sentence_size is None:
            self.sentence_size = self.hidden_size
        if self.softmax_type == "adaptive" and self.softmax_cutoffs is None:
            self.softmax_cutoffs = self.default_softmax_cutoffs
        super().__post_init__(**kwargs)

    @classmethod
    def _dict_from_json_file(cls, json_file: str | os.PathLike) -> dict[str, Any]:
        return read_json_object(json_file)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs):
        """
        As for any config. Fields of the wrong type raise a `ValueError`, also those of the base class. If `kwargs`
        changes `vocab_size` and padding was the first id after the words, its id changes too.
        """
        if "vocab_size" in kwargs and config_dict.get("pad_token_id") == config_dict.get("vocab_size"):
            config_dict = config_dict | {"vocab_size": kwargs["vocab_size"], "pad_token_id": None}
        try:
            return super().from_dict(config_dict, **kwargs)
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise ValueError(
                f"The config is malformed ({type(error).__name__}: {error!s:.200}): check its config.json, or download "
                "or save it again."
            ) from error

    @property
    def uses_characters(self) -> bool:
        """Whether token vectors are made from `char_ids`."""
        return self.token_inputs in ("characters", "both")

    @property
    def uses_words(self) -> bool:
        """Whether token vectors are made from `input_ids`."""
        return self.token_inputs in ("words", "both")

    @property
    def label_names(self) -> list[str]:
        """A head's labels, by id."""
        names: dict[Any, str] = self.id2label or {}
        if sorted(names) != list(range(len(names))):
            raise ValueError(f"`id2label` must number the labels from 0, found {sorted(names)}.")
        return [names[label] for label in range(len(names))]

    @property
    def num_directions(self) -> int:
        """1 or 2."""
        return 2 if self.directions == "both" else 1

    @property
    def output_size(self) -> int:
        """Size of a token vector and of one direction's output in every layer."""
        return self.cell_size if self.projection_size is None else self.projection_size

    @property
    def hidden_size(self) -> int:
        """Size of the model's vectors: the concatenated outputs of the directions."""
        return self.num_directions * self.output_size

    @property
    def default_softmax_cutoffs(self) -> list[int]:
        """The first words of the groups of an adaptive softmax if `softmax_cutoffs` is `None`."""
        return sorted({max(self.vocab_size // share, 1) for share in (20, 4)})

    @property
    def char_feature_size(self) -> int:
        """The total number of character filters."""
        return sum(filters for _, filters in self.char_filters)

    @property
    def feature_size(self) -> int:
        """Size of a token's features before the token projection."""
        words = (self.word_embedding_size or 0) if self.uses_words else 0
        return words + (self.char_feature_size if self.uses_characters else 0)

    def validate_architecture(self):
        """Refuses a config from which no model can be built, and names the field. Called by the base class."""
        self._check_sizes()
        if self.uses_characters:
            self._check_characters()
        self._check_projections()
        self._check_softmax()
        self._check_sentence_pooling()
        self._check_head()
        check_mixer_weights("mixer_weights", self.mixer_weights, self.num_hidden_layers + 1)

    def _check_sizes(self):
        for name, most in MAX_VALUES.items():
            value = getattr(self, name)
            if value is not None and value > most:
                raise ValueError(f"`{name}` must be {most} or less, found {value}.")
        for name in ("char_filters", "softmax_cutoffs", "mixer_weights", "sentence_layers"):
            if len(getattr(self, name) or ()) > MAX_ENTRIES:
                raise ValueError(f"`{name}` must have {MAX_ENTRIES} entries or less.")
        most = MAX_CRF_LABELS if self.tag_decoder == "crf" else MAX_LABELS
        if (self.num_labels or 0) > most:
            raise ValueError(f"There must be {most} labels or less, found {self.num_labels}.")
        positive = ["vocab_size", "char_vocab_size", "max_characters_per_token", "char_embedding_size", "sentence_size"]
        positive += ["word_embedding_size", "num_hidden_layers", "cell_size", "projection_size", "predicate_size"]
        positive += ["cell_clip", "projection_clip", "word_vector_size", "num_word_vectors", "task_layer_size"]
        positive += ["max_span_width", "span_ratio", "max_antecedents", "span_size", "max_answer_words"]
        for name in positive:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"`{name}` must be greater than 0, found {value}.")
        for name in ("cell_clip", "projection_clip", "forget_bias"):
            value = getattr(self, name)
            if value is not None and not -1e30 < value < 1e30:  # `math.isfinite` takes no huge integers
                raise ValueError(f"`{name}` must be a finite number, found {value}.")
        if self.num_highway_layers < 0:
            raise ValueError(f"`num_highway_layers` must be 0 or more, found {self.num_highway_layers}.")
        for name in ("dropout", "mixer_dropout", "elmo_dropout", "classifier_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 0 and less than 1, found {getattr(self, name)}.")

    def _check_characters(self):
        if not self.char_filters:
            raise ValueError("`char_filters` is empty: a character encoder needs at least one [width, number].")
        for entry in self.char_filters:
            if entry[0] > self.max_characters_per_token:
                raise ValueError(
                    f"`char_filters` has a filter of width {entry[0]}, wider than the {self.max_characters_per_token} "
                    "slots of `max_characters_per_token`."
                )
        if self.max_characters_per_token < 3:
            raise ValueError(
                "`max_characters_per_token` must be 3 or more (begin mark, a byte, end mark), "
                f"found {self.max_characters_per_token}."
            )
        if not 0 < self.char_pad_id < self.char_vocab_size:
            raise ValueError(
                f"`char_pad_id` must be between 1 and `char_vocab_size` - 1 = {self.char_vocab_size - 1}, "
                f"found {self.char_pad_id}."
            )

    def _check_projections(self):
        if self.token_projection is False and self.feature_size != self.output_size:
            raise ValueError(
                f"`token_projection=False` needs features of the token vector's size, found {self.feature_size} "
                f"features for vectors of {self.output_size}."
            )

    def _check_softmax(self):
        if self.softmax_type == "sampled" and not 0 < self.softmax_samples < self.vocab_size:
            raise ValueError(
                f"`softmax_samples` must be between 1 and `vocab_size` - 1 = {self.vocab_size - 1}, "
                f"found {self.softmax_samples}."
            )
        cutoffs = self.softmax_cutoffs
        if self.softmax_type == "adaptive" and cutoffs is not None:
            bounds = [0, *cutoffs, self.vocab_size]
            if not cutoffs or any(start >= stop for start, stop in itertools.pairwise(bounds)):
                raise ValueError(
                    f"`softmax_cutoffs` must be rising and between 1 and `vocab_size` - 1 = {self.vocab_size - 1}, "
                    f"found {cutoffs}."
                )
        if self.softmax_tail_ratio < 1:
            raise ValueError(f"`softmax_tail_ratio` must be 1 or more, found {self.softmax_tail_ratio}.")

    def _check_sentence_pooling(self):
        layers = self.sentence_layers
        if layers is None:
            return
        if not layers or not all(0 <= layer <= self.num_hidden_layers for layer in layers):
            raise ValueError(
                f"`sentence_layers` must be numbers of layers, from 0 to {self.num_hidden_layers}, found {layers}."
            )
        most = len(layers) * self.hidden_size
        if (self.sentence_size or 0) > most:
            raise ValueError(
                f"`sentence_size` must be {most} or less, the size of the vectors of the layers {layers}, found "
                f"{self.sentence_size}."
            )

    def _check_head(self):
        for name in ("mixer_l2", "num_task_layers"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"`{name}` must be 0 or more, found {getattr(self, name)}.")
        if self.elmo_places in ("output", "none") and self.word_vector_size is None:
            raise ValueError(
                f"`elmo_places={self.elmo_places!r}` leaves the task layers without input: add word vectors "
                "(`word_vector_size`), or use ELMo at the input too (`elmo_places='both'`)."
            )
        has_own_words = self.word_vector_size is not None and self.num_word_vectors not in (None, self.vocab_size)
        if self.uses_words and has_own_words:
            raise ValueError(
                f"The biLM has a table of {self.vocab_size} words, and `input_ids` are its rows: a head's word vectors "
                f"must be of the same words, found `num_word_vectors={self.num_word_vectors}`."
            )
        if self.pair_attention and not self.text_pairs:
            raise ValueError("`pair_attention` is between the texts of a pair: it needs `text_pairs=True`.")
        if self.pair_attention == "esim" and self.pooling != "max":
            raise ValueError(
                f"`pair_attention='esim'` pools by mean and maximum, found `pooling={self.pooling!r}`: leave it out, "
                "or choose `pair_attention=True`."
            )

    def validate_token_ids(self):
        """Boundaries must be words of the vocabulary; padding may be the first id after the words."""
        last = self.vocab_size - 1
        for name, most in (("bos_token_id", last), ("eos_token_id", last), ("pad_token_id", last + 1)):
            value = getattr(self, name)
            for token_id in value if isinstance(value, list) else [value]:
                if token_id is not None and not 0 <= token_id <= most:
                    raise ValueError(f"`{name}` must be between 0 and {most}, found {value}.")

    def check_resizing(self, vocab_size: int):
        """Refuses a vocabulary size that the word table and the softmax of a model with this config cannot have."""
        padding = self.pad_token_id
        if padding is not None and vocab_size <= padding:
            raise ValueError(
                f"`new_num_tokens={vocab_size}` would cut off the row of padding (`pad_token_id={padding}`): give "
                f"{padding + 1} or more."
            )
        if self.word_vector_size is not None:
            raise ValueError(
                "This head has word vectors of its own, of the biLM's words: resize the biLM before it gets the head."
            )
        resized = copy.copy(self)
        resized.vocab_size = vocab_size
        resized.validate_architecture()
        resized.validate_token_ids()

    @classmethod
    def from_bilm_options(cls, options: Mapping[str, Any] | str | os.PathLike, **overrides) -> "ElmoConfig":
        """
        Reads an `options.json` of the original, for training (261 characters) or for inference (262).

        Args:
            options: The options, or the path of their file.
            overrides: Config fields that replace those of the options.
        """
        if isinstance(options, (str, os.PathLike)):
            options = read_json_object(options)
        if not isinstance(options, Mapping):
            raise ValueError(f"biLM options should be a JSON object, found {type(options).__name__}.")
        try:
            fields = _fields_of_options(options)
        except KeyError as error:
            raise ValueError(f"These are not the options of a biLM: {error} is missing.") from error
        except TypeError as error:
            raise ValueError(f"These are not the options of a biLM: a part has the wrong type ({error}).") from error
        return cls(**(fields | overrides))


def _fields_of_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Config fields for the `lstm` and `char_cnn` parts of an original options file."""
    lstm, characters = options["lstm"], options.get("char_cnn")
    cells, projection = lstm["dim"], lstm["projection_dim"]
    if projection is None:
        raise TypeError("`projection_dim` is null")
    if isinstance(projection, int) and isinstance(cells, int) and 0 < cells < projection:
        raise ValueError(f"`projection_size` ({projection}) must not be larger than `cell_size` ({cells}).")
    fields = {
        "num_hidden_layers": lstm.get("n_layers", 1),
        "cell_size": cells,
        # The LSTM cell of the original only projects if the projection is smaller than the cells.
        "projection_size": projection if projection != cells else None,
        "cell_clip": lstm.get("cell_clip"),
        "projection_clip": lstm.get("proj_clip"),
        "skip_connections": bool(lstm.get("use_skip_connections", False)),
        "directions": "both" if options.get("bidirectional", True) else "forward",
        "dropout": options.get("dropout", 0.0),
    }
    if "n_tokens_vocab" in options:
        fields["vocab_size"] = options["n_tokens_vocab"]
    if characters is None:
        return fields | {"token_inputs": "words"}

    # For training there are 256 bytes and 5 marks; for inference there is also row 0, the padding.
    if characters["n_characters"] not in (261, 262):
        raise ValueError(f"`n_characters` must be 261 or 262, found {characters['n_characters']}.")
    return fields | {
        "token_inputs": "characters",
        "max_characters_per_token": characters["max_characters_per_token"],
        "char_embedding_size": characters["embedding"]["dim"],
        "char_filters": [list(entry) for entry in characters["filters"]],
        "char_activation": characters["activation"],
        "num_highway_layers": characters.get("n_highway") or 0,
    }


__all__ = ["AUTO_MAP", "HEADS", "MODELS", "NON_ENCODER_KEYS", "ElmoConfig", "ModelClass", "check_mixer_weights"]
