"""Where the tests find foreign data: `ELMO_HF_SHARED` or `../shared`, then what `make golden` and `make mixins` got."""

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
ON_INDEX = ("fixtures", "allennlp")  # the golden vectors that `make golden` fetches; bilm-tf's are on no package index
SHARED = [Path(os.environ["ELMO_HF_SHARED"])] if "ELMO_HF_SHARED" in os.environ else [ROOT.parent / "shared"]
# Tests run in two processes (pytest's -n). Tensors are tiny: with more than one thread each, processes wait for
# each other's threads, and all tests together take several times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Remote code that a test trusts is imported from here: another place for each process, and the same for all its tests.
MODULES = tempfile.TemporaryDirectory(prefix="elmo-hf-modules-")
os.environ["HF_MODULES_CACHE"] = MODULES.name
# Timing never decides a test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_configure(config):
    """The markers that transformers' own tests have (`tests/mixins`)."""
    kinds = ("accelerate_tests", "flash_attn_test", "flash_attn_3_test", "flash_attn_4_test", "torch_compile_test")
    kinds += ("is_pipeline_test", "order")
    for kind in kinds:
        config.addinivalue_line("markers", f"{kind}: a kind of transformers' own tests")


def pytest_collection_modifyitems(items):
    """Slow tests come first, then medium ones: a process that gets one of them last keeps the others waiting."""
    markers = ("slow", "medium")
    items.sort(key=lambda item: [item.get_closest_marker(marker) is None for marker in markers])


@pytest.fixture(autouse=True)
def warnings_of_transformers():
    """Commands and benchmarks turn off transformers' warnings; the next test has them again."""
    yield
    if (logging := sys.modules.get("transformers.utils.logging")) is not None:
        logging.set_verbosity_warning()


def find_data(*parts: str) -> Path:
    """A file or folder of foreign data; the test is skipped where there is none."""
    for folder in [*SHARED, ROOT / ".golden"]:
        if (path := folder.joinpath(*parts)).exists():
            return path
    remedy = "run `make golden`" if parts == ON_INDEX else "set ELMO_HF_SHARED"
    pytest.skip(f"{'/'.join(parts)} not found: {remedy}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With `ELMO_HF_REQUIRE_GOLDEN=1` a golden test that is skipped has failed, if its vectors can be fetched."""
    report = yield
    is_required = item.get_closest_marker("golden") and os.environ.get("ELMO_HF_REQUIRE_GOLDEN") == "1"
    if report.skipped and is_required and "make golden" in str(report.longrepr):
        report.outcome, report.longrepr = "failed", f"skipped, though golden tests are required: {report.longrepr}"
    return report


class Golden:
    """A golden set: a tiny biLM in the original format, sentences, and the original's top-layer vectors for them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.options, self.weights = folder / "options.json", folder / "lm_weights.hdf5"
        (sentences,) = folder.glob("*sentences.json")
        self.sentences = [[line.split() for line in lines] for lines in json.loads(sentences.read_text("utf-8"))]

    def top_layers(self) -> list[list]:
        """For each of the three batch rows, ten arrays `(2, words, size)`: forward and backward top layer."""
        h5py = pytest.importorskip("h5py")
        rows = []
        for row in range(3):
            with h5py.File(self.folder / f"lm_embeddings_{row}.hdf5") as file:
                rows.append([file[str(batch)][...] for batch in range(len(file))])
        return rows


@pytest.fixture(params=["allennlp", "bilm-tf"])
def golden(request) -> Golden:
    """Both golden sets: AllenNLP's has skip connections, bilm-tf's has none."""
    return Golden(find_data("fixtures", request.param))


@pytest.fixture
def allennlp_golden() -> Golden:
    return Golden(find_data("fixtures", "allennlp"))


@pytest.fixture
def without(monkeypatch):
    """Pretends that packages are not installed, as far as one looks before importing them."""
    find_spec = importlib.util.find_spec

    def hide(*modules: str):
        def find(name, package=None):
            return None if name.partition(".")[0] in modules else find_spec(name, package)

        monkeypatch.setattr(importlib.util, "find_spec", find)

    return hide
