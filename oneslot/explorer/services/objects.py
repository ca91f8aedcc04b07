"""S3: objects that a write replaces whole. Buckets exist by use.

It leaves out versions, uploads in parts, conditions of reads, tags, rights, and pages of a listing.
"""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn
from urllib.parse import unquote

from oneslot.dynamodb_in_memory.answers import client_error, refuse_unknown
from oneslot.explorer.services.account import Account, Answer, Operation, Parameters

BUCKET = "s3/"
MAXIMUM_KEYS = 1000
"""The keys of one listing (API reference)."""

Objects = dict[str, dict[str, Any]]

_KEPT = ("ContentType", "Metadata", "ContentEncoding", "ContentDisposition", "CacheControl")
_WRITTEN = (
    "Bucket Key Body ContentLength ContentMD5 ChecksumAlgorithm IfMatch IfNoneMatch ACL Tagging StorageClass "
    f"ServerSideEncryption SSEKMSKeyId ExpectedBucketOwner {' '.join(_KEPT)}"
)
_READ = "Bucket Key ChecksumMode ExpectedBucketOwner"


def object_of(content: bytes | str, **kept: Any) -> dict[str, Any]:
    """Return what a bucket holds of an object with this content."""
    body = content.encode() if isinstance(content, str) else bytes(content)
    return {"Body": body, "ContentType": "binary/octet-stream", **kept}


def etag(held: Mapping[str, Any]) -> str:
    """Return the ETag of an object that was put whole."""
    return f'"{hashlib.md5(held["Body"], usedforsecurity=False).hexdigest()}"'


def _objects(account: Account, parameters: Parameters) -> Objects:
    return account.state.setdefault(BUCKET + parameters["Bucket"], {})


def _fail(name: str, status: int, code: str, message: str) -> NoReturn:
    raise client_error(name, code, message, ResponseMetadata={"HTTPStatusCode": status})


def _existing(name: str, held: Mapping[str, Any] | None) -> Answer:
    """Return an object, or raise the refusal of an operation because there is none."""
    if held is None and name == "HeadObject":
        _fail(name, 404, "404", "Not Found")
    if held is None:
        _fail(name, 404, "NoSuchKey", "The specified key does not exist.")
    return held


def put_object(account: Account, parameters: Parameters) -> Answer:
    """Write an object, perhaps under a condition on the one that it replaces."""
    refuse_unknown("PutObject", parameters, _WRITTEN)
    objects, key, wanted = _objects(account, parameters), parameters["Key"], parameters.get("IfMatch")
    taken = parameters.get("IfNoneMatch") == "*" and key in objects
    if taken or (wanted is not None and wanted.strip('"') != etag(_existing("PutObject", objects.get(key))).strip('"')):
        message = "At least one of the pre-conditions you specified did not hold"
        _fail("PutObject", 412, "PreconditionFailed", message)
    kept = {name: parameters[name] for name in _KEPT if name in parameters}
    objects[key] = {**object_of(parameters.get("Body", b""), **kept), "LastModified": account.now}
    return {"ETag": etag(objects[key])}


def _found(name: str, account: Account, parameters: Parameters) -> Answer:
    refuse_unknown(name, parameters, _READ)
    return _existing(name, _objects(account, parameters).get(parameters["Key"]))


def _described(held: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in held.items() if name != "Body"}
    return {"Metadata": {}, **rest, "ETag": etag(held), "ContentLength": len(held["Body"])}


def get_object(account: Account, parameters: Parameters) -> Answer:
    """Read an object."""
    held = _found("GetObject", account, parameters)
    return {**_described(held), "Body": held["Body"]}


def head_object(account: Account, parameters: Parameters) -> Answer:
    """Read what describes an object."""
    return _described(_found("HeadObject", account, parameters))


def delete_object(account: Account, parameters: Parameters) -> Answer:
    """Delete an object; there need be none."""
    refuse_unknown("DeleteObject", parameters, "Bucket Key ExpectedBucketOwner")
    _objects(account, parameters).pop(parameters["Key"], None)
    return {}


def delete_objects(account: Account, parameters: Parameters) -> Answer:
    """Delete objects."""
    refuse_unknown("DeleteObjects", parameters, "Bucket Delete ChecksumAlgorithm ExpectedBucketOwner")
    wanted = parameters["Delete"]["Objects"]
    for one in wanted:
        _objects(account, parameters).pop(one["Key"], None)
    return {} if parameters["Delete"].get("Quiet") else {"Deleted": [{"Key": one["Key"]} for one in wanted]}


def copy_object(account: Account, parameters: Parameters) -> Answer:
    """Copy an object whole."""
    known = f"Bucket Key CopySource MetadataDirective {' '.join(_KEPT)} ACL StorageClass ServerSideEncryption"
    refuse_unknown("CopyObject", parameters, known)
    source = parameters["CopySource"]
    if isinstance(source, str):
        bucket, _, key = unquote(source).lstrip("/").partition("/")
        source = {"Bucket": bucket, "Key": key}
    held = _existing("CopyObject", _objects(account, source).get(source["Key"]))
    replaces = parameters.get("MetadataDirective") == "REPLACE"
    is_same = (source["Bucket"], source["Key"]) == (parameters["Bucket"], parameters["Key"])
    if is_same and not (replaces or parameters.keys() & {"StorageClass", "ServerSideEncryption"}):
        message = "This copy request is illegal because it is trying to copy an object to itself without changing it."
        _fail("CopyObject", 400, "InvalidRequest", message)
    if replaces:
        held = object_of(held["Body"], **{name: parameters[name] for name in _KEPT if name in parameters})
    _objects(account, parameters)[parameters["Key"]] = {**held, "LastModified": account.now}
    return {"CopyObjectResult": {"ETag": etag(held), "LastModified": account.now}}


def list_objects_v2(account: Account, parameters: Parameters) -> Answer:
    """List up to 1,000 keys that begin with a prefix. `Marker` is what the first version calls `StartAfter`."""
    known = "Bucket Prefix StartAfter Marker MaxKeys EncodingType ExpectedBucketOwner"
    refuse_unknown("ListObjectsV2", parameters, known)
    prefix, after = parameters.get("Prefix", ""), parameters.get("StartAfter", parameters.get("Marker", ""))
    objects = _objects(account, parameters)
    keys = [key for key in sorted(objects) if key.startswith(prefix) and key > after]
    most = min(parameters.get("MaxKeys", MAXIMUM_KEYS), MAXIMUM_KEYS)
    shown = [
        {
            "Key": key,
            "LastModified": objects[key]["LastModified"],
            "ETag": etag(objects[key]),
            "Size": len(objects[key]["Body"]),
            "StorageClass": "STANDARD",
        }
        for key in keys[:most]
    ]
    body = {"Name": parameters["Bucket"], "Prefix": prefix, "MaxKeys": most, "KeyCount": len(shown)}
    return {**body, "IsTruncated": len(keys) > most, **({"Contents": shown} if shown else {})}


def before(objects: Mapping[str, Mapping[str, bytes | str]], since: datetime) -> Iterator[list[Any]]:
    """Yield the container, key and value of each object that exists at the start."""
    for bucket, held in objects.items():
        for key, content in held.items():
            yield [BUCKET + bucket, key, {**object_of(content), "LastModified": since}]


_ALL = (put_object, get_object, head_object, delete_object, delete_objects, copy_object, list_objects_v2)
OPERATIONS: dict[str, Operation] = {f"s3.{operation.__name__}": operation for operation in _ALL}
OPERATIONS["s3.list_objects"] = list_objects_v2
