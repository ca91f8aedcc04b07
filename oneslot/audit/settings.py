"""The settings of an audit, and the command line that names them."""

import argparse
from dataclasses import dataclass

from oneslot.audit.spark.session import SessionSettings
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
        reject_share: the largest share of malformed lines in a sound history.
        patience_seconds: how long a request may be unseen while the content of the queue is not known.
        consumer: the file that declares the consumer, on this machine or where Spark reads; None for the job's own.
        keeps: keep the rows that an audit of changes needs to continue this one: twice the disk. An audit that continues
            another does so in any case.
        tables: also write the operations tables, findings and report, beside verdicts and totals.
    """

    history: str
    output: str
    previous: str | None = None
    deliveries: tuple[str, ...] = ()
    reject_share: float = REJECT_SHARE
    patience_seconds: int = 4 * 24 * 3600
    consumer: str | None = None
    tables: bool = True
    keeps: bool = False


def parse_arguments(arguments: list[str]) -> tuple[AuditSettings, SessionSettings]:
    """Parse the job's command line. Unknown arguments are ignored, because services add their own (Glue: --JOB_NAME)."""
    parser = argparse.ArgumentParser(prog="job.py", description="Judge every request by what the system left behind.")
    parser.add_argument("--history", type=_folder, required=True, help="folder with the sources")
    parser.add_argument("--output", type=_folder, required=True, help="folder to create; it must not exist")
    parser.add_argument("--previous", type=_folder, help="output of the audit that this one continues")
    parser.add_argument(
        "--deliveries",
        action="append",
        default=[],
        help="further folders with files of the delivery log: repeat the option, or separate them by commas",
    )
    parser.add_argument("--consumer", help="the consumer's oneslot.toml; default: that of the package or folder")
    parser.add_argument("--reject-share", type=float, default=AuditSettings.reject_share)
    parser.add_argument("--patience-seconds", type=int, default=AuditSettings.patience_seconds)
    parser.add_argument(
        "--continue", dest="keeps", action="store_true", help="keep what the next audit of changes needs"
    )
    parser.add_argument("--memory", default=SessionSettings.memory, help="memory of the driver on one machine")
    given = vars(parser.parse_known_args(arguments)[0])
    memory, folders = given.pop("memory"), ",".join(given.pop("deliveries")).split(",")
    settings = AuditSettings(**given, deliveries=tuple(_folder(folder) for folder in folders if folder))
    return settings, SessionSettings(memory=memory)


def _folder(path: str) -> str:
    return path.rstrip("/")
