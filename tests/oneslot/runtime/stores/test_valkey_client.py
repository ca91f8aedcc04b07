"""The ledger's own client: which clients it refuses, and which errors it repeats. No test needs a server."""

from typing import Any

import pytest
import redis
from redis.exceptions import (
    AuthorizationError,
    ClusterDownError,
    MasterDownError,
    MaxConnectionsError,
    RedisClusterException,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.sentinel import Sentinel as UntypedSentinel

from lab.simulation.systems.valkey import Valkey, ValkeyClient
from oneslot.runtime.effects import Effects, InvalidEffects, Put, Update
from oneslot.runtime.protocol import Claim, Committed
from oneslot.runtime.stores.valkey import ValkeyLedger
from tests.kits.consumer import Clock, surroundings

LEASE = 30_000
Sentinel: Any = UntypedSentinel
BlockingConnectionPool: Any = redis.BlockingConnectionPool


class Failing(ValkeyClient):
    """Raises each of `errors` in place of a call."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Valkey(clock))
        self.errors: list[Exception] = []

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if self.errors:
            raise self.errors.pop()
        return super().execute_command(*args, **options)


def no_node_answers() -> RedisClusterException:
    error = RedisClusterException("Redis Cluster cannot be connected")
    error.__cause__ = redis.ConnectionError("refused")
    return error


TRANSIENT = [
    redis.ConnectionError("gone"),
    redis.TimeoutError("late"),
    redis.BusyLoadingError("loading"),
    redis.ReadOnlyError("a replica"),
    redis.OutOfMemoryError("full"),
    TryAgainError("slots move"),
    ClusterDownError("down"),
    MasterDownError("down"),
    SlotNotCoveredError("no node has the slot"),
    MaxConnectionsError("too many"),
    no_node_answers(),
    redis.ResponseError("BUSY Redis is busy running a script."),
    redis.ResponseError("MISCONF disk"),
    redis.ResponseError("NOREPLICAS few"),
    *(  # as a script of Redis 6 passes them on
        redis.ResponseError(f"Error running script (call to f_0): @user_script:9: @user_script: 9: -{code} no.")
        for code in ("OOM", "READONLY", "MISCONF")
    ),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: f"{type(error).__name__}: {error}")
def test_ledger_repeats_every_step_when_the_error_is_transient(error: Exception) -> None:
    clock = Clock()
    client = Failing(clock)
    ledger = ValkeyLedger(client, retention_seconds=None, surroundings=surroundings(clock))

    def failing() -> ValkeyLedger:
        client.errors += [error, error]
        return ledger

    mine = failing().claim("m", "h", clock() + LEASE)
    assert isinstance(mine, Claim)
    assert failing().extend(mine, mine.lease_until)
    assert failing().item("things", {"thing_id": "a"}) is None
    assert failing().commit(mine, Effects({"n": 1})) == Committed({"n": 1})
    assert not failing().release(mine)
    assert client.errors == []


@pytest.mark.parametrize(
    "error",
    [
        redis.AuthenticationError("who"),
        AuthorizationError("no"),
        redis.ResponseError("WRONGTYPE"),
        RedisClusterException("shards"),
    ],
)
def test_ledger_raises_at_once_when_the_error_is_permanent(error: Exception) -> None:
    clock = Clock()
    client = Failing(clock)
    ledger = ValkeyLedger(client, retention_seconds=None, surroundings=surroundings(clock))
    mine = ledger.claim("m", "h", clock() + LEASE)
    assert isinstance(mine, Claim)
    began = clock()
    client.errors += [error]
    with pytest.raises(type(error)):
        ledger.commit(mine, Effects({}))
    assert clock() == began


def test_patience_ends_with_the_lease() -> None:
    clock = Clock()
    client = Failing(clock)
    client.errors += [redis.ConnectionError("gone") for _ in range(1_000)]
    ledger = ValkeyLedger(client, retention_seconds=None, surroundings=surroundings(clock))
    with pytest.raises(redis.ConnectionError):
        ledger.claim("m", "h", clock() + 9_000)
    assert 0 < clock() - Clock().now < 9_000 - 6_000, "less than the lease by the longest call"


class Slow(Failing):
    """Takes 2.5 seconds for each call."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.clock, self.asked = clock, list[str]()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.asked.append(args[0])
        try:
            return super().execute_command(*args, **options)
        finally:
            self.clock.now += 2_500


@pytest.mark.parametrize(
    ("lease", "asked"),
    [(2_400, ["INFO"]), (4_900, ["INFO", "EVALSHA"]), (7_600, ["INFO", "EVALSHA", "EVAL", "EVALSHA"])],
)
def test_claim_is_not_made_when_its_lease_ends_between_its_calls(
    monkeypatch: pytest.MonkeyPatch, lease: int, asked: list[str]
) -> None:
    monkeypatch.setattr("oneslot.runtime.stores.valkey_client.HANDSHAKE_ANSWERS", 0)
    clock = Clock()
    client = Slow(clock)
    ledger = ValkeyLedger(client, retention_seconds=None, surroundings=surroundings(clock))
    if "EVAL" in asked:
        assert isinstance(ledger.claim("m", "h", clock() + lease), Claim)
    else:
        with pytest.raises(TimeoutError, match=f"lease of {lease} ms ended before the server had answered; deliver"):
            ledger.claim("m", "h", clock() + lease)
    assert client.asked == asked


def test_policy_is_read_again_when_a_connection_was_lost() -> None:
    clock = Clock()
    client = Slow(clock)
    ledger = ValkeyLedger(client, retention_seconds=None, surroundings=surroundings(clock))
    ledger.claim("m-1", "h", clock() + LEASE)
    ledger.claim("m-2", "h", clock() + LEASE)
    assert client.asked.count("INFO") == 1
    client.errors.append(redis.ConnectionError("gone"))
    ledger.claim("m-3", "h", clock() + LEASE)
    assert client.asked.count("INFO") == 2


@pytest.mark.parametrize(
    ("writes", "reason"),
    [
        ((Put("ledger:m", {"id": "a"}, key="id"),), "holds ':', which ends the name"),
        (
            (Put("things", {"a": "x"}, key="a"), Update("things", {"b": "x"}, set={"n": 1})),
            "another write changes, too",
        ),
    ],
)
def test_effects_are_refused_when_two_names_are_one_key(writes: tuple[Any, ...], reason: str) -> None:
    clock = Clock()
    ledger = ValkeyLedger(Failing(clock), retention_seconds=None, surroundings=surroundings(clock))
    mine = ledger.claim("m", "h", clock() + LEASE)
    assert isinstance(mine, Claim)
    with pytest.raises(InvalidEffects, match=reason):
        ledger.commit(mine, Effects({}, writes))


@pytest.mark.parametrize(
    "client",
    [
        redis.Redis(decode_responses=True, socket_timeout=None),
        redis.Redis(decode_responses=True, socket_timeout=None, socket_connect_timeout=1),
        redis.Redis(connection_pool=BlockingConnectionPool(decode_responses=True, socket_timeout=None)),
        redis.Redis.from_url("unix:///tmp/server", decode_responses=True, socket_timeout=None),
    ],
    ids=["no timeout", "connect timeout alone", "blocking pool", "socket file"],
)
def test_client_without_socket_timeout_is_refused(client: redis.Redis) -> None:
    with pytest.raises(ValueError, match=r"no socket_timeout.*make it with socket_timeout=2"):
        ValkeyLedger(client, retention_seconds=None)


@pytest.mark.parametrize(
    ("client", "longest"),
    [
        (redis.Redis(decode_responses=True, socket_timeout=5, socket_connect_timeout=6), 31_000),
        (redis.Redis(decode_responses=True, socket_timeout=1, socket_connect_timeout=30), 35_000),
        (redis.Redis(decode_responses=True, socket_timeout=6, socket_connect_timeout=None), 36_000),
        (redis.Redis(decode_responses=True, socket_timeout=5, socket_connect_timeout=1, db=2), 31_000),
        (redis.Redis(decode_responses=True, socket_timeout=5, socket_connect_timeout=1, client_name="o"), 31_000),
    ],
    ids=["read", "connect", "default", "database", "name"],
)
def test_claim_is_refused_when_one_call_can_outlast_its_lease(client: redis.Redis, longest: int) -> None:
    ledger = ValkeyLedger(client, retention_seconds=None, surroundings=surroundings(Clock()))
    with pytest.raises(ValueError, match=rf"lease of 30000 ms is shorter.*{longest} ms.*shorter socket_timeout"):
        ledger.claim("m", "h", Clock().now + LEASE)
    assert ledger.shortest_lease_ms >= 2 * longest


def test_a_client_that_answers_in_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="decode_responses=True"):
        ValkeyLedger(redis.Redis(), retention_seconds=None)


def test_a_client_of_another_package_is_refused() -> None:
    other: Any = object()
    with pytest.raises(TypeError, match=r"use redis\.Redis or redis\.RedisCluster"):
        ValkeyLedger(other, retention_seconds=None)


@pytest.mark.parametrize(
    ("client", "remedy"),
    [
        (redis.Redis(decode_responses=True, socket_timeout=1).pipeline(), "use the client that made it"),
        (
            Sentinel([("127.0.0.1", 1)], socket_timeout=1).master_for("main", decode_responses=True),
            "make one by the URL of the primary",
        ),
    ],
    ids=["pipeline", "sentinel"],
)
def test_client_is_refused_when_it_answers_late_or_asks_for_its_server(client: redis.Redis, remedy: str) -> None:
    with pytest.raises(TypeError, match=remedy):
        ValkeyLedger(client, retention_seconds=None)


def test_retention_is_refused_when_the_server_cannot_keep_it() -> None:
    with pytest.raises(ValueError, match="from 1 second to 100 years, not 0; None keeps rows for ever"):
        ValkeyLedger(Failing(Clock()), retention_seconds=0)


def test_client_of_the_user_keeps_its_retries_and_connections() -> None:
    client = redis.Redis(decode_responses=True, socket_timeout=1)
    before = client.get_retry()
    ValkeyLedger(client, retention_seconds=None)
    assert (client.get_retry(), client.connection_pool.connection_kwargs["retry"]) == (before, before)
