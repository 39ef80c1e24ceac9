"""Components for spaCy's pipelines: `elmo` (vectors), `elmo_ner` (entities) and `elmo_tagger` (tags)."""

from ..runtime.extras import require

require("spacy")

from .spacy_component import ElmoComponent  # noqa: E402
from .spacy_taggers import ElmoEntities, ElmoTags  # noqa: E402
from .spacy_vectors import ElmoVectors, add_vector_hooks  # noqa: E402

__all__ = ["ElmoComponent", "ElmoEntities", "ElmoTags", "ElmoVectors", "add_vector_hooks"]
