"""
How fast are the vectors? Tokens per second of `ElmoModel` and of AllenNLP's ELMo, the original PyTorch implementation
(vendored on the package index as `simple-elmo-pytorch`): the same random weights, the same character ids, repetitions
in turn, each side in its own process with PyTorch's default number of threads.

    python -m benchmarks.inference                          # all sizes and batch sizes
    python -m benchmarks.inference --size small --batch 8   # one of them
    python -m benchmarks.inference --ours-only              # without the peer, which is installed into .venv-peers

Also a check: every layer of both sides must agree to 1e-5. AllenNLP carries the LSTM's state from call to call; it is
reset before each call, so that both compute the same. Both sides mix the layers and return all of them. Sentences are
batched in their order, unsorted, and none is repeated: a repeated word costs `ElmoModel` almost nothing.
"""

import argparse
import contextlib
import itertools
import json
import os
import platform
import re
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers.utils import logging

from benchmarks import SHARED
from benchmarks.peers import Peer, PeerError, Worker, our_pins
from elmo_hf import ElmoConfig, ElmoModel
from elmo_hf.characters_elmo import BEGIN_SENTENCE, END_SENTENCE, boundary_row, char_rows
from elmo_hf.conversion.bilm_hdf5 import write_bilm_hdf5

SIZES = {"full": {}, "small": {"cell_size": 1024, "projection_size": 128, "num_highway_layers": 1}}
NAMES = {"ours": "ElmoModel", "allennlp": "AllenNLP"}
BATCH_SIZES = [1, 8, 32, 64]
TOLERANCE = 1e-5

# Its ELMo needs no more than these.
ALLENNLP = Peer("allennlp", our_pins("torch", "numpy", "h5py"), ("simple-elmo-pytorch==0.2",))

# Follow the sentences of AllenNLP's own tests, where those are at hand.
SENTENCES = """
The harbour was empty when we came down to it , for the fleet had sailed before dawn . Nobody answered . In the second
year of the survey , the party crossed the river at three places , measured its depth after every storm , and sent
home forty-one sheets of drawings , most of which were lost when the warehouse burned . She kept the letters in a tin
box under the stairs . What would you have done ? The committee meets on the first Tuesday of each month , except in
August , and its minutes are open to any member who asks for them in writing . A good map is an argument about what
matters . The old man , without looking up from his work , told them for the second time that " the mill " was not for
sale , and that he would not change his mind because the weather had . Rain fell all week . The bridge , which had
been closed to carts since the flood , was opened again in the spring of 1884 , although the engineers still disagreed
about the state of its northern pier . Copper conducts heat far better than iron does . He did n't know whether to
laugh or to leave . Between the orchard and the road there ran a low wall of grey stone , so overgrown with ivy that
visitors often took it for a hedge , and it was there that the children hid whatever they did not wish to carry home .
Prices rose by 4.2 per cent , the largest increase in nine years . If the lamp goes out , wait for me . Most of the
birds that winter on these marshes arrive in late October , feed on the exposed mud at low tide , and leave within a
few days of the first warm wind from the south . The judge thanked the witnesses and adjourned until ten o'clock . Her
first novel sold poorly ; her second , written in six weeks to pay the rent , has never been out of print . Stop here
! It is easy to forget how recently the streets of our cities were dark at night , and how much of what we now call
evening was spent in bed . The recipe calls for two cups of flour , a pinch of salt , butter the size of an egg , and
patience . We were wrong . After the war he returned to teaching , bought a small house near the station , and for
thirty years walked the same two miles to school and back , greeting the same dogs . Students who miss the examination
because of illness may sit it again in September without paying a second fee . The glacier has retreated by almost a
kilometre since it was first photographed . Then the engine coughed , caught , and settled into a steady roar that
made further conversation impossible . A language with no word for " blue " is not a language whose speakers cannot
see the sky . They sold the cow . According to the report , which runs to more than 600 pages and took four years to
write , the accident could have been prevented by any one of eleven people , none of whom believed that it was his job
. My sister plays the cello , badly but with conviction . Light from the nearest star takes a little over four years
to reach us . When the museum finally unpacked the crates , it found that the labels had been eaten by mice , and that
nobody alive could say which of the bones belonged to which of the animals . The vote was unanimous . Take the second
turning on the left , go past the chapel and the blacksmith 's yard , and you will see the sea .
"""


@dataclass
class Result:
    """
    One line of the table.

    Attributes:
        seconds: By side, for all sentences, one number a repetition.
        megabytes: By side, the largest resident size of the process while it ran.
        difference: Largest difference of any number in any layer between the sides.
    """

    size: str
    batch: int
    tokens: int
    seconds: dict[str, list[float]]
    megabytes: dict[str, int | None]
    difference: float | None = None


def read_sentences(path: Path | None) -> list[list[str]]:
    """The distinct sentences of a file (one a line, words separated by spaces), or of the default text, as words."""
    if path is not None:
        texts = path.read_text(encoding="utf-8").splitlines()
    else:
        fixture = SHARED / "fixtures" / "allennlp" / "sentences.json"
        texts = list(itertools.chain(*json.loads(fixture.read_text(encoding="utf-8")))) if fixture.exists() else []
        texts += re.split(r"(?<=\s[.?!])\s+", SENTENCES.strip())
    return [text.split() for text in dict.fromkeys(texts) if text.strip()]


def character_ids(sentences: list[list[str]], boundaries: bool) -> np.ndarray:
    """`(sentences, words, 50)`, with or without `<S>` and `</S>`; zero where a sentence has ended."""
    rows = [char_rows(words) for words in sentences]
    if boundaries:
        first, last = boundary_row(BEGIN_SENTENCE), boundary_row(END_SENTENCE)
        rows = [np.vstack([first, sentence, last]) for sentence in rows]
    ids = np.zeros((len(rows), max(map(len, rows)), rows[0].shape[1]), dtype=np.int64)
    for place, sentence in zip(ids, rows, strict=True):
        place[: len(sentence)] = sentence
    return ids


def write_batches(folder: Path, sentences: list[list[str]], batch: int) -> dict[str, list[str]]:
    """The batches' files by side. AllenNLP adds the boundaries itself."""
    files = {"ours": [], "allennlp": []}
    for start in range(0, len(sentences), batch):
        for side, names in files.items():
            names.append(str(folder / f"{side}-{batch}-{start}.npy"))
            np.save(names[-1], character_ids(sentences[start : start + batch], boundaries=side == "ours"))
    return files


def write_model(folder: Path, size: str):
    """Random weights, the same in our format and in the original's."""
    logging.disable_progress_bar()
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**SIZES[size]))
    model.save_pretrained(folder)
    write_bilm_hdf5(model, folder / "options.json", folder / "weights.hdf5")


def largest_difference(ours: list[str], peers: list[str]) -> float:
    """Over all batches' layers; infinite where a shape differs or a number is not one."""
    pairs = [(np.load(our), np.load(peer)) for our, peer in zip(ours, peers, strict=True)]
    if any(our.shape != peer.shape for our, peer in pairs):
        return float("inf")
    difference = float(np.max([np.abs(our - peer).max() for our, peer in pairs]))  # NaN if any is
    return difference if np.isfinite(difference) else float("inf")


def compare(
    workers: dict[str, Worker], folder: Path, sentences: list[list[str]], size: str, batch: int, repeats: int
) -> Result:
    """A warm-up of every side, whose layers are compared; then the repetitions, the sides in turn."""
    batches = write_batches(folder, sentences, batch)
    layers = {side: [f"{name}.layers.npy" for name in batches[side]] for side in workers}
    tokens = sum(len(words) + 2 for words in sentences)
    result = Result(size, batch, tokens, {side: [] for side in workers}, {})
    for side, worker in workers.items():
        worker.ask("warm_up", batches=batches[side], outputs=layers[side])
        worker.ask("peak_memory")
    if len(workers) > 1:
        result.difference = largest_difference(*layers.values())
    for _ in range(repeats):
        for side, worker in workers.items():
            result.seconds[side].append(worker.ask("measure", batches=batches[side])["seconds"])
    result.megabytes = {side: worker.ask("peak_memory")["megabytes"] for side, worker in workers.items()}
    return result


def benchmark(options: argparse.Namespace) -> tuple[list[Result], dict[str, Any]]:
    """Runs everything asked for; gives the results, and what each side runs on."""
    interpreters = {"ours": sys.executable} | ({} if options.ours_only else {"allennlp": ALLENNLP.interpreter()})
    results, loaded = [], {}
    with tqdm(total=len(options.size) * len(options.batch), unit="setting") as bar:
        for size in options.size:
            with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
                write_model(Path(folder), size)
                workers = {
                    side: stack.enter_context(Worker(side, python, "benchmarks.inference_worker"))
                    for side, python in interpreters.items()
                }
                loaded = {side: worker.ask("load", loader=side, folder=folder) for side, worker in workers.items()}
                for batch in options.batch:
                    results.append(compare(workers, Path(folder), options.sentences, size, batch, options.repeats))
                    bar.update()
    return results, loaded


def processor() -> str:
    """Model and number of cores."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else []
    return f"{(names or [platform.processor()])[0]}, {os.cpu_count()} cores"


def spread(values: list[float], digits: int = 0) -> str:
    """`median (smallest–largest)`"""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}–{high})"


def table(results: list[Result]) -> str:
    """The results in Markdown."""
    sides = list(results[0].seconds)
    paired = len(sides) > 1
    header = ["size", "batch", *(f"{NAMES[side]}, tokens/s" for side in sides)]
    header += ["ElmoModel / AllenNLP", "largest difference"] if paired else []
    header += [f"{NAMES[side]}, peak MB" for side in sides]
    lines = [header, ["---"] * len(header)]
    for result in results:
        line = [result.size, str(result.batch)]
        line += [spread([result.tokens / seconds for seconds in result.seconds[side]]) for side in sides]
        if paired:
            ratios = [peer / ours for ours, peer in zip(*result.seconds.values(), strict=True)]
            line += [spread(ratios, 2), f"{result.difference:.1e}"]
        line += [str(result.megabytes[side] or "?") for side in sides]
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def parse_arguments() -> argparse.Namespace:
    """The command line; `sentences` become lists of words."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inference", description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--batch", nargs="+", type=int, help="sentences per call; default: 1 8 32 64")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sentences", type=Path, help="a file: one a line, words separated by spaces")
    parser.add_argument("--ours-only", action="store_true", help="without the peer and its installation")
    parser.add_argument("--json", type=Path, help="also write every measurement to this file")
    options = parser.parse_args()
    try:
        options.sentences = read_sentences(options.sentences)
    except (OSError, UnicodeError) as error:
        parser.error(f"--sentences: {error}")
    most = len(options.sentences)
    options.batch = options.batch or [batch for batch in BATCH_SIZES if batch <= most]
    if not options.batch or not 1 <= min(options.batch) <= max(options.batch) <= most:
        parser.error(f"--batch must be from 1 to {most}, the number of distinct sentences")
    if options.repeats < 1:
        parser.error("--repeats must be 1 or more")
    if options.json is not None and not options.json.resolve().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    return options


def main() -> str | None:
    """Runs and prints; gives what went wrong, if anything did."""
    options = parse_arguments()
    try:
        results, loaded = benchmark(options)
    except PeerError as error:
        return str(error) if options.ours_only else f"{error} (`--ours-only` measures without the peer.)"

    print(table(results), end="\n\n")
    print(f"{len(options.sentences)} sentences, {results[0].tokens} tokens with their boundaries.")
    print(f"{options.repeats} repetitions, the sides in turn: median (smallest–largest).")
    print(f"{processor()}.")
    for side, facts in loaded.items():
        print(f"{NAMES[side]}: PyTorch {facts['torch']}, threads: {facts['threads']}.")
    if options.json is not None:
        report = {"processor": processor(), "sides": loaded, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if any(result.difference is not None and result.difference >= TOLERANCE for result in results):
        return f"The sides do not agree to {TOLERANCE}."
    return None


if __name__ == "__main__":
    sys.exit(main())
