"""Tables of speed and memory for the documentation, made from the results in `benchmarks/results`."""

from statistics import median
from typing import Any

from benchmarks.report import ratios, spread

SIZE_NAMES = {"full": "full (2 x 4096 / 512)", "small": "small (2 x 1024 / 128)"}
SIDE_NAMES = {
    "fp32": "fp32",
    "unpacked": "fp32, not packed",
    "bf16": "bf16",
    "int8": "int8",
    "allennlp": "AllenNLP",
    "allennlp-warm": "AllenNLP, words cached",
    "tensorflow": "TensorFlow",
}
PRETRAINING_SIZES = {
    "small": "small: 2 x 1024 / 128, 8,192 samples of 10,000 words, 64 streams, Adagrad",
    "compact": "compact: 2 x 768 / 256, adaptive softmax over 80,000 words, 128 streams, AdamW",
    "full": "full: 2 x 4096 / 512, 8,192 samples of 793,471 words, 128 streams, Adagrad",
}
PRETRAINING_SIDES = {"ours": "elmo-hf", "plain": "plain PyTorch", "simple_elmo": "TensorFlow"}


def markdown(header: list[str], rows: list[list[str]], text_columns: int = 1) -> str:
    """A table whose first columns are text and whose other columns are numbers."""
    rule = ["---"] * text_columns + ["---:"] * (len(header) - text_columns)
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *rows])


def footnote(results: dict[str, Any]) -> str:
    """The machine, below a table."""
    machine = results["machine"]
    threads = f"{machine['threads']} thread{'s' if machine['threads'] > 1 else ''}"
    busy = results.get("load", 0) > 1  # of the first minute before the measurement
    note = " Other programs were running: trust the ratios." if busy else ""
    return f"\n({machine['processor']}, {threads}, PyTorch {machine['torch']}.{note})\n"


def inference(results: dict[str, Any]) -> str:
    """Tokens per second of each side, by size and batch."""
    sides = ["fp32", "bf16", "int8", "allennlp", "tensorflow"]
    rows = []
    for result in results["results"]:
        seconds, corpus = result["seconds"], result["setting"] == "corpus"
        speeds = [f"{result['tokens'] / median(seconds[side]):,.0f}" if seconds.get(side) else "–" for side in sides]
        ratio = spread(ratios(seconds["fp32"], seconds["allennlp"]), 1)
        limit = "–"
        if "products alone" in seconds:
            limit = f"{median(ratios(seconds['fp32'], seconds['products alone'])):.0%}"
        setting = f"{result['sentences']} sentences, best batches" if corpus else result["setting"]
        rows.append([SIZE_NAMES[result["size"]], setting, *speeds, ratio, limit])
    header = ["size", "sentences per batch", *(SIDE_NAMES[side] for side in sides), "fp32 / AllenNLP", "share of limit"]
    return markdown(header, rows, 2) + footnote(results)


def cached(results: dict[str, Any]) -> str:
    """How many times as fast as AllenNLP, if both have all words of the text in their word caches."""
    settings = ["1", "8", "32", "64"]
    rows = []
    for size, name in SIZE_NAMES.items():
        runs = {result["setting"]: result["seconds"] for result in results["results"] if result["size"] == size}
        cells = [spread(ratios(runs[key]["warm"], runs[key]["allennlp-warm"]), 1) for key in settings]
        rows.append([name, *cells])
    return markdown(["size", *(f"batches of {setting}" for setting in settings)], rows) + footnote(results)


def int8(results: dict[str, Any]) -> str:
    """How many times as fast int8 is as fp32."""
    rows = []
    for setting in ("1", "8", "32", "64"):
        seconds = {result["size"]: result["seconds"] for result in results["results"] if result["setting"] == setting}
        rows.append(
            [setting, *(spread(ratios(seconds[size]["int8"], seconds[size]["fp32"]), 2) for size in SIZE_NAMES)]
        )
    return markdown(["sentences per batch", *SIZE_NAMES.values()], rows) + footnote(results)


def speed(inference: dict[str, Any], pretraining: dict[str, Any]) -> str:
    """Three lines for the README: tokens per second, and how many times as fast as what users ran before."""

    def cell(seconds: dict[str, list[float]], ours: str, theirs: str) -> str:
        return f"{median(ratios(seconds[ours], seconds[theirs])):.1f}x" if theirs in seconds else "–"

    rows = []
    for result in inference["results"]:
        if result["setting"] == "32":
            seconds = result["seconds"]
            words = f"{result['tokens'] / median(seconds['fp32']):,.0f}"
            times = [cell(seconds, "fp32", "allennlp"), cell(seconds, "fp32", "tensorflow"), "–"]
            rows.append([f"embedding, {SIZE_NAMES[result['size']]}, 32 sentences per batch", words, *times])
    (result,) = (result for result in pretraining["results"] if result["size"] == "small")
    words = f"{median([result['words'] / seconds for seconds in result['seconds']['ours']]):,.0f}"
    times = ["–", cell(result["seconds"], "ours", "simple_elmo"), cell(result["seconds"], "ours", "plain")]
    rows.append([f"pretraining, {SIZE_NAMES['small']}", words, *times])
    header = ["task", "tokens per second", "against AllenNLP", "against TensorFlow", "against a plain PyTorch loop"]
    return markdown(header, rows) + footnote(inference)


def corpus(results: dict[str, Any]) -> str:
    """A corpus from its file to a file of vectors."""
    sides = ["fp32", "bf16", "int8", "allennlp", "tensorflow"]
    by_side = {(result["size"], result["side"]): result for result in results["results"]}
    rows = []
    for side in sides:
        row = [SIDE_NAMES[side]]
        for size in SIZE_NAMES:
            result, ours = by_side[size, side], by_side[size, "fp32"]
            slower = spread(ratios(ours["seconds"], result["seconds"]), 1) if side in sides[3:] else ""
            row += [f"{result['words'] / median(result['seconds']):,.0f}", slower, f"{result['megabytes']:,}"]
        rows.append(row)
    columns = [f"{size}: {what}" for size in SIZE_NAMES for what in ("words/s", "fp32 is x times as fast", "peak MB")]
    return markdown(["side", *columns], rows) + footnote(results)


def memory(results: dict[str, Any]) -> str:
    """The largest resident size in MB, by side."""
    columns = ["imports", "loading", "embedding, batch 1", "embedding, batch 32"]
    rows = []
    for record in results["results"]["sides"]:
        if record["side"] in SIDE_NAMES:
            size = f"{record['size']}, weights of {record['weights']} MB"
            rows.append([size, SIDE_NAMES[record["side"]], *(f"{record[column]:,}" for column in columns)])
    return markdown(["size", "side", *columns], rows, 2) + footnote(results)


def documents(results: dict[str, Any]) -> str:
    """The largest resident size in MB for long documents."""
    rows = [[f"{record['words']:,}", str(record["embedding"])] for record in results["results"]["documents"]]
    return markdown(["words of the document", "peak MB"], rows, 0)


def loading(results: dict[str, Any]) -> str:
    """Seconds until the first vector."""
    columns = ["imports", "loading", "first vector", "in all"]
    rows = []
    for record in results["results"]:
        cells = [f"{median(record['seconds'][column]):.2f}" for column in columns]
        rows.append([record["size"], SIDE_NAMES[record["side"]], *cells])
    return markdown(["size", "side", *columns], rows, 2) + footnote(results)


def scaling(results: dict[str, Any]) -> str:
    """Microseconds per word, for documents and for batches."""
    rows = [
        [f"one document of {record['words']:,} words", f"{1e6 * median(record['seconds']) / record['words']:,.0f}"]
        for record in results["results"]["documents"]
    ]
    rows += [
        [
            f"{record['sentences']} sentence{'s' if record['sentences'] > 1 else ''} in one batch",
            f"{1e6 * median(record['seconds']) / record['words']:,.0f}",
        ]
        for record in results["results"]["batches"]
        if record["sentences"] in (1, 8, 32, 128, 512)
    ]
    return markdown(["text", "µs per word"], rows) + footnote(results)


def tokenizer(results: dict[str, Any]) -> str:
    """Words per second from sentences to tensors."""
    speeds_of: dict[tuple[str, str], dict[int, float]] = {}
    for record in results["results"]["ours"]:
        speeds_of.setdefault((record["vocabulary"], record["input"]), {})[record["batch"]] = median(record["words/s"])
    for record in results["results"]["allennlp"]:
        speeds_of.setdefault(("AllenNLP's `batch_to_ids`", "words"), {})[record["batch"]] = median(record["words/s"])
    batches = sorted(next(iter(speeds_of.values())))
    rows = [[*names, *(f"{speeds[batch]:,.0f}" for batch in batches)] for names, speeds in speeds_of.items()]
    return markdown(["vocabulary", "input", *(f"batches of {batch:,}" for batch in batches)], rows, 2) + footnote(
        results
    )


def pretraining(results: dict[str, Any]) -> str:
    """A step of pretraining beside the same model in plain PyTorch and in TensorFlow."""
    rows = []
    for result in results["results"]:
        for side, seconds in result["seconds"].items():
            words = spread([result["words"] / value for value in seconds])
            slower = "" if side == "ours" else spread(ratios(result["seconds"]["ours"], seconds), 2)
            size = PRETRAINING_SIZES[result["size"]] if side == "ours" else ""
            rows.append([size, PRETRAINING_SIDES[side], words, slower, f"{result['megabytes'][side]:,}"])
    header = ["size", "side", "words/s", "elmo-hf is x times as fast", "peak MB"]
    return markdown(header, rows, 2) + f"\n({results['processor']}, 2 threads.)\n"


def serving(results: dict[str, Any]) -> str:
    """The server's speed and latencies beside calling the embedder directly."""
    runs = results["results"]
    rows = [["the embedder, called directly", spread(runs["embedder"]), "–", "–", "–"]]
    for size, size_runs in runs["server"].items():
        values = {name: [run[name] for run in size_runs] for name in ("texts/s", "share", "p50", "p99")}
        rows.append([f"{results['clients']} clients, {size} text{'s' if size != '1' else ''} per request"])
        rows[-1] += [spread(values["texts/s"]), f"{median(values['share']):.0%}"]
        rows[-1] += [f"{1000 * median(values[name]):,.0f} ms" for name in ("p50", "p99")]
    return markdown(["requests", "texts per second", "share of the embedder's", "p50", "p99"], rows) + footnote(results)


def minilm(results: dict[str, Any]) -> str:
    """The shipped model beside a MiniLM-L6 configuration."""
    settings = list(next(iter(results["results"].values()))["words/s"])
    rows = []
    for side, record in results["results"].items():
        speeds = [spread(record["words/s"][setting]) for setting in settings]
        rows.append([side, f"{record['parameters'] / 1e6:.1f}", *speeds, f"{median(record['megabytes']):,.0f}"])
    header = ["model", "million parameters", *(f"words/s, {setting}" for setting in settings), "peak MB"]
    return markdown(header, rows) + footnote(results)


ONNX_MODELS = {"compact": "elmo-english-compact", "small": SIZE_NAMES["small"]}
ONNX_ERRORS = {"PyTorch int8": "PyTorch, int8", "onnxruntime int8": "onnxruntime, int8"}


def onnx(results: dict[str, Any]) -> str:
    """Tokens per second of onnxruntime and PyTorch, by model and batch."""
    rows = []
    for result in results["results"]:
        seconds = result["seconds"]
        for size, words in result["words"].items():
            speeds = [f"{words / median(of_side[size]):,.0f}" for of_side in seconds.values()]
            faster = [
                spread(ratios(seconds[f"onnxruntime {precision}"][size], seconds[f"PyTorch {precision}"][size]), 2)
                for precision in ("fp32", "int8")
            ]
            rows.append([ONNX_MODELS[result["model"]], size, *speeds, *faster])
    sides = list(results["results"][0]["seconds"])
    ratio = "onnxruntime / PyTorch, "
    header = [
        "model",
        "sentences per batch",
        *(side.replace(" ", ", ") for side in sides),
        f"{ratio}fp32",
        f"{ratio}int8",
    ]
    return markdown(header, rows, 2) + footnote(results).replace(
        "PyTorch", f"onnxruntime {results['onnxruntime']}, PyTorch"
    )


def onnx_error(results: dict[str, Any]) -> str:
    """The cosines of int8 vectors with fp32's, by layer, with the shipped model."""
    (compared,) = (result["compared"] for result in results["results"] if result["model"] == "compact")
    rows = []
    for side, label in ONNX_ERRORS.items():
        cosines = zip(compared[side]["mean cosines"], compared[side]["smallest cosines"], strict=True)
        cells = [f"{mean:.4f} ({least:.4f})" for mean, least in cosines]
        rows.append([label, *cells, f"{compared[side]['largest difference']:.2f}"])
    layers = len(compared["onnxruntime int8"]["mean cosines"])
    header = ["side", *(f"layer {layer}" for layer in range(layers)), "largest difference of a value"]
    return markdown(header, rows) + "\n(Mean and, in brackets, smallest cosine of a word's vector with that of fp32.)\n"
