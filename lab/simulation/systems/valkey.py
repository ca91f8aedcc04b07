"""A Valkey primary in memory. It runs the ledger's own Lua scripts, and a failover loses its last writes.

Modelled as `test_contract.py` holds it to a real server: the commands that the scripts call, Lua 5.1, the conversions between
both, and keys that expire. Not modelled: persistence, memory, clusters, and a primary that still answers after its failover.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import redis
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

Hash = dict[str, str]


class Valkey:
    """One database. `now_ms` is the server's clock.

    Attributes:
        lost: called for each key whose last change a failover lost, with the value that is gone and the one that is back.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        import lupa.lua51  # only here: no other scenario needs Lua

        self.lost: Callable[[str, Hash | None, Hash | None], None] = lambda key, gone, back: None
        self._now_ms = now_ms
        self._lua = lupa.lua51.LuaRuntime(unpack_returned_tuples=True)
        self._scripts: dict[str, Any] = {}
        self._hashes: dict[str, Hash] = {}
        self._ends: dict[str, int] = {}
        self._before: list[tuple[dict[str, Hash], dict[str, int]]] = []

    @property
    def hashes(self) -> Mapping[str, Hash]:
        """The keys that have not expired, with their hashes."""
        self._expire()
        return self._hashes

    def load(self, script: str) -> str:
        """Return the digest under which `evalsha` runs a script."""
        digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        if digest not in self._scripts:
            self._scripts[digest] = self._lua.eval(f"function(KEYS, ARGV, redis, cjson) {script} end")
        return digest

    def has(self, digest: str) -> bool:
        """Return whether a script was loaded."""
        return digest in self._scripts

    def evalsha(self, *, sha: str, keys: Sequence[str], args: Sequence[str]) -> Any:
        """Run a script. All that it writes is replicated, or lost, together."""
        self._begin()
        table = self._lua.table_from
        redis = table({"call": self._call})
        cjson = table({"decode": lambda text: self._to_lua(json.loads(text))})
        answer = _from_lua(self._scripts[sha](table(keys), table(args), redis, cjson))
        if self._before[-1] == (self._hashes, self._ends):
            self._before.pop()
        return answer

    def hgetall(self, *, key: str) -> Hash:
        """Return a copy of a hash; empty if the key does not exist."""
        return dict(self.hashes.get(key, {}))

    def hset(self, *, key: str, name: str, value: str) -> None:
        """Set a field."""
        self._begin()
        self._hset(key, name, value)

    def pttl(self, *, key: str) -> int:
        """Return the milliseconds for which a key lives; -1 for ever, -2 if it does not exist."""
        if key not in self.hashes:
            return -2
        return self._ends[key] - self._now_ms() if key in self._ends else -1

    def replicate(self) -> None:
        """Let the replica have every write so far."""
        self._before.clear()

    def fail_over(self, lost: int) -> int:
        """Promote a replica that lacks this many of the last writes; return how many were lost."""
        lost = min(lost, len(self._before))
        if lost:
            gone = self._hashes
            self._hashes, self._ends = self._before[-lost]
            del self._before[-lost:]
            for key in {**gone, **self._hashes}:
                if gone.get(key) != self._hashes.get(key):
                    self.lost(key, gone.get(key), self._hashes.get(key))
        return lost

    def _begin(self) -> None:
        """Keep what there is before a write."""
        self._expire()
        self._before.append(({key: dict(row) for key, row in self._hashes.items()}, dict(self._ends)))

    def _expire(self) -> None:
        now = self._now_ms()
        for key in [key for key, end in self._ends.items() if end <= now]:
            del self._ends[key], self._hashes[key]

    def _call(self, command: str, key: str, *arguments: Any) -> Any:
        """Run a command of a script. A missing value is `false` in Lua."""
        return getattr(self, f"_{command.lower()}")(key, *map(_text, arguments))

    def _hget(self, key: str, name: str) -> str | bool:
        return self._hashes.get(key, {}).get(name, False)

    def _hmget(self, key: str, *names: str) -> Any:
        return self._lua.table_from([self._hget(key, name) for name in names])

    def _hgetall(self, key: str) -> Any:
        return self._lua.table_from([each for pair in self._hashes.get(key, {}).items() for each in pair])

    def _exists(self, key: str) -> int:
        return int(key in self._hashes)

    def _hset(self, key: str, *pairs: str) -> int:
        new = dict(zip(pairs[::2], pairs[1::2], strict=True))
        row = self._hashes.setdefault(key, {})
        added = len(new.keys() - row.keys())
        row |= new
        return added

    def _hdel(self, key: str, *names: str) -> int:
        row = self._hashes.get(key, {})
        present = [name for name in names if name in row]
        if present:
            for name in present:
                del row[name]
            if not row:  # Valkey keeps no empty hash
                del self._hashes[key]
                self._ends.pop(key, None)
        return len(present)

    def _pexpire(self, key: str, milliseconds: str) -> int:
        if key not in self._hashes:
            return 0
        self._ends[key] = self._now_ms() + int(milliseconds)
        return 1

    def _persist(self, key: str) -> int:
        if key not in self._ends:
            return 0
        del self._ends[key]
        return 1

    def _to_lua(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._lua.table_from({name: self._to_lua(each) for name, each in value.items()})
        return self._lua.table_from([self._to_lua(each) for each in value]) if isinstance(value, list) else value


class ValkeyClient(redis.Redis):
    """redis-py's client over a simulated server. `perform` makes a call to it."""

    def __init__(self, server: Valkey, perform: Callable[..., Any] | None = None) -> None:
        super().__init__(decode_responses=True, socket_timeout=1, socket_connect_timeout=1)
        self._server = server
        self._perform = perform or (lambda operation, **parameters: getattr(server, operation)(**parameters))

    def execute_command(self, *args: Any, **_: Any) -> Any:
        """Run one of the commands that the ledger and its tests use. Raises `TypeError` for an argument that none takes."""
        match [_text(each) for each in args]:
            case ["INFO", "memory"]:
                return {"maxmemory_policy": "noeviction"}
            case ["EVALSHA", sha, count, *rest]:
                if not self._server.has(sha):
                    raise redis.exceptions.NoScriptError
                return self._call("evalsha", sha=sha, keys=rest[: int(count)], args=rest[int(count) :])
            case ["EVAL", script, *rest]:
                return self.execute_command("EVALSHA", self._server.load(script), *rest)
            case ["HGETALL", key]:
                return self._call("hgetall", key=key)
            case ["HSET", key, name, value]:
                return self._call("hset", key=key, name=name, value=value)
            case ["PTTL", key]:
                return self._call("pttl", key=key)
        raise NotImplementedError(args[0])

    def _call(self, operation: str, **parameters: Any) -> Any:
        try:
            return self._perform(operation, **parameters)
        except ReadTimeoutError as error:
            raise redis.TimeoutError("Timeout reading from socket") from error
        except EndpointConnectionError as error:
            raise redis.ConnectionError("Connection refused") from error


def _text(value: Any) -> str:
    """Return an argument as redis-py or Lua sends it. Raises `TypeError` for a value that neither takes."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"{type(value).__name__} is not a value for a command")
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _from_lua(value: Any) -> Any:
    """Return a script's answer as the client gets it: an array ends at its first nil, and a number is cut to an integer."""
    if isinstance(value, bool):
        return 1 if value else None
    if isinstance(value, float):
        return int(value)
    if value is None or isinstance(value, str | int):
        return value
    found: list[Any] = []
    while (each := value[len(found) + 1]) is not None:
        found.append(_from_lua(each))
    return found
