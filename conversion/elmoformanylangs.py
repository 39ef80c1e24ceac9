"""
ELMoForManyLangs (Che et al. 2018): `config.json`, the architecture file that it names, `char.dic`, `word.dic`,
`token_embedder.pkl`, `encoder.pkl`, and `classifier.pkl` if training was told to write it.

Words are spelled in code points with the characters of `char.dic`; the word's own vector and that of its characters are
concatenated, word first, and always projected. The recurrent layers are AllenNLP's, with the forget bias in the bias.
"""

import logging
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_hf.errors import ConversionError
from elmo_hf.modeling.checks_elmo import is_inner_path
from elmo_hf.modeling.configuration_elmo import ElmoConfig
from elmo_hf.modeling.modeling_elmo import ElmoForPreTraining, ElmoModel
from elmo_hf.modeling.spelling_elmo import SPECIAL_CHARACTERS, CodePointSpelling
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer
from elmo_hf.runtime.staging import staged_folder

from .allennlp import recurrent_views
from .arrays import Views, check_arrays, count_values, fill_views
from .folder import full_disk_errors, save_folder, word_ids
from .options import config_errors, read_object
from .pickles import load_tensors
from .provenance import provenance

logger = logging.getLogger(__name__)

CONFIG_FILE, CHARACTERS_FILE, WORDS_FILE = "config.json", "char.dic", "word.dic"
TOKEN_EMBEDDER_FILE, ENCODER_FILE, CLASSIFIER_FILE = "token_embedder.pkl", "encoder.pkl", "classifier.pkl"
# The architecture of the released models, whose folders lack the file: both that the program comes with are the same.
STOCK_NAME = "cnn_50_100_512_4096_sample.json"
STOCK: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
    "classifier": {"name": "sampled_softmax", "n_samples": 8192},
    "dropout": 0.1,
}
BOS, EOS, OOV, PAD = "<bos>", "<eos>", "<oov>", "<pad>"
NAMELESS = "\u3000"  # the ideographic space, which a line without a token stands for: it is lost at the line's ends
# `<bos>` and the marks around it: the original asserts that they fit.
FEWEST_SLOTS = len(BOS) + 2
WORD_TABLE, CHARACTER_TABLE = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"
WORDS_AT_ONCE = 4096


class ManyLangsFolder(NamedTuple):
    """
    The content of a folder of ELMoForManyLangs, without the weights.

    Attributes:
        folder: The folder.
        architecture: The content of the architecture file.
        architecture_file: That file; `None`: the stock one.
        tokenizer: Made from the dictionaries.
        config: Made from all of these.
    """

    folder: Path
    architecture: dict[str, Any]
    architecture_file: Path | None
    tokenizer: ElmoTokenizer
    config: ElmoConfig


def convert_elmoformanylangs(
    folder: str | os.PathLike,
    out: str | os.PathLike,
    dtype: str = "float32",
    splitting: str = "whitespace",
) -> Path:
    """
    A folder of ELMoForManyLangs → a folder with config, safetensors and tokenizer. Each sentence starts from zeros. In
    the original only the first one does, and the state is carried to the others; `initial_state` does the same here.

    With a `classifier.pkl` the result is a language model ([`ElmoForPreTraining`]), otherwise an encoder.

    Args:
        folder: The folder of a model, as it was released or trained.
        out: The folder to write; new or empty.
        dtype: Stored precision: `float32`, `float16` or `bfloat16`.
        splitting: How the tokenizer splits raw text: only at `"whitespace"`, as the original was given words, or by
            the rules of `"treebank"`.

    Returns:
        `out`
    """
    with full_disk_errors(out), staged_folder(out) as stage:
        read = read_folder(folder, splitting)
        tensors = {name: _load(read.folder / name) for name in (TOKEN_EMBEDDER_FILE, ENCODER_FILE)}
        classifier = _read_classifier(read)
        model = model_of(read, tensors, classifier)
        elmo = model.elmo if isinstance(model, ElmoForPreTraining) else model
        names = {"config": CONFIG_FILE, "characters": CHARACTERS_FILE, "words": WORDS_FILE}
        names |= {"token_embedder": TOKEN_EMBEDDER_FILE, "encoder": ENCODER_FILE, "classifier": CLASSIFIER_FILE}
        files = {use: path for use, name in names.items() if (path := read.folder / name).is_file()}
        parameters = count_values(_token_views(elmo)) + count_values(_encoder_views(elmo))
        origin = provenance("elmoformanylangs", parameters, architecture=read.architecture_file, **files)
        save_folder(model, read.tokenizer, stage, dtype, origin, Path(out).resolve().name)
    return Path(out)


def describe_elmoformanylangs(folder: str | os.PathLike) -> tuple[ElmoConfig, bool]:
    """The config of what [`convert_elmoformanylangs`] converts, and whether it has a softmax; checks the weights."""
    read = read_folder(folder)
    check_tensors(read, {name: _load(read.folder / name) for name in (TOKEN_EMBEDDER_FILE, ENCODER_FILE)})
    has_softmax = _read_classifier(read) is not None
    if has_softmax:
        read.config.update(_softmax_fields(read))
    return read.config, has_softmax


# ---- Reading the folder


def read_folder(folder: str | os.PathLike, splitting: str = "whitespace") -> ManyLangsFolder:
    """Reads everything except the weights. Refuses models that the original could not run."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ConversionError(
            f"{folder} is no folder: give the one with {CONFIG_FILE}, {TOKEN_EMBEDDER_FILE} and so on."
        )
    for name in (CONFIG_FILE, TOKEN_EMBEDDER_FILE, ENCODER_FILE):
        if not (folder / name).is_file():
            raise ConversionError(f"{folder / name} is missing: this is not a complete model of ELMoForManyLangs.")
    architecture, path = _architecture(folder)
    source = path or STOCK_NAME
    encoder, embedder = (_part(architecture, name, source) for name in ("encoder", "token_embedder"))
    uses_words, uses_characters = _check_runs(encoder, embedder, source)
    characters = read_dictionary(folder / CHARACTERS_FILE, SPECIAL_CHARACTERS) if uses_characters else None
    # Without a word table only a classifier uses the dictionary.
    has_words = uses_words or (folder / WORDS_FILE).is_file()
    words = read_dictionary(folder / WORDS_FILE, (OOV, BOS, EOS, PAD)) if has_words else [OOV, BOS, EOS, PAD]
    slots = embedder.get("max_characters_per_token") if _name(embedder) == "cnn" else None
    tokenizer = _tokenizer(folder, words, characters, slots, splitting)
    fields: dict[str, Any] = {
        **word_ids(tokenizer),
        "token_inputs": "both" if uses_words and uses_characters else "words" if uses_words else "characters",
        "token_projection": True,
        "num_hidden_layers": encoder["n_layers"],
        "cell_size": encoder["dim"],
        "projection_size": encoder["projection_dim"],
        "cell_clip": encoder["cell_clip"] or None,  # 0 means no clipping in the original
        "projection_clip": encoder["proj_clip"] or None,
        "forget_bias": 0.0,
        "skip_connections": True,
        "dropout": architecture.get("dropout", 0.0),
    }
    if uses_words:
        fields["word_embedding_size"] = embedder["word_dim"]
    if characters is not None:
        spelling = CodePointSpelling(characters)
        fields |= {
            "char_vocab_size": spelling.size,
            "char_pad_id": spelling.pad,
            "char_bos_id": spelling.begin_sentence,
            "char_eos_id": spelling.end_sentence,
            "max_characters_per_token": slots,
            "char_embedding_size": embedder["char_dim"],
            "char_filters": embedder["filters"],
            "char_activation": embedder["activation"],
            "num_highway_layers": embedder["n_highway"],
        }
    with config_errors(source):
        config = ElmoConfig(**fields)
    return ManyLangsFolder(folder, architecture, path, tokenizer, config)


def _architecture(folder: Path) -> tuple[dict[str, Any], Path | None]:
    """The architecture file's content and path. The path in `config.json` is one on its author's machine."""
    stated = read_object(folder / CONFIG_FILE).get("config_path")
    if isinstance(stated, str):
        name = re.split(r"[/\\]", stated)[-1]
        candidates = [folder / stated] if is_inner_path(stated) else []
        candidates += [folder / name] if name not in ("", ".", "..", CONFIG_FILE) else []
        for path in candidates:
            if path.is_file():
                return read_object(path), path
    logger.warning(f"{folder} has no architecture file ({stated}): the sizes of {STOCK_NAME} are assumed.")
    return STOCK, None


def _part(architecture: dict[str, Any], name: str, source) -> dict[str, Any]:
    needed = {"encoder": ["name", "projection_dim", "cell_clip", "proj_clip", "dim", "n_layers"]}
    needed["token_embedder"] = ["name", "word_dim", "char_dim"]
    part = architecture.get(name)
    if not isinstance(part, dict):
        raise ConversionError(f"{source} is no architecture of ELMoForManyLangs: `{name}` is missing.")
    if missing := [field for field in needed[name] if field not in part]:
        raise ConversionError(f"{source}: `{name}` lacks {', '.join(missing)}.")
    return part


def _name(part: dict[str, Any]) -> str:
    return str(part["name"]).lower()


def _check_runs(encoder: dict[str, Any], embedder: dict[str, Any], source) -> tuple[bool, bool]:
    """Whether the model reads words, and characters. Refuses other models and those that the original could not run."""
    if _name(encoder) == "lstm":
        raise ConversionError(
            f"{source}: the encoder `lstm` is no ELMo, and is not converted. Every layer reads both directions, so "
            "that a word's vector has seen the words that it should predict, and depends on the padding of its batch."
        )
    if encoder["name"] != "elmo":
        raise ConversionError(f"{source}: the encoder must be `elmo`, found {encoder['name']!r}.")
    sizes = [embedder["word_dim"], embedder["char_dim"]]
    for name, size in zip(("word_dim", "char_dim"), sizes, strict=True):
        if type(size) is not int:
            raise ConversionError(f"{source}: `{name}` must be a number, found {size!r:.60}.")
    uses_words, uses_characters = (size > 0 for size in sizes)
    if not uses_words and not uses_characters:
        raise ConversionError(f"{source}: the token embedder has neither words nor characters: no such model ran.")
    if _name(embedder) not in ("cnn", "lstm"):
        raise ConversionError(f"{source}: the token embedder must be `cnn`, found {embedder['name']!r}.")
    if _name(embedder) == "lstm" and uses_characters:
        raise ConversionError(
            f"{source}: the token embedder `lstm` over characters never ran in the original, which joins tensors of "
            "different dimensions there."
        )
    if _name(embedder) == "cnn":
        needed = ["max_characters_per_token"] + (["filters", "n_highway", "activation"] if uses_characters else [])
        if missing := [field for field in needed if field not in embedder]:
            raise ConversionError(f"{source}: `token_embedder` lacks {', '.join(missing)}.")
        slots, fewest = embedder["max_characters_per_token"], FEWEST_SLOTS if uses_characters else 3
        is_free = slots is None and not uses_characters
        if not is_free and (type(slots) is not int or slots < fewest):
            raise ConversionError(
                f"{source}: `max_characters_per_token` must be {fewest} or more, found {slots!r:.60}: the original "
                f"has no room for {BOS} between its marks otherwise."
            )
    return uses_words, uses_characters


def read_dictionary(path: Path, required: tuple[str, ...]) -> list[str]:
    """The tokens of a `.dic` file in the order of their ids. It is read as the original reads it."""
    try:
        lines = path.read_bytes().decode("utf-8").splitlines()
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConversionError(f"{path} is not UTF-8 text ({error}).") from error
    ids: dict[str, int] = {}
    for line_number, line in enumerate(lines, start=1):
        parts = line.strip().split("\t")
        token, index = [NAMELESS, *parts] if len(parts) == 1 else parts if len(parts) == 2 else ("", "")
        if not token or not re.fullmatch(r"\s*\d{1,9}\s*", index, re.ASCII):
            raise ConversionError(
                f"{path}: line {line_number} should be a token, a tab and its id, found {line!r:.60}."
            )
        ids[token] = int(index)
    tokens = sorted(ids, key=ids.__getitem__)
    for place, token in enumerate(tokens):
        if ids[token] != place:
            raise ConversionError(
                f"{path} should give the ids 0 to {len(ids) - 1}, each to one token: {token!r} has {ids[token]} "
                f"instead of {place}. A token that is there twice has the id of its last line."
            )
    if missing := [token for token in required if token not in ids]:
        raise ConversionError(f"{path} lacks {', '.join(missing)}.")
    return tokens


def _tokenizer(
    folder: Path, words: list[str], characters: list[str] | None, slots: int | None, splitting: str
) -> ElmoTokenizer:
    padding = "<PAD>"  # of our own: the original's is a word that a text may have
    while padding in words:
        padding = f"<{padding}>"
    try:
        return ElmoTokenizer(
            vocab=words,
            splitting=splitting,
            max_characters_per_token=50 if slots is None else max(slots, 3),
            bos_token=BOS,
            eos_token=EOS,
            unk_token=OOV,
            pad_token=padding,
            characters=characters,
            max_word_length=None if slots is None else slots - 2,
            boundary_words=True,
        )
    except ValueError as error:
        raise ConversionError(f"{folder}: {error}") from error


# ---- The weights


def _load(path: Path) -> dict[str, torch.Tensor]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}.") from error
    return load_tensors(data, path)


def check_tensors(read: ManyLangsFolder, tensors: dict[str, dict[str, torch.Tensor]]):
    """Refuses dictionaries and tensors that do not fit each other, or the architecture."""
    config, folder = read.config, read.folder
    path = folder / TOKEN_EMBEDDER_FILE
    for table, size, name in (
        (WORD_TABLE, config.vocab_size, WORDS_FILE),
        (CHARACTER_TABLE, config.char_vocab_size - 1, CHARACTERS_FILE),
    ):
        tensor = tensors[TOKEN_EMBEDDER_FILE].get(table)
        if tensor is not None and tensor.ndim == 2 and len(tensor) != size and (folder / name).is_file():
            raise ConversionError(
                f"{folder / name} does not belong to these weights: it has {size:,} entries, and {table} in "
                f"{path.name} has {len(tensor):,} rows. Find the dictionary that the model was trained with."
            )
    with torch.device("meta"):
        expected = ElmoModel(config)
        check_arrays(_token_views(expected), tensors[TOKEN_EMBEDDER_FILE], path)
        check_arrays(_encoder_views(expected), tensors[ENCODER_FILE], folder / ENCODER_FILE)


def model_of(
    read: ManyLangsFolder, tensors: dict[str, dict[str, torch.Tensor]], classifier: dict[str, torch.Tensor] | None
) -> ElmoModel | ElmoForPreTraining:
    """The model with the original's tensors in our arrangement; with a softmax if there is a classifier."""
    config, folder = read.config, read.folder
    path = folder / TOKEN_EMBEDDER_FILE
    check_tensors(read, tensors)
    if classifier is not None:
        config.update(_softmax_fields(read))
    model = ElmoModel(config) if classifier is None else ElmoForPreTraining(config)
    elmo = model.elmo if isinstance(model, ElmoForPreTraining) else model
    fill_views(_token_views(elmo), tensors[TOKEN_EMBEDDER_FILE], path)
    fill_views(_encoder_views(elmo), tensors[ENCODER_FILE], folder / ENCODER_FILE)
    with torch.no_grad():
        if config.uses_characters:
            elmo.token_encoder.characters.char_embeddings.weight[0] = 0
            for highway in elmo.token_encoder.characters.highways:
                highway.carry.weight.neg_()
                highway.carry.bias.neg_()
        if config.uses_words:
            elmo.token_encoder.word_embeddings.weight[config.vocab_size :] = 0
    model.eval()
    if isinstance(model, ElmoForPreTraining):
        _fill_softmax(model, read, tensors[TOKEN_EMBEDDER_FILE], classifier or {})
    return model


def _token_views(model: ElmoModel) -> Views:
    """The parameters in each tensor of `token_embedder.pkl`; the signs of the highways differ."""
    encoder, views = model.token_encoder, {}
    if encoder.word_embeddings is not None:
        views[WORD_TABLE] = [encoder.word_embeddings.weight[: model.config.vocab_size]]
    if encoder.characters is not None:
        characters = encoder.characters
        views[CHARACTER_TABLE] = [characters.char_embeddings.weight[1:]]
        for index, convolution in enumerate(characters.convolutions):
            views[f"convolutions.{index}.weight"] = [convolution.weight]
            views[f"convolutions.{index}.bias"] = [convolution.bias]
        for index, highway in enumerate(characters.highways):
            name = f"highways._layers.{index}"
            views[f"{name}.weight"] = [highway.transform.weight, highway.carry.weight]
            views[f"{name}.bias"] = [highway.transform.bias, highway.carry.bias]
    views |= {"projection.weight": [encoder.projection.weight], "projection.bias": [encoder.projection.bias]}
    return {name: [view.detach() for view in parts] for name, parts in views.items()}


def _encoder_views(model: ElmoModel) -> Views:
    """The parameters in each tensor of `encoder.pkl`."""
    return {name: [view.detach() for view in parts] for name, parts in recurrent_views(model).items()}


# ---- The classifier


def _read_classifier(read: ManyLangsFolder) -> dict[str, torch.Tensor] | None:
    """The classifier's tensors; `None` if there is no classifier, or if it does not predict from the top layer."""
    path = read.folder / CLASSIFIER_FILE
    if not path.is_file():
        return None
    if read.config.num_hidden_layers != 2:
        logger.warning(
            f"{path} is left out: the original predicts words from its second layer, which is the last one of two "
            f"layers only, and this model has {read.config.num_hidden_layers}."
        )
        return None
    if not (read.folder / WORDS_FILE).is_file():
        raise ConversionError(f"{read.folder / WORDS_FILE} is missing: {CLASSIFIER_FILE} predicts its words.")
    return _load(path)


def _softmax_fields(read: ManyLangsFolder) -> dict[str, Any]:
    """The config fields of the softmax that a classifier becomes."""
    classifier = read.architecture.get("classifier")
    samples = classifier.get("n_samples") if isinstance(classifier, dict) else None
    if type(samples) is not int or not 0 < samples < read.config.vocab_size:
        return {"softmax_type": "full"}
    return {"softmax_type": "sampled", "softmax_samples": samples}


@torch.no_grad()
def _fill_softmax(
    model: ElmoForPreTraining,
    read: ManyLangsFolder,
    embedder: dict[str, torch.Tensor],
    classifier: dict[str, torch.Tensor],
):
    """The classifier's columns as rows of the softmax."""
    source = read.folder / CLASSIFIER_FILE
    weight, bias = model.softmax.weight.detach(), model.softmax.bias.detach()
    if "hidden2tag.weight" in classifier:
        fill_views({"hidden2tag.weight": [weight], "hidden2tag.bias": [bias]}, classifier, source)
    elif "corr.weight" in classifier:
        _fill_cnn_softmax(model, read, embedder, classifier)
    else:
        unused = torch.empty(weight.shape[1], 1)  # in the file, and in no formula
        views = {"column_emb.weight": [weight], "column_bias.weight": [bias.unsqueeze(1)], "oov_column": [unused]}
        fill_views(views, classifier, source)


def _fill_cnn_softmax(
    model: ElmoForPreTraining,
    read: ManyLangsFolder,
    embedder: dict[str, torch.Tensor],
    classifier: dict[str, torch.Tensor],
):
    """A word's column is its token vector plus a correction; that of word 0, the unknown one, is a parameter."""
    source, prefix = read.folder / CLASSIFIER_FILE, "token_embedder."
    own = {name.removeprefix(prefix): part for name, part in classifier.items() if name.startswith(prefix)}
    if own.keys() != embedder.keys() or not all(torch.equal(own[name], embedder[name]) for name in own):
        raise ConversionError(
            f"{source} holds another token embedder than {TOKEN_EMBEDDER_FILE}: both were saved at once."
        )
    weight, bias = model.softmax.weight.detach(), model.softmax.bias.detach()
    corrections = classifier["corr.weight"]
    size = corrections.shape[1] if corrections.ndim == 2 else 0
    matrix, rows, unknown = torch.empty(weight.shape[1], size), torch.empty(len(weight), size), weight[:1].T.clone()
    rest = {name: part for name, part in classifier.items() if not name.startswith(prefix)}
    fill_views({"M": [matrix], "corr.weight": [rows], "oov_column": [unknown]}, rest, source)
    words = read.tokenizer.convert_ids_to_tokens(list(range(len(weight))))
    for start in range(0, len(words), WORDS_AT_ONCE):
        part = words[start : start + WORDS_AT_ONCE]
        batch = read.tokenizer([part], is_split_into_words=True, add_special_tokens=False, return_tensors="pt")
        ids = torch.arange(start, start + len(part)) if read.config.uses_words else None
        char_ids = batch["char_ids"][0] if read.config.uses_characters else None
        weight[start : start + len(part)] = model.elmo.token_encoder(char_ids, ids)
    weight[0] = unknown[:, 0]
    weight += rows @ matrix.T
    bias.zero_()


__all__ = ["convert_elmoformanylangs", "describe_elmoformanylangs", "read_dictionary", "read_folder"]
