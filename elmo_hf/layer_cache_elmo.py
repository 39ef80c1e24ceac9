# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The layers of a frozen biLM, kept from epoch to epoch, in memory or on disk."""

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch

from .modeling_elmo import ElmoModel

FINGERPRINT, DATA, INDEX, TEMPORARY = "bilm.json", ".layers", ".index", ".tmp"
SUFFIXES = (DATA, INDEX, TEMPORARY)
# Fields of the config that change what the same weights give.
FIELDS = ["token_inputs", "char_pad_id", "char_activation", "directions"]
FIELDS += ["cell_clip", "projection_clip", "forget_bias", "skip_connections"]


class ElmoLayerCache:
    """
    Gives the layers of the sentences of a batch; runs the biLM on those that it has not met.

    On disk every process writes a file of its own (`*.layers`, fp32 values as they come, and `*.index`, where each
    sentence lies), and reads those that were there before. A folder belongs to the weights of one biLM.

    Args:
        elmo ([`ElmoModel`]): Frozen.
        folder (`str`, *optional*): Default: in memory.
        max_bytes (`int`, *optional*): Stop adding beyond that.
    """

    def __init__(self, elmo: ElmoModel, folder: str | os.PathLike | None = None, max_bytes: int | None = None):
        _check_frozen(elmo)
        self.elmo, self.max_bytes = elmo, max_bytes
        self.num_bytes = 0
        self._fingerprint, self._versions = bilm_fingerprint(elmo), self._weight_versions()
        self._memory: dict[bytes, torch.Tensor] = {}
        self._files = None if folder is None else _Files(Path(folder), self._fingerprint)

    def __len__(self) -> int:
        return len(self._memory if self._files is None else self._files.places)

    @torch.no_grad()
    def __call__(
        self,
        input_ids: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        mask: torch.Tensor,
        segments: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """The arguments of [`ElmoModel`] → its layers, each `(batch, words, hidden_size)`."""
        _check_frozen(self.elmo)
        self._check_weights()
        config = self.elmo.config
        read = [
            ids
            for ids, is_read in ((input_ids, config.uses_words), (char_ids, config.uses_characters), (segments, True))
            if is_read and ids is not None
        ]
        keys = self._keys(read, mask)
        known = {key: self._get(key) for key in keys}
        new = [row for row, key in enumerate(keys) if known[key] is None and key not in keys[:row]]
        if new:
            rows = torch.tensor(new, device=mask.device)
            some = [None if ids is None else ids[rows] for ids in (input_ids, char_ids, segments)]
            output = self.elmo(some[0], some[1], mask[rows], token_type_ids=some[2], output_hidden_states=True)
            computed = torch.stack(output.hidden_states, dim=1)  # (new rows, layers, words, hidden_size)
            added = {keys[row]: layers[:, mask[row]] for row, layers in zip(new, computed, strict=True)}
            known |= added
            self._put(added)
        layers = [cast(torch.Tensor, known[key]) for key in keys]  # (layers, words of the row, hidden_size) each
        shape = len(mask), len(layers[0]), mask.shape[1], layers[0].shape[-1]
        found = torch.zeros(shape, dtype=self.elmo._weight_dtype, device=mask.device)
        for row, some in enumerate(layers):
            found[row][:, mask[row]] = some.to(found)
        return found.unbind(dim=1)

    def _check_weights(self):
        """Weights that were written to may still be the same ones, loaded again."""
        if (versions := self._weight_versions()) != self._versions:
            if bilm_fingerprint(self.elmo) != self._fingerprint:
                raise ValueError("The biLM has changed since its layers were kept: call `cache_layers` again.")
            self._versions = versions

    @staticmethod
    def _keys(inputs: list[torch.Tensor], mask: torch.Tensor) -> list[bytes]:
        """What a row's layers depend on, in 16 bytes: nothing but its own unmasked words."""
        digests = [hashlib.blake2b(digest_size=16) for _ in mask]
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
        """Keeps sentences that were computed together, each `(layers, words, hidden_size)`, as far as there is room."""
        kept = {}
        for key, layers in batch.items():
            size = layers.numel() * layers.element_size()
            if self.max_bytes is None or self.num_bytes + size <= self.max_bytes:
                self.num_bytes += size
                kept[key] = layers
        if self._files is None:
            self._memory |= {key: layers.to("cpu", copy=True) for key, layers in kept.items()}
        else:
            self._files.write(kept)

    def _weight_versions(self) -> list[tuple[int, int]]:
        """Changes when a weight is replaced or written to."""
        return [(parameter.data_ptr(), parameter._version) for parameter in self.elmo.parameters()]


class _Files:
    """Sentences' layers in the files of a folder."""

    def __init__(self, folder: Path, fingerprint: str):
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / FINGERPRINT
        if not mark.exists():  # another process may be about to write the same
            if any(path.name != FINGERPRINT and path.suffix not in SUFFIXES for path in folder.iterdir()):
                raise ValueError(f"{folder} holds something else than layers: name another folder.")
            temporary = folder / f"{uuid.uuid4().hex}{TEMPORARY}"
            temporary.write_text(json.dumps({"bilm": fingerprint}), encoding="utf-8")
            os.replace(temporary, mark)
        if json.loads(mark.read_text("utf-8")).get("bilm") != fingerprint:
            raise ValueError(f"{folder} holds the layers of another biLM: name another folder, or remove it.")
        self.places: dict[bytes, tuple[BinaryIO, int, int]] = {}  # file, start, bytes
        for path in sorted(folder.glob(f"*{INDEX}")):
            self._read_index(path)
        name = uuid.uuid4().hex
        self._data = open(folder / f"{name}{DATA}", "w+b")  # noqa: SIM115  (as long as the cache)
        self._index = open(folder / f"{name}{INDEX}", "wb")  # noqa: SIM115
        self._end = 0

    def _read_index(self, path: Path):
        """The entries of another process, as far as they and their data are whole."""
        data = open(path.with_suffix(DATA), "rb")  # noqa: SIM115
        size = os.fstat(data.fileno()).st_size
        entries = path.read_bytes()
        for place in range(0, len(entries) - 31, 32):
            start, length = np.frombuffer(entries[place + 16 : place + 32], dtype="<u8").tolist()
            if start + length <= size:
                self.places[entries[place : place + 16]] = data, start, length

    def read(self, key: bytes, shape: tuple[int, int, int]) -> torch.Tensor | None:
        if (place := self.places.get(key)) is None:
            return None
        file, start, length = place
        return torch.from_numpy(np.frombuffer(os.pread(file.fileno(), length, start), np.float32).copy()).view(shape)

    def write(self, batch: dict[bytes, torch.Tensor]):
        """Sentences that were computed together: after a kill all of them are there or none."""
        entries = []
        for key, layers in batch.items():
            values = layers.float().cpu().contiguous().numpy().tobytes()
            self._data.write(values)
            entries.append(key + np.array([self._end, len(values)], dtype="<u8").tobytes())
            self.places[key] = self._data, self._end, len(values)
            self._end += len(values)
        self._data.flush()  # before the index says that it is there
        self._index.write(b"".join(entries))
        self._index.flush()


def _check_frozen(elmo: ElmoModel):
    if not elmo._bilm_is_frozen:
        raise ValueError("Only a frozen biLM gives the same layers twice: load the model with freeze_bilm=True.")


def bilm_fingerprint(elmo: ElmoModel) -> str:
    """Tells one biLM from another that would give other layers."""
    digest = hashlib.sha256(repr([getattr(elmo.config, name) for name in FIELDS]).encode())
    for name, tensor in sorted(elmo.state_dict().items()):
        if not name.startswith("mixer."):
            digest.update(name.encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


__all__ = ["ElmoLayerCache", "bilm_fingerprint"]
