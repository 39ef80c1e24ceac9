"""`elmo-hf space`; publishing is tested with a Hub, in tests/hub, and the page in tests/space."""

import socket

import pytest

from elmo_hf.space import page

PLACE = ("--device", "cpu:0", "--precision", "int8")


def test_the_command_passes_its_options_on(run, monkeypatch):
    launched = {}

    class Page:
        local_url = "http://127.0.0.1:7860/"

        def block_thread(self):
            launched["blocked"] = True

    def launch(models, taggers, **options):
        launched.update(options, models=models, taggers=taggers)
        return Page()

    monkeypatch.setattr(page, "launch_page", launch)
    code, output, error = run("space", "one", "two", "--tagger", "three", "--port", 8000, "--no-browser", *PLACE)
    assert (code, output, error) == (0, "http://127.0.0.1:7860/ (Ctrl-C stops the page)\n", "")
    assert launched == {
        "models": ["one", "two"],
        "taggers": ["three"],
        "host": None,
        "port": 8000,
        "browser": False,
        "device": "cpu:0",
        "precision": "int8",
        "prevent_thread_lock": True,
        "blocked": True,
    }


def test_a_folder_and_a_repository_are_not_written_at_once(refused, tmp_path):
    assert "choose one of --out and --push" in refused("space", "--out", tmp_path / "out", "--push", "me/elmo")


@pytest.mark.parametrize("target", [["--out", "space"], ["--push", "me/elmo"]])
def test_a_device_or_a_precision_is_refused_where_no_model_runs(refused, target):
    assert "leave them out with --out and --push" in refused("space", *target, "--device", "cpu")
    assert "leave them out with --out and --push" in refused("space", *target, "--precision", "bf16")


@pytest.mark.parametrize("target", [["--out", "space"], ["--push", "me/elmo"]])
@pytest.mark.parametrize("option", [["--port", "80"], ["--host", "1.1.1.1"], ["--no-browser"]], ids=str)
def test_an_address_is_refused_where_no_page_is_opened(refused, target, option):
    message = refused("space", *target, *option)
    assert "no page is opened with --out and --push: leave out --host, --port and --browser." in message


@pytest.fixture
def no_model(monkeypatch):
    """Fails the test if a model is loaded."""

    def load(name=None, **_):
        pytest.fail("a model was loaded")

    monkeypatch.setattr(page.PageModel, "load", load)


def test_an_address_that_cannot_be_listened_on_is_refused_before_models_are_loaded(refused, no_model):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert f"127.0.0.1:{port} cannot be listened on (" in refused("space", "--port", port)
    assert "192.0.2.1 cannot be listened on (" in refused("space", "--host", "192.0.2.1")
    assert "127.0.0..1 cannot be listened on (" in refused("space", "--host", "127.0.0..1")
    assert "192.0.2.1:8000 cannot be listened on (" in refused("space", "--host", "192.0.2.1", "--port", 8000)


def test_a_tagger_that_is_none_is_refused_before_models_are_loaded(refused, no_model, folder):
    assert f"{folder} is not a model with a head" in refused("space", "--tagger", folder)


def test_a_model_that_is_not_there_is_refused_before_anything_is_loaded(refused, tmp_path):
    assert "There is no folder ./nothing" in refused("space", "./nothing")
    assert "There is no folder ./nothing" in refused("space", "--tagger", "./nothing")


def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(refused):
    assert "The device 'abacus' is not available: this machine has cpu" in refused("space", "--device", "abacus")


@pytest.mark.medium
def test_the_folder_of_a_space_is_written(run, tmp_path):
    assert run("space", "--out", tmp_path / "space") == (0, f"{tmp_path / 'space'}\n", "")
    assert {"README.md", "app.py", "requirements.txt"} <= {path.name for path in (tmp_path / "space").iterdir()}
