"""`python -m tests.campaign`: tries faults of every kind, and prints how many were survived."""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.campaign.commands import SINGLE_THREADS

EXPLANATION = (
    "Survived is a command that succeeds, or refuses in one line with exit code 2 and leaves nothing half-written."
)


def main() -> int:
    """Runs the campaign; the exit code is 1 where something was not survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=EXPLANATION)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tries", type=int, default=60, help="of each kind")
    parser.add_argument("--only", nargs="*", default=[], help="kinds to try")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    arguments = parser.parse_args()
    import elmo_hf.cli  # noqa: F401 (for the children)
    from tests.campaign.materials import make_materials
    from tests.campaign.trials import KINDS

    if unknown := set(arguments.only) - KINDS.keys():
        parser.error(f"no kind {', '.join(unknown)}: choose from {', '.join(KINDS)}")
    figures: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "materials").mkdir()
        made = make_materials(Path(folder) / "materials")
        print(f"{'kind':<26}{'tried':>7}{'survived':>10}{'seconds':>9}", flush=True)
        for kind, trials in KINDS.items():
            if arguments.only and kind not in arguments.only:
                continue
            tries, start, faults = arguments.tries, time.monotonic(), []
            for index in range(tries):
                generator = random.Random(f"{arguments.seed} {kind} {index}")
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    if fault := trials[index % len(trials)](made, Path(place), generator):
                        faults.append(f"--seed {arguments.seed}, {kind} {index}: {fault}")
            figures[kind] = {"tried": tries, "survived": tries - len(faults)}
            print(f"{kind:<26}{tries:>7}{tries - len(faults):>10}{time.monotonic() - start:>9.0f}", flush=True)
            for fault in faults:
                print(f"  {fault}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"seed": arguments.seed, "kinds": figures}, indent=2) + "\n")
    return int(any(figure["tried"] > figure["survived"] for figure in figures.values()))


if __name__ == "__main__":
    if any(os.environ.get(name) != "1" for name in SINGLE_THREADS):  # read when the libraries are imported
        os.environ.update(dict.fromkeys(SINGLE_THREADS, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "tests.campaign", *sys.argv[1:]])
    sys.exit(main())
