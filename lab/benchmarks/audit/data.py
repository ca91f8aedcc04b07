"""Histories of millions of requests for the audit's benchmark, in the layout that DynamoDB and the consumer write.

One SQL expression in DuckDB builds each line, and lines leave as one text. Only the manifests' writer is shared with the audit.
"""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import duckdb

from oneslot.audit.layout import Full, Incremental, Part, write_export

ARN = "arn:aws:dynamodb:eu-west-2:000000000000:table/Oneslot-benchmark-"
START = 1_795_000_000_000
DAY_MS = 86_400_000
REQUESTS_PER_FILE = 250_000
GZIP_LEVEL = 1  # written four times as fast as level 6, and read as the same bytes

# One row for each request i: its kind, the time it was sent, and the slot that it would take. Of a hundred requests 87 are
# booked, 7 wait, 2 are refused, 2 are booked and cancelled, and 2 are those cancellations.
REQUESTS = """
select i, md5(i::varchar) as id, i % 100 as share,
  {practice} as practice,
  '20261123T' || lpad((8 + i % 10)::varchar, 2, '0') || '00Z-' || i as slot_id,
  '2026-11-' || lpad((1 + i % 28)::varchar, 2, '0') || 'T' || lpad((8 + i % 10)::varchar, 2, '0') || ':00:00Z' as start_at,
  {start} + (hash(i) % {span})::bigint as sent,
  case i % 3 when 0 then 'In-person' when 1 then 'Telephone' else 'Video' end as channel,
  case when i % 100 < 87 then 'booked' when i % 100 < 94 then 'waitlist' when i % 100 < 96 then 'refused'
       when i % 100 < 98 then 'withdrawn' else 'cancellation' end as fate,
  case when i % 100 >= 98 then md5((i - 2)::varchar) else md5(i::varchar) end as target,
  case when i % 50 = 1 then 2 else 1 end as claims,
  md5('c' || i) as claimed_by
from range({first}, {last}) as numbers(i)
"""

RESULT = """
'{\\"outcome\\": \\"' || case fate when 'withdrawn' then 'booked' when 'cancellation' then 'cancelled' else fate end
|| '\\", \\"appointment_id\\": \\"' || target || '\\"'
|| case when fate in ('booked', 'withdrawn') then ', \\"practice\\": \\"' || practice || '\\", \\"slot_id\\": \\"' || slot_id
   || '\\", \\"start\\": \\"' || start_at || '\\", \\"end\\": \\"' || start_at || '\\"'
   when fate = 'waitlist' then ', \\"practice\\": \\"' || practice || '\\"'
   when fate = 'refused' then ', \\"reason\\": \\"window_passed\\"' else '' end || '}'
"""

ITEMS = {
    "ledger": (
        "true",
        f"""'{{"message_id":{{"S":"' || id || '"}},"status":{{"S":"COMPLETE"}},"consumption_count":{{"N":"' || claims
        || '"}},"updated":{{"N":"' || (sent + 900) || '"}},"claimed_by":{{"S":"' || claimed_by || '"}},"payload_hash":{{"S":"'
        || md5('p' || i) || claimed_by || '"}},"result":{{"S":"' || {RESULT}
        || '"}},"expires_at":{{"N":"' || (sent // 1000 + 3000000) || '"}}}}'""",
    ),
    "slots": (
        "fate <> 'cancellation'",
        """'{"practice":{"S":"' || practice || '"},"slot_id":{"S":"' || slot_id || '"},"start":{"S":"' || start_at
        || '"},"end":{"S":"' || start_at || '"},"delivery_channel":{"S":"' || channel
        || '"},"service_type":{"S":"General Consultation Routine"},' || case when fate = 'booked'
        then '"status":{"S":"busy"},"appointment_id":{"S":"' || id || '"}}'
        else '"status":{"S":"free"},"free_key":{"S":"' || channel || '#General Consultation Routine#' || start_at || '#'
        || start_at || '#' || slot_id || '"}}' end""",
    ),
    "appointments": (
        "fate in ('booked', 'waitlist', 'withdrawn')",
        """'{"appointment_id":{"S":"' || id || '"},"status":{"S":"' || case fate when 'withdrawn' then 'cancelled' else fate
        end || '"},"practice":{"S":"' || practice || '"},"nhs_number":{"S":"9990000018"},"delivery_channel":{"S":"' || channel
        || '"},"service_type":{"S":"General Consultation Routine"},"payload_hash":{"S":"' || md5('p' || i) || claimed_by
        || '"},"not_before":{"S":"2026-11-01T08:00:00Z"},"not_after":{"S":"2026-12-01T08:00:00Z"},'
        || '"created":{"N":"' || (sent + 900) || '"},"updated":{"N":"'
        || (sent + 900) || '"}' || case when fate <> 'waitlist' then ',"slot_id":{"S":"' || slot_id || '"},"start":{"S":"'
        || start_at || '"},"end":{"S":"' || start_at || '"}' else '' end
        || case when fate = 'withdrawn' then ',"cancelled_by":{"S":"' || md5((i + 2)::varchar) || '"}' else '' end || '}'""",
    ),
}

DELIVERY = """'{"level":"INFO","message":"delivery","message_id":"' || id || '","sqs_message_id":"' || md5('s' || i || copy)
|| '","receive_count":1,"outcome":"' || case copy when 0 then case fate when 'withdrawn' then 'booked'
when 'cancellation' then 'cancelled' else fate end when 1 then 'duplicate' else 'fenced' end
|| '","reason":null,"consumption_count":' || case copy when 2 then 1 else claims end || ',"sent":' || sent
|| ',"attempt_ms":21,"finished":' || (sent + 50 + (hash(i, copy) % 2000)::bigint) || ',"claimed_by":"'
|| case copy when 2 then md5('d' || i) else claimed_by end || '","answer":' || case copy when 2 then 'null'
else '"' || substr(md5('a' || i), 1, 16) || '"' end || ',"function_request_id":"' || md5('f' || i)
|| '","service":"appointments"}'"""
DELIVERIES = """(select *, unnest(case when i % 20 = 0 then [0, 1] when i % 50 = 1 then [2, 0] else [0] end) as copy
from requests)"""
ACCEPTED = """'{"message_id":"' || id || '","sent":' || sent || ',"copies":1,"kind":"request","payload_hash":"'
|| md5('p' || i) || claimed_by || '"}'"""


@dataclass(frozen=True)
class Requests:
    """Requests `first` to `last` (exclusive), sent within `span_ms` from `start` (epoch ms)."""

    first: int
    last: int
    start: int = START
    span_ms: int = 20 * DAY_MS
    practice: str = "'A' || (80000 + (i * 7919) % 6000)"

    @property
    def end(self) -> int:
        """The time of the exports, after all events."""
        return self.start + self.span_ms + 10_000


def write_full(
    folder: Path, several: Sequence[Requests], more: Mapping[str, Part] | None = None, since: int | None = None
) -> None:
    """Write a history with full exports of all tables, and `more` lines of any source, by the name of its folder.

    With `since` (epoch ms) the exports have the changes since then: each row of these requests is new.
    """
    besides, end = more or {}, max(requests.end for requests in several)

    def table(name: str) -> None:
        condition, item = ITEMS[name]
        head = """{"Metadata":{"WriteTimestampMicros":{"N":"' || sent * 1000 || '"}},"NewImage":"""
        line = f"""'{'{"Item":' if since is None else head}' || {item} || '}}'"""
        parts = chain.from_iterable(_parts(requests, "requests", condition, line) for requests in several)
        with_more = chain(parts, [besides[name]] if name in besides else [])
        span = Full(end) if since is None else Incremental(since, end)
        write_export(folder / name, f"{ARN}{name}", span, with_more, level=GZIP_LEVEL)

    for empty in ("waiting", "dead-letters", "dropped"):
        (folder / empty).mkdir(parents=True)
        (folder / empty / f"{empty}.jsonl").touch()
    with ThreadPoolExecutor(len(ITEMS) + 2) as writers:
        tasks = [writers.submit(table, name) for name in ITEMS]
        tasks.append(writers.submit(_write_lines, folder / "deliveries", several, DELIVERIES, DELIVERY))
        tasks.append(writers.submit(_write_lines, folder / "accepted", several, "requests", ACCEPTED))
        for task in tasks:
            task.result()
    for name, part in besides.items():
        if name not in ITEMS:
            (folder / name / "more.jsonl").write_bytes(part.lines)


def write_again(folder: Path, requests: Requests, copies: int) -> None:
    """Add lines of as many duplicate deliveries of the first request."""
    again = f"(select *, 1 as copy from requests, range({REQUESTS_PER_FILE}))"  # noqa: S608 - no input: a number of this file
    (part,) = _parts(replace(requests, last=requests.first + 1), again, "true", DELIVERY)
    for number in range(copies // REQUESTS_PER_FILE):
        (folder / "deliveries" / f"again-{number}.jsonl.gz").write_bytes(gzip.compress(part.lines, GZIP_LEVEL, mtime=0))


def _write_lines(folder: Path, several: Sequence[Requests], source: str, line: str) -> None:
    folder.mkdir(exist_ok=True)
    parts = chain.from_iterable(_parts(requests, source, "true", line) for requests in several)
    for number, part in enumerate(parts):
        (folder / f"part-{number:04d}.jsonl.gz").write_bytes(gzip.compress(part.lines, GZIP_LEVEL, mtime=0))


def _parts(requests: Requests, source: str, condition: str, line: str) -> Iterator[Part]:
    connection = duckdb.connect(config={"threads": 1})
    for first in range(requests.first, requests.last, REQUESTS_PER_FILE):
        last = min(first + REQUESTS_PER_FILE, requests.last)
        where = {"first": first, "last": last, "practice": requests.practice}
        rows = REQUESTS.format(start=requests.start, span=requests.span_ms, **where)
        query = f"with requests as ({rows}) select string_agg({line} || chr(10), ''), count(*) from {source} where {condition}"  # noqa: S608 - no input, only numbers and this file's text
        lines, count = connection.execute(query).fetchall()[0]
        yield Part((lines or "").encode(), count)
    connection.close()
