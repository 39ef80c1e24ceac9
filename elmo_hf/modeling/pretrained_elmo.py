# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""What all ELMo models share: initialisation, loading and saving, packed and int8 weights, checks of their inputs."""

import math
import os
import shutil
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init

from .checks_elmo import (
    NO_PICKLE,
    check_downloads,
    check_integers,
    check_paths,
    check_range,
    check_shape,
    check_shapes,
    check_size,
    check_weight_files,
    tensor_shapes,
    weight_errors,
)
from .configuration_elmo import AUTO_MAP, NON_ENCODER_KEYS, ElmoConfig
from .lstm_elmo import ElmoRecurrentLayer, ElmoStates
from .products_elmo import packed_weights
from .quantization_elmo import METHOD, ElmoInt8Config, ElmoInt8Quantizer, ElmoInt8Weight
from .token_encoder_elmo import ElmoLinear, ElmoTokenEncoder, WordCache

NO_WORD_TABLE = (
    "This model reads characters: it has no table of words to replace or resize, and an added word needs none. (A "
    "language model learns to predict more words with `elmo-hf pretrain --extend-vocab`.)"
)
# Reading orders by name: 0 is left to right, 1 right to left.
DIRECTIONS = {"both": [0, 1], "forward": [0], "backward": [1]}


class ElmoPreTrainedModel(PreTrainedModel):
    """Weight initialisation and loading, shared by [`ElmoModel`] and the models that stand on it."""

    config: ElmoConfig
    config_class = ElmoConfig
    base_model_prefix = "elmo"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoTokenEncoder", "ElmoRecurrentLayer"]
    # A checkpoint without a mixer gets the uniform mixer, which is useful without training.
    _keys_to_ignore_on_load_missing = [r"^mixer\."]
    # Ignored: the mixer with `add_mixer=False`, the sentence pooling, which heads do not have, and the weights of
    # pretraining and of heads, which an encoder does not have.
    _keys_to_ignore_on_load_unexpected = [r"^mixer\.", r"^(elmo\.)?sentence_pooling\.", NON_ENCODER_KEYS]

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
        """As for any model, but never from a pickle: `use_safetensors=False` is refused."""
        if use_safetensors is False:
            raise ValueError(f"`use_safetensors=False` asks for a pickle. {NO_PICKLE}.")
        check_weight_files(pretrained_model_name_or_path, **kwargs)
        with weight_errors(pretrained_model_name_or_path, **kwargs):
            return super().from_pretrained(pretrained_model_name_or_path, *args, use_safetensors=True, **kwargs)

    @staticmethod
    def _load_pretrained_model(model, state_dict, checkpoint_files, load_config, expected_keys=None):
        """Checks the files before memory is allocated. (`expected_keys` are those of an adapter.)"""
        if state_dict is None and checkpoint_files is not None:
            folder = load_config.pretrained_model_name_or_path
            check_paths(checkpoint_files, folder if folder is not None and os.path.isdir(folder) else None)
            check_downloads(checkpoint_files)
            if expected_keys is None:
                quantizer = load_config.hf_quantizer
                any_shape = load_config.ignore_mismatched_sizes
                if quantizer is not None:  # transformers then accepts any shape; those of our int8 weights are known
                    any_shape = quantizer.quantization_config.quant_method != METHOD
                check_shapes(model, tensor_shapes(checkpoint_files), model.base_model_prefix, any_shape)
        return PreTrainedModel._load_pretrained_model(model, state_dict, checkpoint_files, load_config, expected_keys)

    def _load_and_finalize_distributed_pretrained_model(self, distributed_checkpoint_dir, device_map, device_mesh):
        """Loads a checkpoint that several processes have saved. The model has its memory already."""
        check_size(self, tensor_shapes(map(str, Path(distributed_checkpoint_dir).glob("*.safetensors"))))
        return super()._load_and_finalize_distributed_pretrained_model(
            distributed_checkpoint_dir, device_map, device_mesh
        )

    def save_pretrained(self, save_directory: str | os.PathLike, is_main_process: bool = True, **kwargs):
        """
        As for any model. With `trust_remote_code` the folder gets the code of all classes, and the config names them:
        any Auto class can load its part of what was saved.
        """
        # A class without an Auto class is remote code if its config is.
        if not self.is_remote_code() and self.config._auto_class is None:
            return super().save_pretrained(save_directory, is_main_process, **kwargs)
        code = sorted(Path(__file__).parent.glob("*_elmo.py"))  # a class that came as remote code may have fewer
        present = {auto: name for auto, name in AUTO_MAP.items() if name.split(".")[0] in {path.stem for path in code}}
        named = getattr(self.config, "auto_map", None) or {}
        self.config.auto_map = present | {auto: name for auto, name in named.items() if auto not in AUTO_MAP}
        if is_main_process:  # first, since the base class may push the folder to the Hub
            os.makedirs(save_directory, exist_ok=True)
            for path in code:
                shutil.copyfile(path, Path(save_directory) / path.name)
        super().save_pretrained(save_directory, is_main_process, **kwargs)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """
        As for any model, if it has a word table: call `model.resize_token_embeddings(len(tokenizer))` after
        `tokenizer.add_tokens(words)`. The number includes the row of padding.
        """
        table = self._token_encoder().word_embeddings
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
        Turns packed copies of the weights for inference on a CPU on (the default) or off; see [`PackedWeights`].
        Without them inference is slower and, unless the weights are mapped from a file, takes less memory.

        A changed weight is packed again. A write through `weight.data` is only noticed if it changes the first values:
        call this method after a write that does not.
        """
        for packed in packed_weights(self):
            packed.enabled = enabled
            packed.clear()

    def cache_words(self, capacity: int = 100_000):
        """
        Caches the token vectors of words across calls, for inference on a CPU: the character encoder then encodes a
        word once.

        Args:
            capacity: The maximum number of cached words, each with `output_size` values; 0 turns the cache off.
        """
        self._token_encoder().word_cache = WordCache(capacity, self.config.output_size) if capacity else None

    def quantize(self):
        """
        Turns the biLM's recurrent, projection and highway weights into int8, in place; see [`ElmoInt8Config`]. The
        biLM can then not be trained, and its saved weights are a quarter as large.

        Returns:
            The model itself.
        """
        quantizer = ElmoInt8Quantizer(ElmoInt8Config(), pre_quantized=False)
        quantizer.preprocess_model(self)
        self.hf_quantizer = quantizer
        quantizer.postprocess_model(self)
        return self

    def _quantize_modules(self):
        for module in list(self.modules()):
            if isinstance(module, (ElmoTokenEncoder, ElmoRecurrentLayer)):
                module.requires_grad_(False)
            if isinstance(module, (ElmoLinear, ElmoRecurrentLayer)):
                module.quantize()

    def _check_quantized(self):
        for name, module in self.named_modules():
            if isinstance(module, ElmoInt8Weight):
                module.check(name)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """The original's initialisation. Modules of this package have their own `initialize`."""
        if hasattr(module, "initialize"):
            module.initialize()
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=1 / math.sqrt(module.in_features))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -1.0, 1.0)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])

    def _token_encoder(self) -> ElmoTokenEncoder:
        return self.base_model.token_encoder  # ty: ignore[invalid-return-type]

    @property
    def _weight_dtype(self) -> torch.dtype:
        """Of the stored weights. (`self.dtype` reads the parameters, and replicas of `nn.DataParallel` have none.)"""
        layer: ElmoRecurrentLayer = self.base_model.layers[0]  # ty: ignore[invalid-assignment]
        return layer.bias.dtype  # the other weights may be int8

    # ---- inputs

    def _mask(self, input_ids, char_ids, attention_mask, inputs_embeds) -> torch.Tensor:
        """Checks that the inputs are present and consistent, and returns the mask of the words, `(batch, words)`."""
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
            raise ValueError(f"`attention_mask` must hold 0 and 1, found {attention_mask.dtype}.")
        return attention_mask != 0

    def _ids_mask(self, input_ids, char_ids) -> torch.Tensor:
        """Checks the ids that the model reads, and returns the mask `(batch, words)` that they imply."""
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

    def _common_mask(self, ids_of_directions: list[tuple], attention_mask: torch.Tensor | None) -> torch.Tensor:
        """The mask `(batch, words)` if each direction has its own rows; it must be the same for both."""
        mask, *others = (self._mask(*ids, attention_mask, None) for ids in ids_of_directions)
        if not all(torch.equal(mask, other) for other in others):
            raise ValueError("The backward rows must have words in the same places as the forward rows.")
        return mask

    def _check_words(self, input_ids: torch.Tensor | None, char_ids: torch.Tensor | None):
        """Checks the ids of the words that the mask selects, `(words,)` and `(words, max_characters_per_token)`."""
        if char_ids is not None:
            check_range("char_ids", char_ids, self.config.char_vocab_size)
            if not char_ids.any(dim=-1).all():
                raise ValueError(
                    "`attention_mask` is 1 where `char_ids` is an empty row (all zeros): a word has at least its begin "
                    "and end mark. Mask the position, or tokenise the word (an empty string is fine)."
                )
        if input_ids is not None:
            check_range("input_ids", input_ids, self._token_encoder().word_embeddings.num_embeddings)
            if (input_ids == self.config.pad_token_id).any():
                raise ValueError(f"`attention_mask` is 1 where `input_ids` is padding ({self.config.pad_token_id}).")

    def _directions(self, directions: str | None) -> tuple[list[int], list[int]]:
        """The reading orders to run, and their indices into the layers' weights."""
        available = DIRECTIONS[self.config.directions]
        wanted = DIRECTIONS.get(directions or self.config.directions)
        if wanted is None:
            raise ValueError(f"`directions` must be one of {', '.join(DIRECTIONS)}, found {directions!r}.")
        if not set(wanted) <= set(available):
            raise ValueError(f"This model has only the {self.config.directions} direction, asked for {directions!r}.")
        return wanted, [available.index(direction) for direction in wanted]

    def _initial_states(self, initial_state: ElmoStates | None, mask: torch.Tensor, num_directions: int) -> ElmoStates:
        """The given state, checked, or zeros."""
        shape = (len(mask), self.config.num_hidden_layers, num_directions)
        shapes = (*shape, self.config.output_size), (*shape, self.config.cell_size)
        if initial_state is None:
            zeros = (torch.zeros(shape, dtype=self._weight_dtype, device=mask.device) for shape in shapes)
            return ElmoStates(*zeros)
        hidden, cell = initial_state
        check_shape("initial_state.hidden", hidden, shapes[0])
        check_shape("initial_state.cell", cell, shapes[1])
        return ElmoStates(hidden, cell)


__all__ = ["DIRECTIONS", "NO_WORD_TABLE", "ElmoPreTrainedModel"]
