"""What a store contract in one thread cannot show: races, lost answers, a killed server, a failover."""

import os
import re
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from oneslot.runtime.effects import Effects, Once, Put, Update
from oneslot.runtime.protocol import Claim, Committed, Duplicate, Exists
from oneslot.runtime.stores.valkey import ValkeyLedger
from tests.kits.stores import KEY, TABLE, InValkey
from tests.kits.valkey_server import ValkeyServer

pytestmark = pytest.mark.valkey

ROOT = Path(__file__).parents[4]
LEASE = 30_000
DONE = Effects({"done": True}, once=Once(Put(TABLE, {KEY: "a"}, key=KEY), dict))


class Lossy:
    """Instead of one of the ledger's scripts: meets the first call before the server acts, or when it has acted."""

    def __init__(self, ledger: ValkeyLedger, script: str, *, acted: bool, meanwhile: Callable[[], Any] | None = None):
        self._real = getattr(ledger, script)
        self._acted = acted
        self._meanwhile = meanwhile
        self.calls = 0
        setattr(ledger, script, self)

    def __call__(self, **request: Any) -> Any:
        self.calls += 1
        if self.calls > 1:
            return self._real(**request)
        if self._acted:
            self._real(**request)
        if self._meanwhile:
            self._meanwhile()
        raise redis.TimeoutError("the answer was lost")


def claim(ledger: ValkeyLedger, message_id: str = "m") -> Claim:
    granted = ledger.claim(message_id, "h", ledger.surroundings.now_ms() + LEASE)
    assert isinstance(granted, Claim)
    return granted


@pytest.mark.parametrize("acted", [False, True])
def test_i_the_answer_to_a_claim_is_lost_and_it_goes_on(valkey: redis.Redis, acted: bool) -> None:
    ledger = InValkey(valkey).ledger()
    Lossy(ledger, "_claim", acted=acted)
    assert claim(ledger).consumption_count == 1


@pytest.mark.parametrize("acted", [False, True])
def test_j_commit_is_written_once_when_its_answer_is_lost(valkey: redis.Redis, acted: bool) -> None:
    kept = InValkey(valkey)
    ledger = kept.ledger()
    kept.keep({KEY: "counter", "value": 0})
    add = Update(TABLE, {KEY: "counter"}, expect={"value": 0}, set={"value": 1})
    script = Lossy(ledger, "_commit", acted=acted)
    assert ledger.commit(claim(ledger), Effects({"n": 1}, (add,))) == Committed({"n": 1})
    assert script.calls == 2
    assert kept.thing("counter") == {KEY: "counter", "value": 1}


def test_calls_end_before_the_lease_when_the_server_stops(tmp_path: Path) -> None:
    """The client has redis-py's own retries: ten of its calls would take many times the lease."""
    with ValkeyServer(tmp_path) as server:
        client = redis.Redis(port=server.port, decode_responses=True, socket_timeout=0.5, socket_connect_timeout=0.5)
        ledger = ValkeyLedger(client, retention_seconds=None)
        lease_ms = 5_000
        mine = ledger.claim("m", "h", ledger.surroundings.now_ms() + lease_ms)
        assert isinstance(mine, Claim)
        server.freeze()
        with pytest.raises(redis.TimeoutError):
            ledger.commit(mine, DONE)
        assert ledger.surroundings.now_ms() < mine.lease_until


@pytest.mark.slow
def test_a_cluster_client_makes_each_call_once(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path, cluster_enabled="yes") as server:
        node: Any = server.client()
        node.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        while "cluster_state:ok" not in str(node.execute_command("CLUSTER", "INFO")):
            threading.Event().wait(0.02)
        client = redis.RedisCluster(
            port=server.port, host="127.0.0.1", decode_responses=True, socket_timeout=0.5, socket_connect_timeout=0.5
        )
        ledger = ValkeyLedger(client, prefix="{desk}:", retention_seconds=100)
        assert ledger.commit(claim(ledger), DONE) == Committed({"done": True})
        assert ledger.item(TABLE, {KEY: "a"}) == {KEY: "a"}
        mine = ledger.claim("n", "h", ledger.surroundings.now_ms() + 8_000)
        assert isinstance(mine, Claim)
        server.freeze()
        with pytest.raises((redis.TimeoutError, redis.exceptions.RedisClusterException)):
            ledger.commit(mine, DONE)
        assert ledger.surroundings.now_ms() < mine.lease_until
        server.kill()


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"])
def test_claim_is_refused_when_the_server_may_evict(valkey: redis.Redis, policy: str) -> None:
    valkey.config_set("maxmemory-policy", policy)
    try:
        with pytest.raises(ValueError, match=f"maxmemory-policy is {policy}.* set it to noeviction"):
            claim(InValkey(valkey).ledger())
    finally:
        valkey.config_set("maxmemory-policy", "noeviction")


NO_RIGHT = "(?i)can't run this command|no permissions"  # in a script, and of the script


def _rights() -> list[str]:
    """Return the rules of the documented user."""
    page = (ROOT / "docs" / "do" / "choose-a-store.md").read_text()
    (line,) = re.findall(r"^ACL SETUSER oneslot (.*)$", page, re.MULTILINE)
    return str(line).split()


def _as_documented_user(server: Any, *, without: str = "") -> redis.Redis:
    server.execute_command("ACL", "SETUSER", "oneslot", "reset", *(rule for rule in _rights() if rule != without))
    (password,) = (rule[1:] for rule in _rights() if rule.startswith(">"))
    port = server.connection_pool.connection_kwargs["port"]
    return redis.Redis(port=port, username="oneslot", password=password, decode_responses=True, socket_timeout=2)


def _work(ledger: ValkeyLedger) -> None:
    """Call every step on an item with the key "b"."""
    mine = claim(ledger)
    ledger.extend(mine, mine.lease_until + 1)
    ledger.release(mine)
    claim(ledger, "x")
    ledger.commit(claim(ledger), replace(DONE, writes=(Update(TABLE, {KEY: "b"}, {"n": 0}, {"n": 1}, ("old",)),)))
    assert ledger.item(TABLE, {KEY: "a"}) == {KEY: "a"}
    assert ledger.commit(claim(ledger, "again"), DONE) == Exists({KEY: "a"})


@pytest.mark.parametrize("retention", [None, 100])
def test_documented_rights_are_enough(
    valkey: redis.Redis, caplog: pytest.LogCaptureFixture, retention: int | None
) -> None:
    InValkey(valkey).keep({KEY: "b", "n": 0, "old": 0})
    _work(ValkeyLedger(_as_documented_user(valkey), retention_seconds=retention))
    assert not caplog.records


@pytest.mark.parametrize("right", ["evalsha", "hset", "hdel", "exists", "hget", "hmget", "pexpire"])
def test_commit_writes_nothing_when_the_user_lacks_a_right(valkey: redis.Redis, right: str) -> None:
    kept = InValkey(valkey)
    kept.keep({KEY: "counter", "value": 0, "old": 1})
    mine = claim(kept.ledger())
    before = kept.row("m")
    add = Update(TABLE, {KEY: "counter"}, expect={"value": 0}, set={"value": 1}, remove=("old",))
    limited = ValkeyLedger(_as_documented_user(valkey, without=f"+{right}"), retention_seconds=100)
    with pytest.raises(redis.ResponseError, match=NO_RIGHT):
        limited.commit(mine, replace(DONE, writes=(add,)))
    assert (kept.thing("counter"), kept.thing("a")) == ({KEY: "counter", "value": 0, "old": 1}, None)
    assert kept.row("m") == before


@pytest.mark.parametrize("write", [{"set": {"n": 1}}, {"remove": ("old",)}, {"add": {"n": 1}}])
def test_commit_writes_nothing_when_a_key_of_another_type_is_in_its_way(
    valkey: redis.Redis, write: dict[str, Any]
) -> None:
    kept = InValkey(valkey)
    mine = claim(kept.ledger())
    before = kept.row("m")
    valkey.set(kept.ledger().item_key(TABLE, {KEY: "s"}), "1")
    first = Put(TABLE, {KEY: "first"}, key=KEY)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        kept.ledger().commit(mine, Effects({}, (first, Update(TABLE, {KEY: "s"}, **write)), DONE.once))
    assert (kept.row("m"), kept.thing("first"), kept.thing("a")) == (before, None, None)


@pytest.mark.parametrize("right", ["evalsha", "hset", "hmget", "pexpire"])
def test_claim_writes_nothing_when_the_user_lacks_a_right(valkey: redis.Redis, right: str) -> None:
    limited = ValkeyLedger(_as_documented_user(valkey, without=f"+{right}"), retention_seconds=100)
    with pytest.raises(redis.ResponseError, match=NO_RIGHT):
        claim(limited)
    assert valkey.keys() == []


def test_policy_that_cannot_be_read_is_warned_of(valkey: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    ledger = ValkeyLedger(_as_documented_user(valkey, without="+info"), retention_seconds=100)
    claim(ledger, "m-1")
    claim(ledger, "m-2")
    assert [record.message for record in caplog.records] == [
        "maxmemory-policy cannot be read: INFO is forbidden. Make sure that it is noeviction"
    ]


def test_extension_writes_nothing_when_its_time_to_live_is_too_large(valkey: redis.Redis) -> None:
    kept = InValkey(valkey)
    mine = claim(kept.ledger())
    before = kept.row("m")
    with pytest.raises(redis.ResponseError, match="invalid expire"):
        kept.ledger().extend(mine, 2**63)
    assert kept.row("m") == before


def test_script_that_the_server_forgot_is_sent_again(valkey: redis.Redis) -> None:
    ledger = InValkey(valkey).ledger()
    claim(ledger)
    valkey.script_flush()
    assert claim(ledger, "n").consumption_count == 1


@pytest.mark.parametrize("blocking", [False, True])
def test_a_restarted_server_is_waited_for(tmp_path: Path, *, blocking: bool) -> None:
    with ValkeyServer(tmp_path, durable=True) as server:
        kind = redis.BlockingConnectionPool if blocking else redis.ConnectionPool
        pool = kind(port=server.port, host="127.0.0.1", decode_responses=True, socket_timeout=2)
        ledger = ValkeyLedger(redis.Redis(connection_pool=pool), retention_seconds=None)
        claim(ledger)
        server.kill()
        starting = threading.Timer(0.3, server.restart)
        starting.start()
        try:
            assert claim(ledger, "n").consumption_count == 1
        finally:
            starting.join()


@pytest.mark.slow
def test_lowest_client_version_passes_these_tests(tmp_path: Path) -> None:
    """An older redis-py has other defaults, and other pools."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (requirement,) = extras["valkey"]
    lowest = requirement.partition(",")[0].replace(">=", "==")
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "client", lowest]
    subprocess.run(install, check=True)
    tests = [
        str(Path(__file__).with_name(name)) for name in ("test_valkey.py", "test_valkey_client.py", "test_contract.py")
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", "valkey", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "client")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout


def test_a_window_may_be_given_as_python_counts_seconds(valkey: redis.Redis) -> None:
    window: Any = timedelta(days=7).total_seconds()  # a float
    ledger = ValkeyLedger(valkey, retention_seconds=window)
    ledger.commit(claim(ledger), DONE)
    assert isinstance(ledger.claim("m", "h", ledger.surroundings.now_ms() + LEASE), Duplicate)
    assert 0 < valkey.pttl(ledger.row_key("m")) <= window * 1000


def test_a_durable_server_that_is_killed_forgets_nothing(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path, durable=True)
    with server:
        ledger = InValkey(server.client()).ledger()
        mine = claim(ledger)
        ledger.commit(mine, DONE)
        half_done = claim(ledger, "half-done")
        server.kill()
        server.start()
        kept = InValkey(server.client())
        assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Duplicate({"done": True}, 1, mine.claimed_by)
        assert kept.thing("a") == {KEY: "a"}
        assert kept.ledger().commit(half_done, Effects({})) == Committed({})


@pytest.mark.slow
def test_a_failover_loses_the_effects_together_with_the_row(tmp_path: Path) -> None:
    """The documented loss: the replica was behind, so the request is undone as a whole, never by half."""
    with ValkeyServer(tmp_path / "primary") as primary, ValkeyServer(tmp_path / "replica") as replica:
        before, after = primary.client(), replica.client()
        ledger = InValkey(before).ledger()
        claim(ledger, "seen by both")
        after.replicaof("127.0.0.1", primary.port)
        wait_until_in_step(after)
        after.replicaof("NO", "ONE")  # cut off from the primary, and promoted
        ledger.commit(claim(ledger), DONE)
        primary.kill()
        kept = InValkey(after)
        assert kept.row("seen by both") is not None
        assert (kept.row("m"), kept.thing("a")) == (None, None)
        assert kept.ledger().commit(replace(claim(kept.ledger())), DONE) == Committed({"done": True})


def test_a_failover_by_name_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The primary's name is another server's now, but the connections that there are lead to the old one, a replica."""
    with ValkeyServer(tmp_path / "old") as old, ValkeyServer(tmp_path / "new") as new:
        primary, look_up = old, socket.getaddrinfo

        def find(host: str, port: int, *more: Any) -> Any:
            return look_up("127.0.0.1", primary.port, *more) if host == "primary" else look_up(host, port, *more)

        monkeypatch.setattr(socket, "getaddrinfo", find)
        client = redis.Redis(host="primary", decode_responses=True, socket_timeout=2)
        ledger = ValkeyLedger(client, retention_seconds=None)
        claim(ledger, "before")
        primary = new
        old.client().replicaof("127.0.0.1", new.port)
        assert claim(ledger, "after").consumption_count == 1
        assert new.client().exists(ledger.row_key("after"))


def wait_until_in_step(replica: redis.Redis) -> None:
    """Wait until the replica has everything that its primary had."""
    for _ in range(12_000):
        state: Any = replica.info("replication")
        if state["master_link_status"] == "up" and not state["master_sync_in_progress"]:
            return
        threading.Event().wait(0.01)
    pytest.fail("the replica did not get in step")
