"""`python -m tests.embedding.small_shards`: `elmo-hf` with shards of a few sentences."""

from elmo_hf import cli
from elmo_hf.corpus import embed as corpus
from tests.embedding.forked import SHARD_CHARACTERS

if __name__ == "__main__":
    corpus.SHARD_CHARACTERS = SHARD_CHARACTERS
    cli.main()
