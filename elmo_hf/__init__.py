from transformers import AutoConfig, AutoModel

from .configuration_elmo import ElmoConfig
from .mixer_elmo import ElmoMixer
from .modeling_elmo import ElmoModel
