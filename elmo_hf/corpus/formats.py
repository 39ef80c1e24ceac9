"""What an embedded corpus is written as, one class a format. All are assembled from shards, a few records at a time."""

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

BATCH_BYTES = 1 << 23  # of vectors that are in memory while a file is assembled

JSON = "json"  # the type of a kept column that has no other
Advance = Callable[[int], object]  # is told the number of records that were written


class OutputFormat:
    """
    A format of the output.

    Args:
        layout: Of the vectors.
        about: What else a reader should know of them, plain values by name.
    """

    name: str
    endings: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32", "float16")
    keeps_columns = False  # whether a record's other columns have a place

    def __init__(self, layout: Layout, about: dict[str, Any]):
        if layout.dtype not in self.dtypes:
            raise FolderError(
                f"{self.name} has no {layout.dtype}: take --dtype {' or '.join(self.dtypes)}, or --format safetensors."
            )
        self.layout, self.about = layout, about

    def target(self, out: Path) -> Path:
        """The file that is there when all is."""
        return out

    def files(self, out: Path) -> set[Path]:
        """All files of an output that is there."""
        return {out} if out.exists() else set()

    def finish(self, shards: Sequence[Shard], out: Path, stage: Path, advance: Advance):
        """
        Makes the output of all shards. Until it is complete it has another name.

        Args:
            out: The file.
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
        except (ValueError, LookupError, TypeError):  # no index that was written here
            names = set()
        own = re.compile(rf"{re.escape(out.name.removesuffix(ENDING))}-\d+-of-\d+{re.escape(ENDING)}")
        return {index, *(out.with_name(name) for name in names if own.fullmatch(name))}

    def finish(self, shards: Sequence[Shard], out: Path, stage: Path, advance: Advance):
        files = []
        for number, shard in enumerate(shards, start=1):
            name = f"{out.name.removesuffix(ENDING)}-{number:05}-of-{len(shards):05}{ENDING}"
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
    """A second name for a file, so that it stays under the first until all is done; or a copy, where there are none."""
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
    Columns `text`, `words` and `vectors`: lists of `size` numbers, in a list of words, in one of layers; and those that
    were kept, in the type that fits all their values, else as JSON.
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
        kept = [self._kept_values(name, [(values or {}).get(name) for values in columns]) for name in self._kept]
        return self._arrow.table([texts, words, self._vectors(batch), *kept], schema=self._schema())

    def _find_kept(self, shards: Sequence[Shard]):
        """The types that fit all values of the kept columns; text, for JSON, where there is no other."""
        kinds: dict[str, set[str]] = {}
        for record in (record for shard in shards for record in shard.records()):
            for name, value in (record.columns or {}).items():
                kinds.setdefault(name, set()).add(_kind_of_value(value))
        arrow = self._arrow
        types = {"bool": arrow.bool_(), "int": arrow.int64(), "float": arrow.float64(), "str": arrow.string()}
        types |= {"words": arrow.list_(arrow.string())}
        for name, found in kinds.items():
            found.discard("null")
            if found == {"int", "float"}:
                found = {"float"}
            self._kept[name] = types.get(found.pop(), JSON) if len(found) == 1 else JSON

    def _kept_values(self, name: str, values: list[Any]):
        kind = self._kept[name]
        if kind == JSON:
            return [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return values

    def _vectors(self, batch: Batch):
        arrow, layout, flat, lengths = self._arrow, self.layout, batch.vectors, batch.lengths
        if layout.layers is not None and not layout.pooled:
            # Layers are outside words, as everywhere but in a shard.
            records = np.split(flat, np.cumsum(lengths)[:-1])
            flat = np.concatenate([record.transpose(1, 0, 2).reshape(-1) for record in records])
            lengths = np.repeat(lengths, layout.layers)
        kind = arrow.float16() if layout.dtype == "float16" else arrow.float32()
        found = arrow.FixedSizeListArray.from_arrays(self._array(flat, kind), layout.size)
        if not layout.pooled:
            ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            found = arrow.ListArray.from_arrays(self._array(ends, arrow.int32()), found)
        return found if layout.layers is None else arrow.FixedSizeListArray.from_arrays(found, layout.layers)

    def _array(self, values: np.ndarray, kind: Any):
        """The same memory. (`pyarrow.array` would import pandas for it.)"""
        return self._arrow.Array.from_buffers(kind, values.size, [None, self._arrow.py_buffer(values)])

    def _write_tables(self, writer: Any, shards: Sequence[Shard], advance: Advance):
        for shard in shards:
            for batch in shard.batches(BATCH_BYTES):
                writer.write_table(self._table(batch))
                advance(len(batch.records))


def _kind_of_value(value: Any) -> str:
    """What a type of Arrow's can be found for, or "other"."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "words" if all(isinstance(part, str) for part in value) else "other"
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return "other"
    return type(value).__name__ if isinstance(value, (bool, int, float, str)) else "other"


class ParquetFormat(_ArrowTable):
    """Parquet, with row groups of a few records."""

    name = "Parquet"
    endings = (".parquet",)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        parquet = import_extra("pyarrow.parquet", self.name.lower())
        # Vectors hardly become smaller; their statistics would be larger than they are worth.
        options = {
            "compression": {"text": "zstd", "words.list.element": "zstd"},
            "use_dictionary": ["words.list.element"],
            "write_statistics": False,
        }
        self._find_kept(shards)
        with parquet.ParquetWriter(path, self._schema(), **options) as writer:
            self._write_tables(writer, shards, advance)


class ArrowFormat(_ArrowTable):
    """Arrow's stream, which `datasets` maps into memory."""

    name = "Arrow"
    endings = (".arrow",)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        ipc = import_extra("pyarrow.ipc", self.name.lower())
        self._find_kept(shards)
        with self._arrow.OSFile(str(path), "wb") as file, ipc.new_stream(file, self._schema()) as writer:
            self._write_tables(writer, shards, advance)


class Hdf5Format(OutputFormat):
    """
    As AllenNLP's `elmo` command: a dataset `"0"`, `"1"` ... a record, `(words, size)` or `(layers, words, size)`, and
    `sentence_to_index`, one JSON object that has the number of each sentence, as a string.
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
        sentences: list[str] = []  # the layout wants all of them in one string
        for shard in shards:
            for batch in shard.batches(BATCH_BYTES):
                ends = np.cumsum(self.layout.rows(batch.lengths))[:-1]
                for record, vectors in zip(batch.records, np.split(batch.vectors, ends), strict=True):
                    number = str(len(sentences))
                    self._create_dataset(file, number, np.ascontiguousarray(self.layout.as_embedded(vectors)))
                    sentences.append(f'{json.dumps(record.text.strip())}: "{number}"')
                disk.check()
                advance(len(batch.records))
        index = file.create_dataset("sentence_to_index", (1,), dtype=self._h5py.string_dtype())
        index[0] = "{" + ", ".join(sentences) + "}"

    def _create_dataset(self, file: Any, name: str, array: np.ndarray):
        """As `file.create_dataset(name, data=array)`, byte for byte, without what that looks at for each dataset."""
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
                "A .npy file holds one array, and records have any number of words: take --pooling mean, or .npz."
            )

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        with open(path, "wb") as file:
            _write_vectors(file, shards, self.layout, advance)


class NpzFormat(OutputFormat):
    """The three arrays of a shard, of all records: `vectors`, `lengths` and `records`."""

    keeps_columns = True

    name = "A .npz file"
    endings = (".npz",)

    def write(self, shards: Sequence[Shard], path: Path, advance: Advance):
        lengths = np.concatenate([np.zeros(0, "<i8"), *(shard.lengths() for shard in shards)])
        texts = b"".join(shard.texts() for shard in shards)
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open(_entry("vectors"), "w", force_zip64=True) as file:
                _write_vectors(file, shards, self.layout, advance)
            for name, array in (("lengths", lengths), ("records", np.frombuffer(texts, np.uint8))):
                with archive.open(_entry(name), "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array)


def _entry(name: str) -> zipfile.ZipInfo:
    """An array of an archive, with a date that is always the same: so is the file."""
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
    """The format of a name, or of the ending of a file's."""
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
        f"The name {out.name}{did_you_mean(out.suffix, endings)} does not tell the format: end it in "
        f"{', '.join(endings)}, or give --format."
    )


__all__ = ["FORMATS", "OutputFormat", "find_format"]
