"""Foreign ELMo checkpoints to and from folders that `from_pretrained` loads: one file a format."""

from .allennlp import convert_allennlp
from .bilm_hdf5 import convert_bilm_hdf5, export_bilm_hdf5, write_bilm_hdf5
from .check import layer_norms
from .folder import ConversionError

__all__ = [
    "ConversionError",
    "convert_allennlp",
    "convert_bilm_hdf5",
    "export_bilm_hdf5",
    "layer_norms",
    "write_bilm_hdf5",
]
