"""The audit's questions as plain SQL joins for DuckDB, written from the invariants and independently of the audit.

The tests compare its answers with the audit's, and the benchmark times it on the same files.
"""

import json
from pathlib import Path

import duckdb

ITEMS = {
    "ledger": "message_id S, status S, result S, consumption_count N, updated N, lease_until N",
    "slots": "practice S, slot_id S, status S, appointment_id S, free_key S, delivery_channel S, "
    "service_type S, start S, end S",
    "appointments": "appointment_id S, status S, practice S, slot_id S, start S, end S, cancelled_by S, created N, updated N",
}
LINES = {
    "deliveries": "message VARCHAR, message_id VARCHAR, sqs_message_id VARCHAR, outcome VARCHAR, "
    "consumption_count BIGINT, sent BIGINT, finished BIGINT, claimed_by VARCHAR, answer VARCHAR",
    "accepted": "message_id VARCHAR, sent BIGINT, copies BIGINT",
    "dead-letters": "message_id VARCHAR, source_message_id VARCHAR",
    "dropped": "message_id VARCHAR, source_message_id VARCHAR, at BIGINT",
    "waiting": "message_id VARCHAR, sqs_message_id VARCHAR",
}
WORDS = "['booked', 'waitlist', 'cancelled', 'refused']"
FIRST = "('booked', 'waitlist', 'cancelled', 'refused')"
PATIENCE = 4 * 24 * 3600 * 1000

PREPARATION = f"""
create temp macro gone(since, moment) as coalesce(since + getvariable('retention') < moment, false)
  or coalesce(since < getvariable('forgotten_before'), false);
create temp table slots as select *, coalesce(
  free_key = concat_ws('#', delivery_channel, service_type, start, "end", slot_id), false) as findable from slots_file;
create temp table appointments as from appointments_file;
create temp table ledger_read as select * exclude (result), result ->> 'outcome' as outcome,
  result ->> 'appointment_id' as target, result ->> 'practice' as at_practice, result ->> 'slot_id' as at_slot,
  result ->> 'start' as at_start, result ->> 'end' as at_end,
  status = 'COMPLETE' as complete, case when lease_until > updated then lease_until else updated end as left_alone
  from (select * replace (try_cast(result as json) as result) from ledger_file);
create temp table log as select message_id as id, count(*) as lines,
  count(*) filter (outcome in {FIRST} or outcome = 'duplicate') as done,
  count(distinct answer) as answers, greatest(count(distinct claimed_by), max(consumption_count)) as claims,
  max(finished) as last_finished, min(finished) filter (outcome in {FIRST}) as answered, min(sent) as sent,
  max(finished) filter (outcome = 'quarantined') as quarantined,
  list_extract({WORDS}, max(list_position({WORDS}, outcome))::int) as delivered
  from deliveries_file where message = 'delivery' and message_id is not null and finished < getvariable('now') group by all;
create temp table kept as select message_id as id, min(sent) as sent from accepted_file where message_id is not null
  group by all;
create temp table archive as select id from kept union select id from log;
create temp table cancels as select cancelled_by as id, appointment_id as target, updated as made from appointments
  where status = 'cancelled';
create temp table cancelled_something as select id, max(made) as created from cancels group by all;
create temp table dead as select distinct message_id as id from "dead-letters_file" where message_id is not null;
create temp table given_up as select distinct message_id as id from dropped_file where message_id is not null;
create temp table queued as select distinct message_id as id from waiting_file where message_id is not null;
create temp table held as select appointment_id as id, count(*) as slots from slots where appointment_id is not null
  group by all;
create temp table booked_on as select practice, slot_id, count(*) as bookings, max(appointment_id) as holder
  from appointments where status = 'booked' group by all;
"""  # noqa: S608 - no input: this file's constants

# All facts about a request in one row, joined by its id.
REQUESTS = """
create temp table requests as
select coalesce(l.message_id, a.id, d.id, q.id, x.id) as id, l.status, coalesce(l.complete, false) as complete, l.outcome,
  l.target, l.at_practice, l.at_slot, l.consumption_count, l.left_alone, l.message_id is not null as has_row,
  p.appointment_id is not null as has_appointment, p.status as held_status, p.practice as held_practice,
  p.slot_id as held_slot, p.created, p.practice is not null as made, log.lines, coalesce(log.done, 0) as done, log.answers,
  log.claims, log.delivered, d.id is not null as dead, x.id is not null as given_up,
  q.id is not null as waits, coalesce(held.slots, 0) as slots,
  coalesce(kept.sent, log.sent) as first_seen, b.id is not null as blocked,
  case when p.practice is not null then p.created when b.id is not null then b.created
    when log.answered is not null then log.answered when log.done > 0 then 0 when log.done = 0 then log.last_finished
    when kept.sent < log.sent or log.sent is null then kept.sent else log.sent end as decided,
  l.message_id is null and gone(decided, $now) as forgotten,
  forgotten or coalesce(not l.complete and gone(decided, l.left_alone), false) as excused,
  gone(log.sent, $now) as renewed,
  coalesce(p.status = 'cancelled' and gone(decided, log.last_finished), false) as answered_again,
  d.id is null and q.id is null and x.id is null as nowhere,
  nowhere and not (getvariable('queue_known') and getvariable('letters_known')) and coalesce(
    l.message_id is null or log.quarantined >= l.left_alone, false) and log.quarantined is not null as set_aside,
  coalesce(getvariable('queue_known') or first_seen + $patience < $now, false) as overdue,
  coalesce(l.status = 'IN_PROGRESS' and l.left_alone + if(getvariable('queue_known'), 0, $patience) < $now, false) as idle
from ledger_read l full join archive a on a.id = l.message_id full join dead d on d.id = coalesce(l.message_id, a.id)
  full join queued q on q.id = coalesce(l.message_id, a.id, d.id)
  full join given_up x on x.id = coalesce(l.message_id, a.id, d.id, q.id)
  left join appointments p on p.appointment_id = coalesce(l.message_id, a.id, d.id, q.id, x.id)
  left join log on log.id = coalesce(l.message_id, a.id, d.id, q.id, x.id)
  left join kept on kept.id = coalesce(l.message_id, a.id, d.id, q.id, x.id)
  left join cancelled_something b on b.id = coalesce(l.message_id, a.id, d.id, q.id, x.id)
  left join held on held.id = coalesce(l.message_id, a.id, d.id, q.id, x.id)
"""

VERDICT = """
case
  when slots > 1 then 'duplicate_effect'
  when complete and held_status = 'cancelled' then 'cancelled'
  when complete and outcome in ('booked', 'waitlist', 'refused') and target = id then outcome
  when complete and outcome = 'cancelled' then 'cancelled'
  when complete then 'stuck'
  when dead then 'quarantined'
  when not has_row and made then held_status
  when not has_row and blocked then 'cancelled'
  when forgotten and delivered is not null then delivered
  when given_up and not waits then 'dropped'
  when set_aside then 'quarantined'
  when idle and nowhere then 'stuck'
  when forgotten and nowhere then 'forgotten'
  when not has_row and nowhere and overdue then 'lost'
  else 'in_flight' end
"""
VERDICTS = f"select id, {VERDICT} as verdict from requests"  # noqa: S608 - no input: this file's constants

# The rows that the audit writes for its next run: one for each request and slot, with its evidence.
JUDGED = f"""
select 'request' as subject, {VERDICT} as verdict, * from requests
union all by name
select 'slot' as subject, s.practice || '/' || s.slot_id as id, s.status as slot_status, s.appointment_id as slot_holder,
  s.findable, b.bookings, b.holder
from slots s left join booked_on b using (practice, slot_id)
"""  # noqa: S608 - no input: this file's constants

VIOLATIONS = f"""
select 'I1', id from held where slots > 1;
select 'I2', id from requests
  where nowhere and not complete and not set_aside and not forgotten and case when getvariable('queue_known')
    then id in (select id from archive) when has_row then idle else overdue end;
select 'I3', practice || '/' || slot_id from booked_on where bookings > 1;
select 'I4', s.practice || '/' || s.slot_id from slots s left join booked_on b using (practice, slot_id)
  where (s.status = 'busy' and (b.holder is null or (b.bookings = 1 and b.holder is distinct from s.appointment_id)))
     or (s.status = 'free' and (s.appointment_id is not null or not s.findable));
select 'I4', a.appointment_id from appointments a left join slots s using (practice, slot_id)
  where a.status = 'booked' and a.appointment_id not in (select id from held where slots > 1)
    and (s.status is distinct from 'busy' or s.appointment_id is distinct from a.appointment_id
      or s.start is distinct from a.start or s."end" is distinct from a."end");
select 'I5', l.message_id from ledger_read l left join appointments p on p.appointment_id = l.message_id
  where l.complete and not coalesce(case l.outcome when 'cancelled' then l.target = l.message_id or p.practice is null
    else l.target = l.message_id and case when l.outcome = 'refused' then p.status is null or p.practice is null
      else l.outcome in ('booked', 'waitlist') and p.status in (l.outcome, 'cancelled') and l.at_practice = p.practice
        and (l.at_slot, l.at_start, l.at_end) is not distinct from (p.slot_id, p.start, p."end") end end, false);
select distinct 'I5', l.target from ledger_read l left join appointments p on p.appointment_id = l.target
  where l.complete and l.outcome = 'cancelled' and p.status is distinct from 'cancelled';
select 'I5', c.id from cancels c join ledger_read l on l.message_id = c.id
  where l.complete and not coalesce(l.outcome = 'cancelled' and l.target = c.target, false);
select distinct 'I5r', author from (
  select appointment_id as author, created as made from appointments where practice is not null
  union all select id, made from cancels) deeds
  left join ledger_read l on l.message_id = author
  where not coalesce(l.complete, false) and not (l.message_id is null and gone(made, getvariable('now')))
    and not (l.message_id is not null and gone(made, l.left_alone));
select 'I6', id from requests where done > 0 and not complete and not excused;
select 'I7', id from requests where answers > 1 and not answered_again;
select 'I7', id from requests where complete and delivered <> outcome and not renewed
  and (outcome = 'cancelled' or (target = id and list_contains({WORDS}, outcome)));
select 'I9', id from requests where idle and nowhere and not set_aside;
select 'I10', id from requests
  where has_row and consumption_count < if(renewed, 1, greatest(1, coalesce(claims, 1)));
select 'I11', id from requests where (dead or given_up) and made and not complete and not excused
"""  # noqa: S608 - no input: this file's constants


def open_history(folder: Path, threads: int | None = None, memory: str | None = None) -> duckdb.DuckDBPyConnection:
    """Return a connection in which every source of a history with full exports is a view, `<source>_file`."""
    # Keeping the files' order takes time and memory. Where order matters, a query asks for it.
    settings = {"threads": threads, "memory_limit": memory, "preserve_insertion_order": False}
    connection = duckdb.connect(config={name: value for name, value in settings.items() if value is not None})
    for table, attributes in ITEMS.items():
        pairs = [attribute.split() for attribute in attributes.split(", ")]
        columns = ", ".join(f'"{name}" STRUCT({kind} VARCHAR)' for name, kind in pairs)
        values = ", ".join(
            f'Item."{name}".{kind}' + ("::BIGINT" if kind == "N" else "") + f' as "{name}"' for name, kind in pairs
        )
        files = f"{folder}/{table}/AWSDynamoDB/*/data/*.json.gz"
        connection.execute(
            f"create view {table}_file as select {values} "  # noqa: S608 - constants, and a folder that the caller made
            f"from read_json('{files}', format='newline_delimited', columns={{'Item': 'STRUCT({columns})'}})"
        )
    for name, columns in LINES.items():
        typed = ", ".join(f"'{column.split()[0]}': '{column.split()[1]}'" for column in columns.split(", "))
        if (folder / name).exists():
            source = f"read_json('{folder / name}/*', format='newline_delimited', columns={{{typed}}})"
        else:
            nothing = ", ".join(f"null::{column.split()[1]} as {column.split()[0]}" for column in columns.split(", "))
            source = f"(select {nothing} where false)"
        connection.execute(f'create view "{name}_file" as select * from {source}')  # noqa: S608 - no input: this file's constants
    for variable, name in (("queue_known", "waiting"), ("letters_known", "dead-letters")):
        connection.execute(f"set variable {variable} = {(folder / name).exists()}")
    return connection


def gather(connection: duckdb.DuckDBPyConnection, now: int, folder: Path) -> None:
    """Read everything once and join it by request, as of `now` (epoch ms) and of the history's context."""
    path = folder / "context.json"
    context = json.loads(path.read_text()) if path.exists() else {}
    retention = context["ledger_retention_seconds"] * 1000 if "ledger_retention_seconds" in context else "null"
    before = epoch_ms(context["ledger_forgotten_before"]) if "ledger_forgotten_before" in context else "null"
    for name, value in {"now": now, "retention": retention, "forgotten_before": before}.items():
        connection.execute(f"set variable {name} = {value}")
    connection.execute(PREPARATION)
    connection.execute(REQUESTS, {"now": now, "patience": PATIENCE})


def verdicts(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the verdict on each request with an id."""
    return dict(connection.execute(VERDICTS).fetchall())


def violations(connection: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    """Return each violation and its subject, after `gather`."""
    # One query after the other needs less memory than all at once.
    questions = connection.extract_statements(VIOLATIONS)
    return {found for question in questions for found in connection.execute(question).fetchall()}


def moment(folder: Path) -> int:
    """Return the time of a history's exports, epoch ms."""
    (summary,) = folder.glob("ledger/AWSDynamoDB/*/manifest-summary.json")
    return epoch_ms(json.loads(summary.read_text())["exportTime"])


def epoch_ms(moment: str) -> int:
    """Return ISO 8601 with a zone as epoch ms."""
    return int(duckdb.execute("select epoch_ms(?::timestamptz)", [moment]).fetchall()[0][0])
