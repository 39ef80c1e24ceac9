# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
PyTorch ELMo: deep contextualised word representations (Peters et al. 2018, https://arxiv.org/abs/1802.05365).

The numbers are those of the original implementations, bilm-tf and AllenNLP (both Apache-2.0, Allen Institute for AI).
"""

import contextlib
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .checksums_elmo import check_downloads
from .configuration_elmo import ElmoConfig
from .input_checks_elmo import check_integers, check_range, check_shape
from .loading_elmo import (
    NO_PICKLE,
    check_paths,
    check_shapes,
    check_size,
    check_weight_files,
    tensor_shapes,
    weight_errors,
)
from .memory_elmo import keep_working_memory
from .mixer_elmo import ElmoMixer
from .precision_elmo import without_autocast
from .products_elmo import PackedWeight
from .quantization_elmo import METHOD, NO_TRAINING, ElmoInt8Config, ElmoInt8Quantizer, ElmoInt8Weight
from .recurrence_elmo import ElmoPacking, ElmoRecurrentLayer
from .sentences_elmo import word_mask
from .softmax_elmo import ElmoSoftmax
from .task_layers_elmo import ElmoPooling
from .threads_elmo import CORES
from .token_encoder_elmo import ElmoConvolution, ElmoLinear, ElmoTokenEncoder
from .word_cache_elmo import WordCache

SHARED_ROWS = (
    "A state belongs to one sequence, but `token_type_ids` puts several into a row: pass the sentences of a pair as "
    "rows of their own to give or get states."
)
NO_WORD_TABLE = (
    "This model reads characters: it has no table of words to replace or resize, and an added word needs none. (A "
    "language model learns to predict more words with `elmo-hf pretrain --extend-vocab`.)"
)
# Reading orders by name: 0 is left to right, 1 right to left.
DIRECTIONS = {"both": [0, 1], "forward": [0], "backward": [1]}


class ElmoStates(NamedTuple):
    """
    What the recurrent layers carry from one word to the next, batch first.

    Attributes:
        hidden (`torch.Tensor` of shape `(batch, layers, directions, output_size)`): Last (projected) outputs.
        cell (`torch.Tensor` of shape `(batch, layers, directions, cell_size)`): Last cells.
    """

    hidden: torch.Tensor
    cell: torch.Tensor


@dataclass
class ElmoModelOutput(ModelOutput):
    """
    Args:
        last_hidden_state (`torch.Tensor` of shape `(batch, words, hidden_size)`): The mix of all layers (without
            a mixer: the top layer). Zero where masked. Note that `hidden_states[-1]` is the top layer.
        hidden_states (`tuple(torch.Tensor)`, with `output_hidden_states=True`): `num_hidden_layers + 1` tensors
            of shape `(batch, words, hidden_size)`: the token vectors (once per direction), then every layer's output,
            `[forward; backward]`. The vectors above are computed from these very tensors where there are gradients
            (weights in half precision excepted), so that they can retain theirs.
        states (`ElmoStates`, with `output_states=True`): The state after each row's last word, to be given as
            `initial_state` to the call on the words that follow.
    """

    last_hidden_state: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    states: ElmoStates | None = None


# The classes by the Auto classes that load them where this package is not installed.
AUTO_MAP = {
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForPreTraining": "modeling_pretraining_elmo.ElmoForPreTraining",
    "AutoModelForSequenceClassification": "classification_elmo.ElmoForSequenceClassification",
    "AutoModelForTokenClassification": "classification_elmo.ElmoForTokenClassification",
}


class ElmoPreTrainedModel(PreTrainedModel):
    """Weight initialisation and loading, shared by [`ElmoModel`] and the models that stand on it."""

    config: ElmoConfig
    config_class = ElmoConfig
    base_model_prefix = "elmo"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoTokenEncoder", "ElmoRecurrentLayer"]
    # A checkpoint without a mixer gets the uniform one, which needs no training to be useful.
    _keys_to_ignore_on_load_missing = [r"^mixer\."]
    # The mixer for `add_mixer=False`, and what an encoder is loaded without: the parts of pretraining and of heads.
    _keys_to_ignore_on_load_unexpected = [
        r"^mixer\.",
        r"^softmax\.",
        r"^(input_mixer|output_mixer|word_vectors|task_lstm|cross_attention|biattention|pooling|classifier|crf)\.",
    ]

    def __init__(self, config: ElmoConfig, *args, **kwargs):
        config.validate()  # again: fields may have been changed since it was made, by `from_pretrained` among others
        super().__init__(config, *args, **kwargs)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike | None,
        *args,
        use_safetensors: bool | None = None,
        **kwargs,
    ):
        """As any model's, but never from a pickle: `use_safetensors=False` is refused."""
        if use_safetensors is False:
            raise ValueError(f"`use_safetensors=False` asks for a pickle. {NO_PICKLE}.")
        check_weight_files(pretrained_model_name_or_path, **kwargs)
        with weight_errors(pretrained_model_name_or_path, **kwargs):
            return super().from_pretrained(pretrained_model_name_or_path, *args, use_safetensors=True, **kwargs)

    @staticmethod
    def _load_pretrained_model(model, state_dict, checkpoint_files, load_config, expected_keys=None):
        """Checks the files while the model has no memory yet. (`expected_keys` are those of an adapter.)"""
        if state_dict is None and checkpoint_files is not None:
            folder = load_config.pretrained_model_name_or_path
            check_paths(checkpoint_files, folder if folder is not None and os.path.isdir(folder) else None)
            check_downloads(checkpoint_files)
            if expected_keys is None:
                quantizer = load_config.hf_quantizer
                any_shape = load_config.ignore_mismatched_sizes
                if quantizer is not None:  # transformers itself then takes any shape; of ours they are known
                    any_shape = quantizer.quantization_config.quant_method != METHOD
                check_shapes(model, tensor_shapes(checkpoint_files), model.base_model_prefix, any_shape)
        return PreTrainedModel._load_pretrained_model(model, state_dict, checkpoint_files, load_config, expected_keys)

    def _load_and_finalize_distributed_pretrained_model(self, distributed_checkpoint_dir, device_map, device_mesh):
        """What several processes have saved, each its part. It is loaded into memory that is there before."""
        check_size(self, tensor_shapes(map(str, Path(distributed_checkpoint_dir).glob("*.safetensors"))))
        return super()._load_and_finalize_distributed_pretrained_model(
            distributed_checkpoint_dir, device_map, device_mesh
        )

    def save_pretrained(self, save_directory: str | os.PathLike, is_main_process: bool = True, **kwargs):
        """
        As any model's. For `trust_remote_code` the folder has the code of all classes, and the config names them:
        whatever was saved, `AutoModel` takes the encoder from there, and the heads can be put on it.
        """
        if not self.is_remote_code():
            return super().save_pretrained(save_directory, is_main_process, **kwargs)
        code = sorted(Path(__file__).parent.glob("*_elmo.py"))  # a class that came as remote code may have fewer
        present = {auto: name for auto, name in AUTO_MAP.items() if name.split(".")[0] in {path.stem for path in code}}
        named = getattr(self.config, "auto_map", None) or {}
        self.config.auto_map = present | {auto: name for auto, name in named.items() if auto not in AUTO_MAP}
        if is_main_process:  # before the rest, which may end with a push to the Hub
            os.makedirs(save_directory, exist_ok=True)
            for path in code:
                shutil.copyfile(path, Path(save_directory) / path.name)
        super().save_pretrained(save_directory, is_main_process, **kwargs)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """
        As any model's, for a model with a word table: `model.resize_token_embeddings(len(tokenizer))` after
        `tokenizer.add_tokens(words)`. The row of padding is one of them.
        """
        elmo: ElmoModel = self.base_model  # ty: ignore[invalid-assignment]
        table = elmo.token_encoder.word_embeddings
        if table is None:
            raise ValueError(NO_WORD_TABLE)
        size = table.num_embeddings if new_num_tokens is None else new_num_tokens
        if isinstance(pad_to_multiple_of, int):  # the base class refuses anything else
            size = math.ceil(size / pad_to_multiple_of) * pad_to_multiple_of
            pad_to_multiple_of = None
        if size in (table.num_embeddings, self.config.vocab_size) and pad_to_multiple_of is None:
            return table
        self.config.check_resizing(size)
        return super().resize_token_embeddings(size, pad_to_multiple_of, mean_resizing)

    def pack_weights(self, enabled: bool = True):
        """
        Whether inference on a CPU runs on packed copies of the weights, as it does by default: see
        [`PackedWeight`]. Without them it is slower, and takes less memory where the weights are not mapped from a file.
        Changed weights are noticed, but for single values of large ones written through `weight.data`: call this again
        after such a change.
        """
        for module in self.modules():
            for packed in vars(module).values():
                if isinstance(packed, PackedWeight):
                    packed.enabled = enabled
                    packed.clear()

    def cache_words(self, capacity: int = 100_000):
        """
        Keeps the vectors of words over calls, in inference on a CPU, so that the character encoder sees each word once.

        Args:
            capacity: Words to keep, each `output_size` numbers; 0 turns the cache off.
        """
        elmo: ElmoModel = self.base_model  # ty: ignore[invalid-assignment]
        elmo.token_encoder.word_cache = WordCache(capacity, self.config.output_size) if capacity else None

    def quantize(self):
        """
        Turns the biLM's recurrent, projection and highway weights into int8, in place; see [`ElmoInt8Config`]. The
        model is then for inference, and what is saved is a quarter as large.

        Returns:
            The model itself.
        """
        quantizer = ElmoInt8Quantizer(ElmoInt8Config(), pre_quantized=False)
        quantizer.preprocess_model(self)
        self.hf_quantizer = quantizer
        quantizer.postprocess_model(self)
        return self

    def _quantize_modules(self):
        for module in self.modules():
            if isinstance(module, ElmoModel):
                module.token_encoder.requires_grad_(False)
                module.layers.requires_grad_(False)
        for module in list(self.modules()):
            if isinstance(module, (ElmoLinear, ElmoRecurrentLayer)):
                module.quantize()

    def _check_quantized(self):
        for name, module in self.named_modules():
            if isinstance(module, ElmoInt8Weight):
                module.check(name)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """The original's initialisation."""
        if isinstance(module, ElmoInt8Weight):
            if not all(getattr(buffer, "_is_hf_initialized", False) for buffer in module.buffers()):
                raise ValueError("The file lacks int8 weights that its config announces: they cannot be made anew.")
        elif isinstance(module, ElmoRecurrentLayer):
            for name, bound in module.glorot_bounds().items():
                init.uniform_(getattr(module, name), -bound, bound)
            init.zeros_(module.bias)
        elif isinstance(module, (ElmoSoftmax, nn.Linear)) and not isinstance(module, ElmoLinear):
            init.normal_(module.weight, std=1 / math.sqrt(module.weight.shape[1]))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, ElmoMixer):
            if (weights := module.weights) is not None:
                init.zeros_(weights)
            init.ones_(module.gamma)
        elif isinstance(module, ElmoConvolution):
            init.uniform_(module.weight, -0.05, 0.05)
            init.zeros_(module.bias)
        elif isinstance(module, ElmoLinear):
            if isinstance(module.weight, nn.Parameter):
                init.normal_(module.weight, std=1 / math.sqrt(module.in_features))
            init.constant_(module.bias, module.initial_bias)
        elif isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -1.0, 1.0)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])


class ElmoModel(ElmoPreTrainedModel):
    """
    The bidirectional language model of ELMo, and a mixer over its layers.

    Args:
        config ([`ElmoConfig`]): The model's sizes.
        add_mixer (`bool`): Whether `last_hidden_state` is the mix of the layers; otherwise it is the top layer.

    Example:

    ```python
    >>> from transformers import AutoModel, AutoTokenizer
    >>> import elmo_hf

    >>> tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    >>> model(**tokenizer("He sat on the bank of the river.", return_tensors="pt")).last_hidden_state.shape
    torch.Size([1, 11, 1024])
    ```"""

    def __init__(self, config: ElmoConfig, add_mixer: bool = True):
        super().__init__(config)
        self._bilm_is_frozen = False
        self.token_encoder = ElmoTokenEncoder(config)
        self.layers = nn.ModuleList(ElmoRecurrentLayer(config, index) for index in range(config.num_hidden_layers))
        self.mixer = None
        if add_mixer:
            self.mixer = ElmoMixer(
                config.num_hidden_layers + 1, config.mixer_weights, config.mixer_layer_norm, config.mixer_dropout
            )
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The word table, or the character table of a model without one."""
        encoder = self.token_encoder
        return encoder.characters.char_embeddings if encoder.word_embeddings is None else encoder.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding):
        """Replaces the word table."""
        if self.token_encoder.word_embeddings is None:
            raise ValueError(NO_WORD_TABLE)
        self.token_encoder.word_embeddings = value

    def freeze_bilm(self):
        """
        Keeps the language model as it is in training: its weights do not learn, and its dropout stays off. The mixer
        goes on learning.
        """
        self._set_bilm_trainable(False)

    def unfreeze_bilm(self):
        """Undoes [`~ElmoModel.freeze_bilm`]."""
        self._set_bilm_trainable(True)

    def _set_bilm_trainable(self, trainable: bool):
        if trainable and self.layers[0].is_quantized:
            raise ValueError(NO_TRAINING)
        self.token_encoder.requires_grad_(trainable)
        self.layers.requires_grad_(trainable)
        self._bilm_is_frozen = not trainable
        self.train(self.training)

    def train(self, mode: bool = True) -> "ElmoModel":
        """As [`nn.Module.train`]; a frozen language model stays in evaluation mode."""
        super().train(mode)
        self.token_encoder.train(mode and not self._bilm_is_frozen)
        self.layers.train(mode and not self._bilm_is_frozen)
        return self

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        char_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        initial_state: ElmoStates | None = None,
        output_hidden_states: bool | None = None,
        output_states: bool | None = None,
        token_type_ids: torch.LongTensor | None = None,
        directions: str | None = None,
        output_attentions: bool | None = None,
    ) -> ElmoModelOutput:
        r"""
        Args:
            input_ids (`(batch, words)`, *optional*): Word ids. Read by models with a word table only.
            char_ids (`(batch, words, max_characters_per_token)`, *optional*): Character ids; a row of zeros is no word.
            attention_mask (`(batch, words)`, *optional*): 1 for words. A masked position, wherever it stands, is as if
                it were not there. Default: every word that has characters.
            inputs_embeds (`(batch, words, output_size)`, *optional*): Token vectors instead of the ids.
            initial_state ([`ElmoStates`], *optional*): The state before each row's first word. Default: zeros.
            output_hidden_states (`bool`, *optional*): Whether to return every layer.
            output_states (`bool`, *optional*): Whether to return the state after each row's last word.
            token_type_ids (`(batch, words)`, *optional*): Where the number changes along a row, the recurrence starts
                anew in both directions: a pair's sentences do not see each other.
            directions (`"both"`, `"forward"` or `"backward"`, *optional*): Run only these; the vectors and states then
                have that direction alone. Forward over a document's pieces from the first to the last and backward
                from the last to the first, each with its own carried state, equal one call on the whole document.
            output_attentions (`bool`, *optional*): For callers of stock models; there are no attentions to return.
        """
        refuse_attentions(output_attentions)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        reading, weights_of = self._directions(directions)

        mask = self._mask(input_ids, char_ids, attention_mask, inputs_embeds)  # (batch, words)
        packing = ElmoPacking.of(mask, self._segments(token_type_ids, mask), reading)
        if (initial_state is not None or output_states) and rows_are_shared(packing, mask):
            raise ValueError(SHARED_ROWS)
        states = self._states(initial_state, mask, len(reading))

        with self._cores(mask.device):
            # text → token vectors
            if inputs_embeds is not None:
                tokens = inputs_embeds[mask]
            else:
                tokens = self._encode_tokens(input_ids, char_ids, mask)  # (words in all rows, output_size)
            # → recurrent layers
            # (words in all rows, hidden_size) each, and as outputs
            layers, hidden_states, ends = self._run_layers(
                tokens, packing, states, weights_of, mask=mask if output_hidden_states else None
            )
            # → mix
            mix = layers[-1] if self.mixer is None else self.mixer(layers)

        return ElmoModelOutput(
            last_hidden_state=self._unmask(mix, mask),
            hidden_states=hidden_states,
            states=self._states_after(ends, packing, states) if output_states else None,
        )

    def mean_of_words(self, input_ids=None, char_ids=None, attention_mask=None, token_type_ids=None) -> torch.Tensor:
        """
        One vector a row, `(batch, hidden_size)`: the mean of the mixes of its words, boundaries left out; zeros where
        there are none. The arguments are those of [`~ElmoModel.forward`].
        """
        return self._pooled("mean", input_ids, char_ids, attention_mask, token_type_ids)

    def max_of_words(self, input_ids=None, char_ids=None, attention_mask=None, token_type_ids=None) -> torch.Tensor:
        """As [`~ElmoModel.mean_of_words`], the largest number of each place."""
        return self._pooled("max", input_ids, char_ids, attention_mask, token_type_ids)

    def _pooled(self, kind: str, input_ids, char_ids, attention_mask, token_type_ids) -> torch.Tensor:
        output = self(input_ids, char_ids, attention_mask, token_type_ids=token_type_ids, return_dict=True)
        mask = self._mask(input_ids, char_ids, attention_mask, None)
        words = output.last_hidden_state
        return ElmoPooling(kind, words.shape[-1])(words, word_mask(self.config, input_ids, char_ids, mask))

    def _run_layers(
        self,
        tokens: torch.Tensor,
        packing: ElmoPacking,
        states: ElmoStates,
        weights_of: list[int],
        resets: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...] | None, list[ElmoStates]]:
        """
        Args:
            tokens: Token vectors `(words, output_size)`, or `(directions, words, output_size)`.
            weights_of: Which of the layers' weights run.
            resets: `(words,)`, true where the state is set back to zeros before the word.
            mask: `(batch, words)`, if the layers are wanted as outputs.

        Returns:
            All layers, each `(words, hidden_size)`; with a `mask` the same as outputs, each `(batch, words,
            hidden_size)`; and each recurrent layer's states after them, `(directions, sequences, size)`.
        """
        layers: list[torch.Tensor] = []
        outputs: list[torch.Tensor] = []

        def add(layer: torch.Tensor) -> torch.Tensor | None:
            """
            Adds a layer `(words, hidden_size)`. Where its output has a gradient, all that follows is computed from that
            output, so that it can retain the gradient: gives what the next layer reads, `(directions, words, size)`.
            """
            if mask is not None:
                outputs.append(self._unmask(layer, mask))
            if mask is None or not _carries_gradient(outputs[-1], layer):
                layers.append(layer)
                return None
            layers.append(outputs[-1].flatten(0, 1).index_select(0, word_places(mask)).to(layer.dtype))
            return torch.stack(layers[-1].chunk(len(weights_of), dim=-1))

        read = add(torch.cat(list(tokens.expand(len(weights_of), *tokens.shape[-2:])), dim=-1))
        packed = packing.pack(tokens if read is None else read)  # (directions, words, output_size)
        if resets is not None:
            resets = resets[packing.words[0]]
        # (layers, directions, sequences, size)
        hidden_states, cell_states = (state[packing.rows].permute(1, 2, 0, 3) for state in states)
        ends = []
        for layer, hidden, cell in zip(self.layers, hidden_states, cell_states, strict=True):
            if not packing.step_sizes:
                add(layers[0])
                continue
            packed, *end = layer(packed, hidden, cell, packing.step_sizes, weights_of, resets)
            read = add(packing.unpack(packed).to(tokens.device))
            packed = packed if read is None else packing.pack(read)
            ends.append(ElmoStates(*end))
        return layers, tuple(outputs) if mask is not None else None, ends

    @staticmethod
    def _states_after(ends: list[ElmoStates], packing: ElmoPacking, states: ElmoStates) -> ElmoStates:
        """
        The states after each row's last word. A row without words keeps its own. (Segments share a row: the last one's
        state would stay, and is refused.)

        Args:
            ends: Of every recurrent layer, `(directions, sequences, size)`; none if there are no words.
            states: Those before.
        """
        if not ends:
            return states
        with without_autocast(packing.rows.device):
            new = [
                state.index_copy(0, packing.rows, torch.stack([end.to(state) for end in of_layers]).permute(2, 0, 1, 3))
                for state, of_layers in zip(states, zip(*ends, strict=True), strict=True)
            ]
        return ElmoStates(*new)

    def _encode_tokens(self, input_ids, char_ids, mask: torch.Tensor) -> torch.Tensor:
        """The token vectors of all unmasked positions, `(words in all rows, output_size)`."""
        characters = char_ids[mask] if self.config.uses_characters else None
        words = input_ids[mask] if self.config.uses_words else None
        if characters is not None:
            check_range("char_ids", characters, self.config.char_vocab_size)
            if not characters.any(dim=-1).all():
                raise ValueError(
                    "`attention_mask` is 1 where `char_ids` is an empty row (all zeros): a word has at least its begin "
                    "and end mark. Mask the position, or tokenise the word (an empty string is fine)."
                )
        if words is not None:
            check_range("input_ids", words, self.token_encoder.word_embeddings.num_embeddings)
            if (words == self.config.pad_token_id).any():
                raise ValueError(f"`attention_mask` is 1 where `input_ids` is padding ({self.config.pad_token_id}).")
        if not mask.any():
            return torch.zeros(0, self.config.output_size, dtype=self._weight_dtype, device=mask.device)
        return self.token_encoder(characters, words)

    @staticmethod
    def _cores(device: torch.device) -> contextlib.AbstractContextManager:
        """Calls from several threads take turns, in inference on a CPU."""
        if device.type != "cpu" or torch.is_grad_enabled() or torch.compiler.is_compiling():
            return contextlib.nullcontext()
        keep_working_memory()
        return CORES.taken()

    def _directions(self, directions: str | None) -> tuple[list[int], list[int]]:
        """The reading orders to run, and the same as indices into the layers' weights."""
        available = DIRECTIONS[self.config.directions]
        wanted = DIRECTIONS.get(directions or self.config.directions)
        if wanted is None:
            raise ValueError(f"`directions` must be one of {', '.join(DIRECTIONS)}, found {directions!r}.")
        if not set(wanted) <= set(available):
            raise ValueError(f"This model has only the {self.config.directions} direction, asked for {directions!r}.")
        return wanted, [available.index(direction) for direction in wanted]

    def _mask(self, input_ids, char_ids, attention_mask, inputs_embeds) -> torch.Tensor:
        """Checks that the inputs are there and fit, and gives the words' mask `(batch, words)`."""
        config = self.config
        if inputs_embeds is not None:
            if char_ids is not None or (config.uses_words and input_ids is not None):
                raise ValueError("Give either `inputs_embeds` or ids, not both.")
            check_shape("inputs_embeds", inputs_embeds, ("batch", "words", config.output_size))
            if not inputs_embeds.is_floating_point():
                raise ValueError(f"`inputs_embeds` must be real numbers, found {inputs_embeds.dtype}.")
            mask = torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)
        else:
            mask = self._ids_mask(input_ids, char_ids)
        if attention_mask is None:
            return mask
        check_shape("attention_mask", attention_mask, tuple(mask.shape))
        if attention_mask.is_complex():
            raise ValueError(f"`attention_mask` must be numbers of 0 and 1, found {attention_mask.dtype}.")
        return attention_mask != 0

    def _ids_mask(self, input_ids, char_ids) -> torch.Tensor:
        """Checks the ids that the model reads, and gives the mask `(batch, words)` that they imply."""
        config = self.config
        if config.uses_characters and char_ids is None:
            raise ValueError(
                "This model reads characters: give `char_ids`, which the tokenizer returns beside `input_ids`"
                + (" (`model(**tokenizer(text, return_tensors='pt'))`)." if input_ids is not None else ".")
            )
        if config.uses_words and input_ids is None:
            raise ValueError("This model has a word table: give `input_ids`.")
        expected: tuple[int | str, ...] = ("batch", "words")
        if config.uses_words:
            check_shape("input_ids", input_ids, expected)
            check_integers("input_ids", input_ids)
            mask = input_ids != config.pad_token_id
            expected = tuple(mask.shape)
        if config.uses_characters:
            check_shape("char_ids", char_ids, (*expected, config.max_characters_per_token))
            check_integers("char_ids", char_ids)
            mask = (char_ids > 0).any(dim=-1)
        return mask

    @staticmethod
    def _segments(token_type_ids: torch.Tensor | None, mask: torch.Tensor) -> torch.Tensor | None:
        if token_type_ids is not None:
            check_shape("token_type_ids", token_type_ids, tuple(mask.shape))
            check_integers("token_type_ids", token_type_ids)
        return token_type_ids

    def _states(self, initial_state: ElmoStates | None, mask: torch.Tensor, num_directions: int) -> ElmoStates:
        """The given state, checked, or zeros."""
        shape = (len(mask), len(self.layers), num_directions)
        shapes = (*shape, self.config.output_size), (*shape, self.config.cell_size)
        if initial_state is None:
            zeros = (torch.zeros(shape, dtype=self._weight_dtype, device=mask.device) for shape in shapes)
            return ElmoStates(*zeros)
        hidden, cell = initial_state
        check_shape("initial_state.hidden", hidden, shapes[0])
        check_shape("initial_state.cell", cell, shapes[1])
        return ElmoStates(hidden, cell)

    @property
    def _weight_dtype(self) -> torch.dtype:
        """Of the stored weights; `self.dtype` walks the parameters, of which data parallelism's replicas have none."""
        layer: ElmoRecurrentLayer = self.layers[0]  # ty: ignore[invalid-assignment]
        return layer.bias.dtype  # the others may be int8

    def _unmask(self, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`(words in all rows, size)` → `(batch, words, size)`, zero where masked."""
        vectors = vectors.to(self._weight_dtype)
        if len(vectors) == mask.numel():
            return vectors.view(*mask.shape, vectors.shape[-1])
        spread = vectors.new_zeros(mask.numel(), vectors.shape[-1]).index_copy(0, word_places(mask), vectors)
        return spread.view(*mask.shape, vectors.shape[-1])


def word_places(mask: torch.Tensor) -> torch.Tensor:
    """Where the words of a mask `(batch, words)` are, counted row by row: many times as fast as the mask itself."""
    return mask.flatten().nonzero().squeeze(-1)


def _carries_gradient(output: torch.Tensor, layer: torch.Tensor) -> bool:
    """Whether what follows a layer should be computed from its output: where there is a gradient, and no rounding."""
    return output.requires_grad and torch.promote_types(layer.dtype, output.dtype) == output.dtype


def rows_are_shared(packing: ElmoPacking, mask: torch.Tensor) -> bool:
    """Whether `token_type_ids` has put several sequences into a row, so that the row has no one state."""
    return len(packing.rows) > int(mask.any(dim=1).sum())


def refuse_attentions(output_attentions: bool | None):
    """Callers of stock models pass the argument on; only `True` asks for something."""
    if output_attentions:
        raise ValueError("`output_attentions=True` asks for attentions, but ELMo has no attention layers.")


__all__ = [
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoStates",
    "check_range",
    "check_shape",
    "refuse_attentions",
    "rows_are_shared",
]
