"""The ledger in Valkey or Redis: the same steps and effects, each an atomic script inside the server.

A row is a hash with DynamoDB's field names. An item that effects write is a hash too, each value as canonical JSON, so that
conditions compare type and value as text. A failover, or a crash before the disk was written, can lose acknowledged writes,
and this ledger loses them too: see docs/do/choose-a-store.md before you choose it.

It needs the client `redis` (`pip install oneslot[valkey]`), which works with both servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from oneslot.runtime.backoff import Backoff, retry
from oneslot.runtime.effects import Effects, Item, Put, Write, result_text
from oneslot.runtime.protocol import COMPLETE, Busy, Claim, Committed, Conflict, Duplicate, Exists, Fenced, Taken
from oneslot.runtime.stores.checks import key_of, require_identity, require_one_write_each
from oneslot.runtime.surroundings import Surroundings

if TYPE_CHECKING:
    import redis

T = TypeVar("T")

_FOREVER = 0
_ROW = "'status', 'payload_hash', 'lease_until', 'claimed_by', 'consumption_count', 'result'"

# KEYS: the row. ARGV: message_id, claimed_by, payload_hash, now, lease_until, milliseconds to live.
_CLAIM = f"""
local status, hash, lease, owner, count, result = unpack(redis.call('HMGET', KEYS[1], {_ROW}))
if status then
    local ended = status == 'IN_PROGRESS' and tonumber(lease) < tonumber(ARGV[4]) and hash == ARGV[3]
    if not ended then
        return {{'refused', status, hash, lease or '', owner, count, result or ''}}
    end
end
count = redis.call('HINCRBY', KEYS[1], 'consumption_count', 1)
redis.call('HSET', KEYS[1], 'message_id', ARGV[1], 'status', 'IN_PROGRESS', 'updated', ARGV[4],
    'lease_until', ARGV[5], 'claimed_by', ARGV[2], 'payload_hash', ARGV[3])
if ARGV[6] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[6]) end
return {{'claimed', tostring(count)}}
"""

# KEYS: the row, then the key of each write. ARGV: claimed_by, now, milliseconds to live, result, position of `once`
# among the writes (0 for none), the writes as JSON. Every condition is checked before anything is written.
_COMMIT = f"""
local status, hash, lease, owner, count, result = unpack(redis.call('HMGET', KEYS[1], {_ROW}))
if status == 'COMPLETE' then
    return {{'complete', result, count, owner}}
end
if not status or owner ~= ARGV[1] then
    return {{'fenced'}}
end
local writes, refused, exists = cjson.decode(ARGV[6]), false, false
for at, write in ipairs(writes) do
    local holds = true
    if write.new then
        holds = redis.call('EXISTS', KEYS[at + 1]) == 0
    end
    for _, pair in ipairs(write.expect) do
        holds = holds and redis.call('HGET', KEYS[at + 1], pair[1]) == pair[2]
    end
    refused = refused or not holds
    exists = exists or (not holds and at == tonumber(ARGV[5]))
end
if exists then
    return {{'exists', redis.call('HGETALL', KEYS[tonumber(ARGV[5]) + 1])}}
end
if refused then
    return {{'taken'}}
end
for at, write in ipairs(writes) do
    for _, pair in ipairs(write.set) do redis.call('HSET', KEYS[at + 1], pair[1], pair[2]) end
    for _, name in ipairs(write.remove) do redis.call('HDEL', KEYS[at + 1], name) end
end
redis.call('HSET', KEYS[1], 'status', 'COMPLETE', 'updated', ARGV[2], 'result', ARGV[4])
redis.call('HDEL', KEYS[1], 'lease_until')
if ARGV[3] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {{'committed'}}
"""

# KEYS: the row. ARGV: claimed_by, now, lease_until, '1' if a released claim may be changed too, milliseconds to live.
_SET_LEASE = """
local status, lease, owner = unpack(redis.call('HMGET', KEYS[1], 'status', 'lease_until', 'claimed_by'))
if status ~= 'IN_PROGRESS' or owner ~= ARGV[1] then return 0 end
if ARGV[4] ~= '1' then
    if lease == '0' then return 0 end
    if tonumber(lease) > tonumber(ARGV[3]) then return 1 end
end
redis.call('HSET', KEYS[1], 'lease_until', ARGV[3], 'updated', ARGV[2])
if ARGV[5] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
return 1
"""


class ValkeyLedger:
    """The `Store` steps on one Valkey or Redis database.

    Args:
        client: made with `decode_responses=True`, and with socket timeouts, which detect a lost answer.
        prefix: begins every key. In a cluster all keys of one commit must be on one shard: use a hash tag such as
            "{bookings}:", or write no effects.
        retention_seconds: how long a row outlives its last change and its lease; None for ever. The server must not evict
            keys (`maxmemory-policy noeviction`).

    Raises:
        ValueError: for a client that answers in bytes, which would turn every row into a conflict; and for a
            `retention_seconds` under one millisecond.
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        prefix: str = "oneslot:",
        retention_seconds: int | None,
        surroundings: Surroundings | None = None,
    ) -> None:
        if not client.get_encoder().decode_responses:
            raise ValueError("the client answers in bytes; make it with decode_responses=True")
        self._client = client
        self._prefix = prefix
        self._to_live = _FOREVER if retention_seconds is None else int(retention_seconds * 1000)
        if retention_seconds is not None and self._to_live < 1:
            raise ValueError(f"retention_seconds of {retention_seconds} is too short; None keeps rows for ever")
        self.surroundings = surroundings or Surroundings()
        self._claim = client.register_script(_CLAIM)
        self._commit = client.register_script(_COMMIT)
        self._lease = client.register_script(_SET_LEASE)

    def row_key(self, message_id: str) -> str:
        """Return the key of a row."""
        return f"{self._prefix}ledger:{message_id}"

    def item_key(self, table: str, key: Item) -> str:
        """Return the key of an item that effects write: the table's logical name, then the values of its key."""
        values = ":".join(_json(key[name]) for name in sorted(key))
        return f"{self._prefix}{table}:{values}"

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim the message until `lease_until` (epoch ms).

        Raises:
            ValueError: for an id that is empty or not text.
        """
        require_identity(message_id, payload_hash)
        claimed_by = self.surroundings.new_id()

        def run() -> Claim | Duplicate | Busy | Conflict:
            now = self.surroundings.now_ms()
            answer = self._claim(
                keys=[self.row_key(message_id)],
                args=[message_id, claimed_by, payload_hash, now, lease_until, self._to_live_after(now, lease_until)],
            )
            if answer[0] == "claimed":
                return Claim(message_id, claimed_by, int(answer[1]), lease_until)
            _, status, found_hash, lease, owner, count, result = answer
            if found_hash != payload_hash:
                return Conflict()
            if status == COMPLETE:
                return Duplicate(json.loads(result), int(count), owner)
            if owner == claimed_by:  # granted before, and the answer was lost
                return Claim(message_id, claimed_by, int(count), int(lease))
            return Busy(max(0, int(lease) - now))

        return self._retried(run, lease_until)

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects, or nothing.

        Raises:
            InvalidEffects: as the DynamoDB ledger does.
        """
        result = result_text(effects)
        writes = effects.all_writes
        keys = [self.row_key(claim.message_id), *(self.item_key(write.table, key_of(write)) for write in writes)]
        require_one_write_each(keys)
        once_at = len(writes) if effects.once else 0
        described = _json([_described(write) for write in writes])

        def run() -> Committed | Duplicate | Exists | Fenced | Taken:
            now = self.surroundings.now_ms()
            answer = self._commit(keys=keys, args=[claim.claimed_by, now, self._to_live, result, once_at, described])
            match answer:
                case ["committed"]:
                    return Committed(json.loads(result))
                case ["complete", stored, _, owner] if owner == claim.claimed_by:  # our own, whose answer was lost
                    return Committed(json.loads(stored))
                case ["complete", stored, count, owner]:
                    return Duplicate(json.loads(stored), int(count), owner)
                case ["exists", item]:
                    return Exists(_plain(item))
                case ["taken"]:
                    return Taken()
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
        found: Any = self._client.hgetall(self.item_key(table, key))
        return {name: json.loads(value) for name, value in found.items()} or None

    def _set_lease(self, claim: Claim, lease_until: int, *, even_if_released: bool) -> bool:
        def run() -> bool:
            now = self.surroundings.now_ms()
            allowed = int(even_if_released)
            to_live = self._to_live_after(now, lease_until)
            return bool(
                self._lease(
                    keys=[self.row_key(claim.message_id)], args=[claim.claimed_by, now, lease_until, allowed, to_live]
                )
            )

        return self._retried(run, claim.lease_until)

    def _to_live_after(self, now: int, lease_until: int) -> int:
        return _FOREVER if self._to_live == _FOREVER else self._to_live + max(0, lease_until - now)

    def _retried(self, run: Callable[[], T], deadline: int) -> T:
        started = self.surroundings.now_ms()
        try:
            return run()
        except Exception as error:
            return retry(run, error, self._is_transient, Backoff(self.surroundings, deadline, started))

    def _is_transient(self, error: Exception) -> bool:
        if not _is_transient(error):
            return False
        # Idle connections may lead to a server that is no longer the primary. A cluster's client has no such pool.
        pool = getattr(self._client, "connection_pool", None)
        if pool is not None:
            pool.disconnect(inuse_connections=False)
        return True


def _described(write: Write) -> Mapping[str, Any]:
    if isinstance(write, Put):
        return {"new": True, "expect": [], "set": _pairs(write.item), "remove": []}
    return {"new": False, "expect": _pairs(write.expect), "set": _pairs(write.set), "remove": list(write.remove)}


def _pairs(item: Item) -> list[tuple[str, str]]:
    return [(name, _json(value)) for name, value in item.items()]


def _plain(flat: Sequence[str]) -> dict[str, Any]:
    return {name: json.loads(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


_REFUSED_FOR_NOW = re.compile(r"(^|-)(BUSY|MISCONF|NOREPLICAS|OOM|READONLY) ")
"""The beginning of refusals for which the client has no class, or which Redis 6.2 reports inside a script's error."""


def _is_transient(error: Exception) -> bool:
    import redis
    from redis.exceptions import AuthorizationError, ClusterDownError, SlotNotCoveredError, TryAgainError

    if isinstance(error, redis.AuthenticationError | AuthorizationError):
        return False  # a subclass of ConnectionError, but permanent
    return isinstance(
        error,
        redis.ConnectionError  # among them BusyLoadingError
        | redis.TimeoutError
        | redis.ReadOnlyError  # a replica that is about to be promoted, or a primary that was just demoted
        | redis.OutOfMemoryError
        | ClusterDownError  # among them MasterDownError
        | TryAgainError
        | SlotNotCoveredError,
    ) or (isinstance(error, redis.ResponseError) and _REFUSED_FOR_NOW.search(str(error)) is not None)
