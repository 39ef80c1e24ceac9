"""`elmo-hf serve`: its options and mistakes; the server itself is tested in tests/serving."""

import socket

import pytest

from elmo_hf import serving
from elmo_hf.serving import ServingLimits


@pytest.fixture
def served(monkeypatch):
    """What the command passes on, instead of a server."""
    calls = []
    monkeypatch.setattr(serving, "serve", lambda names, **options: calls.append((names, options)))
    monkeypatch.delenv("ELMO_HF_API_KEY", raising=False)
    return calls


def test_the_command_passes_its_options_on(run, served, tmp_path):
    (tmp_path / "key").write_text("secret\n")
    limits = ["--max-body", 1, "--max-texts", 2, "--max-words", 3, "--max-request-words", 4, "--queue-words", 5]
    limits += ["--batch-words", 6, "--timeout", 7]
    command = ["serve", "one", "two", "--port", 8000, "--api-key-file", tmp_path / "key", *limits]
    assert run(*command) == (0, "", "")
    expected = ServingLimits(body_bytes=1, texts=2, words=3, request_words=4, queue_words=5, batch_words=6, seconds=7.0)
    options = {"host": "127.0.0.1", "port": 8000, "limits": expected, "api_key": "secret"}
    assert served == [(["one", "two"], options | {"device": None, "precision": None})]


def test_the_defaults_are_this_machine_only_and_the_limits_of_the_library(run, served):
    assert run("serve") == (0, "", "")
    ((names, options),) = served
    assert (names, options["host"], options["limits"], options["api_key"]) == ([], "127.0.0.1", ServingLimits(), None)


def test_the_key_comes_from_the_environment(run, served, monkeypatch):
    monkeypatch.setenv("ELMO_HF_API_KEY", "from-environment")
    assert run("serve", "--host", "0.0.0.0") == (0, "", "")
    assert served[0][1]["api_key"] == "from-environment"


def test_an_open_server_without_a_key_is_warned_of(run, served):
    code, output, error = run("serve", "--host", "0.0.0.0")
    assert (code, output) == (0, "")
    assert "set ELMO_HF_API_KEY" in error


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"two\nlines", b"\xff\xfe", "schlüssel".encode()])
def test_a_file_without_a_key_is_refused(refused, served, tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    assert "holds no API key" in refused("serve", "--api-key-file", tmp_path / "key")


def test_a_key_file_or_a_model_that_is_not_there_is_refused(refused, tmp_path):
    assert f"No such file or folder: {tmp_path / 'nothing'}" in refused("serve", "--api-key-file", tmp_path / "nothing")
    assert "There is no folder ./nothing" in refused("serve", "./nothing", "--port", 0)


def test_an_address_in_use_is_refused_before_a_model_is_loaded(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused("serve", "./nothing", "--port", port)
    assert f"127.0.0.1:{port} cannot be listened on" in message
    assert "choose another --host or --port" in message


def test_two_models_of_one_name_are_refused(refused, folder):
    assert "Two models would be served as folder" in refused("serve", folder, folder, "--port", 0)


def test_a_limit_of_zero_is_refused(refused):
    assert "--max-words" in refused("serve", "--max-words", 0)


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="`words` must be above 0, found 0"):
        ServingLimits(words=0)
