# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
ELMo's tokenizer: text → words → `input_ids` (word ids), `char_ids` (characters of each word) and offsets.

The `tokenizers` library splits the text, looks the words up and truncates; the characters are added here.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import BatchEncoding, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy, to_py_obj

from .encoding_elmo import (
    EncodedBatch,
    as_batch,
    encode_in_rust,
    nesting_depth,
    set_truncation,
    without_surrogates,
)
from .spelling_elmo import ByteSpelling, CodePointSpelling, SpelledVocabulary, pad_char_rows, spell_distinct
from .tokenizer_files_elmo import (
    build_backend,
    check_special_tokens,
    check_tokenizer_files,
    frequent_words,
    load_backend,
    read_vocabulary,
    settings_errors,
    special_token_message,
    write_vocabulary,
)
from .word_splitting_elmo import (
    MAX_WORD_LENGTH,
    check_word_lengths,
    resolve_segmenter,
    split_text,
    word_pre_tokenizer,
)

CUSTOM_SEGMENTER = "custom"
MAX_CHARACTERS_PER_TOKEN = 1000  # every word has this many ids


class ElmoTokenizer(PreTrainedTokenizerFast):
    r"""
    A word and character tokenizer backed by `tokenizers`. A text becomes `<S> ... </S>`; a pair becomes
    `<S> a </S> <S> b </S>` with `token_type_ids` 0 and 1.

    It returns `input_ids` and `char_ids` `(words, max_characters_per_token)`. The vectors are computed from `char_ids`:
    a word that is not in the vocabulary has the id of `<UNK>`, but its own characters.

    Args:
        vocab (`list[str]` or `dict[str, int]`, *optional*): The language model's words by id, including `<S>`, `</S>`
            and `<UNK>`. Without a vocabulary every word is unknown.
        vocab_file (`str`, *optional*): An original `vocab.txt`, one word per line.
        tokenizer_file (`str`, *optional*): A saved `tokenizer.json`.
        splitting (`"treebank"` or `"whitespace"`): How raw text is split into words: as in the Penn Treebank
            (`do n't`, punctuation as separate words), or only at white space.
        segmenter (`"character"`, `"run"`, `"jieba"` or a callable): How scripts without spaces (Han, kana, Thai ...)
            are split: into characters, not at all, or by a segmenter `str -> iterable of str`. A callable is not saved
            and must be passed again to `from_pretrained`.
        max_characters_per_token (`int`): Slots per word, begin and end mark included.
        split_special_tokens (`bool`): Whether `<S>` in a text is text, as by default, or a boundary.
        characters (`list[str]`, *optional*): The table of characters of a model that reads code points instead of
            bytes, in the order of their ids; see [`CodePointSpelling`].
        max_word_length (`int`, *optional*): Words are cut to this number of characters before they are looked up.
            Default: words are not cut.
        boundary_words (`bool`): Whether a given word that looks like a boundary is one, as in ELMoForManyLangs.

    Example:

    ```python
    >>> from elmo_hf import ElmoTokenizer

    >>> tokenizer = ElmoTokenizer()
    >>> batch = tokenizer(["I don't know.", "Me neither!"], padding=True, return_tensors="pt")
    >>> batch["char_ids"].shape
    torch.Size([2, 7, 50])
    >>> tokenizer.decode(batch["char_ids"][0])
    "<S> I do n't know . </S>"
    ```"""

    vocab_files_names = {"tokenizer_file": "tokenizer.json", "vocab_file": "vocab.txt"}
    model_input_names = ["input_ids", "char_ids", "token_type_ids", "attention_mask"]

    def __init__(
        self,
        vocab: Mapping[str, int] | Sequence[str] | None = None,
        vocab_file: str | None = None,
        tokenizer_file: str | None = None,
        splitting: str = "treebank",
        segmenter: str | Callable[[str], Iterable[str]] = "character",
        max_characters_per_token: int = 50,
        bos_token: str = "<S>",
        eos_token: str = "</S>",
        unk_token: str = "<UNK>",
        pad_token: str = "<PAD>",
        split_special_tokens: bool = True,
        characters: list[str] | None = None,
        max_word_length: int | None = None,
        boundary_words: bool = False,
        **kwargs,
    ):
        if segmenter == CUSTOM_SEGMENTER:
            raise ValueError(
                "This tokenizer was saved with a custom segmenter, which is not in the folder: pass it, as "
                "from_pretrained(..., segmenter=function), or choose another one, as segmenter='character'."
            )
        if type(max_characters_per_token) is not int or not 3 <= max_characters_per_token <= MAX_CHARACTERS_PER_TOKEN:
            raise ValueError(
                f"`max_characters_per_token` must be between 3 and {MAX_CHARACTERS_PER_TOKEN}, "
                f"found {max_characters_per_token!r}."
            )
        if max_word_length is not None and (type(max_word_length) is not int or max_word_length < 1):
            raise ValueError(f"`max_word_length` must be 1 or more, found {max_word_length!r}.")
        if not all((bos_token, eos_token, unk_token, pad_token)):
            raise ValueError("`bos_token`, `eos_token`, `unk_token` and `pad_token` must not be empty.")
        self.splitting = splitting
        self.segmenter = CUSTOM_SEGMENTER if callable(segmenter) else segmenter
        self.max_characters_per_token = max_characters_per_token
        self.characters, self.max_word_length, self.boundary_words = characters, max_word_length, bool(boundary_words)
        self.spelling = ByteSpelling() if characters is None else CodePointSpelling(characters)
        self._segment = resolve_segmenter(segmenter)
        # Objects that are made on first use. `datasets` excludes an attribute of this name from the fingerprint.
        self.cache: dict[str, Any] = {}

        self._fixed_tokens = {"bos_token": str(bos_token), "eos_token": str(eos_token), "unk_token": str(unk_token)}
        specials = list(self._fixed_tokens.values())
        if tokenizer_file is not None:
            if vocab is not None:
                raise ValueError("Give either `vocab` or `tokenizer_file`, which holds one, not both.")
            self._tokenizer = load_backend(tokenizer_file)
            check_special_tokens(self._tokenizer, self._fixed_tokens, str(pad_token))
        else:
            if vocab is None:
                vocab = specials if vocab_file is None else read_vocabulary(vocab_file)
            self._tokenizer = build_backend(vocab, specials, word_pre_tokenizer(splitting, self._rust_segmenter))
        super().__init__(
            splitting=splitting,
            segmenter=self.segmenter,
            max_characters_per_token=max_characters_per_token,
            bos_token=bos_token,
            eos_token=eos_token,
            unk_token=unk_token,
            pad_token=pad_token,
            split_special_tokens=split_special_tokens,
            characters=characters,
            max_word_length=max_word_length,
            boundary_words=boundary_words,
            **kwargs,
        )
        if not isinstance(self.model_max_length, (int, float)):
            raise ValueError(f"`model_max_length` must be a number, found {self.model_max_length!r:.60}.")

    # ---- Loading and saving

    @classmethod
    def convert_to_native_format(cls, **kwargs):
        """Leaves reading the files to `__init__`."""
        return kwargs

    @classmethod
    def _patch_mistral_regex(cls, tokenizer: Tokenizer, *args, **kwargs) -> Tokenizer:
        """Does nothing. For large vocabularies the base class would query the Hub and change the pre-tokenizer."""
        return tokenizer

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike, *args, **kwargs) -> "ElmoTokenizer":
        """As for any tokenizer, but only files of the folder or repository itself are read."""
        for name in kwargs:
            if callable(getattr(cls, name, None)):
                raise AttributeError(f"`{name}` conflicts with the method of that name: leave it out.")
        with settings_errors({}, os.fspath(pretrained_model_name_or_path)):
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)

    @classmethod
    def _from_pretrained(cls, *args, **kwargs):
        files, name = dict(args[0]), args[1]
        check_tokenizer_files(files, name)
        with settings_errors(files, name):
            tokenizer = super()._from_pretrained(*args, **kwargs)
        # Use the saved pre-tokenizer, even if this version would make another one, unless the caller asks for another.
        if kwargs.keys() & {"splitting", "segmenter"}:
            tokenizer._tokenizer.pre_tokenizer = word_pre_tokenizer(tokenizer.splitting, tokenizer._rust_segmenter)
        return tokenizer

    def _save_pretrained(self, *args, **kwargs) -> tuple[str, ...]:
        self._tokenizer.no_truncation()  # an argument of a call, not a setting; so is padding
        self._tokenizer.no_padding()
        return super()._save_pretrained(*args, **kwargs)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str, ...]:
        """Writes an original `vocab.txt`."""
        name = (filename_prefix + "-" if filename_prefix else "") + self.vocab_files_names["vocab_file"]
        path = os.path.join(save_directory, name)
        words = self._tokenizer.get_vocab(with_added_tokens=False)
        write_vocabulary(sorted(words, key=words.__getitem__), path)
        return (path,)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"cache": {}}

    @property
    def _segmenter_argument(self) -> str | Callable[[str], Iterable[str]]:
        """The `segmenter` argument: a name, or the callable."""
        return self.segmenter if self._segment is None or self.segmenter != CUSTOM_SEGMENTER else self._segment

    @property
    def _rust_segmenter(self) -> str:
        """The segmenter that is saved in `tokenizer.json`: a Python segmenter takes whole runs."""
        return "run" if self._segment is not None else self.segmenter

    # ---- Text → ids

    def tokenize(
        self,
        text: str,
        pair: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool | None = None,
        **kwargs,
    ) -> list[str]:
        """The words of a text, also unknown ones. (`tokens()` of an encoding has `<UNK>` instead.)"""
        backend = self._prepared_backend(split_special_tokens=split_special_tokens)
        taken_from_text = {self.unk_token_id}  # ids whose word is read from the text, not from the vocabulary
        if backend.encode_special_tokens:
            taken_from_text |= {self.bos_token_id, self.eos_token_id, self.pad_token_id}
        words: list[str] = []
        for name, part in (("text", text), ("pair", pair)):
            if part is None:
                continue
            self._check_word_lengths(name, [part], is_batched=False)
            (encoding,) = encode_in_rust(backend, [part], None, False, False)
            tokens = zip(encoding.ids, encoding.offsets, strict=True)
            inner = [
                part[slice(*span)] if word_id in taken_from_text else self._word(word_id) for word_id, span in tokens
            ]
            words += [self.bos_token, *inner, self.eos_token] if add_special_tokens else inner
        return words

    def _encode_plus(
        self,
        text,
        text_pair=None,
        add_special_tokens: bool = True,
        padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
        truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        verbose: bool = True,
        split_special_tokens: bool | None = None,
        **kwargs,
    ) -> BatchEncoding:
        is_batched, texts, pairs = as_batch(text, text_pair, is_split_into_words)
        backend = self._prepared_backend(is_split_into_words, split_special_tokens)
        if not is_split_into_words:
            self._check_word_lengths("text", texts, is_batched)
            self._check_word_lengths("text_pair", pairs or [], is_batched)
        num_special_tokens = self.num_special_tokens_to_add(pair=pairs is not None) if add_special_tokens else 0
        set_truncation(backend, truncation_strategy, max_length, stride, self.truncation_side, num_special_tokens)
        backend.no_padding()  # see `EncodedBatch`
        try:
            encodings = encode_in_rust(backend, texts, pairs, is_split_into_words, add_special_tokens)
        finally:
            backend.no_truncation()  # it was for this call only

        samples = list(range(len(encodings)))
        if return_overflowing_tokens:
            pieces = [[encoding, *encoding.overflowing] for encoding in encodings]
            samples = [sample for sample in samples for _ in pieces[sample]]
            encodings = [encoding for piece in pieces for encoding in piece]
        sources = [(texts[sample], None if pairs is None else pairs[sample]) for sample in samples]

        batch = EncodedBatch(encodings, sources, is_split_into_words)
        has_specials = not (backend.encode_special_tokens or is_split_into_words)
        ids, rows = self._ids_and_rows(batch, text_has_specials=has_specials)
        columns = {"input_ids": (ids, self.pad_token_id), "char_ids": (rows, 0)}  # name → values, value of padding
        if return_token_type_ids is not False:
            segments = np.zeros_like(ids) if pairs is None else batch["type_ids"]
            columns["token_type_ids"] = segments, self.pad_token_type_id
        if return_attention_mask is not False:
            columns["attention_mask"] = np.ones_like(ids), 0
        if return_special_tokens_mask:
            columns["special_tokens_mask"] = batch["special_tokens_mask"], 1
        self._pad_batch(batch, padding_strategy, max_length, pad_to_multiple_of, padding_side)
        data = {name: batch.by_encoding(values, return_tensors, pad) for name, (values, pad) in columns.items()}
        if return_offsets_mapping:
            data["offset_mapping"] = batch.offsets()
        if return_length:
            data["length"] = batch.widths.tolist()
        if return_overflowing_tokens:
            data["overflow_to_sample_mapping"] = samples
        if encodings:
            self._eventual_warn_about_too_long_sequence(list(range(batch.widths.max())), max_length, verbose)

        if not is_batched and return_tensors is None and not return_overflowing_tokens:
            data = {name: values[0] for name, values in data.items()}
        n_sequences = 1 if pairs is None else 2
        return BatchEncoding(data, batch.encodings, tensor_type=return_tensors, n_sequences=n_sequences)

    def _check_word_lengths(self, name: str, texts: Sequence[str], is_batched: bool):
        for index, text in enumerate(texts):
            if len(text) > MAX_WORD_LENGTH:
                place = f"{name}[{index}]" if is_batched else name
                check_word_lengths(place, text, self.splitting, self._rust_segmenter)

    def _ids_and_rows(self, batch: EncodedBatch, text_has_specials: bool) -> tuple[np.ndarray, np.ndarray]:
        """
        Word ids `(tokens,)` and character rows `(tokens, slots)` of all encodings.

        Args:
            text_has_specials: Whether `<S>` in a text is a boundary. Otherwise it is a word that looks like one.
        """
        ids, slots, spelling = batch["ids"], self.max_characters_per_token, self.spelling
        bos, eos, unk, pad = self.bos_token_id, self.eos_token_id, self.unk_token_id, self.pad_token_id
        if ids.max(initial=0) >= len(self):
            raise ValueError(f"The tokenizer has {len(self)} words, but ids up to {ids.max()}: its file is damaged.")
        is_unknown = ids == unk
        if not text_has_specials:
            is_literal = (ids == pad) if self.boundary_words else (ids == bos) | (ids == eos) | (ids == pad)
            is_unknown |= is_literal & (batch["special_tokens_mask"] == 0)
        if self.max_word_length is not None:
            is_unknown |= self._is_too_long()[ids] & (batch["special_tokens_mask"] == 0)

        # A known word is spelled as in the vocabulary, an unknown one as in the text.
        unknown = np.flatnonzero(is_unknown)
        words = batch.source_words(unknown)
        known = self._added_words() if batch.is_split_into_words and words else {}
        if self.max_word_length is not None and words:
            words = [word[: self.max_word_length] for word in words]
            known = known | self._vocabulary()
        ids[unknown] = [known.get(word, unk) for word in words] if known else unk
        if (spelled := self.cache.get("spelled")) is None:
            spelled = self.cache["spelled"] = SpelledVocabulary(len(self), self._word, slots, spelling)
        rows = spelled[ids]
        rows[unknown] = spell_distinct(words, slots, spelling)
        rows[ids == bos] = spelling.boundary(spelling.begin_sentence, slots)
        rows[ids == eos] = spelling.boundary(spelling.end_sentence, slots)
        rows[ids == pad] = 0
        return ids, rows

    def _vocabulary(self) -> dict[str, int]:
        """The words of the vocabulary that a text can have, and their ids."""
        if (words := self.cache.get("vocabulary")) is None:
            words = self._tokenizer.get_vocab(with_added_tokens=False)
            if not self.boundary_words:
                words = {word: word_id for word, word_id in words.items() if word not in self._fixed_tokens.values()}
            self.cache["vocabulary"] = words
        return words

    def _is_too_long(self) -> np.ndarray:
        """Which words of the vocabulary are longer than `max_word_length`, by id, `(words,)`."""
        if (too_long := self.cache.get("too_long")) is None:
            lengths = np.zeros(len(self), dtype=np.int64)
            for word, word_id in self._tokenizer.get_vocab(with_added_tokens=False).items():
                lengths[word_id] = len(word)
            too_long = self.cache["too_long"] = lengths > cast(int, self.max_word_length)
        return too_long

    def _added_words(self) -> dict[str, int]:
        """Words from `add_tokens`, which the backend for given words does not know. A given word is never special."""
        return {token.content: word_id for word_id, token in self.added_tokens_decoder.items() if not token.special}

    def _backend(self, is_split_into_words: bool) -> Tokenizer:
        """The Rust tokenizer for given words, for raw text, or for raw text with a segmenter. All share one model."""
        if not is_split_into_words and self._segment is None:
            return self.backend_tokenizer
        name = "words" if is_split_into_words else "segmented"
        if name not in self.cache:
            backend = Tokenizer(self._tokenizer.model)
            backend.post_processor = self._tokenizer.post_processor
            if not is_split_into_words:
                backend.pre_tokenizer = word_pre_tokenizer(self.splitting, self._segmenter_argument)
                for token in self.added_tokens_decoder.values():
                    (backend.add_special_tokens if token.special else backend.add_tokens)([token])
            self.cache[name] = backend
        return self.cache[name]

    def _prepared_backend(
        self, is_split_into_words: bool = False, split_special_tokens: bool | None = None
    ) -> Tokenizer:
        """The Rust tokenizer for one call."""
        for name, token in self._fixed_tokens.items():
            if getattr(self, name) != token:  # the attribute was set to something else
                raise ValueError(special_token_message(name, getattr(self, name), token))
        backend = self._backend(is_split_into_words)
        backend.encode_special_tokens = (
            self.split_special_tokens if split_special_tokens is None else split_special_tokens
        )
        return backend

    def _raw_pre_tokenizer(self) -> PreTokenizer:
        """Splits raw text into words, including the segmenter."""
        return self._backend(is_split_into_words=False).pre_tokenizer

    def _add_tokens(self, new_tokens, special_tokens=False) -> int:
        self.cache.clear()
        return super()._add_tokens(new_tokens, special_tokens)

    def _pad_batch(
        self,
        batch: EncodedBatch,
        strategy: PaddingStrategy,
        max_length: int | None,
        multiple: int | None,
        side: str | None,
    ):
        if strategy == PaddingStrategy.DO_NOT_PAD:
            return
        width = int(batch.lengths.max(initial=0)) if strategy == PaddingStrategy.LONGEST else max_length or 0
        batch.pad(
            math.ceil(width / (multiple or 1)) * (multiple or 1),
            side or self.padding_side,
            pad_id=self.pad_token_id,
            pad_token=self.pad_token,
            pad_type_id=self.pad_token_type_id,
        )

    # ---- Padding of encoded inputs

    def pad(
        self,
        encoded_inputs,
        padding: bool | str | PaddingStrategy = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        *args,
        **kwargs,
    ) -> BatchEncoding:
        """As [`~PreTrainedTokenizerBase.pad`]; `char_ids` are padded with rows of zeros."""
        if isinstance(encoded_inputs, (list, tuple)) and encoded_inputs and isinstance(encoded_inputs[0], Mapping):
            encoded_inputs = {key: [example[key] for example in encoded_inputs] for key in encoded_inputs[0]}
        encoded_inputs = dict(encoded_inputs)
        char_ids, words = encoded_inputs.pop("char_ids", None), encoded_inputs.get("input_ids", [])
        side = padding_side or self.padding_side
        padded = super().pad(encoded_inputs, padding, max_length, pad_to_multiple_of, side, *args, **kwargs)
        if char_ids is None:
            return padded

        ids = padded["input_ids"]
        single = getattr(ids, "ndim", 0) == 1 or (len(ids) > 0 and isinstance(ids[0], int))
        examples = [(char_ids, words, ids)] if single else zip(char_ids, words, ids, strict=True)
        slots = self.max_characters_per_token
        rows = [pad_char_rows(row, len(before), len(after), side, slots) for row, before, after in examples]
        if isinstance(ids, list):
            rows = [row.tolist() for row in rows]
            padded["char_ids"] = rows[0] if single else rows
        else:
            stacked = rows[0] if single else np.stack(rows)
            padded["char_ids"] = stacked if isinstance(ids, np.ndarray) else ids.new_tensor(stacked)
        return padded

    # ---- Ids → text

    def decode(self, token_ids, skip_special_tokens: bool = False, **kwargs) -> str | list[str]:
        """
        The words, joined with spaces.

        Args:
            token_ids: Character ids `(words, slots)` or a batch of them, which give the original words (as far as they
                fit into the slots); or word ids of one text or a batch, which give the words of the vocabulary.
                Character ids are recognised by their begin and end marks.
            skip_special_tokens: Whether to leave out boundaries and padding. Unknown words stay, as `<UNK>`.
        """
        token_ids = to_py_obj(token_ids)
        depth = nesting_depth(token_ids)
        if depth == 3:
            return [" ".join(self.convert_char_ids_to_tokens(rows, skip_special_tokens)) for rows in token_ids]
        if depth == 2 and len({len(row) for row in token_ids}) == 1 and self.spelling.are_rows(np.array(token_ids)):
            return " ".join(self.convert_char_ids_to_tokens(token_ids, skip_special_tokens))
        return super().decode(token_ids, skip_special_tokens, **kwargs)

    def _decode(self, token_ids, skip_special_tokens: bool = False, **kwargs) -> str:
        token_ids = [token_ids] if isinstance(token_ids, int) else token_ids
        skipped = {self.bos_token_id, self.eos_token_id, self.pad_token_id} if skip_special_tokens else set()
        return " ".join(self._word(word_id) for word_id in token_ids if word_id not in skipped)

    def _word(self, word_id: int) -> str:
        word = self._tokenizer.id_to_token(word_id) if word_id >= 0 else None
        if word is None:
            raise ValueError(f"{word_id} is not the id of a word: ids are 0 to {len(self) - 1}.")
        return word

    def convert_char_ids_to_tokens(self, char_ids, skip_special_tokens: bool = False) -> list[str]:
        """
        The words of character rows; boundaries and padding are special tokens.

        Args:
            char_ids: `(words, max_characters_per_token)`
            skip_special_tokens: Whether to leave out boundaries and padding.
        """
        rows = np.asarray(to_py_obj(char_ids), dtype=np.int64)
        spelling = self.spelling
        boundaries = {spelling.begin_sentence: self.bos_token, spelling.end_sentence: self.eos_token}
        tokens = []
        for row in rows:
            special = self.pad_token if not row.any() else boundaries.get(int(row[1]))
            if special is None or not skip_special_tokens:
                tokens.append(spelling.word(row) if special is None else special)
        return tokens

    # ---- Vocabulary

    def train_new_from_iterator(
        self,
        text_iterator: Iterable[str | Sequence[str]],
        vocab_size: int,
        length: int | None = None,
        new_special_tokens=None,
        special_tokens_map=None,
        min_frequency: int = 1,
        **kwargs,
    ) -> "ElmoTokenizer":
        """
        A tokenizer with the same settings whose vocabulary is the most frequent words of the texts.

        Args:
            text_iterator: Texts, or batches of texts.
            vocab_size: The maximum size of the vocabulary, including `<S>`, `</S>` and `<UNK>`.
            length: Ignored; callers of the base class may pass it.
            new_special_tokens, special_tokens_map: Must be `None`: the special tokens cannot be changed.
            min_frequency: Rarer words are left out.
        """
        if new_special_tokens is not None or special_tokens_map is not None or kwargs:
            raise ValueError("Only `vocab_size` and `min_frequency` shape the vocabulary: special tokens stay.")
        if isinstance(text_iterator, str):
            raise ValueError("`text_iterator` must be texts, or batches of texts, found a single string.")
        counts: Counter[str] = Counter()
        for index, texts in enumerate(text_iterator):
            for text in texts if isinstance(texts, Iterable) and not isinstance(texts, str) else [texts]:
                if not isinstance(text, str):
                    raise ValueError(f"`text_iterator` must give texts, found {text!r:.60} in its item {index}.")
                check_word_lengths(f"text_iterator[{index}]", text, self.splitting, self._rust_segmenter)
                counts.update(split_text(without_surrogates(text), self._raw_pre_tokenizer()))
        specials = [self.bos_token, self.eos_token, self.unk_token]
        words = frequent_words(counts, [*specials, self.pad_token], vocab_size + 1, min_frequency)
        words.remove(self.pad_token)
        return self.with_vocabulary(words)

    def with_vocabulary(self, words: Sequence[str]) -> "ElmoTokenizer":
        """
        A tokenizer with the same settings and another vocabulary.

        Args:
            words: In the order of their ids, including the special tokens.
        """
        return type(self)(
            vocab=words,
            splitting=self.splitting,
            segmenter=self._segmenter_argument,
            max_characters_per_token=self.max_characters_per_token,
            split_special_tokens=self.split_special_tokens,
            characters=self.characters,
            max_word_length=self.max_word_length,
            boundary_words=self.boundary_words,
            model_max_length=self.model_max_length,
            padding_side=self.padding_side,
            truncation_side=self.truncation_side,
            **self.special_tokens_map,
        )


__all__ = ["ElmoTokenizer"]
