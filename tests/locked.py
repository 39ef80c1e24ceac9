"""A process that holds the lock of a run: `python -c HOLD_LOCK FOLDER` prints "held", and waits to be killed."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
HOLD_LOCK = """
import sys, time
from pathlib import Path
from elmo_hf.runtime.locks import RunLock
RunLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(600)
"""
