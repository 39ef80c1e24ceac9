"""What the Hub keeps: tokens, repositories, and in these commits, references and large objects."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

SPACES = "spaces/"  # before the names of Spaces
DEFAULT_BRANCH = "refs/heads/main"
# What every new repository starts with; the Hub's own list is longer.
LARGE_FILES = (".bin", ".h5", ".npy", ".npz", ".onnx", ".pt", ".safetensors", ".zip")
GIT_ATTRIBUTES = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LARGE_FILES).encode()


class Refusal(Exception):  # noqa: N818  (it is an answer, and need not be an error of the server)
    """An error as the Hub answers it: status, `X-Error-Message`, and mostly `X-Error-Code`."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None, **body
    ):
        super().__init__(message)
        self.status, self.message, self.code, self.headers, self.body = status, message, code, headers or {}, body


@dataclass(frozen=True)
class Token:
    """Who sends a request, and what the token allows."""

    user: str
    role: Literal["read", "write"]


@dataclass(frozen=True)
class LargeObject:
    """What a commit knows of a file whose content is kept outside of git."""

    sha256: str
    size: int

    @property
    def pointer(self) -> bytes:
        """What git has in place of the content."""
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n".encode()


@dataclass(frozen=True)
class File:
    """A file of a commit: the bytes that are in git, or a large object that these point to."""

    blob: bytes
    large: LargeObject | None = None

    @property
    def blob_id(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.blob) + self.blob).hexdigest()

    @property
    def etag(self) -> str:
        return self.large.sha256 if self.large else self.blob_id

    @property
    def size(self) -> int:
        return self.large.size if self.large else len(self.blob)


@dataclass(frozen=True)
class Commit:
    """All files of a repository at one time, and the commit before."""

    files: Mapping[str, File]
    title: str
    description: str
    author: str
    parent: "Commit | None" = None
    date: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def id(self) -> str:
        """Forty digits as git's, though not the ones that git would find."""
        digest = hashlib.sha1(repr((self.title, self.description, self.author, self.date.isoformat())).encode())
        digest.update(self.parent.id.encode() if self.parent else b"")
        for path, file in sorted(self.files.items()):
            digest.update(f"{path} {file.blob_id}\n".encode())
        return digest.hexdigest()

    def folders(self) -> set[str]:
        """The paths of all folders in which there is a file, those in which there are only folders too."""
        parts = [path.split("/") for path in self.files]
        return {"/".join(names[:depth]) for names in parts for depth in range(1, len(names))}


class Repository:
    """
    The repository of a model, or of a Space, whose name begins with `spaces/`.

    Attributes:
        references: Commits by the full name: `refs/heads/…`, `refs/tags/…` and `refs/pr/…`.
        objects: Large objects by their SHA-256.
        uploads: What came under the name of a large object and is not verified yet.
    """

    def __init__(self, name: str, private: bool = False):
        self.name = name
        self.owner = name.split("/")[-2]
        self.private = private
        self.gated = False
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.commits: dict[str, Commit] = {}
        self.references: dict[str, Commit] = {}
        self.add(DEFAULT_BRANCH, Commit({".gitattributes": File(GIT_ATTRIBUTES)}, "initial commit", "", self.owner))

    def add(self, reference: str, commit: Commit) -> Commit:
        """Lets a reference, new or not, point to the commit."""
        self.commits[commit.id] = self.references[reference] = commit
        return commit

    def commit(self, revision: str) -> Commit:
        """The commit of a branch, a tag, a pull request (`refs/pr/1`) or a commit's digits."""
        for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            if name in self.references:
                return self.references[name]
        if revision not in self.commits:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[revision]

    def writable_reference(self, revision: str) -> str:
        """The full name of a branch or of a pull request's reference."""
        for name in (f"refs/heads/{revision}", revision):
            if name in self.references and not name.startswith("refs/tags/"):
                return name
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def create_reference(self, name: str, commit: Commit):
        """A new branch or tag."""
        if name in self.references:
            raise Refusal(409, f"Reference {name} already exists")
        self.references[name] = commit

    def delete_reference(self, name: str):
        if self.references.pop(name, None) is None:
            raise Refusal(404, f"Reference {name} doesn't exist", "RevisionNotFound")

    def read(self, path: str, revision: str = "main") -> bytes:
        """What a file contains."""
        file = self.commit(revision).files[path]
        return self.objects[file.large.sha256] if file.large else file.blob

    def verify(self, sha256: str, size: int):
        """Takes what was uploaded as the large object of that name, if it is."""
        content = self.uploads.pop(sha256, None)
        if content is None:
            raise Refusal(404, f"Object {sha256} was not uploaded")
        if len(content) != size:
            raise Refusal(422, f"Object {sha256} has {len(content)} bytes, not {size}")
        if hashlib.sha256(content).hexdigest() != sha256:
            raise Refusal(422, f"What was uploaded as {sha256} has another SHA-256")
        self.objects[sha256] = content


class Store:
    """
    All repositories, and who may do what with them.

    Attributes:
        page_size: How many files a list of them has at most; the client then asks for the next.
    """

    def __init__(self):
        self.page_size = 1000
        self.tokens: dict[str, Token] = {}
        self.repositories: dict[str, Repository] = {}

    def create_token(self, user: str, role: Literal["read", "write"]) -> str:
        """Makes the user known, and gives what the client sends as `HF_TOKEN`."""
        value = f"hf_{user}_{role}"
        self.tokens[value] = Token(user, role)
        return value

    def create(self, name: str, token: Token | None, private: bool = False) -> Repository:
        """A new repository of the token's user."""
        if token is None:
            raise Refusal(401, "Invalid username or password.")
        self._check_role(token)
        namespace = name.split("/")[-2]
        if namespace != token.user:
            raise Refusal(403, f'You don\'t have the rights to create a model under the namespace "{namespace}"')
        if name in self.repositories:
            raise Refusal(409, f"You already created this model repo: {name}")
        self.repositories[name] = Repository(name, private)
        return self.repositories[name]

    def readable(self, name: str, token: Token | None) -> Repository:
        """A repository to read of; one that the user must not see is answered as one that does not exist."""
        repository = self.repositories.get(name)
        user = token.user if token else None
        if repository is None or (repository.private and repository.owner != user):
            if token is None:
                raise Refusal(401, "Invalid username or password.", "RepoNotFound")
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repository

    def readable_files(self, name: str, token: Token | None) -> Repository:
        """A repository to download from; of a gated one, everybody sees what there is, but only the owner gets it."""
        repository = self.readable(name, token)
        if repository.gated and (token is None or repository.owner != token.user):
            message = f"Access to model {name} is restricted and you are not in the authorized list."
            raise Refusal(403 if token else 401, message, "GatedRepo")
        return repository

    def open_to_proposals(self, name: str, token: Token | None) -> Repository:
        """A repository to make a pull request in, which any user can."""
        repository = self.readable(name, token)
        if token is None:
            # Over HTTPS the client takes every 401 about a repository for this; over HTTP it has to be told.
            raise Refusal(401, "Invalid username or password.", "RepoNotFound")
        self._check_role(token)
        return repository

    def writable(self, name: str, token: Token | None) -> Repository:
        """A repository to change."""
        repository = self.open_to_proposals(name, token)
        if token is None or repository.owner != token.user:
            raise Refusal(403, f"You don't have the rights to write to {name}")
        return repository

    def _check_role(self, token: Token):
        if token.role != "write":
            raise Refusal(403, "Forbidden: you must use a write token to upload to a repository.")
