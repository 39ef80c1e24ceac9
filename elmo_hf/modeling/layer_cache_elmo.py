# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""A cache of the layers of sentences, for heads that train over many epochs on a frozen biLM."""

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch
from torch import nn

from .pooling_elmo import ElmoSentences, number_segments

FINGERPRINT, DATA, INDEX, TEMPORARY = "bilm.json", ".layers", ".index", ".tmp"
SUFFIXES = (DATA, INDEX, TEMPORARY)
KEY_SIZE, ENTRY_SIZE = 16, 32  # bytes: an index entry is a key, the start and the length of the data
# Fields of the config that change the output of the same weights.
FIELDS = ["token_inputs", "char_pad_id", "char_activation", "directions"]
FIELDS += ["cell_clip", "projection_clip", "forget_bias", "skip_connections"]


class ElmoLayerCache:
    """
    Computes the layers of a batch's sentences and caches them: the biLM runs only on sentences that are new.

    On disk every process writes files of its own (`*.layers` with fp32 values, `*.index` with the position of each
    sentence) and reads those that existed before. A folder belongs to the weights of one biLM.

    Args:
        elmo ([`ElmoModel`]): Frozen.
        folder (`str`, *optional*): Where to store them. Default: in memory.
        max_bytes (`int`, *optional*): The maximum size; sentences beyond it are not cached.
    """

    # The type of `elmo` is not imported: its module imports this one.
    def __init__(self, elmo: Any, folder: str | os.PathLike | None = None, max_bytes: int | None = None):
        _check_frozen(elmo)
        self.elmo, self.max_bytes = elmo, max_bytes
        self._fingerprint, self._versions = bilm_fingerprint(elmo), self._weight_versions()
        self._memory: dict[bytes, torch.Tensor] = {}
        self._files = None if folder is None else _LayerFiles(Path(folder), self._fingerprint)
        self.num_bytes = 0 if self._files is None else sum(length for _, _, length in self._files.spans.values())

    def __len__(self) -> int:
        return len(self._memory if self._files is None else self._files.spans)

    @torch.no_grad()
    def __call__(
        self,
        input_ids: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        mask: torch.Tensor,
        segments: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """
        The arguments of [`ElmoModel`] → its layers, each `(batch, words, hidden_size)`. The texts of a pair are cached
        one by one: a context that belongs to many questions is computed and stored once.
        """
        _check_frozen(self.elmo)
        self._check_weights()
        if segments is None or not bool(mask.any()):
            return self._rows(input_ids, char_ids, mask)
        texts = ElmoSentences.of(mask, *number_segments(segments, mask))
        ids = [None if given is None else texts.gather(given) for given in (input_ids, char_ids)]
        return tuple(texts.scatter(layer) for layer in self._rows(ids[0], ids[1], texts.mask))

    def _rows(self, input_ids, char_ids, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The layers of rows of one text each."""
        config = self.elmo.config
        inputs = [
            ids
            for ids, is_read in ((input_ids, config.uses_words), (char_ids, config.uses_characters))
            if is_read and ids is not None
        ]
        keys = self._keys(inputs, mask)
        cached = {key: self._get(key) for key in keys}
        new = [row for row, key in enumerate(keys) if cached[key] is None and key not in keys[:row]]
        if new:
            rows = torch.tensor(new, device=mask.device)
            ids = [None if ids is None else ids[rows] for ids in (input_ids, char_ids)]
            output = self.elmo(ids[0], ids[1], mask[rows], output_hidden_states=True)
            computed = torch.stack(output.hidden_states, dim=1)  # (new rows, layers, words, hidden_size)
            added = {keys[row]: layers[:, mask[row]] for row, layers in zip(new, computed, strict=True)}
            cached |= added
            self._put(added)
        sentences = [cast(torch.Tensor, cached[key]) for key in keys]  # each (layers, words of the row, hidden_size)
        shape = len(mask), len(sentences[0]), mask.shape[1], sentences[0].shape[-1]
        batch = torch.zeros(shape, dtype=self.elmo._weight_dtype, device=mask.device)
        for row, sentence in enumerate(sentences):
            batch[row][:, mask[row]] = sentence.to(batch)
        return batch.unbind(dim=1)

    def _check_weights(self):
        """Refuses changed weights. Weights that were overwritten with the same values pass."""
        if (versions := self._weight_versions()) != self._versions:
            if bilm_fingerprint(self.elmo) != self._fingerprint:
                raise ValueError("The biLM has changed since its layers were cached: call `cache_layers` again.")
            self._versions = versions

    @staticmethod
    def _keys(inputs: list[torch.Tensor], mask: torch.Tensor) -> list[bytes]:
        """A hash of each row's unmasked words, on which its layers depend."""
        digests = [hashlib.blake2b(digest_size=KEY_SIZE) for _ in mask]
        lengths = mask.sum(dim=1).tolist()
        for ids in inputs:
            for digest, words in zip(digests, ids[mask].int().cpu().split(lengths), strict=True):
                digest.update(words.numpy().tobytes())
        return [digest.digest() for digest in digests]

    def _get(self, key: bytes) -> torch.Tensor | None:
        if self._files is None:
            return self._memory.get(key)
        config = self.elmo.config
        return self._files.read(key, (config.num_hidden_layers + 1, -1, config.hidden_size))

    def _put(self, batch: dict[bytes, torch.Tensor]):
        """Caches the sentences of a batch, each `(layers, words, hidden_size)`, until `max_bytes` is reached."""
        accepted = {}
        for key, layers in batch.items():
            size = layers.numel() * (layers.element_size() if self._files is None else 4)  # files hold fp32
            if self.max_bytes is None or self.num_bytes + size <= self.max_bytes:
                self.num_bytes += size
                accepted[key] = layers
        if self._files is None:
            self._memory |= {key: layers.to("cpu", copy=True) for key, layers in accepted.items()}
        else:
            self._files.write(accepted)

    def _weight_versions(self) -> list[tuple[int, int]]:
        """Differ when a weight was replaced or written to."""
        return [(parameter.data_ptr(), parameter._version) for parameter in self.elmo.parameters()]


class _LayerFiles:
    """The files of a folder of cached layers."""

    def __init__(self, folder: Path, fingerprint: str):
        folder.mkdir(parents=True, exist_ok=True)
        owner = folder / FINGERPRINT
        if not owner.exists():  # another process may be writing the same content now
            if any(path.name != FINGERPRINT and path.suffix not in SUFFIXES for path in folder.iterdir()):
                raise ValueError(f"{folder} holds other files than cached layers: name another folder.")
            temporary = folder / f"{uuid.uuid4().hex}{TEMPORARY}"
            temporary.write_text(json.dumps({"bilm": fingerprint}), encoding="utf-8")
            os.replace(temporary, owner)
        if json.loads(owner.read_text("utf-8")).get("bilm") != fingerprint:
            raise ValueError(f"{folder} holds the layers of another biLM: name another folder, or remove it.")
        self.spans: dict[bytes, tuple[BinaryIO, int, int]] = {}  # key → file, start, bytes
        for path in sorted(folder.glob(f"*{INDEX}")):
            self._read_index(path)
        self._folder = folder
        self._own: tuple[BinaryIO, BinaryIO] | None = None  # this process's data and index, from the first sentence on
        self._end = 0

    def _read_index(self, path: Path):
        """Reads another process's entries, except an incomplete last one and those whose data is incomplete."""
        content = path.read_bytes()
        if len(content) < ENTRY_SIZE:
            return
        data = open(path.with_suffix(DATA), "rb")  # noqa: SIM115  (open as long as the cache)
        size = os.fstat(data.fileno()).st_size
        for place in range(0, len(content) - ENTRY_SIZE + 1, ENTRY_SIZE):
            entry = content[place : place + ENTRY_SIZE]
            start, length = np.frombuffer(entry[KEY_SIZE:], dtype="<u8").tolist()
            if start + length <= size:
                self.spans[entry[:KEY_SIZE]] = data, start, length

    def read(self, key: bytes, shape: tuple[int, int, int]) -> torch.Tensor | None:
        if (span := self.spans.get(key)) is None:
            return None
        file, start, length = span
        return torch.from_numpy(np.frombuffer(os.pread(file.fileno(), length, start), np.float32).copy()).view(shape)

    def write(self, batch: dict[bytes, torch.Tensor]):
        """Writes sentences. If the process is killed, an incomplete batch is ignored when the folder is read."""
        if not batch:
            return
        if self._own is None:
            path = self._folder / uuid.uuid4().hex
            self._own = open(f"{path}{DATA}", "w+b"), open(f"{path}{INDEX}", "wb")  # noqa: SIM115
        data, index = self._own
        entries = []
        for key, layers in batch.items():
            values = layers.float().cpu().contiguous().numpy().tobytes()
            data.write(values)
            entries.append(key + np.array([self._end, len(values)], dtype="<u8").tobytes())
            self.spans[key] = data, self._end, len(values)
            self._end += len(values)
        data.flush()  # before the index refers to it
        index.write(b"".join(entries))
        index.flush()


def _check_frozen(elmo: nn.Module):
    if not elmo.bilm_is_frozen:
        raise ValueError("Layers can only be cached if the biLM is frozen: load the model with freeze_bilm=True.")


def bilm_fingerprint(elmo: Any) -> str:
    """A hash of everything that the layers of an [`ElmoModel`] depend on, except its inputs."""
    digest = hashlib.sha256(repr([getattr(elmo.config, name) for name in FIELDS]).encode())
    for name, tensor in sorted(elmo.state_dict().items()):
        if not name.startswith("mixer."):
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


__all__ = ["ElmoLayerCache", "bilm_fingerprint"]
