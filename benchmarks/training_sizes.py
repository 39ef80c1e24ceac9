"""What pretraining is measured on: models, and the text that they read."""

from dataclasses import dataclass, field
from typing import Any

from benchmarks.texts import ENGLISH
from elmo_hf import ElmoTokenizer
from elmo_hf.modeling.tokenizer_files_elmo import read_vocabulary
from elmo_hf.pretraining import Corpus, PretrainingSettings, SentenceEncoder, build_config
from elmo_hf.pretraining.streams import Reader, Streams

WINDOW = 20


@dataclass(frozen=True)
class Size:
    """
    A model, the text it reads, and who can train it.

    Attributes:
        name: As `elmo_hf.pretraining.build_config` knows it.
        words: Of the softmax.
        streams: Windows per step.
        sides: What is measured if nothing is said.
        fields: Of the config, beside those of the size.
        one_at_a_time: Whether one side must end before the next begins.
    """

    name: str
    recipe: str
    words: int
    streams: int
    sides: tuple[str, ...]
    fields: dict[str, Any] = field(default_factory=dict)
    one_at_a_time: bool = False

    def config(self) -> dict[str, Any]:
        """The fields of the `ElmoConfig`."""
        return build_config(self.name, self.words, self.recipe, **self.fields).to_dict()


SIZES = {
    # 2 x 1024 / 128, 2,048 filters, 8,192 sampled words of 10,000, Adagrad
    "small": Size("small", "original", 10_000, 64, ("ours", "plain", "simple_elmo"), {"softmax_type": "sampled"}),
    # that of the model that comes with the package: 2 x 768 / 256, 512 filters, an adaptive softmax, AdamW
    "compact": Size("compact", "modern", 80_000, 128, ("ours", "plain")),
    # 2 x 4096 / 512, 2,048 filters, 8,192 sampled words of 793,471, Adagrad
    "full": Size("original", "original", 793_471, 128, ("ours", "simple_elmo"), one_at_a_time=True),
}


def streams_of_text(size: Size) -> Streams:
    """The English corpus; words past the softmax's are unknown ones."""
    tokenizer = ElmoTokenizer(vocab=read_vocabulary(ENGLISH / "vocab.txt")[: size.words])
    settings = PretrainingSettings.recipe(size.recipe)
    reader = Reader(Corpus(str(ENGLISH / "english-*.txt.xz")), epochs=None, seed=0)
    encode = SentenceEncoder(tokenizer, pretokenized=True)
    return Streams(reader, encode, streams=size.streams, window=WINDOW, reset_probability=settings.reset_probability)
