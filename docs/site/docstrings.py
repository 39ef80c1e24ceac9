"""
An extension of griffe, which reads the docstrings of the API reference. It turns references in the style of
transformers ([`ElmoModel`]) into links. It warns of every public name that has no docstring or is on no page of
`docs/api`, and warnings fail a strict build.
"""

import re
from pathlib import Path

import griffe
from mkdocs.plugins import get_plugin_logger

logger = get_plugin_logger("docstrings")
API_PAGES = Path(__file__).parent.parent / "api"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
# "name (`int`, *optional*):" of an argument: its type is shown as code, without marks of its own.
ARGUMENT_TYPE = re.compile(r"^(?P<name> +\w+ )\((?P<type>.+?)\):(?=\s)", re.MULTILINE)
REFERENCE = re.compile(r"\[`~?(?P<name>[\w.]+?)(?:\(\))?`\](?![\[(])")


def exported(package: griffe.Module) -> dict[str, griffe.Object]:
    """The objects that `__all__` of a package names."""
    names = [str(name) for name in package.exports or [] if name != "__version__"]
    members = {name: package[name] for name in names if name in package.members}
    return {name: member.final_target if member.is_alias else member for name, member in members.items()}


def undocumented(found: griffe.Object) -> list[str]:
    """The paths of an object and of its public methods that have no docstring. An override inherits its docstring."""
    paths = [] if found.has_docstring else [found.path]
    if found.is_class:
        bases = found.mro()
        for name, member in found.members.items():
            documented = member.has_docstring or any(
                name in base.members and base[name].has_docstring for base in bases
            )
            if member.is_function and not name.startswith("_") and not documented:
                paths.append(member.path)
    return paths


class Docstrings(griffe.Extension):
    """Links and checks the docstrings of the package's public names."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs) -> None:
        """Runs when all modules of the package are read."""
        if pkg.path != "elmo_hf":
            return
        loader.resolve_aliases(implicit=True)
        on_pages = {name for page in API_PAGES.glob("*.md") for name in DIRECTIVE.findall(page.read_text("utf-8"))}
        packages = [pkg, *(module for module in pkg.modules.values() if module.is_subpackage and module.exports)]
        links: dict[str, str] = {}
        for package in packages:
            for name, found in exported(package).items():
                links.setdefault(name, found.path)
                for path in undocumented(found):
                    logger.warning("%s has no docstring", path)
                in_packages = (other.path for other in packages if found in exported(other).values())
                if not on_pages & {f"{package.path}.{name}", package.path, *in_packages}:
                    logger.warning("%s.%s is on no page of docs/api", package.path, name)
        self._link(pkg, links)

    def _link(self, module: griffe.Object, links: dict[str, str]) -> None:
        for member in module.members.values():
            if not member.is_alias:
                if member.docstring:
                    text = ARGUMENT_TYPE.sub(plain_type, member.docstring.value)
                    member.docstring.value = REFERENCE.sub(lambda match: link(match["name"], links), text)
                self._link(member, links)


def plain_type(match: re.Match) -> str:
    """An argument with its type as plain text."""
    type_name = re.sub(r"\[?`~?([^`]*)`\]?", r"\1", match["type"])
    return f"{match['name']}({type_name.replace('*optional*', 'optional')}):"


def link(name: str, links: dict[str, str]) -> str:
    """A link to a public name or to one of its methods; code without a link for any other name."""
    first, _, rest = name.partition(".")
    if first not in links:
        return f"`{name}`"
    return f"[`{name}`][{links[first]}{'.' + rest if rest else ''}]"
