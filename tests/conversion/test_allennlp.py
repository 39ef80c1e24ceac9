"""A biLM out of an AllenNLP file: the same tensors as from the HDF5, and no file, however bad, does harm."""

import contextlib
import io
import json
import os
import tarfile
import zipfile

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import ConversionError, allennlp, convert_allennlp
from elmo_hf.conversion.allennlp import allennlp_views, read_archive
from elmo_hf.conversion.bilm_hdf5 import bilm_options, bilm_views, read_bilm_hdf5
from tests.conftest import find_data
from tests.conversion.refusals import assert_refused, damages, make_file
from tests.models import TINY, tiny_model

ELMO = "text_field_embedder.token_embedder_elmo._elmo."
STACK = f"{ELMO}_elmo_lstm._elmo_lstm."
BIAS = f"{STACK}forward_layer_0.state_linearity.bias"
KERNEL = f"{ELMO}_elmo_lstm._token_embedder.char_conv_0.weight"
CHARACTERS = f"{ELMO}_elmo_lstm._token_embedder._char_embedding_weights"
MIX = f"{ELMO}scalar_mix_0"
OPTIONS = bilm_options(ElmoConfig(**TINY))


def tiny_state_dict(elmo=ELMO, mixes=1) -> dict[str, torch.Tensor]:
    """`tiny_model()` as AllenNLP keeps it: carry gates negated, forget bias added, a tagger around it."""
    model = tiny_model().requires_grad_(False)
    for highway in model.token_encoder.characters.highways:
        highway.carry.weight.neg_()
        highway.carry.bias.neg_()
    for layer in model.layers:
        layer.bias.chunk(4, dim=-1)[2].add_(1)
    tensors = {f"{elmo}_elmo_lstm.{name}": torch.cat(views) for name, views in allennlp_views(model).items()}
    for mix in range(mixes):
        tensors |= {f"{elmo}scalar_mix_{mix}.scalar_parameters.{n}": torch.tensor([n + mix / 8]) for n in range(3)}
        tensors[f"{elmo}scalar_mix_{mix}.gamma"] = torch.tensor([1.5 + mix])
    return tensors | {"encoder._module.weight_ih_l0": torch.zeros(3, 2)}


def state_dict_file(tensors, folder):
    torch.save(tensors, folder / "weights.th")
    return folder / "weights.th"


def archive_file(folder, members: dict[str, bytes | tarfile.TarInfo]):
    """A tar.gz of contents by name, or of ready-made entries without content."""
    with tarfile.open(folder / "model.tar.gz", "w:gz") as tar:
        for member, content in members.items():
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(member)
            if isinstance(content, bytes):
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return folder / "model.tar.gz"


def converting(path, **arguments):
    return lambda out: convert_allennlp(path, out, **arguments)


def saved(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def experiment(**fields) -> bytes:
    embedder = {"type": "elmo_token_embedder", "options_file": "options.json"} | fields
    return json.dumps({"model": {"embedders": [{"elmo": embedder}], "encoder": {"do_layer_norm": True}}}).encode()


# ---- The same biLM, by two ways.


@pytest.mark.golden
def test_the_taggers_bilm_is_that_of_the_hdf5(allennlp_golden, tmp_path):
    """
    Every stored value is equal bit for bit but for the forget bias b. AllenNLP keeps fl(b + 1), the sum rounded to
    fp32, in which low bits of b are lost: we store fl(b + 1) - 1, and 245 of the 256 forget biases differ from the
    HDF5's. What the network works with, fl(stored + 1), is equal bit for bit, and so is every hidden state.
    """
    path = find_data("fixtures", "allennlp", "simple_tagger", "best.th")
    convert_allennlp(path, tmp_path / "out", options=allennlp_golden.options)
    model = ElmoModel.from_pretrained(tmp_path / "out").eval()
    config = ElmoConfig.from_bilm_options(allennlp_golden.options)
    expected = read_bilm_hdf5(config, allennlp_golden.weights).eval()

    differing = []
    for name, views in bilm_views(expected).items():
        converted, original = torch.cat(bilm_views(model)[name]), torch.cat(views)
        if name.endswith("/B"):
            i, j, forget, o = original.chunk(4)
            differing += (converted.chunk(4)[2] != forget).tolist()
            original = torch.cat([i, j, (forget + 1.0) - 1.0, o])
        assert torch.equal(converted.view(torch.int32), original.view(torch.int32)), name
    for layer, other in zip(model.layers, expected.layers, strict=True):
        assert torch.equal(layer.bias.chunk(4, dim=1)[2] + 1.0, other.bias.chunk(4, dim=1)[2] + 1.0)
    assert (sum(differing), len(differing)) == (245, 256)

    sentences = [words for row in allennlp_golden.sentences for words in row]
    batch = ElmoTokenizer()(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        layers, expected_layers = (m(**batch, output_hidden_states=True).hidden_states for m in (model, expected))
    assert all(torch.equal(layer, other) for layer, other in zip(layers, expected_layers, strict=True))
    tagger = torch.load(path, weights_only=True)
    assert model.mixer.gamma.item() == tagger[f"{MIX}.gamma"].item() != 1
    assert model.mixer.weights.tolist() == [tagger[f"{MIX}.scalar_parameters.{n}"].item() for n in range(3)]


# ---- Where the biLM is, and what is around it.


@pytest.mark.parametrize("elmo", [ELMO, "", "model.", None])
def test_the_bilm_is_found_under_any_prefix(tmp_path, elmo):
    tensors = tiny_state_dict(elmo or "")
    if elmo is None:  # the biLM alone, without the ELMo module and its mixes
        tensors = {name.removeprefix("_elmo_lstm."): tensor for name, tensor in tensors.items() if "_elmo" in name}
    model = ElmoModel.from_pretrained(convert_allennlp(state_dict_file(tensors, tmp_path), tmp_path / "out"))
    for name, views in bilm_views(tiny_model()).items():
        assert torch.equal(torch.cat(bilm_views(model)[name]) + 1.0, torch.cat(views) + 1.0)  # see above
    assert model.mixer.gamma.item() == (1.0 if elmo is None else 1.5)


@pytest.mark.parametrize("mixes", [0, 1, 2, 3])
def test_the_first_mix_becomes_the_mixer_and_several_are_kept_beside_it(tmp_path, mixes):
    out = convert_allennlp(state_dict_file(tiny_state_dict(mixes=mixes), tmp_path), tmp_path / "out")
    mixer = ElmoModel.from_pretrained(out).mixer
    assert (mixer.weights.tolist(), mixer.gamma.item()) == (([0, 1, 2], 1.5) if mixes else ([0, 0, 0], 1.0))
    assert (out / "scalar_mixes.json").exists() == (mixes > 1)
    if mixes > 1:
        for index, mix in enumerate(json.loads((out / "scalar_mixes.json").read_text())):
            weights = [layer + index / 8 for layer in range(3)]
            assert mix == {"name": f"{ELMO}scalar_mix_{index}", "weights": weights, "gamma": 1.5 + index}
        assert index == mixes - 1


@pytest.mark.parametrize("layer_norm", [True, False])
def test_an_archive_brings_its_experiment_and_its_options(tmp_path, layer_norm):
    options = OPTIONS | {"lstm": OPTIONS["lstm"] | {"cell_clip": 0.5, "use_skip_connections": False}}
    members = {
        "weights.th": saved(tiny_state_dict()),
        "config.json": experiment(do_layer_norm=layer_norm),
        "fta/model.text_field_embedder.elmo.options_file": json.dumps(options).encode(),
    }
    vocab = make_file(tmp_path / "vocab.txt", b"<S>\n</S>\n<UNK>\nthe\n")
    out = convert_allennlp(archive_file(tmp_path, members), tmp_path / "out", vocab=vocab)
    config = ElmoConfig.from_pretrained(out)
    assert (config.mixer_layer_norm, config.cell_clip, config.skip_connections) == (layer_norm, 0.5, False)
    assert (config.vocab_size, config.pad_token_id) == (4, 4)


def test_without_options_a_model_is_as_the_released_ones(tmp_path):
    members = {"weights.th": saved(tiny_state_dict()), "config.json": experiment()}
    config = ElmoConfig.from_pretrained(convert_allennlp(archive_file(tmp_path, members), tmp_path / "out"))
    assert (config.cell_clip, config.projection_clip, config.skip_connections) == (3.0, 3.0, True)
    assert (config.char_activation, config.mixer_layer_norm) == ("relu", False)


# ---- Refusals.


@pytest.mark.parametrize(
    ("match", "change"),
    [
        ("lacks _elmo_lstm.backward_layer_1", lambda t: t.pop(f"{STACK}backward_layer_1.state_linearity.bias")),
        ("holds .*forward_layer_1", lambda t: t.pop(f"{STACK}forward_layer_1.input_linearity.weight")),
        ("holds _elmo_lstm.extra", lambda t: t.update({f"{STACK}extra": torch.zeros(1)})),
        (r"bias should have shape \(28,\), found \(27,\)", lambda t: t.update({BIAS: t[BIAS][1:]})),
        ("should have shape .*, found", lambda t: t.update({KERNEL: t[KERNEL][0]})),
        ("should have shape .*, found", lambda t: t.update({CHARACTERS: t[CHARACTERS][0]})),
        ("`char_pad_id` must be", lambda t: t.update({CHARACTERS: t[CHARACTERS][:100]})),
        ("plain floats, found torch.int64", lambda t: t.update({BIAS: t[BIAS].long()})),
        ("finite numbers", lambda t: t[BIAS].fill_(torch.nan)),
        ("finite numbers", lambda t: t[f"{MIX}.gamma"].fill_(torch.inf)),
        ("lacks scalar_mix_0.gamma", lambda t: t.pop(f"{MIX}.gamma")),
        ("lacks scalar_mix_0.scalar_parameters.1", lambda t: t.pop(f"{MIX}.scalar_parameters.1")),
        ("holds scalar_mix_0.scalar_parameters.3", lambda t: t.update({f"{MIX}.scalar_parameters.3": torch.ones(1)})),
        ("should have shape", lambda t: t.update({f"{MIX}.gamma": torch.ones(2)})),
        ("holds no ELMo biLM", lambda t: t.pop(CHARACTERS)),
        ("holds 2 biLMs", lambda t: t.update(tiny_state_dict("other."))),
        ("dictionary of tensors", lambda t: t.update(epoch=3)),
        ("dictionary of tensors", lambda t: t.update({3: torch.zeros(1)})),
    ],
)
def test_tensors_that_are_no_whole_bilm_are_refused(tmp_path, match, change):
    tensors = tiny_state_dict()
    change(tensors)
    assert_refused(tmp_path, converting(state_dict_file(tensors, tmp_path)), match)


@pytest.mark.parametrize(
    ("match", "options"),
    [
        ("num_hidden_layers = 3, the weights have 2", {"lstm": OPTIONS["lstm"] | {"n_layers": 3}}),
        ("cell_size = 8, the weights have 7", {"lstm": OPTIONS["lstm"] | {"dim": 8}}),
        ("projection_size = 5, the weights have 4", {"lstm": OPTIONS["lstm"] | {"projection_dim": 5}}),
        ("num_highway_layers = 0", {"char_cnn": OPTIONS["char_cnn"] | {"n_highway": 0}}),
        ("directions = forward", {"bidirectional": False}),
        ("token_inputs = words", {"char_cnn": None}),
        ("'lstm' is missing", None),
        ("JSON object, found list", []),
        ("JSON object, found str", "/etc/hostname"),
        ("JSON object, found int", 0),
    ],
)
def test_options_that_are_wrong_or_disagree_with_the_weights_are_refused(tmp_path, match, options):
    options = {} if options is None else OPTIONS | options if isinstance(options, dict) else options
    content = json.dumps(options).encode()
    (tmp_path / "options.json").write_bytes(content)
    weights = state_dict_file(tiny_state_dict(), tmp_path)
    assert_refused(tmp_path, converting(weights, options=tmp_path / "options.json"), match)
    archive = archive_file(tmp_path, {"weights.th": weights.read_bytes(), "options.json": content})
    assert_refused(tmp_path, converting(archive), match)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"\x1f\x8b", b"PK\x03\x04", b"\x80\x02}q\x00.", b"\x80\x04}q\x00.", None, "folder"]
)
def test_a_file_that_is_neither_state_dict_nor_archive_is_refused(tmp_path, content, recwarn):
    path = make_file(tmp_path / "best.th", content)
    assert_refused(tmp_path, converting(path), "best.th (is no|holds no)")
    assert recwarn.list == []


# ---- Malice.


class RunsCode:
    def __init__(self, sentinel):
        self.sentinel = sentinel

    def __reduce__(self):
        return os.mkdir, (str(self.sentinel),)


@pytest.mark.parametrize("archived", [False, True])
def test_the_code_of_a_pickle_does_not_run(tmp_path, archived):
    data = saved(tiny_state_dict() | {"payload": RunsCode(tmp_path / "sentinel")})
    path = archive_file(tmp_path, {"weights.th": data}) if archived else make_file(tmp_path / "weights.th", data)
    assert_refused(
        tmp_path, converting(path), r"it wants to run posix\.mkdir\."
    )  # and nothing of torch's advice to let it
    assert not (tmp_path / "sentinel").exists()


@pytest.mark.parametrize("name", ["../weights.th", "a/../../weights.th", "/tmp/weights.th", "//weights.th"])
def test_a_member_whose_name_leads_elsewhere_is_no_weights(tmp_path, name):
    archive = archive_file(tmp_path, {name: saved(tiny_state_dict())})
    assert_refused(tmp_path, converting(archive), "should hold weights")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
@pytest.mark.parametrize("inside", [True, False])
def test_a_link_or_device_is_no_weights(tmp_path, kind, inside):
    outside = state_dict_file(tiny_state_dict(), tmp_path)
    link = tarfile.TarInfo("weights.th")
    link.type, link.linkname = kind, "target" if inside else str(outside)
    archive = archive_file(tmp_path, {"target": outside.read_bytes(), "weights.th": link})
    assert_refused(tmp_path, converting(archive), "should hold weights")


def test_an_archive_with_two_weights_is_refused(tmp_path):
    data = saved(tiny_state_dict())
    archive = archive_file(tmp_path, {"weights.th": data, "a/best.th": data})
    assert_refused(tmp_path, converting(archive), "found another: a/best.th")


# ---- More than a file can hold.


def huge(tensor: torch.Tensor, *shape: int) -> torch.Tensor:
    """A tensor of any shape in the memory of one number."""
    return tensor.flatten()[:1].expand(shape or [10_000 * size for size in tensor.shape])


@pytest.mark.parametrize("legacy", [True, False])
def test_tensors_that_are_larger_than_their_storage_are_refused(tmp_path, legacy):
    tensors = tiny_state_dict()
    for name, tensor in tensors.items():
        if "_linearity" in name or "_projection" in name:
            tensors[name] = huge(tensor)
    path = tmp_path / "weights.th"
    torch.save(tensors, path, _use_new_zipfile_serialization=not legacy)
    assert_refused(tmp_path, converting(path), r"weights.th has [\d,]+ bytes and asks for [\d,]{15,} bytes of memory")


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.new_empty([1000 * size for size in tensor.shape], device="meta"),
        lambda tensor: torch.sparse_coo_tensor(size=[1000 * size for size in tensor.shape], check_invariants=True),
    ],
)
def test_tensors_without_storage_are_refused(tmp_path, change):
    tensors = tiny_state_dict()
    tensors[CHARACTERS] = change(tensors[CHARACTERS])
    assert_refused(tmp_path, converting(state_dict_file(tensors, tmp_path)), "asks for [0-9,]+ bytes of memory")


def test_sizes_that_not_all_tensors_have_are_refused_before_memory_is_taken(tmp_path, monkeypatch):
    tensors = tiny_state_dict()
    tensors[f"{STACK}forward_layer_0.state_projection.weight"] = torch.zeros(300, 300)
    monkeypatch.setattr(allennlp, "fill_views", None)  # comes when there is memory to fill
    assert_refused(tmp_path, converting(state_dict_file(tensors, tmp_path)), "should have shape .*, found")


@pytest.mark.medium
def test_a_compressed_container_that_is_far_larger_inside_is_refused(tmp_path):
    plain = state_dict_file(tiny_state_dict() | {"zeros": torch.zeros(2**25)}, tmp_path)
    path = tmp_path / "best.th"
    with zipfile.ZipFile(plain) as container, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as compressed:
        for member in container.infolist():
            compressed.writestr(member.filename, container.read(member))
    plain.unlink()
    assert_refused(tmp_path, converting(path), r"best.th has [\d,]+ bytes and asks for 134,[\d,]+ bytes of memory")


@pytest.mark.medium
@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_an_archive_that_is_far_larger_inside_is_refused(tmp_path, compression):
    path = tmp_path / f"model.tar.{compression}"
    entry = tarfile.TarInfo("weights.th")
    entry.size = 100 * 2**20
    with tarfile.open(path, f"w:{compression}") as tar:
        tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    assert_refused(
        tmp_path, converting(path), rf"model.tar.{compression} has [\d,]+ bytes and asks for [\d,]+ bytes of memory"
    )


def test_a_header_that_is_far_larger_than_its_archive_is_refused(tmp_path):
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("weights.th")
        entry.pax_headers = {"comment": "x" * 100 * 2**20}
        tar.addfile(entry)
    assert_refused(tmp_path, converting(path), "asks for [0-9,]+ bytes of memory")


def test_a_sparse_member_is_refused(tmp_path):
    """Its holes are not in the archive, but in what is read of it."""
    block = tarfile.TarInfo("weights.th")
    block.type, block.size = tarfile.GNUTYPE_SPARSE, 0
    header = bytearray(block.tobuf(tarfile.GNU_FORMAT))
    header[386:398] = b"00000000000\0"  # the only piece: at 0 ...
    header[398:410] = b"00000000000\0"  # ... of no bytes
    header[483:495] = b"77777777777\0"  # 8 GiB in all
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = make_file(tmp_path / "model.tar", bytes(header) + bytes(1024))
    with tarfile.open(path) as tar:
        assert tar.getmember("weights.th").size == 8 * 2**30 - 1
    assert_refused(tmp_path, converting(path), "asks for 8,589,934,591 bytes of memory")


# ---- Any damage.


@pytest.fixture(scope="module")
def sound_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    torch.save(tiny_state_dict(), folder / "zip")
    torch.save(tiny_state_dict(), folder / "legacy", _use_new_zipfile_serialization=False)
    archive_file(folder, {"weights.th": saved(tiny_state_dict()), "config.json": experiment()})
    return folder


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from(["zip", "legacy", "model.tar.gz"]), damages())
def test_a_damaged_file_is_refused_or_read_and_nothing_else(sound_files, monkeypatch, tmp_path, name, damage):
    monkeypatch.setattr(allennlp, "save_folder", lambda *args: None)  # its files take most of the time
    damaged = make_file(tmp_path / "damaged", damage((sound_files / name).read_bytes()))
    with contextlib.suppress(ConversionError):
        convert_allennlp(damaged, tmp_path / "out").rmdir()
    assert list(tmp_path.iterdir()) == [damaged]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@example(place=0.5, bit=0)
def test_a_flipped_bit_is_refused_or_changes_no_tensor(sound_files, tmp_path, place, bit):
    data = bytearray((sound_files / "zip").read_bytes())
    data[int(place * len(data))] ^= 1 << bit
    path = make_file(tmp_path / "damaged", bytes(data))
    with contextlib.suppress(ConversionError):
        torch.testing.assert_close(read_archive(path).tensors, tiny_state_dict(), rtol=0, atol=0)


def test_a_flipped_bit_of_the_weights_is_told(sound_files, tmp_path):
    data = (sound_files / "zip").read_bytes()
    value = tiny_state_dict()[CHARACTERS].numpy().tobytes()
    place = data.index(value) + 100
    path = make_file(tmp_path / "best.th", data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert_refused(
        tmp_path, converting(path), r"best.th is damaged: the checksum of \S+/data/\d+ is wrong. Fetch it again"
    )


def test_an_archive_whose_checksum_is_wrong_is_refused(sound_files, tmp_path):
    data = bytearray((sound_files / "model.tar.gz").read_bytes())
    data[-8] ^= 1  # at the very end, where a reader of the members alone never comes
    path = make_file(tmp_path / "model.tar.gz", bytes(data))
    assert_refused(tmp_path, converting(path), "truncated or damaged")
