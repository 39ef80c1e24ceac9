"""The page of the model that comes with the package, once per process."""

from collections.abc import Iterator

import pytest

from elmo_hf.space.page_model import PageModel


@pytest.fixture(scope="session")
def model() -> PageModel:
    return PageModel.load()


@pytest.fixture(scope="session")
def address(model) -> Iterator[str]:
    """The address of a running page."""
    from elmo_hf.space.page import build_page, launch_options

    page = build_page([model])
    page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **launch_options())
    yield page.local_url
    page.close(verbose=False)
