"""
The package is imported lazily, and transformers' Auto classes know ELMo whichever of the two is imported first.

Each case runs in a Python process of its own: what is imported in this one is imported already.
"""

import ast
import subprocess
import sys

import pytest
import torch

import elmo_hf
from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer
from tests.conftest import ROOT
from tests.models import TINY

HEAVY = ("torch", "transformers", "numpy", "tokenizers", "safetensors", "huggingface_hub", "accelerate", "datasets")
# What a user may import of transformers first, and what it must give for a folder of ELMo.
USES = {
    "AutoConfig": "type(AutoConfig.from_pretrained(folder)).__name__ == 'ElmoConfig'",
    "AutoTokenizer": "type(AutoTokenizer.from_pretrained(folder)).__name__ == 'ElmoTokenizer'",
    "AutoModel": "type(AutoModel.from_pretrained(folder)).__name__ == 'ElmoModel'",
    "AutoModelForTokenClassification": (
        "type(AutoModelForTokenClassification.from_pretrained(folder)).__name__ == 'ElmoForTokenClassification'"
    ),
    "pipeline": "len(pipeline('token-classification', folder)('the cat')) == 2",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tagger, which every Auto class can load a part of."""
    folder = tmp_path_factory.mktemp("models") / "tagger"
    torch.manual_seed(0)
    labels = {"id2label": {0: "A", 1: "B"}, "label2id": {"A": 0, "B": 1}}
    ElmoForTokenClassification(ElmoConfig(**(TINY | {"vocab_size": 3} | labels))).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return folder


def run(program: str, *arguments) -> str:
    """Runs a program in a process of its own; it must end well. Returns its standard output."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def load(folder, *imports: str, use: str):
    """Runs the imports, in order, and then the use that must be true."""
    run("\n".join(["import sys", *imports, "folder = sys.argv[1]", f"assert {use}"]), folder)


# ---- the lazy package


def test_importing_the_package_imports_neither_torch_nor_transformers():
    imported = run(f"import elmo_hf, sys; print([name for name in {HEAVY} if name in sys.modules])")
    assert imported == "[]\n"


def test_the_version_and_the_default_models_folder_are_had_without_torch_and_transformers():
    program = "import elmo_hf, sys; elmo_hf.__version__, elmo_hf.default_model(), elmo_hf.errors.TextError"
    assert run(f"{program}; print([name for name in {HEAVY} if name in sys.modules])") == "[]\n"


def test_every_public_name_is_there_and_listed():
    assert [name for name in elmo_hf.__all__ if not hasattr(elmo_hf, name)] == []
    assert set(elmo_hf.__all__) <= set(dir(elmo_hf))


def test_every_subpackage_is_an_attribute_and_listed():
    folders = [path.parent.name for path in (ROOT / "elmo_hf").glob("*/__init__.py")]
    assert folders
    for name in [*folders, "conversion", "model_cards"]:
        assert getattr(elmo_hf, name).__name__ == f"elmo_hf.{name}"
        assert name in dir(elmo_hf)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'elmo_hf' has no attribute 'ElmoModell'"):
        _ = elmo_hf.ElmoModell


def test_type_checkers_see_the_same_names_in_the_same_modules():
    tree = ast.parse((ROOT / "elmo_hf" / "__init__.py").read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == elmo_hf._MODULE_OF
    assert seen.keys() | {"__version__"} == set(elmo_hf.__all__)


# ---- the order of imports

MARKS = {"AutoModel": pytest.mark.medium}
NAMES = [pytest.param(name, marks=MARKS.get(name, pytest.mark.slow)) for name in USES]


@pytest.mark.parametrize("name", NAMES)
def test_elmo_is_known_if_transformers_is_imported_afterwards(folder, name):
    load(folder, "import elmo_hf", f"from transformers import {name}", use=USES[name])


@pytest.mark.parametrize("name", NAMES)
def test_elmo_is_known_if_transformers_is_imported_before(folder, name):
    load(folder, f"from transformers import {name}", "import elmo_hf", use=USES[name])


@pytest.mark.slow
@pytest.mark.parametrize("first", ["transformers", "transformers.modeling_utils", "peft", "sentence_transformers"])
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "afterwards"])
def test_elmo_is_known_whatever_imports_transformers(folder, first, is_before):
    imports = [f"import {first}", "import elmo_hf"] if is_before else ["import elmo_hf", f"import {first}"]
    load(folder, *imports, "from transformers import AutoModel", use=USES["AutoModel"])


@pytest.mark.slow
def test_a_class_of_the_package_imported_by_itself_saves_code_that_auto_classes_find(folder, tmp_path):
    program = """
import sys
from elmo_hf.modeling.modeling_elmo import ElmoModel
ElmoModel.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])
"""
    run(program, folder, tmp_path / "saved")
    assert '"AutoModel": "modeling_elmo.ElmoModel"' in (tmp_path / "saved" / "config.json").read_text()


@pytest.mark.slow
def test_reloaded_auto_classes_and_reloaded_models_are_registered_again(folder):
    program = """
import importlib, sys
import elmo_hf
from transformers.models.auto import modeling_auto
from elmo_hf.modeling import modeling_elmo
for module in (modeling_auto, modeling_elmo, elmo_hf, elmo_hf.registration, modeling_auto):
    importlib.reload(module)
    model = modeling_auto.AutoModel.from_pretrained(sys.argv[1])
    assert type(model) is modeling_elmo.ElmoModel, module
hooks = [finder for finder in sys.meta_path if type(finder).__name__ == "RegisteringFinder"]
assert len(hooks) == 1, hooks
"""
    run(program, folder)


@pytest.mark.slow
def test_threads_that_import_the_package_and_transformers_at_once_all_load_elmo(folder):
    program = f"""
import sys, threading
import elmo_hf
import transformers  # by one thread: it replaces itself in `sys.modules`, and others may be left with what was there
folder = sys.argv[1]
cases = {{
    "import transformers.modeling_utils; from transformers import AutoModel": {USES["AutoModel"]!r},
    "from transformers import AutoTokenizer": {USES["AutoTokenizer"]!r},
    "from transformers import AutoConfig": {USES["AutoConfig"]!r},
}}
barrier, failures = threading.Barrier(len(cases)), []

def load(imports, use):
    try:
        barrier.wait()
        scope = {{"folder": folder}}
        exec(imports, scope)
        assert eval(use, scope)
    except BaseException as error:
        failures.append(f"{{imports}}: {{error!r}}")

threads = [threading.Thread(target=load, args=case, daemon=True) for case in cases.items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(120)
assert not failures, failures
assert not any(thread.is_alive() for thread in threads), "the threads wait for each other"
"""
    run(program, folder)


# ---- the import hook


@pytest.fixture
def stand_in(tmp_path):
    """A stand-in for transformers, whose modules need each other as the real ones do."""
    package = tmp_path / "transformers" / "models" / "auto"
    package.mkdir(parents=True)
    for parent in (package, package.parent, package.parent.parent):
        (parent / "__init__.py").write_text("")
    auto_class = "class {}:\n    @classmethod\n    def from_pretrained(cls, folder):\n        return cls, folder\n"
    for kind, name in (("configuration", "AutoConfig"), ("modeling", "AutoModel"), ("tokenization", "AutoTokenizer")):
        (package / f"{kind}_auto.py").write_text(auto_class.format(name))
    (tmp_path / "transformers" / "base.py").write_text(
        "import transformers.models.auto.configuration_auto\nimport builtins\nbuiltins.wait()\nBase = object\n"
    )
    return tmp_path


# Registers with the stand-in, where the real classes could not be; `calls` says whether its modules were complete.
WITH_STAND_IN = """
import builtins, sys, threading, time
sys.path.insert(0, sys.argv[1])
builtins.wait = lambda: None
import elmo_hf
from elmo_hf import registration

calls = []

def register():
    calls.append(hasattr(sys.modules.get("transformers.base"), "Base"))
    registration._registered = registration._executions
    registration._let_go_on()

registration._register = register
"""


def test_the_hook_waits_for_the_end_of_the_outermost_import(stand_in):
    program = """
import transformers
assert calls == []
import transformers.base
assert calls == [True], calls
assert transformers.base.__spec__.loader is transformers.base.__loader__
assert type(transformers.base.__loader__).__name__ == "SourceFileLoader"
AutoConfig = transformers.models.auto.configuration_auto.AutoConfig
assert not hasattr(AutoConfig.from_pretrained, "__wrapped__")
"""
    run(WITH_STAND_IN + program, stand_in)


def test_an_auto_class_that_a_thread_uses_before_the_registration_waits_for_it(stand_in):
    program = """
imported, goes_on = threading.Event(), threading.Event()

def wait():
    imported.set()
    goes_on.wait(60)

builtins.wait = wait
importing = threading.Thread(target=__import__, args=["transformers.base"])
importing.start()
imported.wait(60)
answers = []

def use():
    from transformers.models.auto.configuration_auto import AutoConfig
    class Derived(AutoConfig):
        pass
    answers.append((Derived.from_pretrained("folder") == (Derived, "folder"), list(calls)))

using = threading.Thread(target=use)
using.start()
time.sleep(0.2)
assert answers == []
goes_on.set()
using.join(60)
importing.join(60)
assert answers == [(True, [True])], answers
"""
    run(WITH_STAND_IN + program, stand_in)


def test_an_auto_class_that_is_used_within_the_import_does_not_wait_for_itself(stand_in):
    program = """
def wait():
    from transformers.models.auto.configuration_auto import AutoConfig
    assert AutoConfig.from_pretrained("folder") == (AutoConfig, "folder")

builtins.wait = wait
import transformers.base
assert calls == [True]
"""
    run(WITH_STAND_IN + program, stand_in)


def test_a_registration_that_fails_is_an_import_error_that_names_this_package():
    program = """
import sys, types
import elmo_hf
from elmo_hf import registration

def fail():
    raise RuntimeError("no such thing")

registration._register = fail
registration._count_execution()
try:
    registration.register_if_due()
except ImportError as error:
    print(error)
"""
    assert run(program) == "elmo_hf cannot register ELMo with transformers' Auto classes: no such thing\n"


@pytest.mark.medium
def test_a_registration_that_meets_an_unfinished_import_is_made_up_for():
    program = """
import sys, types
import elmo_hf
from elmo_hf import registration

unfinished = types.ModuleType("transformers.unfinished")
unfinished.__spec__ = types.SimpleNamespace(_initializing=True)
sys.modules["transformers.unfinished"] = unfinished

def fail():
    raise ImportError("cannot import name 'A' from partially initialized module 'transformers.unfinished'")

register, registration._register = registration._register, fail
registration._count_execution()
registration.register_if_due()
assert registration._registered < registration._executions
del sys.modules["transformers.unfinished"]
registration._register = register
elmo_hf.default_model
assert registration._registered == registration._executions
"""
    run(program)


def test_two_finders_that_ask_each_other_do_not_go_round_in_circles(tmp_path):
    (tmp_path / "transformers.py").write_text("value = 1\n")
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import elmo_hf

class AskingFinder:
    def find_spec(self, name, path=None, target=None):
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        return next((spec for spec in specs if spec is not None), None)

sys.meta_path.insert(int(sys.argv[2]), AskingFinder())
import transformers
assert transformers.value == 1
"""
    for place in (0, 1):
        run(program, tmp_path, place)
