"""The other side: models by their names on the Hub, with this package and without it, online and offline."""

import json
import re
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForTokenClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    pipeline,
)

from elmo_hf import ElmoForPreTraining, ElmoForQuestionAnswering, ElmoForSequenceClassification
from elmo_hf.publishing import push_model
from tests.hub.models import save_tagger, save_tiny
from tests.hub.test_push import COMPLETE, files_of

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]

SENTENCE = "Anna sat on the mat, didn't she?"
# Loads by name and prints what it gets; the options are those of `from_pretrained`.
LOAD = """
import json, sys
import torch
from transformers import AutoModel, AutoTokenizer, pipeline
from transformers import AutoModelForQuestionAnswering
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification
options = json.loads(sys.argv[1])
if not options.get("trust_remote_code"):
    import elmo_hf
def load(auto, name):
    return auto.from_pretrained(name, **options)
tokenizer, encoder = load(AutoTokenizer, "ada/encoder"), load(AutoModel, "ada/encoder")
batch, pair = tokenizer(SENTENCE, return_tensors="pt"), tokenizer("Who sat?", SENTENCE, return_tensors="pt")
torch.manual_seed(0)
with torch.no_grad():
    found = {
        "vectors": encoder(**batch).last_hidden_state.tolist(),
        "tags": load(AutoModelForTokenClassification, "ada/tagger")(**batch).emissions.tolist(),
        "labels": load(AutoModelForSequenceClassification, "ada/classifier")(**batch).logits.tolist(),
        "answers": load(AutoModelForQuestionAnswering, "ada/answers")(**pair).end_logits.tolist(),
    }
options = {name: value for name, value in options.items() if name != "subfolder"}
for task, name in (("token-classification", "ada/tagger"), ("text-classification", "ada/classifier")):
    answer = pipeline(task, name, **options)(SENTENCE)
    found[task] = [{name: value for name, value in one.items() if name != "score"} for one in answer]
print(json.dumps(found))
""".replace("SENTENCE", repr(SENTENCE))


@pytest.fixture
def folders(tmp_path):
    """An encoder with its language model, a tagger, a classifier, and a model that answers questions."""
    return {
        "ada/encoder": save_tiny(tmp_path / "encoder", ElmoForPreTraining),
        "ada/tagger": save_tagger(tmp_path / "tagger"),
        "ada/classifier": save_tiny(tmp_path / "classifier", ElmoForSequenceClassification, num_labels=2),
        "ada/answers": save_tiny(tmp_path / "answers", ElmoForQuestionAnswering),
    }


@pytest.fixture
def published(hub, online, folders):
    for name, folder in folders.items():
        push_model(folder, name, token=hub.write_token)
    return folders


def expected_of(folders) -> dict:
    """What the folders give here."""
    tokenizer, encoder = (auto.from_pretrained(folders["ada/encoder"]) for auto in (AutoTokenizer, AutoModel))
    tagger = AutoModelForTokenClassification.from_pretrained(folders["ada/tagger"])
    classifier = ElmoForSequenceClassification.from_pretrained(folders["ada/classifier"])
    answering = AutoModelForQuestionAnswering.from_pretrained(folders["ada/answers"])
    batch, pair = tokenizer(SENTENCE, return_tensors="pt"), tokenizer("Who sat?", SENTENCE, return_tensors="pt")
    with torch.no_grad():
        return {
            "vectors": encoder(**batch).last_hidden_state,
            "tags": tagger(**batch).emissions,
            "labels": classifier(**batch).logits,
            "answers": answering(**pair).end_logits,
        }


def assert_same(output: str, expected: dict, folders):
    reply = json.loads(output)
    for name, tensor in expected.items():
        assert torch.allclose(torch.tensor(reply[name]), tensor, atol=1e-6, rtol=0)
    for task, name in (("token-classification", "ada/tagger"), ("text-classification", "ada/classifier")):
        answer = pipeline(task, str(folders[name]))(SENTENCE)
        assert reply[task] == [{name: value for name, value in one.items() if name != "score"} for one in answer]


@pytest.mark.slow
def test_the_same_numbers_with_the_package_without_it_and_offline_afterwards(hub, run_python, published, tmp_path):
    expected = expected_of(published)
    for with_package in (True, False):
        options = "{}" if with_package else '{"trust_remote_code": true}'
        home = {"HF_HOME": str(tmp_path / f"home-{with_package}"), "HF_MODULES_CACHE": str(tmp_path / "modules")}
        online = run_python(LOAD, options, environment=home, with_package=with_package)
        assert_same(online.stdout, expected, published)
        hub.log.clear()
        offline = run_python(LOAD, options, environment=home | {"HF_HUB_OFFLINE": "1"}, with_package=with_package)
        assert_same(offline.stdout, expected, published)
        assert not hub.log


@pytest.mark.slow
def test_the_lines_of_use_on_the_published_cards_run_without_the_package(hub, api, run_python, published, tmp_path):
    lines = []
    for name in published:
        card = Path(api.hf_hub_download(name, "README.md")).read_text("utf-8")
        lines += re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    assert len(lines) == 4
    code = "\n".join(lines) + "\nprint(len(vectors), len(label), len(answers))"
    home = {"HF_HOME": str(tmp_path / "fresh"), "HF_MODULES_CACHE": str(tmp_path / "fresh-modules")}
    done = run_python(code, environment=home, with_package=False)
    assert done.stdout.split()[-3:] == ["11", "1", "3"]


@pytest.fixture
def here(monkeypatch):
    """Transformers in this process asks the Hub of the test."""
    monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)


def test_a_branch_a_tag_a_commit_and_a_subfolder(hub, api, published, here, tmp_path):
    first = api.model_info("ada/encoder").sha
    api.create_tag("ada/encoder", tag="v1")
    other = save_tiny(tmp_path / "other", ElmoForPreTraining)
    model = ElmoForPreTraining.from_pretrained(other)
    model.elmo.layers[0].bias.data += 1
    model.save_pretrained(other)
    push_model(other, "ada/encoder", token=hub.write_token, revision="next")
    api.upload_folder(repo_id="ada/encoder", folder_path=other, path_in_repo="inner")

    def bias(**options):
        return AutoModel.from_pretrained("ada/encoder", **options).layers[0].bias

    old, new = (
        ElmoForPreTraining.from_pretrained(folder).elmo.layers[0].bias for folder in (published["ada/encoder"], other)
    )
    for revision in ("main", "v1", first):
        assert torch.equal(bias(revision=revision), old)
    assert torch.equal(bias(revision="next"), new)
    assert torch.equal(bias(subfolder="inner"), new)
    tokenizer = AutoTokenizer.from_pretrained("ada/encoder", subfolder="inner")
    assert tokenizer.tokenize("the cat") == ["the", "cat"]
    with pytest.raises(OSError, match="v9"):
        bias(revision="v9")


def test_a_private_model_needs_a_token_and_says_so(hub, api, published, here, tmp_path):
    api.update_repo_settings("ada/encoder", private=True)
    model = AutoModel.from_pretrained("ada/encoder", token=hub.read_token)
    assert model.config.hidden_size == 8
    with pytest.raises(OSError, match=r"private repository|hf auth login"):
        AutoModel.from_pretrained("ada/encoder", token=False, cache_dir=tmp_path / "empty")


def test_model_and_tokenizer_push_a_complete_repository_together(hub, api, online, folders, here):
    tagger = AutoModelForTokenClassification.from_pretrained(folders["ada/tagger"])
    tagger.push_to_hub("ada/model", token=hub.write_token)
    AutoTokenizer.from_pretrained(folders["ada/tagger"]).push_to_hub("ada/model", token=hub.write_token)
    assert files_of(api) >= COMPLETE
    config = json.loads(Path(api.hf_hub_download("ada/model", "config.json")).read_text("utf-8"))
    assert set(config["auto_map"]) == {
        "AutoConfig",
        "AutoModel",
        "AutoModelForPreTraining",
        "AutoModelForSequenceClassification",
        "AutoModelForQuestionAnswering",
        "AutoModelForTokenClassification",
    }
    answer = pipeline("token-classification", "ada/model")(SENTENCE)
    assert answer == pipeline("token-classification", str(folders["ada/tagger"]))(SENTENCE)


def test_a_trainer_pushes_a_complete_repository_in_one_call(hub, api, online, folders, here, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(folders["ada/tagger"])
    arguments = TrainingArguments(
        str(tmp_path / "model"), hub_model_id="ada/model", hub_token=hub.write_token, report_to="none", use_cpu=True
    )
    model = AutoModelForTokenClassification.from_pretrained(folders["ada/tagger"])
    Trainer(model, arguments, processing_class=tokenizer).push_to_hub()
    assert files_of(api) >= COMPLETE
    answer = pipeline("token-classification", "ada/model")(SENTENCE)
    assert answer == pipeline("token-classification", str(folders["ada/tagger"]))(SENTENCE)
