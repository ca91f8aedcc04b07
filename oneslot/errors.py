"""Errors whose text is shown to the user.

Each class has a code, its name in small letters: `StackNotFound` is `stack-not-found`. The command line writes it in brackets
behind the sentence, and as `code` with `--json`. `oneslot docs command-line` lists the codes.
"""

from __future__ import annotations

import json
import linecache
import re
import sysconfig
import traceback
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

PACKAGES = {"aws-cdk": "aws-cdk-lib", "py4j": "pyspark", "yaml": "pyyaml"}
"""The packages that are not named like their modules, or that bring the package of the module."""

_NOT_YOURS = (str(Path(__file__).parent), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), "<")


class OneslotError(Exception):
    """The command failed; the sentence says what is wrong and what to do."""

    exit_code = 1
    code = "failed"

    def __init_subclass__(cls) -> None:
        """Make the code of the class's name."""
        super().__init_subclass__()
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


class BadInput(OneslotError):
    """An argument or a file cannot be used."""

    exit_code = 2


class InvalidArguments(BadInput):
    """Arguments or options that contradict each other, one that is missing, or a value out of range."""


class FileUnreadable(BadInput):
    """A file cannot be opened, or is not UTF-8 text."""


class InvalidFile(BadInput):
    """A file is empty, or a line of it is not what the verb reads."""


class FolderExists(BadInput):
    """A new folder was asked for, and it exists."""


class InvalidName(BadInput):
    """A name that a consumer, a table or a handler cannot have."""


class ExtraMissing(BadInput):
    """A package is not installed; an extra of Oneslot brings it."""


class DeclarationNotFound(BadInput):
    """`oneslot.toml` was not found here or in a folder above."""


class DeclarationUntrusted(BadInput):
    """A `oneslot.toml` that was found, and not named, can be changed by another user."""


class InvalidDeclaration(BadInput):
    """A value in `oneslot.toml` is missing, unknown, of another type, or contradicts another one."""


class NotImportable(BadInput):
    """A name in `oneslot.toml`, or the handler of `--handler`, cannot be imported."""


class PageNotFound(BadInput):
    """The documentation has no page or section of this name."""


class StackNotFound(BadInput):
    """AWS has no stack of this name in this account and region."""


class InvalidConfiguration(BadInput):
    """The environment of a worker, or one of its options, is not valid."""


class InvalidScenario(BadInput):
    """A scenario file raises an exception, lacks a name, or has an unknown name or an invalid value."""


class HandlerNotExplorable(BadInput):
    """The explorer cannot run this handler, or a call that it makes."""


class HistoryRefused(BadInput):
    """The audit cannot judge this history."""


class LawFailed(BadInput):
    """A law, or another function that `oneslot.toml` names, raised an exception on these rows."""


class LawNotLocal(BadInput):
    """A law reads rows that do not name the subject which it judges."""


class VerdictsDiffer(BadInput):
    """The audit took a subject for clean, and the laws say otherwise."""


class AuditDied(OneslotError):
    """A process of the audit died, most often for lack of memory."""

    exit_code = 70


class JavaNotStarted(BadInput):
    """Java or Spark did not start with this memory."""


class NoLocalStack(OneslotError):
    """No local stack is running, and no `--stack` was named."""


class LocalStackFailed(OneslotError):
    """The local stack cannot be started or used."""


class AlreadyRunning(LocalStackFailed):
    """A local stack already runs in this state folder, or another command starts one."""


class StaleState(LocalStackFailed):
    """The state folder describes a local stack whose process is gone."""


class HandlerFailed(LocalStackFailed):
    """The deployed function does not start."""


class SynthesisFailed(OneslotError):
    """The CDK app did not write a template that can be deployed here."""


class EmbeddedAwsFailed(OneslotError):
    """The embedded AWS cannot be installed or started, or has ended."""


class DeploymentFailed(OneslotError):
    """The embedded AWS did not deploy the template."""


class UnsupportedMapping(OneslotError):
    """The local poller cannot read for this event source mapping."""


class WrongConsumer(OneslotError):
    """The stack lacks outputs of the declared consumer, so it is another one's."""


class InvalidRetention(OneslotError):
    """The function's variables do not say how long the ledger keeps its rows."""


class MappingNotFound(OneslotError):
    """The stack's event source mapping is gone, so nothing consumes its queue."""


class InvalidArchive(OneslotError):
    """A line of the archive of accepted requests is not valid."""


class MessageRefused(OneslotError):
    """SQS refuses a message for good."""


class QueueTimeout(OneslotError):
    """The queue did not accept messages in time. Sending them again is safe."""


class TableThrottled(OneslotError):
    """DynamoDB throttles a table. Nothing was changed."""


class TableMissing(OneslotError):
    """A table of the stack was deleted, or is being restored."""


class LogNotWritten(OneslotError):
    """The operator log cannot be written, so nothing more was changed."""


class RequestUnknown(OneslotError):
    """Nothing is known of this message id."""


class RowNotFound(OneslotError):
    """The ledger has no row of this message id."""


class NothingToUnlock(OneslotError):
    """The row has no lease that could be ended."""


class MalformedRow(OneslotError):
    """The row lacks an attribute that the change needs."""


class LeaseHeld(OneslotError):
    """A consumer holds the row's lease."""


class RowChanged(OneslotError):
    """The row has changed since it was shown. Nothing was changed."""


class AwsUnreachable(OneslotError):
    """The endpoint of an AWS service does not answer."""


class NoCredentials(OneslotError):
    """The AWS credentials are missing."""


class NoRegion(OneslotError):
    """The AWS region is missing."""


class InvalidCredentials(OneslotError):
    """The AWS credentials are incomplete, or have expired."""


class AwsRefused(OneslotError):
    """An AWS service refused a call; the sentence has its code."""


class AwsUnusable(OneslotError):
    """The AWS SDK cannot make a call."""


class SystemRefused(OneslotError):
    """The operating system refused a file, or another resource."""


class ConsumerFailed(OneslotError):
    """The consumer's own code raised an exception."""


class Unexpected(OneslotError):
    """A fault in Oneslot."""

    exit_code = 70


def place_in_your_code(error: BaseException) -> str | None:
    """Return `file:line` of the innermost frame outside Oneslot, Python and installed packages; None without one."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    yours = [f"{name}:{line}" for name, line in frames if not name.startswith(_NOT_YOURS)]
    return yours[-1] if yours else None


def name_fault(error: BaseException) -> str:
    """Return class and place of an error in the user's code, without its message, which may quote personal data.

    A missing key is named if it is a word that the line of code writes out: the name of an attribute, and not a value.
    """
    place = place_in_your_code(error)
    if place is None:
        return type(error).__name__
    file, _, line = place.rpartition(":")
    key = f"{error.args[0]}" if isinstance(error, KeyError) and error.args else ""
    written = key.isidentifier() and re.search(rf"""["']{key}["']""", linecache.getline(file, int(line)))
    return f"{type(error).__name__} {key!r} at {place}" if written else f"{type(error).__name__} at {place}"


def how_to_install(error: BaseException) -> str | None:
    """Return which extra brings the package that an import did not find; None if no extra brings it."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = _package_of(error.name)
    try:
        requirements = requires("oneslot") or ()
    except PackageNotFoundError:  # run from the source, and not installed
        return None
    for requirement in requirements:
        found = re.match(r"([\w-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found and found[1] == package:
            return missing_package(package, found[2])
    return None


def require_module(module: str, extra: str) -> None:
    """Raise `ExtraMissing`, which names the extra to install if a module is missing, before a verb works in vain."""
    if not find_spec(module):
        raise ExtraMissing(missing_package(_package_of(module), extra))


def missing_package(package: str, extra: str) -> str:
    """Return the sentence for a package that is not installed, and the extra of Oneslot that brings it."""
    return f"{package} is missing; run: {pip_install(extra)}"


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, from where Oneslot was installed: a clone, a wheel, or an index."""
    try:
        origin = json.loads(distribution("oneslot").read_text("direct_url.json") or "{}").get("url", "")
    except PackageNotFoundError:  # run from the source
        origin = Path(__file__).parents[1].as_uri()
    source = unquote(urlsplit(origin).path) if origin.startswith("file:") else "oneslot"
    return f"pip install '{source}[{extra}]'"


def _package_of(module: str) -> str:
    name = module.partition(".")[0].replace("_", "-")
    return PACKAGES.get(name, name)
