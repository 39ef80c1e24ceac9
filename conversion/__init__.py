"""Foreign ELMo checkpoints to and from folders that `from_pretrained` loads: one file per format."""

from elmo_hf.errors import ConversionError

from .allennlp import convert_allennlp
from .bilm_checkpoint import convert_bilm_checkpoint
from .bilm_hdf5 import convert_bilm_hdf5, export_bilm_hdf5, write_bilm_hdf5
from .check import layer_norms
from .detection import convert_path, detect, plan_conversion
from .download import DownloadError
from .elmoformanylangs import convert_elmoformanylangs
from .originals import convert_original, find_original, known_originals
from .provenance import read_provenance

__all__ = [
    "ConversionError",
    "DownloadError",
    "convert_allennlp",
    "convert_bilm_checkpoint",
    "convert_bilm_hdf5",
    "convert_elmoformanylangs",
    "convert_original",
    "convert_path",
    "detect",
    "export_bilm_hdf5",
    "find_original",
    "known_originals",
    "layer_norms",
    "plan_conversion",
    "read_provenance",
    "write_bilm_hdf5",
]
