"""Output formats of an embedded corpus, one class each. Files are assembled from shards, a few records at a time."""

import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import FolderError, did_you_mean
from ..runtime.extras import import_extra
from ..runtime.hdf5_files import PatientFile
from ..runtime.staging import write_atomically
from .shards import ENDING, NUMPY_DTYPES, Batch, Layout, Shard

BATCH_BYTES = 1 << 23  # bytes of vectors in memory while a file is assembled

JSON = "json"  # the type of a kept column that has no Arrow type
Advance = Callable[[int], object]  # called with the number of records written since the last call


class OutputFormat:
    """
    A format of the output.

    Args:
        layout: The layout of the vectors.
        about: Metadata to store with them, plain values by name.
    """

    name: str
    endings: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32", "float16")
    keeps_columns = False  # whether the format can store other columns of a record

    def __init__(self, layout: Layout, about: dict[str, Any]):
        if layout.dtype not in self.dtypes:
            raise FolderError(
                f"{self.name} has no {layout.dtype}: use --dtype {' or '.join(self.dtypes)}, or --format safetensors."
            )
        self.layout, self.about = layout, about

    def target(self, out: Path) -> Path:
        """The file whose existence means that the output is complete."""
        return out

    def files(self, out: Path) -> set[Path]:
        """All files of an existing output."""
        return {out} if out.exists() else set()

    def finish(self, shards: Sequence[Shard], out: Path, stage: Path, advance: Advance):
        """
        Assembles the output from all shards, under another name until it is complete.

        Args:
            out: The output file.
            stage: A folder on the same disk.
        """
        assembled = stage / f".assembled{self.endings[0]}.tmp"
        try:
            self.write(shards, assembled, advance)
            with open(assembled, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(assembled, out)
        finally:
            assembled.unlink(missing_ok=True)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        """Writes one file."""
        raise NotImplementedError


class SafetensorsFormat(OutputFormat):
    """The shards themselves, `NAME-00001-of-00007.safetensors` …, and a list of them, `NAME.safetensors.index.json`."""

    name = "safetensors"
    endings = (ENDING,)
    dtypes = ("float32", "float16", "bfloat16")
    keeps_columns = True

    def target(self, out: Path) -> Path:
        return out.with_name(f"{out.name}.index.json")

    def files(self, out: Path) -> set[Path]:
        index = self.target(out)
        if not index.exists():
            return set()
        try:
            names = {str(shard["file"]) for shard in json.loads(index.read_text("utf-8"))["shards"]}
        except (ValueError, LookupError, TypeError):  # not an index that this class has written
            names = set()
        own = re.compile(rf"{re.escape(out.name.removesuffix(ENDING))}-\d+-of-\d+{re.escape(ENDING)}")
        return {index, *(out.with_name(name) for name in names if own.fullmatch(name))}

    def finish(self, shards: Sequence[Shard], out: Path, stage: Path, advance: Advance):
        files = []
        for place, shard in enumerate(shards, start=1):
            name = f"{out.name.removesuffix(ENDING)}-{place:05}-of-{len(shards):05}{ENDING}"
            _link(shard.path, out.with_name(name))
            files.append({"file": name, "records": shard.num_records, "words": shard.num_words})
            advance(shard.num_records)
        index = self.about | {
            "dtype": self.layout.dtype,
            "shape": ["records" if self.layout.pooled else "words", *self.layout.row],
            "records": sum(shard.num_records for shard in shards),
            "words": sum(shard.num_words for shard in shards),
            "shards": files,
        }
        write_atomically(self.target(out), json.dumps(index, indent=2) + "\n")


def _link(source: Path, target: Path):
    """Adds a second name to a file, which keeps the first until the run ends. Copies it if links are not supported."""
    temporary = source.with_name(f".{source.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


class _ArrowTable(OutputFormat):
    """
    Columns `text`, `words` and `vectors` (lists of `size` values, nested in a list of words, nested in a list of
    layers), and the kept columns, each in the Arrow type that fits all its values, or else as JSON.
    """

    keeps_columns = True

    def __init__(self, layout: Layout, about: dict[str, Any]):
        super().__init__(layout, about)
        self._arrow = import_extra("pyarrow", self.name.lower())
        self._kept: dict[str, Any] = {}  # the types of the columns that were kept

    def _schema(self):
        arrow, layout = self._arrow, self.layout
        vectors = arrow.list_(arrow.float16() if layout.dtype == "float16" else arrow.float32(), layout.size)
        if not layout.pooled:
            vectors = arrow.list_(vectors)
        if layout.layers is not None:
            vectors = arrow.list_(vectors, layout.layers)
        columns = {"text": arrow.string(), "words": arrow.list_(arrow.string()), "vectors": vectors}
        columns |= {name: arrow.string() if kind == JSON else kind for name, kind in self._kept.items()}
        return arrow.schema(columns.items())

    def _table(self, batch: Batch):
        texts, words, columns = zip(*batch.records, strict=True)
        kept_columns = [
            self._kept_values(name, [(values or {}).get(name) for values in columns]) for name in self._kept
        ]
        return self._arrow.table([texts, words, self._vectors(batch), *kept_columns], schema=self._schema())

    def _find_kept(self, shards: Sequence[Shard]):
        """Determines the type that fits all values of each kept column; JSON text if there is none."""
        kinds: dict[str, set[str]] = {}
        for record in (record for shard in shards for record in shard.records()):
            for name, value in (record.columns or {}).items():
                kinds.setdefault(name, set()).add(_kind_of_value(value))
        arrow = self._arrow
        types = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64(), "str": arrow.string()}
        types |= {"words": arrow.list_(arrow.string())}
        for name, kinds_of_column in kinds.items():
            kinds_of_column.discard("null")
            if "long" in kinds_of_column and "float" not in kinds_of_column:
                kinds_of_column = kinds_of_column - {"long"} | {"int"}
            if kinds_of_column == {"int", "float"}:
                kinds_of_column = {"float"}
            self._kept[name] = types.get(kinds_of_column.pop(), JSON) if len(kinds_of_column) == 1 else JSON

    def _kept_values(self, name: str, values: list[Any]):
        kind = self._kept[name]
        if kind == JSON:
            return [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return values

    def _vectors(self, batch: Batch):
        arrow, layout, flat, lengths = self._arrow, self.layout, batch.vectors, batch.lengths
        if layout.layers is not None and not layout.pooled:
            # (layers, words, size): shards store (words, layers, size).
            records = np.split(flat, np.cumsum(lengths)[:-1])
            flat = np.concatenate([record.transpose(1, 0, 2).reshape(-1) for record in records])
            lengths = np.repeat(lengths, layout.layers)
        kind = arrow.float16() if layout.dtype == "float16" else arrow.float32()
        vectors = arrow.FixedSizeListArray.from_arrays(self._array(flat, kind), layout.size)
        if not layout.pooled:
            ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            vectors = arrow.ListArray.from_arrays(self._array(ends, arrow.int32()), vectors)
        return vectors if layout.layers is None else arrow.FixedSizeListArray.from_arrays(vectors, layout.layers)

    def _array(self, values: np.ndarray, kind: Any):
        """An Arrow array that shares the memory. (`pyarrow.array` would import pandas.)"""
        return self._arrow.Array.from_buffers(kind, values.size, [None, self._arrow.py_buffer(values)])

    def _write_tables(self, writer: Any, shards: Sequence[Shard], advance: Advance):
        for shard in shards:
            for batch in shard.batches(BATCH_BYTES):
                writer.write_table(self._table(batch))
                advance(len(batch.records))


def _kind_of_value(value: Any) -> str:
    """The kind of a value that has an Arrow type, "long" for an integer that is no exact float, or "other"."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "words" if all(isinstance(part, str) for part in value) else "other"
    if isinstance(value, int) and abs(value) > 2**53:
        return "long" if -(2**63) <= value < 2**63 else "other"
    return type(value).__name__ if isinstance(value, (bool, int, float, str)) else "other"


class ParquetFormat(_ArrowTable):
    """Parquet, with row groups of a few records."""

    name = "Parquet"
    endings = (".parquet",)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        parquet = import_extra("pyarrow.parquet", self.name.lower())
        # Vectors hardly compress, and statistics about them are of no use.
        options = {
            "compression": {"text": "zstd", "words.list.element": "zstd"},
            "use_dictionary": ["words.list.element"],
            "write_statistics": False,
        }
        self._find_kept(shards)
        with parquet.ParquetWriter(path, self._schema(), **options) as writer:
            self._write_tables(writer, shards, advance)


class ArrowFormat(_ArrowTable):
    """The Arrow stream format, which `datasets` maps into memory."""

    name = "Arrow"
    endings = (".arrow",)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        ipc = import_extra("pyarrow.ipc", self.name.lower())
        self._find_kept(shards)
        with self._arrow.OSFile(str(path), "wb") as file, ipc.new_stream(file, self._schema()) as writer:
            self._write_tables(writer, shards, advance)


class Hdf5Format(OutputFormat):
    """
    The layout of AllenNLP's `elmo` command: one dataset `"0"`, `"1"` ... per record, `(words, size)` or `(layers,
    words, size)`, and `sentence_to_index`, one JSON object that maps each sentence to its index, as a string.
    """

    name = "HDF5"
    endings = (".hdf5", ".h5")

    def __init__(self, layout: Layout, about: dict[str, Any]):
        super().__init__(layout, about)
        self._h5py = h5py = import_extra("h5py", self.name.lower())
        self._dtype = h5py.h5t.py_create(NUMPY_DTYPES[layout.dtype], logical=True)
        self._properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self._properties.set_obj_track_times(False)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        with PatientFile(path, "w+") as disk:
            with self._h5py.File(disk, "w") as file:
                self._write_records(file, disk, shards, advance)
            disk.check()

    def _write_records(self, file: Any, disk: PatientFile, shards: Sequence[Shard], advance: Advance):
        sentences: list[str] = []  # the layout stores all of them in one string
        for shard in shards:
            for batch in shard.batches(BATCH_BYTES):
                ends = np.cumsum(self.layout.rows(batch.lengths))[:-1]
                for record, vectors in zip(batch.records, np.split(batch.vectors, ends), strict=True):
                    name = str(len(sentences))
                    self._create_dataset(file, name, np.ascontiguousarray(self.layout.as_embedded(vectors)))
                    sentences.append(f'{json.dumps(record.text.strip())}: "{name}"')
                disk.check()
                advance(len(batch.records))
        index = file.create_dataset("sentence_to_index", (1,), dtype=self._h5py.string_dtype())
        index[0] = "{" + ", ".join(sentences) + "}"

    def _create_dataset(self, file: Any, name: str, array: np.ndarray):
        """Does what `file.create_dataset(name, data=array)` does, byte for byte, without its overhead per dataset."""
        h5py = self._h5py
        space = h5py.h5s.create_simple(array.shape)
        dataset = h5py.h5d.create(file.id, name.encode(), self._dtype, space, self._properties)
        if array.size:
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, array)


class NpyFormat(OutputFormat):
    """One array of pooled vectors, `(records, size)` or `(records, layers, size)`."""

    name = "A .npy file"
    endings = (".npy",)

    def __init__(self, layout: Layout, about: dict[str, Any]):
        super().__init__(layout, about)
        if not layout.pooled:
            raise FolderError(
                "A .npy file holds one array, and records have any number of words: use --pooling mean, or .npz."
            )

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        with open(path, "wb") as file:
            _write_vectors(file, shards, self.layout, advance)


class NpzFormat(OutputFormat):
    """The three arrays of a shard (`vectors`, `lengths` and `records`), for all records."""

    keeps_columns = True

    name = "A .npz file"
    endings = (".npz",)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        lengths = np.concatenate([np.zeros(0, "<i8"), *(shard.lengths() for shard in shards)])
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open(_entry("vectors"), "w", force_zip64=True) as file:
                _write_vectors(file, shards, self.layout, advance)
            with archive.open(_entry("lengths"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, lengths)
            with archive.open(_entry("records"), "w", force_zip64=True) as file:
                shape = (sum(shard.text_bytes for shard in shards),)
                header = {"descr": "|u1", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                for shard in shards:
                    file.write(shard.texts())


def _entry(name: str) -> zipfile.ZipInfo:
    """The archive entry of an array. Its date is constant, so that the file is reproducible."""
    return zipfile.ZipInfo(f"{name}.npy")


def _write_vectors(file: IO[bytes], shards: Sequence[Shard], layout: Layout, advance: Advance):
    shape = sum(shard.num_rows for shard in shards), *layout.row
    header = {"descr": NUMPY_DTYPES[layout.dtype].str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for shard in shards:
        for piece in shard.vectors(BATCH_BYTES):
            file.write(piece)
        advance(shard.num_records)


FORMATS: dict[str, type[OutputFormat]] = {
    "safetensors": SafetensorsFormat,
    "parquet": ParquetFormat,
    "arrow": ArrowFormat,
    "hdf5": Hdf5Format,
    "npy": NpyFormat,
    "npz": NpzFormat,
}


def find_format(out: Path, name: str | None) -> type[OutputFormat]:
    """The format with a name, or the one that the ending of a file's name implies."""
    if name is not None:
        if name not in FORMATS:
            suggestion = did_you_mean(name, FORMATS)
            raise FolderError(f"There is no format {name!r}{suggestion}: choose one of {', '.join(FORMATS)}.")
        return FORMATS[name]
    for format_class in FORMATS.values():
        if out.suffix.lower() in format_class.endings:
            return format_class
    endings = [ending for format_class in FORMATS.values() for ending in format_class.endings]
    raise FolderError(
        f"The name {out.name}{did_you_mean(out.suffix, endings)} does not show the format: end it in "
        f"{', '.join(endings)}, or give --format."
    )


__all__ = ["FORMATS", "OutputFormat", "find_format"]
