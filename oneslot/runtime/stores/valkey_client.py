"""The client that a `ValkeyLedger` calls: the user's parameters and connections of its own, without the client's retries.

redis-py repeats a call three times (6 and 7) or ten times (8) and waits for its timeouts each time, so a call could outlast
the lease. The ledger repeats calls itself, because only the ledger knows the lease.
"""

import copy
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.cluster import ClusterPipeline
from redis.exceptions import (
    AuthorizationError,
    ClusterError,
    MaxConnectionsError,
    NoScriptError,
    RedisClusterException,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

Client: TypeAlias = redis.Redis | redis.RedisCluster

HANDSHAKE_ANSWERS = 4
"""What a new connection waits for: HELLO with the password, maintenance notifications, the library's name and version."""

_REFUSED_FOR_NOW = re.compile(r"(^|-)(BUSY|MISCONF|NOREPLICAS|OOM|READONLY) ")
"""The beginning of refusals for which the client has no class, or which Redis 6.2 reports inside a script's error."""


class RedisClient:
    """The calls of a ledger, each made once.

    Attributes:
        longest_call_ms: the longest time that one call can take.

    Raises:
        TypeError: for a client of another package, a pipeline, and a client that asks Sentinel for its server.
        ValueError: for one that answers in bytes, and one without socket timeouts.
    """

    def __init__(self, client: Client) -> None:
        if not isinstance(client, redis.Redis | redis.RedisCluster):
            raise TypeError(f"the client is a {type(client).__name__}; use redis.Redis or redis.RedisCluster")
        if isinstance(client, Pipeline | ClusterPipeline):
            raise TypeError(
                "the client is a pipeline, which answers nothing before `execute`; use the client that made it"
            )
        if isinstance(getattr(client, "connection_pool", None), SentinelConnectionPool):
            raise TypeError(
                "the client asks Sentinel for its server; make one by the URL of the primary: redis.Redis.from_url"
            )
        if not client.get_encoder().decode_responses:
            raise ValueError("the client answers in bytes; make it with decode_responses=True")
        self._client: Any = _once(client)
        self.longest_call_ms = int(_longest_call_seconds(self._client) * 1000)

    def script(self, text: str) -> Callable[..., Any]:
        """Return a function that runs a script by its digest. EVAL runs it where the server does not know the digest.

        The function calls `look` before each of these calls.
        """
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

        def run(*, keys: Sequence[str], args: Sequence[str | int], look: Callable[[], None] = lambda: None) -> Any:
            look()
            try:
                return self._client.evalsha(digest, len(keys), *keys, *args)
            except NoScriptError:
                look()
                return self._client.eval(text, len(keys), *keys, *args)

        return run

    def hgetall(self, key: str) -> Mapping[str, str]:
        """Return a hash."""
        found: Mapping[str, str] = self._client.hgetall(key)
        return found

    def eviction_policies(self) -> set[str]:
        """Return the `maxmemory-policy` of the server, or of each primary; "" where it cannot be read.

        INFO names it, also where a managed service forbids CONFIG.
        """
        where = {"target_nodes": redis.RedisCluster.PRIMARIES} if self._in_cluster else {}
        try:
            answer = self._client.info("memory", **where)
        except redis.ResponseError as error:
            if _is_transient(error):
                raise
            return {""}
        several = self._in_cluster and "used_memory" not in answer
        return {str(server.get("maxmemory_policy", "")) for server in (answer.values() if several else [answer])}

    def is_transient(self, error: Exception) -> bool:
        """Return whether a repeated call may succeed. Close idle connections, which may not lead to the primary."""
        transient = _is_transient(error)
        # A cluster's client does so itself. A full pool says nothing about the server.
        if transient and not self._in_cluster and not isinstance(error, MaxConnectionsError):
            self._client.connection_pool.disconnect(inuse_connections=False)
        return transient

    @property
    def _in_cluster(self) -> bool:
        return isinstance(self._client, redis.RedisCluster)


def _once(client: Any) -> Any:
    """Return a copy of a client that never repeats a call, with connections of its own."""
    own = copy.copy(client)
    if isinstance(client, redis.RedisCluster):
        own.set_retry(Retry(NoBackoff(), 0))
    else:
        # Never a BlockingConnectionPool: its wait ignores the lease, and that of redis-py 6 cannot close its idle connections
        # alone. `set_retry` of the user's pool would change the calls of others, and fails for a blocking pool.
        pool = client.connection_pool
        parameters = {**pool.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
        parameters |= {"connection_class": pool.connection_class, "max_connections": pool.max_connections}
        own.connection, own.connection_pool = None, redis.ConnectionPool(**parameters)
    return own


def _longest_call_seconds(client: Any) -> float:
    if isinstance(client, redis.RedisCluster):
        nodes = [_longest(client.get_redis_connection(node).connection_pool) for node in client.get_nodes()]  # type: ignore[no-untyped-call]
        return max(nodes) + sum(nodes)  # after an error it asks one node after another for the topology
    return _longest(client.connection_pool)


def _longest(pool: Any) -> float:
    connection = pool.connection_class(**pool.connection_kwargs)
    read: float | None = connection.socket_timeout
    if not read:
        raise ValueError(
            "the client has no socket_timeout, so a call can outlast its lease; make it with socket_timeout=2"
        )
    connect = getattr(connection, "socket_connect_timeout", None) or read
    handshake = HANDSHAKE_ANSWERS + bool(connection.client_name) + bool(connection.db)
    return float(connect + read * (handshake + 1))


def _is_transient(error: BaseException | None) -> bool:
    if isinstance(error, redis.AuthenticationError | AuthorizationError):
        return False  # a subclass of ConnectionError, but permanent
    if isinstance(error, RedisClusterException) and not isinstance(error, SlotNotCoveredError):
        return _is_transient(error.__cause__)  # no node answered, or the keys are on several shards
    return isinstance(
        error,
        redis.ConnectionError  # among them BusyLoadingError, and MaxConnectionsError
        | redis.TimeoutError
        | redis.ReadOnlyError  # a replica that is about to be promoted, or a primary that was just demoted
        | redis.OutOfMemoryError
        | ClusterError  # among them ClusterDownError, MasterDownError, and too many redirections
        | TryAgainError
        | SlotNotCoveredError,
    ) or (isinstance(error, redis.ResponseError) and _REFUSED_FOR_NOW.search(str(error)) is not None)
