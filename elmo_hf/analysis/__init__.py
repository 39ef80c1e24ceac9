"""What the layers of a model know: the analyses of the paper's section 5, as functions that return data."""

from ..finetuning.run import TaskData
from ..finetuning.tagging_data import TaggedSentence, read_tagged
from .corpus_text import read_sentences
from .learned_mixes import LearnedMix, MixingWeights, mixing_weights
from .nearest_uses import NearestUse, NearestWord, NeighborsRow, NeighborsTable, neighbors_table
from .pictures import draw_layers, draw_neighbors, draw_probe, draw_samples, draw_senses, save_picture
from .probing import ProbeResults, ProbeScores, ProbeSettings, probe
from .report import as_plain, write_json
from .sample_efficiency import SampleCurve, samples
from .sense_data import SenseInstance, SenseSentence, read_first_senses, read_senses, split_by_document
from .similarity import LayerSimilarity, layer_similarity
from .word_senses import SenseResults, senses

__all__ = [
    "LayerSimilarity",
    "LearnedMix",
    "MixingWeights",
    "NearestUse",
    "NearestWord",
    "NeighborsRow",
    "NeighborsTable",
    "ProbeResults",
    "ProbeScores",
    "ProbeSettings",
    "SampleCurve",
    "SenseInstance",
    "SenseResults",
    "SenseSentence",
    "TaggedSentence",
    "TaskData",
    "as_plain",
    "draw_layers",
    "draw_neighbors",
    "draw_probe",
    "draw_samples",
    "draw_senses",
    "layer_similarity",
    "mixing_weights",
    "neighbors_table",
    "probe",
    "read_first_senses",
    "read_senses",
    "read_sentences",
    "read_tagged",
    "samples",
    "save_picture",
    "senses",
    "split_by_document",
    "write_json",
]
