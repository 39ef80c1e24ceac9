"""The page of the model that comes with the package, once per process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo_hf.space.page_model import PageModel


@pytest.fixture(scope="session")
def model() -> PageModel:
    return PageModel.load()


@pytest.fixture(scope="session")
def temporary_files(tmp_path_factory) -> Path:
    """The folder of the page's temporary files."""
    return tmp_path_factory.mktemp("gradio")


@pytest.fixture(scope="session")
def address(model, temporary_files) -> Iterator[str]:
    """The address of a running page."""
    from elmo_hf.space.page import build_page, launch_options

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(temporary_files))
        page = build_page([model])
        page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **launch_options())
        yield page.local_url
        page.close(verbose=False)
