"""Python that sees the dependencies, but not this package."""

import sys
import sysconfig

# No site customisation, so no editable install either.
BARE = [sys.executable, "-I", "-S", "-c"]
FOLDERS = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
PRELUDE = f"""
import sys
sys.path[:] = [path for path in sys.path if path] + {FOLDERS!r}
import importlib.util
assert importlib.util.find_spec("elmo_hf") is None, "elmo_hf is visible"
"""
