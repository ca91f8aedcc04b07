"""The deployed function's code on this machine: fetched from the AWS that it is deployed in, so that code runs."""

import hashlib
import io
import re
import urllib.request
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import FunctionConfiguration

FETCH_SECONDS = 30
# Loopback only: the user's proxy must not be asked for 127.0.0.1.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def install(code_url: str, folder: Path, connection: Connection) -> Path:
    """Fetch the zip and unpack it below `folder`, under the name of its digest; return the unpacked folder.

    The same code is unpacked once. Raises `OSError` if it cannot be fetched, `zipfile.BadZipFile` if it is not a zip.
    """
    request = urllib.request.Request(code_url, headers={"X-Amz-Security-Token": connection.session_token or ""})  # noqa: S310 - loopback
    with _OPENER.open(request, timeout=FETCH_SECONDS) as answer:
        content: bytes = answer.read()
    target = folder / hashlib.sha256(content).hexdigest()[:16]
    if not target.exists():
        # Unpack beside it and move, so that an interrupted start leaves no half of a function.
        partial = target.with_suffix(".partial")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(partial)
        partial.rename(target)
    return target


@cache
def modules_of_lambda() -> dict[str, str]:
    """Return the modules that Lambda's runtime brings, boto3 and what it needs, with the folder of each in this Python."""
    modules: dict[str, str] = {}
    packages, seen = ["boto3"], set[str]()
    while packages:
        name = packages.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:  # a requirement of another Python or system
            continue
        seen.add(name)
        for file in package.files or ():
            modules.setdefault(file.parts[0].removesuffix(".py"), str(package.locate_file("")))
        needed = [str(line) for line in package.requires or () if "extra ==" not in line]
        packages += {re.split(r"[^A-Za-z0-9._-]", line)[0] for line in needed} - seen
    return modules


@dataclass(frozen=True)
class Installation:
    """A deployed function on this machine's disk, and the files of its log."""

    function: FunctionConfiguration
    code: Path  # the unpacked asset
    connection: Connection  # the AWS that the handler talks to
    log_file: Path  # the handler's standard output is appended here
    error_file: Path  # and its standard error here

    def environment(self, log_stream: str) -> dict[str, str]:
        """Return the environment of a Lambda process, without the variables of this one."""
        here = self.connection
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.code),  # not the user's home, which may hold AWS configuration
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "LAMBDA_TASK_ROOT": str(self.code),
            "_HANDLER": self.function.handler,
            "AWS_LAMBDA_FUNCTION_NAME": self.function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": self.function.version,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.function.memory_mb),
            "AWS_LAMBDA_LOG_GROUP_NAME": self.function.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_REGION": here.region,
            **here.variables,
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.function.environment,
        }
