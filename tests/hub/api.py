"""Everything of the Hub's protocol that is about repositories rather than about the content of their files."""

import base64
import json
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlencode

from tests.hub.cards import read_metadata
from tests.hub.protocol import Answer, Request, json_answer, route
from tests.hub.store import LARGE_FILES, SPACES, Commit, File, LargeObject, Refusal, Repository

LARGE_SIZE = 10_000_000  # from here on a file is kept outside of git, whatever its name


@route("GET", "/api/whoami-v2")
def whoami(request: Request) -> Answer:
    if (token := request.token) is None:
        raise Refusal(401, "Invalid username or password.")
    access = {"type": "access_token", "accessToken": {"displayName": token.role, "role": token.role}}
    return json_answer({"type": "user", "name": token.user, "fullname": token.user, "orgs": [], "auth": access})


@route("POST", "/api/repos/create")
def create_repository(request: Request) -> Answer:
    name = _name_in_body(request)
    if name.startswith(SPACES) and "sdk" not in request.json():
        raise Refusal(400, "Choose an sdk for your space")
    try:
        request.store.create(name, request.token, private=request.json().get("visibility") == "private")
    except Refusal as refusal:
        refusal.body["url"] = f"{request.endpoint}/{name}"  # with `exist_ok` the client goes on with this
        raise
    return json_answer({"name": name, "url": f"{request.endpoint}/{name}"})


@route("DELETE", "/api/repos/delete")
def delete_repository(request: Request) -> Answer:
    repository = request.store.writable(_name_in_body(request), request.token)
    del request.store.repositories[repository.name]
    return Answer()


@route("PUT", "/api/(?:models/)?{repository}/settings")
def change_settings(request: Request) -> Answer:
    repository, settings = _writable(request), request.json()
    if "visibility" in settings:
        repository.private = settings["visibility"] == "private"
    if "gated" in settings:
        repository.gated = bool(settings["gated"])
    return json_answer(settings)


@route("POST", "/api/validate-yaml")
def validate_card(request: Request) -> Answer:
    try:
        metadata = read_metadata(request.json()["content"])
    except ValueError as error:
        raise Refusal(400, "Invalid metadata", errors=[{"message": str(error)}]) from error
    warnings = [] if metadata else [{"message": "empty or missing yaml metadata in repo card"}]
    return json_answer({"warnings": warnings, "errors": []})


@route("GET", "/api/(?:models/)?{repository}/auth-check")
def check_reading(request: Request) -> Answer:
    request.store.readable_files(request.fields["repository"], request.token)
    return Answer()


@route("GET", "/api/(?:models/)?{repository}/auth-check/write")
def check_writing(request: Request) -> Answer:
    _writable(request)
    return Answer()


@route("GET", "/api/(?:models/)?{repository}(?:/revision/{revision})?")
def describe_model(request: Request) -> Answer:
    repository, commit = _commit(request)
    metadata = {}
    if "README.md" in commit.files:
        with suppress(ValueError):
            metadata = read_metadata(commit.files["README.md"].blob.decode())
    siblings = [{"rfilename": path, **_blob(file)} for path, file in sorted(commit.files.items())]
    if "blobs" not in request.query:
        siblings = [{"rfilename": sibling["rfilename"]} for sibling in siblings]
    info = {
        "id": repository.name.removeprefix(SPACES),
        "author": repository.owner,
        "sha": commit.id,
        "lastModified": _time(commit.date),
        "private": repository.private,
        "gated": "manual" if repository.gated else False,
        "disabled": False,
        "tags": [],
        "siblings": siblings,
    }
    return json_answer(info | {key: metadata[key] for key in ("pipeline_tag", "library_name") if key in metadata})


@route("GET", "/api/(?:models/)?{repository}/tree/{revision}(?:/{path})?")
def list_tree(request: Request) -> Answer:
    _, commit = _commit(request)
    folder = request.fields["path"]
    if folder and folder not in commit.folders():
        raise Refusal(404, f"{folder} does not exist on {request.fields['revision']}", "EntryNotFound")
    inside = f"{folder}/" if folder else ""
    paths = sorted(path for path in {*commit.files, *commit.folders()} if path.startswith(inside))
    if request.query.get("recursive") != "true":
        paths = [path for path in paths if "/" not in path[len(inside) :]]
    start = int(request.query.get("cursor", 0))
    end = start + request.store.page_size
    headers = {}
    if end < len(paths):
        following = urlencode(request.query | {"cursor": end})
        headers["Link"] = f'<{request.endpoint}{request.target.split("?")[0]}?{following}>; rel="next"'
    return json_answer([_tree_entry(commit, path) for path in paths[start:end]], headers)


@route("POST", "/api/(?:models/)?{repository}/paths-info/{revision}")
def describe_paths(request: Request) -> Answer:
    _, commit = _commit(request)
    paths = parse_qs(request.body.decode()).get("paths", [])
    return json_answer([_tree_entry(commit, path) for path in paths if path in {*commit.files, *commit.folders()}])


@route("GET", "/api/(?:models/)?{repository}/refs")
def list_references(request: Request) -> Answer:
    repository = _readable(request)
    kinds = {"branches": "refs/heads/", "tags": "refs/tags/", "converts": "refs/convert/"}
    if "include_prs" in request.query:
        kinds["pullRequests"] = "refs/pr/"
    return json_answer(
        {
            kind: [
                {"name": name.removeprefix(prefix), "ref": name, "targetCommit": commit.id}
                for name, commit in repository.references.items()
                if name.startswith(prefix)
            ]
            for kind, prefix in kinds.items()
        }
    )


@route("GET", "/api/(?:models/)?{repository}/commits/{revision}")
def list_commits(request: Request) -> Answer:
    _, commit = _commit(request)
    history = []
    while commit is not None:
        authors = [{"user": commit.author}]
        entry = {"id": commit.id, "title": commit.title, "message": commit.description, "authors": authors}
        history.append(entry | {"date": _time(commit.date)})
        commit = commit.parent
    return json_answer(history)


@route("POST", "/api/(?:models/)?{repository}/branch/{branch}")
def create_branch(request: Request) -> Answer:
    repository = _writable(request)
    start = repository.commit(request.json().get("startingPoint", "main"))
    repository.create_reference(f"refs/heads/{request.fields['branch']}", start)
    return Answer(status=201)


@route("DELETE", "/api/(?:models/)?{repository}/branch/{branch}")
def delete_branch(request: Request) -> Answer:
    _writable(request).delete_reference(f"refs/heads/{request.fields['branch']}")
    return Answer()


@route("POST", "/api/(?:models/)?{repository}/tag/{revision}")
def create_tag(request: Request) -> Answer:
    repository = _writable(request)
    repository.create_reference(f"refs/tags/{request.json()['tag']}", repository.commit(request.fields["revision"]))
    return Answer(status=201)


@route("DELETE", "/api/(?:models/)?{repository}/tag/{tag}")
def delete_tag(request: Request) -> Answer:
    _writable(request).delete_reference(f"refs/tags/{request.fields['tag']}")
    return Answer()


@route("POST", "/api/(?:models/)?{repository}/preupload/{revision}")
def choose_upload_modes(request: Request) -> Answer:
    """Which files go into git, and what is there under their names already."""
    files = _open_to_commit(request).commit(request.fields["revision"]).files
    modes = []
    for file in request.json()["files"]:
        binary = b"\0" in base64.b64decode(file["sample"])
        large = binary or file["path"].endswith(LARGE_FILES) or file["size"] >= LARGE_SIZE
        there = files.get(file["path"])
        mode = {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
        modes.append(mode | {"oid": there.etag if there else None})
    return json_answer({"files": modes})


@route("POST", "/api/(?:models/)?{repository}/commit/{revision}")
def make_commit(request: Request) -> Answer:
    """Makes a commit, or a pull request of one; all of it or nothing."""
    repository, token = _open_to_commit(request), request.token
    assert token is not None
    reference = repository.writable_reference(request.fields["revision"])
    lines = [json.loads(line) for line in request.body.splitlines()]
    header = next(line["value"] for line in lines if line["key"] == "header")
    parent = repository.references[reference]
    proposed = "create_pr" in request.query
    if proposed and "parentCommit" in header:
        parent = repository.commit(header["parentCommit"])
    elif not parent.id.startswith(header.get("parentCommit", "")):
        raise Refusal(412, "A commit has happened since. Please refresh and try again.")
    files = dict(parent.files)
    for line in lines:
        _change(repository, files, line["key"], line["value"])
    made = Commit(files, header["summary"], header["description"], token.user, parent)
    address = f"{request.endpoint}/{repository.name}"
    answer = {"success": True, "commitOid": made.id, "commitUrl": f"{address}/commit/{made.id}"}
    if proposed:
        pull_request = sum(name.startswith("refs/pr/") for name in repository.references) + 1
        reference = f"refs/pr/{pull_request}"
        answer["pullRequestUrl"] = f"{address}/discussions/{pull_request}"
    repository.add(reference, made)
    return json_answer(answer)


def _change(repository: Repository, files: dict[str, File], key: str, value: dict[str, Any]):
    path = value.get("path", "")
    if key == "file":
        files[path] = File(base64.b64decode(value["content"]))
    elif key == "lfsFile":
        if value["oid"] not in repository.objects:
            raise Refusal(400, f"{path} is an LFS pointer that points to a file that does not exist")
        large = LargeObject(value["oid"], len(repository.objects[value["oid"]]))
        files[path] = File(large.pointer, large)
    elif key == "deletedFile":
        if files.pop(path, None) is None:
            raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
    elif key == "deletedFolder":
        inside = [name for name in files if name.startswith(path.rstrip("/") + "/")]
        if not inside:
            raise Refusal(404, f"A folder with this name doesn't exist: {path}", "EntryNotFound")
        for name in inside:
            del files[name]
    elif key != "header":
        raise Refusal(400, f"Unknown operation {key}")


def _name_in_body(request: Request) -> str:
    """The repository's name; without a namespace it is the user's own."""
    body = request.json()
    namespace = body.get("organization") or (request.token.user if request.token else "")
    kind = SPACES if body.get("type") == "space" else ""
    return f"{kind}{namespace}/{body['name']}"


def _readable(request: Request) -> Repository:
    return request.store.readable(request.fields["repository"], request.token)


def _writable(request: Request) -> Repository:
    return request.store.writable(request.fields["repository"], request.token)


def _open_to_commit(request: Request) -> Repository:
    store, name = request.store, request.fields["repository"]
    if "create_pr" in request.query:
        return store.open_to_proposals(name, request.token)
    return store.writable(name, request.token)


def _commit(request: Request) -> tuple[Repository, Commit]:
    repository = _readable(request)
    return repository, repository.commit(request.fields["revision"] or "main")


def _tree_entry(commit: Commit, path: str) -> dict[str, Any]:
    if path not in commit.files:
        return {"type": "directory", "path": path, "oid": commit.id, "size": 0}
    file = commit.files[path]
    entry: dict[str, Any] = {"type": "file", "path": path, "oid": file.blob_id, "size": file.size}
    if file.large:
        entry["lfs"] = {"oid": file.large.sha256, "size": file.size, "pointerSize": len(file.blob)}
    return entry


def _blob(file: File) -> dict[str, Any]:
    blob: dict[str, Any] = {"blobId": file.blob_id, "size": file.size}
    if file.large:
        blob["lfs"] = {"sha256": file.large.sha256, "size": file.size, "pointerSize": len(file.blob)}
    return blob


def _time(date: datetime) -> str:
    return date.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
