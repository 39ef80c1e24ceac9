"""What clients may send: the bodies of requests, checked."""

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..data.sentences import Sentence
from ..finetuning.classification_data import LabelledText
from .api_errors import ApiError, invalid

Body = TypeVar("Body", bound="RequestBody")
MAX_LAYERS, MAX_PROBLEMS = 64, 100
# The first wrong item ends the validation: a body can have hundreds of thousands.
Words = Annotated[list[str], Field(fail_fast=True)]
Texts = Annotated[
    str | Annotated[list[str | Words], Field(fail_fast=True)],
    Field(description="A text, or a list. Each entry of the list is a text, or a list of words."),
]
ModelName = Annotated[str | None, Field(description="A name that `/v1/models` lists. Default: the first that fits.")]
Layers = Annotated[
    Literal["mix", "top", "average", "all"] | int | Annotated[list[int], Field(max_length=MAX_LAYERS, fail_fast=True)],
    Field(description="mix, top, average, all, the index of a layer, or a list of indices; 0 is the token layer."),
]


class RequestBody(BaseModel):
    """A body: fields of other names are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: ModelName = None


class OpenAIEmbeddingsBody(RequestBody):
    """`POST /v1/embeddings`"""

    input: str | Words
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None  # OpenAI's clients may name theirs; it has no effect

    def texts(self) -> list[Sentence]:
        """The texts to embed."""
        return [self.input] if isinstance(self.input, str) else list(self.input)


class _TextsBody(RequestBody):
    inputs: Texts
    # text-embeddings-inference has these. Texts are never cut, and the model has no prompts: they must ask for nothing.
    truncate: Literal[False] | None = None
    truncation_direction: Literal["Left", "Right", "left", "right"] | None = None
    prompt_name: None = None

    def texts(self) -> list[Sentence]:
        """The texts, or lists of words, to embed."""
        return [self.inputs] if isinstance(self.inputs, str) else list(self.inputs)


class EmbedBody(_TextsBody):
    """`POST /embed`"""

    normalize: bool | None = None
    layers: Layers = "mix"
    pooling: Literal["mean", "max", "sentence"] | None = None
    dimensions: int | None = None
    encoding_format: Literal["float"] | None = None


class EmbedAllBody(_TextsBody):
    """`POST /embed_all`"""

    layers: Layers = "mix"
    return_words: bool = False


class TextPair(BaseModel):
    """A text, or a pair of texts."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    text_pair: str | None = None


class PredictParameters(BaseModel):
    """Parameters of Hugging Face's Inference API."""

    model_config = ConfigDict(extra="forbid", strict=True)
    aggregation_strategy: Literal["none", "simple"] = "none"
    ignore_labels: Words = ["O"]
    top_k: Annotated[int, Field(ge=1)] | None = None
    function_to_apply: None = None
    stride: None = None


class PredictBody(RequestBody):
    """`POST /predict`"""

    inputs: Annotated[
        str | TextPair | Annotated[list[str | TextPair | Words], Field(fail_fast=True)],
        Field(
            description='A text, {"text", "text_pair"}, or a list of these. A list inside of the list holds the words '
            "of a text for a tagger, and one text or a pair of texts for a classifier."
        ),
    ]
    parameters: PredictParameters = PredictParameters()
    truncate: Literal[False] | None = None
    raw_scores: Literal[False] | None = None

    @property
    def is_single(self) -> bool:
        """Whether the inputs are one text, so that the answer is not a list of answers."""
        return not isinstance(self.inputs, list)

    def _items(self) -> list[str | TextPair | list[str]]:
        return self.inputs if isinstance(self.inputs, list) else [self.inputs]

    def sentences(self) -> list[Sentence]:
        """The texts, or lists of words, to tag."""
        items = [item.text if isinstance(item, TextPair) and item.text_pair is None else item for item in self._items()]
        if any(isinstance(item, TextPair) for item in items):
            raise invalid("`inputs` has a pair of texts, and this model tags single ones.")
        return items  # ty: ignore[invalid-return-type]

    def labelled_texts(self, pairs: bool) -> list[LabelledText]:
        """
        The texts, or pairs of texts, to classify.

        Args:
            pairs: Whether the model classifies pairs.
        """
        texts = []
        for place, item in enumerate(self._items()):
            parts = [item.text, item.text_pair] if isinstance(item, TextPair) else item
            parts = [part for part in ([parts] if isinstance(parts, str) else parts) if part is not None]
            if len(parts) != 1 + pairs:
                expected = 'pairs of texts: {"text": …, "text_pair": …}' if pairs else "single texts"
                raise invalid(f"`inputs[{place}]` has {len(parts)} text(s), and this model classifies {expected}.")
            texts.append(LabelledText(*parts))
        return texts


def parse_body(kind: type[Body], body: bytes) -> Body:
    """Reads a body. Anything but JSON of the expected form raises an [`ApiError`] that names the field."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        if error.error_count() > MAX_PROBLEMS:  # of unknown fields, for example
            raise invalid(f"More than {MAX_PROBLEMS} fields of the body are wrong.") from None
        problems = error.errors(include_url=False, include_context=False)
    problem = max(
        problems, key=lambda problem: len(problem["loc"])
    )  # of a union's alternatives, the one that fits best
    if problem["type"] == "json_invalid":
        raise ApiError(400, "invalid_json", f"The body is not JSON: {_json_problem(body)}")
    raise invalid(_message(problem))


def _json_problem(body: bytes) -> str:
    """Where the JSON is wrong."""
    try:
        json.loads(body)
    except UnicodeDecodeError:
        return "it is not UTF-8."
    except RecursionError:
        return "it is nested too deeply."
    except ValueError as error:
        return f"{error}."
    return "it has characters or numbers that JSON does not have."  # a half of a surrogate pair, for example


def _message(problem: Any) -> str:
    """One sentence about a field that is wrong."""
    place = [part for part in problem["loc"] if isinstance(part, int) or part.isidentifier()]
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place if part not in _TYPES)
    name = f"`{name.lstrip('.')}`" if name else "The body"
    if problem["type"] == "extra_forbidden":
        return f"{name} is no field of this request."
    if problem["type"] == "missing":
        return f"{name} is missing."
    return f"{name} is wrong: {problem['msg']}, found {problem['input']!r:.60}."


_TYPES = {"str", "int", "TextPair", "literal", "none"}  # the alternatives of a union, which pydantic adds to a place

__all__ = [
    "EmbedAllBody",
    "EmbedBody",
    "OpenAIEmbeddingsBody",
    "PredictBody",
    "PredictParameters",
    "RequestBody",
    "TextPair",
    "parse_body",
]
