"""`elmo-hf serve`"""

from pathlib import Path
from typing import Annotated

import typer

from ..runtime.extras import require
from .parameters import DEFAULT_MODEL, Device, Precision, quiet_transformers

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help=f"Model folders, or names on the Hub. {DEFAULT_MODEL}", show_default=False
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on. The default is this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the key that requests must carry. Default: the environment variable ELMO_HF_API_KEY; "
            "without either, no key is needed.",
            show_default=False,
        ),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes per request.")] = 1 << 20,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts per request.")] = 512,
    max_words: Annotated[int, typer.Option(min=1, help="Words per text.")] = 4096,
    max_request_words: Annotated[int, typer.Option(min=1, help="Words per request.")] = 16_384,
    queue_words: Annotated[
        int, typer.Option(min=1, help="Words that may wait for a model; beyond them, requests are refused.")
    ] = 65_536,
    batch_words: Annotated[int, typer.Option(min=1, help="Words that a model takes from its queue at once.")] = 4096,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for a request.")] = 30.0,
    device: Device = None,
    precision: Precision = None,
):
    """
    Serve vectors, tags and labels over HTTP.

    Clients of OpenAI's embeddings, of text-embeddings-inference and of Hugging Face's InferenceClient work with it.

    Example: elmo-hf serve my-elmo my-tagger --port 8080
    """
    require("serving")
    quiet_transformers()
    from .. import serving

    api_key = serving.read_api_key(api_key_file)
    if api_key is None and host not in LOOPBACK:
        typer.echo(f"elmo-hf: everyone who reaches {host} can use this server: set ELMO_HF_API_KEY.", err=True)
    limits = serving.ServingLimits(
        body_bytes=max_body,
        texts=max_texts,
        words=max_words,
        request_words=max_request_words,
        queue_words=queue_words,
        batch_words=batch_words,
        seconds=timeout,
    )
    serving.serve(
        models or [], host=host, port=port, limits=limits, api_key=api_key, device=device, precision=precision
    )


__all__ = ["serve"]
