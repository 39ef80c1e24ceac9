"""`elmo-hf space --push`: a complete Space in one commit, or none."""

import zipfile
from io import BytesIO

import pytest

from elmo_hf import __version__
from elmo_hf.errors import HubError
from elmo_hf.publishing import push_space
from elmo_hf.space import space_folder
from elmo_hf.space.own_wheel import write_own_wheel
from tests.hub.models import save_tagger
from tests.hub.store import Commit, File, Refusal

pytestmark = pytest.mark.medium

NAME, STORED = "ada/elmo", "spaces/ada/elmo"
WHEEL = f"elmo_hf-{__version__}-py3-none-any.whl"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "space"
    (folder / "models" / "mine").mkdir(parents=True)
    for name in ("app.py", "README.md", "new.whl", "models/mine/config.json"):
        (folder / name).write_text(f"{name}\n")
    return folder


def test_the_command_publishes_the_page_with_its_wheel_and_models(hub, run_command, tmp_path):
    tagger = save_tagger(tmp_path / "my-tagger")
    code, output, error = run_command("space", "--tagger", tagger, "--push", NAME, token=hub.write_token)
    assert (code, output, error) == (0, f"{hub.endpoint}/spaces/{NAME}\n", "")
    repository = hub.repository(STORED)
    files = repository.commit("main").files
    assert {"README.md", "app.py", "requirements.txt", WHEEL, "models/my-tagger/config.json"} <= files.keys()
    assert len(repository.commits) == 2  # the first one made the repository
    address = f"{hub.endpoint}/spaces/{NAME}/resolve/main/{WHEEL}"
    assert repository.read("requirements.txt").decode() == f"elmo-hf[space,chinese] @ {address}\n"
    assert repository.read("app.py").decode().endswith("launch_page([], ['models/my-tagger'])\n")
    assert repository.read("README.md").decode().startswith("---\ntitle: ELMo\n")
    write_own_wheel(tmp_path)
    assert repository.read(WHEEL) == (tmp_path / WHEEL).read_bytes()
    assert "elmo_hf/space/page.py" in zipfile.ZipFile(BytesIO(repository.read(WHEEL))).namelist()


def test_old_wheels_and_models_are_removed_and_other_files_stay(hub, online, folder):
    push_space(folder, NAME, token=hub.write_token)
    repository = hub.repository(STORED)
    old = {name: File(b"old\n") for name in ("old.whl", "models/old/config.json", "notes.txt")}
    before = repository.commit("main")
    repository.add("refs/heads/main", Commit({**before.files, **old}, "by hand", "", "ada", before))
    (folder / "app.py").write_text("new\n")
    push_space(folder, NAME, token=hub.write_token)
    names = set(repository.commit("main").files) - {".gitattributes"}
    assert names == {"app.py", "README.md", "new.whl", "models/mine/config.json", "notes.txt"}
    assert repository.read("app.py") == b"new\n"


def test_a_private_space_is_refused_since_the_hub_could_not_install_its_wheel(hub, online, folder):
    push_space(folder, NAME, token=hub.write_token)
    hub.repository(STORED).private = True
    with pytest.raises(HubError, match="make the Space public"):
        push_space(folder, NAME, token=hub.write_token)


def test_what_the_hub_refuses_is_one_line(hub, online, folder):
    with pytest.raises(HubError, match="your token does not allow this"):
        push_space(folder, NAME, token=hub.read_token)
    hub.faults.inject(Refusal(413, "Too large"), "POST", "/commit/", times=9)
    with pytest.raises(HubError, match="a file is too large"):
        push_space(folder, NAME, token=hub.write_token)


def test_a_name_without_owner_is_refused_before_anything_is_written(run_command, monkeypatch):
    monkeypatch.setattr(space_folder, "write_space", lambda *_: pytest.fail("written"))
    code, _, error = run_command("space", "--push", "elmo")
    assert (code, error) == (2, "elmo-hf: 'elmo' is not the name of a Space: write owner/name.\n")
