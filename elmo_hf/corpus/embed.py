"""
Embeds a corpus of any size into a file, in bounded memory.

The records are split into shards by the length of their text. Each shard is embedded on its own by one of the processes
and written when it is complete. At the end the output is assembled from all shards. The output is therefore the same,
byte for byte, however often the run was stopped and however many processes shared it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from accelerate import PartialState
from tqdm import tqdm

from ..data.batches import BATCH_TOKENS, WINDOW_IN_ANY_ORDER
from ..data.text_sources import STANDARD_INPUT
from ..embedding.embedder import ElmoEmbedder
from ..embedding.layers import Layers
from ..embedding.request import EmbeddingRequest
from ..errors import FolderError, TextError
from ..runtime.memory import freeze_existing_objects, release_freed_memory
from ..runtime.processes import this_process
from ..runtime.progress import ProgressReport
from .corpus_progress import CorpusProgress
from .formats import find_format
from .readers import Kind, ReadingOptions, Record, Source, open_corpus
from .shards import DTYPES, EmbeddedRecord, Layout, Shard, digest, write_shard
from .work import WorkFolder, fingerprint

SHARD_CHARACTERS = 1 << 18  # about 50,000 words: the work that a kill loses, and the unit that processes share
MAX_SHOWN_ERRORS = 10


class CorpusSummary(NamedTuple):
    """
    The result of [`embed_corpus`].

    Args:
        path: The output file, or the index file if the output has several files.
        records, words: The numbers of embedded records and words.
        skipped: The number of bad lines that were skipped.
        bad: The error messages of the first of them.
    """

    path: Path
    records: int
    words: int
    skipped: int
    bad: list[str]


@freeze_existing_objects()
def embed_corpus(
    sources: str | os.PathLike | Sequence[str | os.PathLike],
    out: str | os.PathLike,
    *,
    embedder: ElmoEmbedder | None = None,
    layers: Layers = "mix",
    pooling: str | None = None,
    dtype: str = "float32",
    output_format: str | None = None,
    input_format: Kind | None = None,
    column: str | None = None,
    split: str = "train",
    pretokenized: bool = False,
    keep_columns: Sequence[str] = (),
    batch_tokens: int = BATCH_TOKENS,
    resume: bool = False,
    overwrite: bool = False,
    skip_bad: bool = False,
    progress: bool | None = None,
) -> CorpusSummary:
    """
    Embeds a corpus into a file. The processes of a launched run share the work.

    Args:
        sources: One or more sources: files, plain or compressed; datasets on disk or on the Hub; `"-"` for standard
            input.
        out: The output file. Until it is complete, the folder `OUT.parts` beside it holds the finished shards.
        embedder: The embedder. Default: the model that comes with this package.
        layers, pooling, batch_tokens: As in [`ElmoEmbedder.embed`].
        dtype: The dtype of the stored vectors: "float32", "float16" or "bfloat16".
        output_format: "safetensors", "parquet", "arrow", "hdf5", "npy" or "npz". Default: by the ending of `out`.
        input_format, column, split, pretokenized, keep_columns: As in [`ReadingOptions`].
        resume: Whether to continue a stopped run, if there is one.
        overwrite: Whether to start from the beginning if there is an output or a stopped run. An existing output is
            replaced when the new one is complete.
        skip_bad: Whether to skip and count lines that cannot be read. Otherwise they raise an error.
        progress: Whether to show a progress bar. Default: only if standard error is a terminal.

    Example:

    ```python
    >>> from elmo_hf import embed_corpus

    >>> embed_corpus(["sentences.txt"], "vectors.parquet", pooling="mean").records
    1000
    ```"""
    reading = ReadingOptions(input_format, column, split, pretokenized, tuple(keep_columns))
    process, out = this_process(), Path(out)
    source_list = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    opened = open_corpus([os.fspath(source) for source in source_list], reading)
    _refuse_shared_input(opened, process)
    embedder = embedder or ElmoEmbedder.from_pretrained(device=process.device)
    options: dict[str, Any] = {"layers": layers, "pooling": pooling, "batch_tokens": batch_tokens}
    request = EmbeddingRequest(embedder.model, embedder.tokenizer, **options)  # checks the options
    if dtype not in DTYPES:
        raise ValueError(f"`dtype` must be one of {', '.join(DTYPES)}, found {dtype!r}.")
    layout = Layout(request.vector_size, *request.lead, pooled=pooling is not None, dtype=dtype)
    written = find_format(out, output_format)(layout, {"layers": layers, "pooling": pooling})
    if keep_columns and not written.keeps_columns:
        raise FolderError(f"{written.name} cannot hold other columns: use .parquet, .arrow, .safetensors or .npz.")
    # The last bits of a vector depend on the sentences in its batch.
    batching = {"batches sorted together": WINDOW_IN_ANY_ORDER}
    settings = options | {"dtype": dtype, **batching, **asdict(reading), **fingerprint(embedder)}
    work = WorkFolder(out, written.target(out))
    run = _Run(embedder, request, opened, work, layout)
    is_shown = progress if process.is_main_process else False
    settings |= {"bytes of input": [source.size for source in opened]}
    with work.begun(settings, resume, overwrite) if process.is_main_process else nullcontext():
        process.wait_for_everyone()
        shards = run.embed(process, skip_bad, is_shown)
        process.wait_for_everyone()  # until every process has read the shards, which are removed below
        counts = [sum(getattr(shard, name) for shard in shards) for name in ("num_records", "num_words")]
        if process.is_main_process:
            hidden = None if is_shown is None else not is_shown
            with tqdm(total=counts[0], desc="writing", unit="record", disable=hidden) as bar, work.written():
                replaced = written.files(out)
                written.finish(shards, out, work.path, bar.update)
                for old in replaced - written.files(out):
                    old.unlink(missing_ok=True)
            work.remove()
    process.wait_for_everyone()
    return CorpusSummary(written.target(out), *counts, run.skipped, run.bad)


def _refuse_shared_input(sources: Iterable[Source], process: PartialState):
    if process.num_processes > 1 and any(source.name == STANDARD_INPUT for source in sources):
        raise TextError("Only one process can read standard input: write it to a file for several processes.")


class _Task(NamedTuple):
    """
    The input of one shard.

    Args:
        records: One or more records.
        size: The bytes of input that they were read from.
    """

    records: list[Record]
    size: int


class _Run:
    """The shards of a corpus."""

    def __init__(
        self,
        embedder: ElmoEmbedder,
        request: EmbeddingRequest,
        sources: Sequence[Source],
        work: WorkFolder,
        layout: Layout,
    ):
        self.embedder, self.request, self.sources, self.work, self.layout = embedder, request, sources, work, layout
        self.skipped, self.bad = 0, []

    def embed(self, process: PartialState, skip_bad: bool, is_shown: bool | None) -> list[Shard]:
        """Embeds this process's missing shards, waits for the other processes, and returns all shards."""
        known = [source.size for source in self.sources if source.size is not None]
        size = sum(known) if len(known) == len(self.sources) else None
        num_shards = 0
        with CorpusProgress(size, process.num_processes, is_shown) as progress:
            for shard, task in enumerate(self._tasks(skip_bad)):
                num_shards += 1
                if shard % process.num_processes != process.process_index:
                    progress.elsewhere(task.size)
                elif self.work.is_done(shard, self.layout, digest(task.records)):
                    progress.done(task.size)
                else:
                    self._embed(shard, task, progress)
        process.wait_for_everyone()
        return [self.work.shard(shard, self.layout) for shard in range(num_shards)]

    def _tasks(self, skip_bad: bool) -> Iterator[_Task]:
        """Splits the records by the length of their text: into the same shards in every process and every run."""
        records: list[Record] = []
        read = length = 0

        def report(size: int):
            nonlocal read
            read += size

        for source in self.sources:
            for record in source.read(report):
                if isinstance(record, TextError):
                    self._skip(record, skip_bad)
                    continue
                records.append(record)
                length += len(record.text) + 1
                if length >= SHARD_CHARACTERS:
                    yield _Task(records, read)
                    records, read, length = [], 0, 0
        if records:
            yield _Task(records, read)

    def _skip(self, error: TextError, skip_bad: bool):
        if not skip_bad:
            raise error
        self.skipped += 1
        if len(self.bad) < MAX_SHOWN_ERRORS:
            self.bad.append(str(error))

    def _embed(self, shard: int, task: _Task, progress: CorpusProgress):
        if (cache := self.embedder.model.token_encoder.word_cache) is not None:
            cache.clear()  # the last bits of a word's vector depend on the words it was encoded with
        sentences = [record.text if record.words is None else record.words for record in task.records]
        records = [
            EmbeddedRecord(record.text, list(tokens.words), record.columns)
            for record, tokens in zip(task.records, self.embedder.tokenize(sentences), strict=True)
        ]
        words = [record.words for record in records]
        advance = progress.embedding(task.size, sum(map(len, words)) + 2 * len(words))  # with boundaries
        with self.work.written():
            vectors = self.request.iter_unordered(words, ProgressReport(advance, words))
            write_shard(self.work.shard_path(shard), self.layout, records, vectors, digest(task.records))
        release_freed_memory()


__all__ = ["CorpusSummary", "embed_corpus"]
