"""`python -m elmo_hf.cli`, for launchers that want a module."""

from . import main

main()
