"""The wheel of this package, made of its own files: it needs no build tool, no source checkout and no network."""

import base64
import hashlib
from importlib import metadata, resources
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

PACKAGE, DISTRIBUTION = "elmo_hf", "elmo-hf"
OUTSIDE = ("conversion", "model_cards")  # parts of the package that are elsewhere in a checkout
TAG = "py3-none-any"
DATE = (2026, 1, 1, 0, 0, 0)  # of every file, so that the same files make the same wheel
# Files with the description of the package, by their names in a wheel: as installed, and as a checkout has them.
COPIED = {"METADATA": ("METADATA", "PKG-INFO"), "entry_points.txt": ("entry_points.txt",)}


def write_own_wheel(folder: Path) -> Path:
    """Writes the wheel of this package, as it is installed or checked out, into a folder."""
    distribution = metadata.distribution(DISTRIBUTION)
    name = f"{PACKAGE}-{distribution.version}"
    files = {f"{PACKAGE}/{path}": content for path, content in _package_files().items()}
    for copied, names in COPIED.items():
        text = next(text for text in map(distribution.read_text, names) if text)
        files[f"{name}.dist-info/{copied}"] = text.encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: {DISTRIBUTION}\nRoot-Is-Purelib: true\nTag: {TAG}\n"
    files[f"{name}.dist-info/WHEEL"] = wheel.encode()
    record = f"{name}.dist-info/RECORD"
    lines = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    out = folder / f"{name}-{TAG}.whl"
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for path, content in files.items():
            info = ZipInfo(path, DATE)
            info.compress_type, info.external_attr = ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, content)
    return out


def _package_files() -> dict[str, bytes]:
    """The files of the package by their paths in it."""
    roots = {"": Path(str(resources.files(PACKAGE)))}
    roots |= {f"{part}/": Path(str(resources.files(f"{PACKAGE}.{part}"))) for part in OUTSIDE}
    return {
        f"{prefix}{path.relative_to(root).as_posix()}": path.read_bytes()
        for prefix, root in roots.items()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


__all__ = ["write_own_wheel"]
