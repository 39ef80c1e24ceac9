"""
The published original models. Each has a folder with its card, its config, and `original.json`: the facts that are
needed to fetch and to check its files.
"""

import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import constants

from elmo_hf.errors import ConversionError, counted, did_you_mean
from elmo_hf.modeling.configuration_elmo import ElmoConfig
from elmo_hf.modeling.modeling_elmo import ElmoModel
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer
from elmo_hf.runtime.staging import staged_folder

from .bilm_hdf5 import count_parameters, read_bilm_hdf5, read_settings, require_h5py
from .download import download
from .folder import full_disk_errors, save_folder
from .options import config_errors, read_object
from .provenance import file_sha256, provenance

ORIGINALS = Path(str(resources.files("elmo_hf.model_cards")))
FACTS_FILE, CARD_FILE = "original.json", "README.md"
# The fields that the vectors depend on and that the options state.
COMPARED = (
    "token_inputs",
    "directions",
    "max_characters_per_token",
    "char_embedding_size",
    "char_filters",
    "char_activation",
    "num_highway_layers",
    "num_hidden_layers",
    "cell_size",
    "projection_size",
    "cell_clip",
    "projection_clip",
    "skip_connections",
)


class Original(NamedTuple):
    """
    A published model.

    Attributes:
        name: That of its folder.
        folder: With the card, the config and the facts.
        facts: `names` (what its authors call it), `files` (by use: `url`, `size`, `sha256`; the last two `null` where
            unknown, the first where the file is in an archive), `archive` (its address, where there is one),
            `parameters`, `presumed` (fields of the config that no source tells) and `layer_0` (`source`, `tolerance`,
            and `values`: sentence, word and first component each; `null` where none are known).
    """

    name: str
    folder: Path
    facts: dict[str, Any]

    @property
    def config(self) -> ElmoConfig:
        """The published options as config."""
        return ElmoConfig.from_pretrained(self.folder)


class Checks(NamedTuple):
    """What was verified, and what could not be compared."""

    done: list[str]
    not_done: list[str]


def known_originals(folder: str | os.PathLike | None = None) -> list[Original]:
    """All published models that have a folder in `folder`; default: those of this package."""
    paths = sorted(Path(folder or ORIGINALS).glob(f"*/{FACTS_FILE}"))
    return [Original(path.parent.name, path.parent, json.loads(path.read_text("utf-8"))) for path in paths]


def find_original(name: str, folder: str | os.PathLike | None = None) -> Original:
    """The published model of this name: its folder's, or one that its authors use."""
    originals = known_originals(folder)
    for original in originals:
        if name in (original.name, *original.facts["names"]):
            return original
    known = [original.name for original in originals]
    suggestion = did_you_mean(name, [*known, *(other for original in originals for other in original.facts["names"])])
    raise ConversionError(f"No published model is known as {name!r}{suggestion}: choose from {', '.join(known)}.")


def convert_original(
    name: str,
    out: str | os.PathLike,
    weights: str | os.PathLike | None = None,
    options: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    dtype: str = "float32",
    from_url: str | None = None,
    with_vocab: bool = False,
    folder: str | os.PathLike | None = None,
) -> Path:
    """
    A published original → a folder ready to publish: config, safetensors, tokenizer, card, and `conversion.json`, which
    also says what was checked. Files that are not given are downloaded, and kept below the Hub's cache for next time.

    Args:
        name: Such as `elmo-small`, or `2x1024_128_2048cnn_1xhighway`.
        out: The folder to write; new or empty.
        weights: The original weights (`.hdf5`), together with `options`.
        options: The original `options.json`.
        vocab: The original `vocab.txt`. Without it every word has the unknown id; the vectors are the same.
        dtype: Stored precision: `float32`, `float16` or `bfloat16`.
        from_url: Another address, below which the files have the same names as at the published one.
        with_vocab: Whether to download the vocabulary too, where it was published.
        folder: Where the published models are described; default: in this package.

    Returns:
        `out`
    """
    original = find_original(name, folder)
    if (weights is None) != (options is None):
        raise ConversionError("Weights and options belong together: give both files, or none to download them.")
    if weights is not None and from_url is not None:
        raise ConversionError("Give the files, or an address to download them from, not both.")
    if with_vocab and vocab is not None:
        raise ConversionError("Give the vocabulary, or have it downloaded, not both.")
    if with_vocab and "vocab" not in original.facts["files"]:
        raise ConversionError(f"No vocabulary was published with {original.name}.")
    if weights is None and (archive := original.facts.get("archive")) is not None:
        raise ConversionError(
            f"{original.name} is published as one archive, {archive}: fetch and unpack it, and give both files "
            "(--weights and --options)."
        )
    require_h5py()  # before a long download
    with full_disk_errors(out), staged_folder(out) as stage:
        checks, urls = Checks([], []), {}
        if options is None:
            options, urls["options"] = _fetch(original, "options", from_url)
        as_published = _check_options(original, options, checks)
        if with_vocab:
            vocab, urls["vocab"] = _fetch(original, "vocab", from_url)
        config, tokenizer = read_settings(options, vocab)  # before the weights, whose download takes long
        if weights is None:
            weights, urls["weights"] = _fetch(original, "weights", from_url)
        with _remedy(weights, urls.get("weights")):
            model = read_bilm_hdf5(config, weights)
            checks.done.append("names and sizes of all arrays")
            _check_file(original, weights, checks)
            _check_parameters(original, model, as_published, checks)
            _check_values(original, model, tokenizer, checks)
        origin = provenance("bilm-hdf5", count_parameters(model), weights=weights, options=options, vocab=vocab)
        for use, url in urls.items():
            if from_url is None:  # another address may be nobody's business
                origin["files"][use]["url"] = url
        origin |= {"original": original.name, "checked": checks.done, "not_checked": checks.not_done}
        save_folder(model, tokenizer, stage, dtype, origin)
        shutil.copyfile(original.folder / CARD_FILE, stage / CARD_FILE)
    return Path(out)


def _fetch(original: Original, use: str, from_url: str | None) -> tuple[Path, str]:
    """A downloaded file, and the address that it is from."""
    facts = original.facts["files"][use]
    name = facts["url"].rpartition("/")[2]
    url = facts["url"] if from_url is None else f"{from_url.rstrip('/')}/{name}"
    cache = Path(constants.HF_HOME) / "elmo-originals" / original.name
    return download(url, cache / name, facts["size"], facts["sha256"]), url


@contextmanager
def _remedy(weights: str | os.PathLike, url: str | None) -> Generator[None]:
    """Adds to the refusal of a downloaded file how to try again."""
    try:
        yield
    except ConversionError as error:
        if url is None:
            raise
        raise ConversionError(
            f"{error} The weights are from {url}; remove {weights} to download them again."
        ) from error


def _check_options(original: Original, options: str | os.PathLike, checks: Checks) -> bool:
    """Refuses options of another model. Returns whether those that nobody published are as presumed."""
    with config_errors(options):
        stated, published = ElmoConfig.from_bilm_options(read_object(options)), original.config
    presumed = original.facts["presumed"]
    differences = {
        field: f"{field} = {getattr(stated, field)} instead of {getattr(published, field)}"
        for field in COMPARED
        if getattr(stated, field) != getattr(published, field)
    }
    if wrong := [text for field, text in differences.items() if field not in presumed]:
        raise ConversionError(f"{options} is not the options file of {original.name}: {', '.join(wrong)}.")
    if differences:
        checks.not_done.append(f"options that the card could only presume: {', '.join(differences.values())}")
    else:
        checks.done.append("options as in the card")
    return not differences


def _check_file(original: Original, weights: str | os.PathLike, checks: Checks):
    """The checksum of the weights, given or downloaded, where it is known."""
    expected = original.facts["files"]["weights"]["sha256"]
    if expected is None:
        checks.not_done.append("checksum of the weights: none is known")
    elif (actual := file_sha256(weights)) != expected:
        raise ConversionError(f"{weights}: its SHA-256 should be {expected}, found {actual}.")
    else:
        checks.done.append("checksum of the weights")


def _check_parameters(original: Original, model: ElmoModel, as_published: bool, checks: Checks):
    expected, actual = original.facts["parameters"], count_parameters(model)
    if not as_published:
        checks.not_done.append(f"number of parameters, {actual:,}: it is that of the options")
    elif actual != expected:
        raise ConversionError(f"{original.name} should have {expected:,} parameters, found {actual:,}.")
    else:
        checks.done.append(f"{actual:,} parameters")


def _check_values(original: Original, model: ElmoModel, tokenizer: ElmoTokenizer, checks: Checks):
    """Compares with the published vectors' first components in layer 0, in fp32, where there are any."""
    facts = original.facts["layer_0"]
    if facts is None:
        checks.not_done.append("vectors: no values of this model are known")
        return
    for sentence, word, expected in facts["values"]:
        words = sentence.split()
        batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            layer = model.eval()(**batch, output_hidden_states=True).hidden_states[0]  # (1, words, size)
        actual = float(layer[0, 1 + words.index(word), 0])
        if not abs(actual - expected) <= facts["tolerance"]:
            raise ConversionError(
                f"These are not the weights of {original.name}: the first component of {word!r} in layer 0 "
                f"({sentence!r}) should be {expected}, found {actual:.8f}."
            )
    checks.done.append(f"layer 0 of {counted(len(facts['values']), 'word')} against {facts['source']}")


__all__ = ["Original", "convert_original", "find_original", "known_originals"]
