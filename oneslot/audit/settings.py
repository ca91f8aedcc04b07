"""The settings of an audit, and the command line that names them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from oneslot.audit.spark.session import SessionSettings, size_on_disk
from oneslot.laws.form import REJECT_SHARE


@dataclass(frozen=True)
class AuditSettings:
    """The input of an audit and the place of its output.

    Attributes:
        history: the folder with the sources; `oneslot.audit.read.history` has its layout.
        output: a folder that does not exist. It appears when it is complete.
        previous: the output of the audit that this one continues, or None for a full audit.
        deliveries: further folders with files of the delivery log. A line counts only if it finished before the exports' end
            and, in an audit of changes, not before their begin. These folders hold lines that arrived late.
        partitions: the number of chunks, and so of files of verdicts; the same number gives the same bytes. None: one for
            each 75,000 items of the exports, so that a chunk does not grow with the history.
        reject_share: the largest share of malformed lines in a sound history.
        patience_seconds: how long a request may be unseen while the content of the queue is not known.
        checksums: also read every data file to compare its MD5 with the manifest's.
        consumer: the file that declares the consumer, on this machine or where Spark reads; None for the job's own.
        keeps: keep the rows that an audit of changes needs to continue this one: twice the disk. An audit that continues
            another does so in any case.
        tables: also write the operations tables, findings and report, beside verdicts and totals.
    """

    history: str
    output: str
    previous: str | None = None
    deliveries: tuple[str, ...] = ()
    partitions: int | None = None
    reject_share: float = REJECT_SHARE
    patience_seconds: int = 4 * 24 * 3600
    checksums: bool = True
    consumer: str | None = None
    tables: bool = True
    keeps: bool = False

    @property
    def reads_bytes(self) -> int | None:
        """The size of the input in bytes; None if it is not on this machine, or partly in earlier audits."""
        return None if self.previous else size_on_disk(self.history, *self.deliveries)


def parse_arguments(arguments: list[str]) -> tuple[AuditSettings, SessionSettings]:
    """Parse the job's command line. Unknown arguments are ignored, because services add their own (Glue: --JOB_NAME)."""
    parser = argparse.ArgumentParser(prog="job.py", description="Judge every request by what the system left behind.")
    parser.add_argument("--history", required=True, help="folder with the sources")
    parser.add_argument("--output", required=True, help="folder to create; it must not exist")
    parser.add_argument("--previous", help="output of the audit that this one continues")
    parser.add_argument(
        "--deliveries",
        action="append",
        default=[],
        help="further folders with files of the delivery log: repeat the option, or separate them by commas",
    )
    parser.add_argument("--consumer", help="the consumer's oneslot.toml; default: that of the package or folder")
    parser.add_argument("--partitions", type=int, help="partitions of the shuffle; default: by the size of the exports")
    parser.add_argument("--reject-share", type=float, default=AuditSettings.reject_share)
    parser.add_argument("--patience-seconds", type=int, default=AuditSettings.patience_seconds)
    parser.add_argument("--no-checksums", action="store_true")
    parser.add_argument(
        "--continue", dest="keeps", action="store_true", help="keep what the next audit of changes needs"
    )
    parser.add_argument("--memory", default=SessionSettings.memory, help="memory of the driver on one machine")
    parser.add_argument("--scratch", help="folder for Spark's temporary files on one machine")
    given, _ = parser.parse_known_args(arguments)
    settings = AuditSettings(
        history=given.history.rstrip("/"),
        output=given.output.rstrip("/"),
        previous=given.previous.rstrip("/") if given.previous else None,
        deliveries=tuple(folder.rstrip("/") for folder in ",".join(given.deliveries).split(",") if folder),
        partitions=given.partitions,
        reject_share=given.reject_share,
        patience_seconds=given.patience_seconds,
        checksums=not given.no_checksums,
        consumer=given.consumer,
        keeps=given.keeps,
    )
    session = SessionSettings(
        memory=given.memory,
        scratch=given.scratch,
        partitions=given.partitions,
        reads_bytes=settings.reads_bytes,
    )
    return settings, session
