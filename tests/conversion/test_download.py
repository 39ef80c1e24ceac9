"""A download arrives whole, whatever happens on the way, or not at all."""

import hashlib
import multiprocessing
import os
import sys

import numpy as np
import pytest
from huggingface_hub import constants

from elmo_hf.conversion import DownloadError
from elmo_hf.conversion.download import download
from tests.conversion.file_server import Fault

CONTENT = np.random.default_rng(0).bytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
QUICKLY = (0, 0, 0)


@pytest.fixture
def target(file_server, tmp_path):
    """Where the file goes."""
    file_server.files["weights.hdf5"] = CONTENT
    return tmp_path / "new" / "weights.hdf5"


def fetch(server, target, **options):
    return download(f"{server.url}/weights.hdf5", target, **({"pauses": QUICKLY} | options))


def ranges(server):
    return [seen.range for seen in server.seen]


def test_a_file_arrives_under_its_name_and_nothing_is_left_of_its_part(file_server, target):
    assert fetch(file_server, target, size=len(CONTENT), sha256=SHA256) == target
    assert target.read_bytes() == CONTENT
    assert {path.name for path in target.parent.iterdir()} <= {
        "weights.hdf5", "weights.hdf5.json", "weights.hdf5.lock"
    }  # fmt: skip


def test_a_second_call_asks_nobody(file_server, target, monkeypatch):
    fetch(file_server, target)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch(file_server, target, size=len(CONTENT), sha256=SHA256) == target
    assert len(file_server.seen) == 1


def test_the_same_name_at_another_address_is_another_file(file_server, target):
    fetch(file_server, target)
    file_server.files["other/weights.hdf5"] = b"other"
    download(f"{file_server.url}/other/weights.hdf5", target)
    assert target.read_bytes() == b"other"


# ---- Broken connections


def test_a_connection_that_breaks_is_taken_up_after_the_last_byte(file_server, target):
    file_server.faults = [Fault(cut_after=1_000_000), Fault(cut_after=500_000)]
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT
    assert ranges(file_server) == [None, "bytes=1000000-", "bytes=1500000-"]


def test_any_number_of_breaks_is_borne_as_long_as_bytes_come(file_server, target):
    file_server.faults = [Fault(cut_after=300_000)] * 9
    fetch(file_server, target, pauses=(0,))
    assert target.read_bytes() == CONTENT
    assert [seen.status for seen in file_server.seen] == [200] + [206] * 9


def test_a_later_call_goes_on_where_the_first_gave_up(file_server, target):
    file_server.faults = [Fault(cut_after=1_000_000)] + [Fault(status=503)] * 4
    with pytest.raises(DownloadError, match=r"answers 503 .*1,000,000 bytes are kept for the next attempt\."):
        fetch(file_server, target)
    assert not target.exists()
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT
    assert ranges(file_server)[-1] == "bytes=1000000-"


def die_in_the_middle(url, target):
    """Ends this process after some bytes, with no time to tidy up."""
    module = sys.modules["elmo_hf.conversion.download"]
    read, calls = module._read, []

    def read_and_die(response):
        calls.append(None)
        return read(response) if len(calls) < 3 else os._exit(1)

    module._read = read_and_die
    module.CHUNK = 100_000
    download(url, target, pauses=())


def test_a_killed_process_is_taken_up_by_the_next(file_server, target):
    process = multiprocessing.get_context("fork").Process(
        target=die_in_the_middle, args=(f"{file_server.url}/weights.hdf5", target)
    )
    process.start()
    process.join(30)
    assert process.exitcode == 1
    kept = target.with_name("weights.hdf5.part").stat().st_size
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT
    assert kept > 0
    assert ranges(file_server) == [None, f"bytes={kept}-"]


def test_a_part_that_lacked_nothing_but_its_name_is_not_fetched_again(file_server, target):
    fetch(file_server, target)
    target.rename(target.with_name("weights.hdf5.part"))
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT
    assert [seen.status for seen in file_server.seen] == [200, 416]


def test_a_server_that_has_another_version_now_is_read_from_the_start(file_server, target):
    file_server.faults = [Fault(cut_after=1_000_000)] + [Fault(status=500)] * 4
    with pytest.raises(DownloadError):
        fetch(file_server, target)
    file_server.files["weights.hdf5"] = CONTENT[::-1]
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT[::-1]
    assert file_server.seen[-1] == ("/weights.hdf5", "bytes=1000000-", 200)


def test_a_shorter_version_is_read_from_the_start_too(file_server, target):
    file_server.faults = [Fault(cut_after=1_000_000)] + [Fault(status=500)] * 4
    file_server.etags["weights.hdf5"] = '"the same"'
    with pytest.raises(DownloadError):
        fetch(file_server, target)
    file_server.files["weights.hdf5"] = b"short"
    fetch(file_server, target)
    assert target.read_bytes() == b"short"


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_mark_that_can_be_trusted_every_attempt_is_from_the_start(file_server, target, etag):
    file_server.etags["weights.hdf5"] = etag
    file_server.faults = [Fault(cut_after=1_000_000)]
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT
    assert ranges(file_server) == [None, None]


def test_a_server_that_knows_no_ranges_is_read_from_the_start(file_server, target):
    file_server.ranges = False
    file_server.faults = [Fault(cut_after=1_000_000)]
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT


def test_a_part_of_another_place_than_asked_for_is_not_taken(file_server, target):
    file_server.faults = [
        Fault(cut_after=1_000_000),
        Fault(headers={"Content-Range": f"bytes 5-{len(CONTENT) - 1}/{len(CONTENT)}"}),
    ]
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_answer_that_may_be_better_soon_is_asked_for_again(file_server, target, status):
    file_server.faults = [Fault(status=status)] * 3
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT


def test_a_server_that_says_nothing_more_is_left_after_a_while(file_server, target, monkeypatch):
    monkeypatch.setattr(sys.modules["elmo_hf.conversion.download"], "TIMEOUT", 0.3)
    file_server.faults = [Fault(stall_after=1_000_000)]
    fetch(file_server, target)
    assert target.read_bytes() == CONTENT
    assert len(file_server.seen) == 2


# ---- Refusals


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "password"), (403, "does not give it to everyone"), (404, "no such file"), (410, "removed"), (451, "451")],
)
def test_an_answer_that_will_not_change_is_explained_at_once(file_server, target, status, message):
    file_server.faults = [Fault(status=status)]
    with pytest.raises(DownloadError, match=rf"weights\.hdf5 cannot be fetched: .*{message}"):
        fetch(file_server, target)
    assert len(file_server.seen) == 1
    assert not target.exists()


def test_a_file_of_another_size_is_refused_before_it_is_fetched(file_server, target):
    with pytest.raises(DownloadError, match=r"should have 2,999,999 bytes, the server has 3,000,000"):
        fetch(file_server, target, size=len(CONTENT) - 1)
    assert not target.exists()


def test_a_body_without_a_length_is_read_no_further_than_the_known_size(file_server, target):
    file_server.faults = [Fault(without_length=True, change=lambda content: content * 10)]
    with pytest.raises(DownloadError, match=r"should have [\d,]+ bytes, the server sends more"):
        fetch(file_server, target, size=len(CONTENT))
    assert not target.with_name(f"{target.name}.part").exists()
    assert fetch(file_server, target, size=len(CONTENT)).read_bytes() == CONTENT


def test_a_corrupt_byte_is_found_by_the_checksum_and_not_kept(file_server, target):
    file_server.faults = [Fault(change=lambda body: body[:7] + bytes([body[7] ^ 1]) + body[8:])]
    with pytest.raises(DownloadError, match=rf"its SHA-256 should be {SHA256}, found"):
        fetch(file_server, target, sha256=SHA256)
    assert not target.exists()
    fetch(file_server, target, sha256=SHA256)
    assert target.read_bytes() == CONTENT


def test_a_kept_file_that_has_changed_is_found_and_removed(file_server, target):
    fetch(file_server, target)
    target.write_bytes(CONTENT[:-1])
    with pytest.raises(DownloadError, match=r"should have 3,000,000 bytes, found 2,999,999.*fetch it again"):
        fetch(file_server, target, size=len(CONTENT))
    fetch(file_server, target, size=len(CONTENT))
    assert target.read_bytes() == CONTENT


def test_a_machine_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9/weights cannot be fetched: .*refused"):
        download("http://127.0.0.1:9/weights", tmp_path / "weights", pauses=QUICKLY)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/weights", "weights.hdf5", ""])
def test_what_is_no_address_of_the_web_is_refused(tmp_path, url):
    with pytest.raises(DownloadError, match="should begin with https"):
        download(url, tmp_path / "weights")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:port/weights", "http://127.0.0.1/the weights"])
def test_an_address_that_is_misspelt_is_not_tried_again_and_again(file_server, tmp_path, url):
    with pytest.raises(DownloadError, match=r"is no address of a file: "):
        download(url, tmp_path / "weights", pauses=(100,))


def test_offline_mode_is_honoured(file_server, target, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE forbids"):
        fetch(file_server, target)
    assert file_server.seen == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full")
def test_a_full_disk_is_named(file_server, target):
    target.parent.mkdir()
    target.with_name("weights.hdf5.part").symlink_to("/dev/full")
    with pytest.raises(DownloadError, match=r"weights\.hdf5 cannot be written: No space left"):
        fetch(file_server, target)
    assert not target.exists()


def test_a_file_larger_than_the_disk_is_not_begun(file_server, target):
    file_server.faults = [Fault(headers={"Content-Length": str(10**18)})]
    with pytest.raises(DownloadError, match=r"bytes left, the file needs 1,000,000,000,000,000,000 more"):
        fetch(file_server, target)
    assert not target.with_name("weights.hdf5.part").exists()


def test_a_place_that_cannot_be_written_is_named(file_server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"file cannot be written: File exists"):
        download(f"{file_server.url}/weights.hdf5", tmp_path / "file" / "weights.hdf5")
