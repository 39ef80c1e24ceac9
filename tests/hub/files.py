"""How the content of files comes and goes: downloads in whole or in part, and the uploads of large objects."""

import re
from urllib.parse import quote, urlencode

from tests.hub.protocol import Answer, Request, json_answer, route
from tests.hub.store import Refusal


@route("GET HEAD", "/{repository}/resolve/{revision}/{path}")
def resolve(request: Request) -> Answer:
    """A file of a commit; that of a large one is elsewhere, and all about it is said before one goes there."""
    repository = request.store.readable_files(request.fields["repository"], request.token)
    commit, path = repository.commit(request.fields["revision"]), request.fields["path"]
    headers = {"X-Repo-Commit": commit.id}
    file = commit.files.get(path)
    if file is None:
        raise Refusal(404, "Entry not found", "EntryNotFound", headers)
    headers["ETag"] = f'"{file.etag}"'
    if file.large is None:
        return _part(request, file.blob, headers | _named(path))
    query = urlencode({"filename": path})
    headers["Location"] = f"{request.storage}/{repository.name}/{file.large.sha256}?{query}"
    headers |= {"X-Linked-Size": str(file.size), "X-Linked-Etag": headers["ETag"]}
    return Answer(headers=headers, status=302)


@route("GET", "/storage/{repository}/{sha256}")
def download(request: Request) -> Answer:
    """A large object; the address is enough, no token is asked for."""
    sha256 = request.fields["sha256"]
    content = request.store.repositories[request.fields["repository"]].objects[sha256]
    return _part(request, content, {"ETag": f'"{sha256}"', **_named(request.query.get("filename", sha256))})


@route("PUT", "/storage/{repository}/{sha256}")
def upload(request: Request) -> Answer:
    """Anything under the name of a large object, until it is verified."""
    sha256 = request.fields["sha256"]
    request.store.repositories[request.fields["repository"]].uploads[sha256] = request.body
    return Answer()


@route("POST", r"/{repository}\.git/info/lfs/objects/batch")
def batch(request: Request) -> Answer:
    """Where to upload which large objects; not those that are there."""
    repository = request.store.open_to_proposals(request.fields["repository"], request.token)
    verify = f"{request.endpoint}/{repository.name}.git/info/lfs/objects/verify"
    objects = []
    for asked in request.json()["objects"]:
        if asked["oid"] not in repository.objects:
            upload = f"{request.storage}/{repository.name}/{asked['oid']}"
            asked |= {"actions": {"upload": {"href": upload}, "verify": {"href": verify}}}
        objects.append(asked)
    return json_answer({"transfer": "basic", "objects": objects})


@route("POST", r"/{repository}\.git/info/lfs/objects/verify")
def verify(request: Request) -> Answer:
    """Whether what was uploaded is what it should be."""
    repository = request.store.open_to_proposals(request.fields["repository"], request.token)
    repository.verify(request.json()["oid"], request.json()["size"])
    return Answer()


def _part(request: Request, content: bytes, headers: dict[str, str]) -> Answer:
    """The content, or of it what the client asks for with `Range`."""
    headers |= {"Accept-Ranges": "bytes"}
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("Range") or "")
    if asked is None:
        return Answer(content, headers)
    size, (first, last) = len(content), asked.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= end:
        raise Refusal(416, "Range Not Satisfiable", headers={"Content-Range": f"bytes */{size}"})
    return Answer(content[start:end], headers | {"Content-Range": f"bytes {start}-{end - 1}/{size}"}, 206)


def _named(path: str) -> dict[str, str]:
    return {"Content-Disposition": f'inline; filename="{quote(path.rsplit("/", 1)[-1])}";'}
