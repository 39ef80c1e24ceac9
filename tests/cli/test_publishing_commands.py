"""`elmo-hf card`; `push` and `pull` are tested with a Hub, in tests/hub."""

from huggingface_hub import ModelCard


def test_card_writes_what_is_known_and_what_is_said(run, folder):
    code, output, error = run(
        "card", folder, "--name", "me/my-elmo", "--language", "en", "--language", "pt", "--license", "mit"
    )
    assert (code, output, error) == (0, f"{folder / 'README.md'}\n", "")
    card = ModelCard.load(folder / "README.md")
    assert (card.data.language, card.data.license) == (["en", "pt"], "mit")
    assert '"me/my-elmo", trust_remote_code=True' in card.content


def test_a_card_that_was_written_by_hand_is_replaced_only_by_force(run, refused, folder):
    (folder / "README.md").write_text("Mine.\n")
    assert "--overwrite replaces it" in refused("card", folder)
    assert (folder / "README.md").read_text() == "Mine.\n"
    assert run("card", folder, "--overwrite")[0] == 0
    assert "# " in (folder / "README.md").read_text()


def test_what_the_hub_would_refuse_is_refused(refused, folder, tmp_path):
    assert "language: 'english' is not a code of ISO 639" in refused("card", folder, "--language", "english")
    assert "license: 'free' is not on the Hub's list" in refused("card", folder, "--license", "free")
    assert not (folder / "README.md").exists()


def test_a_folder_without_a_model_is_refused(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "config.json" in refused("card", tmp_path / "empty")
    assert "missing" in refused("card", tmp_path / "missing")
    assert "holds no config.json: save a model there" in refused("push", tmp_path / "empty", "me/model")
    assert "missing is not a folder" in refused("push", tmp_path / "missing", "me/model")
