"""Checks the metadata of a card as the Hub does."""

import re
from collections.abc import Mapping
from typing import Any

from ..errors import ModelError

# fmt: off
LICENSES = {  # https://huggingface.co/docs/hub/repositories-licenses
    "afl-3.0", "agpl-3.0", "apache-2.0", "apple-amlr", "apple-ascl", "artistic-2.0", "bigcode-openrail-m",
    "bigscience-bloom-rail-1.0", "bigscience-openrail-m", "bsd", "bsd-2-clause", "bsd-3-clause",
    "bsd-3-clause-clear", "bsl-1.0", "c-uda", "cc", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0",
    "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0",
    "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc0-1.0",
    "cdla-permissive-1.0", "cdla-permissive-2.0", "cdla-sharing-1.0", "creativeml-openrail-m", "ecl-2.0", "epl-1.0",
    "epl-2.0", "etalab-2.0", "eupl-1.1", "eupl-1.2", "gfdl", "gpl", "gpl-2.0", "gpl-3.0", "intel-research", "isc",
    "lgpl", "lgpl-2.1", "lgpl-3.0", "lgpl-lr", "lppl-1.3c", "mit", "mpl-2.0", "ms-pl", "ncsa", "odbl", "odc-by",
    "ofl-1.1", "openmdw-1.0", "openrail", "openrail++", "osl-3.0", "other", "pddl", "postgresql", "unknown",
    "unlicense", "wtfpl", "zlib",
}
# fmt: on
# ISO 639-1, -2 or -3, with a script or region; and the Hub's own codes.
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z]{2,4}){0,2}|multilingual|code")
# The name of a dataset or a model, with or without its owner.
NAME = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?")


def check_metadata(entries: Mapping[str, Any]):
    """
    Raises an error for metadata that the Hub would refuse, and names the entry.

    The Hub checks a card when it is pushed; this check also works offline.
    """
    for language in _listed(entries, "language"):
        if not LANGUAGE.fullmatch(language):
            raise ModelError(f"language: {language!r} is not a code of ISO 639, such as en, zh or pt-br.")
    for licence in _listed(entries, "license"):
        if licence not in LICENSES:
            raise ModelError(
                f"license: {licence!r} is not on the Hub's list (apache-2.0, cc-by-sa-4.0, mit, …); for any other one "
                "say 'other', and name it in the card."
            )
    for entry in ("datasets", "base_model"):
        for name in _listed(entries, entry):
            if not NAME.fullmatch(name):
                raise ModelError(f"{entry}: {name!r} is not a name on the Hub, such as owner/name.")
    for model in entries.get("model-index", []):
        for result in model["results"]:
            for metric in result["metrics"]:
                if not isinstance(metric["value"], (int, float)) or metric["value"] != metric["value"]:
                    raise ModelError(f"model-index: {metric['type']} is {metric['value']!r}, not a number.")


def _listed(entries: Mapping[str, Any], name: str) -> list[str]:
    """The values of an entry that is a text or a list of texts."""
    value = entries.get(name)
    values = [] if value is None else value if isinstance(value, list) else [value]
    for one in values:
        if not isinstance(one, str):  # YAML reads `no`, for Norwegian, as false
            raise ModelError(f"{name}: {one!r} is not text: put it into quotation marks.")
    return values


__all__ = ["check_metadata"]
