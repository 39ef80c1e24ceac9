"""Optional packages: what is missing is named with the line that installs it."""

import tomllib

import pytest

from elmo_hf.demo import __main__ as demo
from elmo_hf.runtime import extras
from tests.conftest import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("use", extras.NEEDS)
def test_the_extra_that_is_named_brings_the_package(use):
    need = extras.NEEDS[use]
    brought = {requirement.partition(">")[0] for requirement in EXTRAS[need.extra]}
    assert {extras.PACKAGES.get(module, module) for module in need.modules} <= brought
    assert extras.missing(use) is None
    extras.require(use)


def test_several_packages_are_named_together(without):
    without("sklearn", "seqeval")
    with pytest.raises(ImportError, match=r'needs scikit-learn and seqeval: pip install "elmo-hf\[finetune\]"'):
        extras.require("finetuning")


def test_what_needs_nothing_is_not_refused():
    extras.require("npy", "", "text")


def test_the_demo_says_at_its_beginning_that_there_will_be_no_picture(capsys, tmp_path, monkeypatch, without):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.ElmoEmbedder, "from_pretrained", stop)
    without("matplotlib")
    with pytest.raises(KeyboardInterrupt):
        demo.run(None, "en")
    assert 'needs matplotlib: pip install "elmo-hf[picture]"' in capsys.readouterr().out
