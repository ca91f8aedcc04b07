"""The ledger in Valkey or Redis: the same steps and effects, each an atomic script inside the server.

A row is a hash with DynamoDB's field names. An item that effects write is a hash too, each value as canonical JSON, so that
conditions compare type and value as text. A failover, or a crash before the disk was written, can lose acknowledged writes,
and this ledger loses them too: see docs/do/choose-a-store.md before you choose it.

It needs the client `redis` (`pip install oneslot[valkey]`), which works with both servers.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from oneslot.runtime.effects import Delete, Effects, InvalidEffects, Item, Put, Raw, Update, Write, describe
from oneslot.runtime.protocol import (
    COMPLETE,
    Busy,
    Claim,
    CommitRefused,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    Taken,
    refused_claim,
    refused_commit,
    taken,
)
from oneslot.runtime.stores.conditions import terms
from oneslot.runtime.stores.dynamodb import require_identity
from oneslot.runtime.stores.limits import declared_keys, require_retention
from oneslot.runtime.stores.transaction import compiled, key_of
from oneslot.runtime.stores.valkey_client import Client, RedisClient
from oneslot.runtime.surroundings import Backoff, Surroundings, retry
from oneslot.runtime.values import from_attribute, from_json, number, shown_name, to_attribute, to_json

logger = logging.getLogger(__name__)

T = TypeVar("T")

READ_MS = 5_000
"""How long `item` is repeated. The ledger does not know the lease of a decision that reads."""

LARGEST_SUM = 2**53 - 1
"""Up to this size the numbers of Lua are exact."""

_COMPARISONS = ("<", "<=", ">", ">=")

_FOREVER = 0
_FIELDS = ("status", "payload_hash", "lease_until", "claimed_by", "consumption_count", "result")
_ROW = ", ".join(map(repr, _FIELDS))

# An error of a command ends a script and undoes nothing: a right that the user lacks, or a time to live that is too large. So
# each script first calls every command that it writes with, in a way that changes only how long its row lives. HSET is the
# first, because a server without memory refuses it, but not after another write.
_REHEARSAL = """
redis.call('HSET', KEYS[1], 'claimed_by', owner or '')
redis.call('HDEL', KEYS[1], owner and 'no such field' or 'claimed_by')
if ARGV[1] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
"""

# KEYS: the row. ARGV: milliseconds to live, now, claimed_by, lease_until, message_id, payload_hash.
_CLAIM = f"""
local status, hash, lease, owner, count, result = unpack(redis.call('HMGET', KEYS[1], {_ROW}))
if status then
    local ended = status == 'IN_PROGRESS' and tonumber(lease) < tonumber(ARGV[2]) and hash == ARGV[6]
    if not ended then
        return {{'refused', status, hash, lease or '', owner, count, result or ''}}
    end
end
{_REHEARSAL}
count = string.format('%d', (count or 0) + 1)
redis.call('HSET', KEYS[1], 'message_id', ARGV[5], 'status', 'IN_PROGRESS', 'updated', ARGV[2],
    'lease_until', ARGV[4], 'claimed_by', ARGV[3], 'payload_hash', ARGV[6], 'consumption_count', count)
if ARGV[1] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {{'claimed', count}}
"""

# KEYS: the row, then the key of each write. ARGV: milliseconds to live, now, claimed_by, result, position of `once`
# among the writes (0 for none), the writes as JSON. Every condition is checked before anything is written.
_COMMIT = f"""
local status, hash, lease, owner, count, result = unpack(redis.call('HMGET', KEYS[1], {_ROW}))
if status == 'COMPLETE' then
    return {{'complete', result, count, owner}}
end
if not status or owner ~= ARGV[3] then
    return {{'fenced'}}
end
local writes, refused, exists = cjson.decode(ARGV[6]), {{}}, false
for at, write in ipairs(writes) do
    redis.call('HGET', KEYS[at + 1], '')  -- fails on a key of another type, before anything is written
    local holds = true
    if write.new then
        holds = redis.call('EXISTS', KEYS[at + 1]) == 0
    end
    for _, pair in ipairs(write.expect) do
        holds = holds and redis.call('HGET', KEYS[at + 1], pair[1]) == pair[2]
    end
    for _, comparison in ipairs(write.compare) do
        local name, operator, wanted = unpack(comparison)
        local found = tonumber(redis.call('HGET', KEYS[at + 1], name) or '')
        if found and (found % 1 ~= 0 or math.abs(found) > {LARGEST_SUM}) then return {{'unfit'}} end
        holds = holds and found ~= nil and (
            (operator == '<' and found < wanted) or (operator == '<=' and found <= wanted) or
            (operator == '>' and found > wanted) or (operator == '>=' and found >= wanted))
    end
    if not holds then
        refused[#refused + 1] = {{at, redis.call('HGETALL', KEYS[at + 1])}}
        exists = exists or at == tonumber(ARGV[5])
    end
end
if exists then
    return {{'exists', redis.call('HGETALL', KEYS[tonumber(ARGV[5]) + 1])}}
end
if #refused > 0 then
    return {{'taken', refused}}
end
for at, write in ipairs(writes) do
    for _, pair in ipairs(write.add) do
        local text = redis.call('HGET', KEYS[at + 1], pair[1]) or '0'
        local found = tonumber(text) or 0.5
        local sum = found + pair[2]
        if sum % 1 ~= 0 or math.max(math.abs(found), math.abs(sum)) > {LARGEST_SUM} then return {{'unfit'}} end
        write.set[#write.set + 1] = {{pair[1], string.format('%.0f', sum)}}
    end
    if write.clear then
        local fields = redis.call('HGETALL', KEYS[at + 1])
        for position = 1, #fields, 2 do write.remove[#write.remove + 1] = fields[position] end
    end
end
{_REHEARSAL}
for at, write in ipairs(writes) do
    for _, name in ipairs(write.remove) do redis.call('HDEL', KEYS[at + 1], name) end
    for _, pair in ipairs(write.set) do redis.call('HSET', KEYS[at + 1], pair[1], pair[2]) end
end
redis.call('HSET', KEYS[1], 'status', 'COMPLETE', 'updated', ARGV[2], 'result', ARGV[4])
redis.call('HDEL', KEYS[1], 'lease_until')
return {{'committed'}}
"""

# KEYS: the row. ARGV: milliseconds to live, now, claimed_by, lease_until, '1' if a released claim may be changed too.
_SET_LEASE = f"""
local status, lease, owner = unpack(redis.call('HMGET', KEYS[1], 'status', 'lease_until', 'claimed_by'))
if status ~= 'IN_PROGRESS' or owner ~= ARGV[3] then return 0 end
if ARGV[5] ~= '1' then
    if lease == '0' then return 0 end
    if tonumber(lease) > tonumber(ARGV[4]) then return 1 end
end
{_REHEARSAL}
redis.call('HSET', KEYS[1], 'lease_until', ARGV[4], 'updated', ARGV[2])
return 1
"""


class ValkeyLedger:
    """The `Store` steps on one Valkey or Redis database.

    The ledger calls with connections of its own and repeats calls itself, within the lease; the client's retries are not used.

    Args:
        client: made with `decode_responses=True` and socket timeouts. One call takes `socket_connect_timeout` and five or
            six times `socket_timeout` at worst, as long as a new connection's handshake; a client of a cluster takes that for
            each node that it asks. No lease may be shorter.
        prefix: begins every key. In a cluster all keys of one commit must be on one shard: use a hash tag such as
            "{bookings}:", or write no effects.
        keys: as of `DynamoDBLedger`.
        retention_seconds: how long a row outlives its last change and its lease; None for ever. The server must not evict
            keys (`maxmemory-policy noeviction`); the first claim checks that.

    Raises:
        ValueError: for a client that answers in bytes, which would turn every row into a conflict, or that has no socket
            timeout; and for a `retention_seconds` below 1 or over 100 years.
    """

    def __init__(
        self,
        client: Client,
        *,
        prefix: str = "oneslot:",
        retention_seconds: int | None,
        keys: Mapping[str, str | tuple[str, ...]] | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._client = RedisClient(client)
        # A worker's first lease: time for one call, and to renew it afterwards.
        self.shortest_lease_ms = 2 * self._client.longest_call_ms
        self._keys = declared_keys(keys)
        self._prefix = prefix
        require_retention(retention_seconds)
        self._to_live = _FOREVER if retention_seconds is None else int(retention_seconds * 1000)
        self.surroundings = surroundings or Surroundings()
        self._keeps_rows = False
        self._claim = self._client.script(_CLAIM)
        self._commit = self._client.script(_COMMIT)
        self._lease = self._client.script(_SET_LEASE)

    def row_key(self, message_id: str) -> str:
        """Return the key of a row."""
        return f"{self._prefix}ledger:{message_id}"

    def item_key(self, table: str, key: Item) -> str:
        """Return the key of an item that effects write: the table's logical name, then the values of its key.

        Raises:
            InvalidEffects: for a table whose name holds ":", because its items could be another table's.
        """
        if ":" in table:
            raise InvalidEffects(
                f"the table's name {shown_name(table)!r} holds ':', which ends the name in Valkey; rename it"
            )
        values = ":".join(_json(key[name]) for name in sorted(key))
        return f"{self._prefix}{table}:{values}"

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim the message until `lease_until` (epoch ms).

        Raises:
            ValueError: for an id that is empty or not text, a lease that one call can outlast, and a server that may evict.
            TimeoutError: if the lease ends between the calls of one claim, which is then not made.
        """
        require_identity(message_id, payload_hash)
        lease_ms = lease_until - self.surroundings.now_ms()
        if 0 < lease_ms < self._client.longest_call_ms:  # a lease that has ended cannot be outlasted
            raise ValueError(
                f"a lease of {lease_ms} ms is shorter than one call can be ({self._client.longest_call_ms} ms by the client's "
                "timeouts); make the client with a shorter socket_timeout and socket_connect_timeout"
            )
        claimed_by = self.surroundings.new_id()

        def look() -> None:
            if lease_ms > 0 and lease_until < self.surroundings.now_ms():
                raise TimeoutError(
                    f"the lease of {lease_ms} ms ended before the server had answered; deliver the message again"
                )

        def run() -> Claim | Duplicate | Busy | Conflict:
            self._require_no_eviction()
            now = self.surroundings.now_ms()
            answer = self._claim(
                keys=[self.row_key(message_id)],
                args=[self._to_live_after(now, lease_until), now, claimed_by, lease_until, message_id, payload_hash],
                look=look,
            )
            if answer[0] == "claimed":
                return Claim(message_id, claimed_by, int(answer[1]), lease_until)
            return refused_claim(_row(answer[1:]), message_id, claimed_by, payload_hash, now)

        return self._retried(run, lease_until)

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects, or nothing.

        Raises:
            InvalidEffects: as the DynamoDB ledger does, and by name for values and words that this one does not keep.
            CommitRefused: for a sum or a comparison that it cannot make.
        """
        for_ever = self._to_live == _FOREVER
        recorded = compiled(effects, None, self._keys, message_id=claim.message_id, for_ever=for_ever).recorded
        if effects.sends:
            raise InvalidEffects(
                f"a send to {effects.sends[0].to!r} follows DynamoDB's stream, which Valkey lacks; use a DynamoDBLedger"
            )
        result, writes = recorded["result"], effects.all_writes
        items = [key_of(write, self._keys) for write in writes]
        described = json.dumps([_described(write, key) for write, key in zip(writes, items, strict=True)])
        named = (self.item_key(write.table, key) for write, key in zip(writes, items, strict=True))
        keys = [self.row_key(claim.message_id), *named]
        if twice := [write for at, write in enumerate(writes) if keys[at + 1] in keys[1 : at + 1]]:
            raise InvalidEffects(
                f"{describe(twice[0])} writes an item that another write changes, too; make one write of both"
            )
        once_at = len(writes) if effects.once else 0

        def run() -> Committed | Duplicate | Exists | Fenced | Taken:
            now = self.surroundings.now_ms()
            answer = self._commit(keys=keys, args=[self._to_live, now, claim.claimed_by, result, once_at, described])
            match answer:
                case ["committed"]:
                    return Committed(from_json(result))
                case ["complete", stored, count, owner]:
                    return refused_commit(_row([COMPLETE, "", "", owner, count, stored]), claim)
                case ["exists", item]:
                    return Exists(_plain(item))
                case ["taken", refused]:
                    return taken([(writes[at - 1], partial(_plain, item)) for at, item in refused])
                case ["unfit"]:
                    raise CommitRefused(
                        f"an `add` or a comparison meets no whole number, or one above {LARGEST_SUM:,}; Valkey has no others"
                    )
                case _:
                    return Fenced(claim)

        return self._retried(run, claim.lease_until)

    def release(self, claim: Claim) -> bool:
        """End the lease now."""
        return self._set_lease(claim, 0, even_if_released=True)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` (epoch ms) at least."""
        return self._set_lease(claim, lease_until, even_if_released=False)

    def item(self, table: str, key: Item) -> dict[str, Any] | None:
        """Read an item that effects wrote, for a decision; None if it does not exist."""
        item_key = self.item_key(table, key)
        found: Any = self._repeated(lambda: self._client.hgetall(item_key), self.surroundings.now_ms() + READ_MS)
        return {name: _value(value) for name, value in found.items()} or None

    def _set_lease(self, claim: Claim, lease_until: int, *, even_if_released: bool) -> bool:
        def run() -> bool:
            now = self.surroundings.now_ms()
            allowed = int(even_if_released)
            to_live = self._to_live_after(now, lease_until)
            return bool(
                self._lease(
                    keys=[self.row_key(claim.message_id)], args=[to_live, now, claim.claimed_by, lease_until, allowed]
                )
            )

        return self._retried(run, claim.lease_until)

    def _to_live_after(self, now: int, lease_until: int) -> int:
        return _FOREVER if self._to_live == _FOREVER else self._to_live + max(0, lease_until - now)

    def _require_no_eviction(self) -> None:
        """Read the server's policy once, and after an error again: a new connection may lead to another server.

        An evicted row is a forgotten request: its copy takes effect again.
        """
        if self._keeps_rows:
            return
        policies = self._client.eviction_policies()
        if evicting := ", ".join(sorted(policies - {"noeviction", ""})):
            raise ValueError(
                f"the server's maxmemory-policy is {evicting}, which forgets requests; set it to noeviction"
            )
        if "" in policies:
            logger.warning("maxmemory-policy cannot be read: INFO is forbidden. Make sure that it is noeviction")
        self._keeps_rows = True

    def _retried(self, run: Callable[[], T], deadline: int) -> T:
        """Run once, then after each transient error while a whole call fits before the deadline."""
        return self._repeated(run, deadline - self._client.longest_call_ms)

    def _repeated(self, run: Callable[[], T], until: int) -> T:
        started = self.surroundings.now_ms()
        try:
            return run()
        except Exception as error:
            return retry(run, error, self._is_transient, Backoff(self.surroundings, until, started))

    def _is_transient(self, error: Exception) -> bool:
        transient = self._client.is_transient(error)
        self._keeps_rows = self._keeps_rows and not transient
        return transient


def _described(write: Write, key: Item) -> Mapping[str, Any]:
    """Return a write as the script takes it: `new`, `expect`, `compare`, then `clear`, `remove`, `set` and `add`."""
    if isinstance(write, Raw) or (isinstance(write, Update) and write.append):
        raise _not_kept(write)
    relied = [*terms(write.expect)]
    if any(len(path) != 1 or operator not in ("=", *_COMPARISONS) for path, operator, _ in relied):
        raise _not_kept(write)
    compare = [(str(name), operator, value) for (name,), operator, value in relied if operator != "="]
    change: Mapping[Any, Any] = {}
    remove: tuple[Any, ...] = ()
    add: Mapping[str, Any] = {}
    match write:
        case Put():
            change = write.item
        case Update():
            # An item that is made has its key, as DynamoDB's has.
            change = {**write.set, **({} if relied else key)}
            remove, add = write.remove, write.add
    names = (*change, *remove)
    numbers = (*add.values(), *(number for _, _, number in compare))
    exact = all(type(number) is int and abs(number) <= LARGEST_SUM for number in numbers)
    if not exact or not all(isinstance(each, str) for each in names):
        raise _not_kept(write)
    return {
        "new": isinstance(write, Put) and not write.replace,
        "expect": _pairs(write.table, ((str(name), value) for (name,), operator, value in relied if operator == "=")),
        "compare": compare,
        "clear": isinstance(write, Delete) or (isinstance(write, Put) and write.replace),
        "remove": list(remove),
        "set": _pairs(write.table, change.items()),
        "add": list(add.items()),
    }


def _not_kept(write: Write) -> InvalidEffects:
    return InvalidEffects(
        f"{describe(write)} is in words that Valkey does not keep: it has no Raw, no `append` and no nested attributes. "
        "It adds whole numbers, and its conditions are equal values and comparisons with whole numbers, joined by `&`; "
        "use a DynamoDBLedger for others"
    )


def _pairs(table: str, attributes: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    pairs = []
    for name, value in attributes:
        try:
            pairs.append((name, _json(value)))
        except TypeError:
            raise InvalidEffects(
                f"{shown_name(name)!r} in {table!r} holds bytes or a set, which Valkey does not keep; "
                "write text or a list"
            ) from None
    return pairs


def _row(values: Iterable[str]) -> dict[str, Any]:
    """Return a row as DynamoDB's is read, of the values that a script answers. A complete row has no lease."""
    row: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
    return {**row, "lease_until": int(row["lease_until"] or 0), "consumption_count": int(row["consumption_count"])}


def _plain(flat: Sequence[str]) -> dict[str, Any]:
    return {name: _value(text) for name, text in zip(flat[::2], flat[1::2], strict=True)}


def _json(value: Any) -> str:
    """Return the one text of a value, by which conditions compare. Equal numbers have equal texts."""
    return to_json(from_attribute(to_attribute(value, 1)), sort_keys=True, separators=(",", ":"))


def _value(text: str) -> Any:
    return json.loads(text, parse_float=number)
