"""Settings: a contradiction is refused with a sentence that names the numbers and the remedy."""

import re
from dataclasses import replace
from typing import Any

import pytest

from oneslot.cdk.numbers import DAY, ContradictorySettings
from stacks.context import given_settings, settings_from_context
from stacks.settings import RANGES, STAGES
from tests.stacks.conftest import TOPIC

DEV = STAGES["dev"]


@pytest.mark.parametrize("name", RANGES)
def test_setting_is_refused_outside_its_range(name: str) -> None:
    limit, whose = RANGES[name]
    for value in (limit[0] - 1, limit[-1] + 1):
        said = f"{name} is {value}, outside {whose} limits of {limit[0]} to {limit[-1]}; choose a number between them"
        with pytest.raises(ContradictorySettings, match=re.escape(said)):
            settings_from_context({name: value})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_concurrency": 1_001}, "max_concurrency 1001 .* provisioned_pollers"),
        ({"provisioned_pollers": 1}, "provisioned_pollers is 1"),
        ({"provisioned_pollers": 2}, "provisioned_pollers 2 run 20 consumers at once, above max_concurrency 8"),
        ({"table_warm_writes": 3_999}, "table_warm_writes is 3999, below the 4000 a second"),
        ({"table_warm_writes": 9_000, "table_maximum_writes": 8_000}, "8000 is below table_warm_writes 9000"),
        ({"log_retention_days": 31}, "log_retention_days is 31; .* 30, 60"),
        ({"alarm_topic_arn": "on-call"}, "alarm_topic_arn is 'on-call'"),
        ({"queue_retention_seconds": 600}, "alarm_oldest_message_seconds 600 .* queue_retention_seconds 600"),
        ({"lambda_timeout_seconds": 60, "longest_lease_seconds": 59}, "longest_lease_seconds 59 is shorter"),
        ({"max_receive_count": 10, "longest_retry_delay_seconds": 17_281}, "17281 is 172810 s, .* 345600"),
        ({"queue_retention_seconds": 601, "max_receive_count": 11}, "max_receive_count 11 .* is 330 s, .* 601"),
        ({"lambda_timeout_seconds": 900, "visibility_multiplier": 49}, "44100 s .* above SQS's 43200 s"),
        ({"batching_window_seconds": 5}, "30 s is shorter .* batching_window_seconds 5"),
        ({"batch_size": 11}, "batch_size 11 is above 10, .* batching_window_seconds is 0"),
        ({"queue": "fifo", "longest_retry_delay_seconds": 30}, "longest_retry_delay_seconds is 30"),
        ({"queue": "fifo", "batching_window_seconds": 1, "visibility_multiplier": 2}, "batching_window_seconds is 1"),
        ({"queue": "lifo"}, "queue is 'lifo'; use one of: standard, fifo"),
        ({"dead_letter_retention_seconds": 4 * DAY}, "345600 is not above queue_retention_seconds 345600"),
        ({"ledger_retention_seconds": 25 * DAY - 1}, "2159999 .* raise ledger_retention_seconds to 2160000"),
        ({"log_retention_days": 14}, "log_retention_days 14 .* ledger_retention_seconds 2592000"),
        ({"log_retention_days": 14, "ledger_retention_seconds": None}, "log_retention_days 14 .* 2160000 s"),
        *(
            (
                {"ledger_forgotten_before": text},
                f"ledger_forgotten_before is '{text}', not a moment in UTC; use one such as",
            )
            for text in ("yesterday", "2026-11-23T14:00:00", "2026-11-3T14:00:00Z", "2026-11-31T14:00:00Z")
        ),
    ],
)
def test_settings_are_refused_when_they_contradict(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ContradictorySettings, match=said) as refusal:
        replace(DEV, **changes)
    assert "\n" not in str(refusal.value)


LONGEST_HIDDEN = {
    "lambda_timeout_seconds": 900,
    "visibility_multiplier": 48,
    "max_receive_count": 5,
    "queue_retention_seconds": 5 * DAY,
}


@pytest.mark.parametrize(
    "changes",
    [
        LONGEST_HIDDEN,
        {"queue_retention_seconds": 601},
        {"dead_letter_retention_seconds": 4 * DAY + 1},
        {"max_receive_count": 1_000},
        {"batch_size": 10_000, "batching_window_seconds": 1, "visibility_multiplier": 2},
        {"batching_window_seconds": 30, "visibility_multiplier": 2},
        {"batch_size": 1},
        {"max_concurrency": 2},
        {"lambda_timeout_seconds": 60, "longest_lease_seconds": 60},
        {"longest_retry_delay_seconds": 17_280},
        {"max_concurrency": 1_000},
        {"max_concurrency": 20_000, "provisioned_pollers": 2},
        {"max_concurrency": 11, "provisioned_pollers": 2, "table_warm_writes": 4_000, "table_maximum_writes": 4_000},
        {"max_receive_count": 5},
        {"ledger_retention_seconds": 25 * DAY},
        {"ledger_retention_seconds": None},
    ],
)
def test_settings_accept_the_last_valid_number(changes: dict[str, Any]) -> None:
    changed = replace(DEV, **changes)
    assert {name: getattr(changed, name) for name in changes} == changes


@pytest.mark.parametrize(
    ("context", "changes"),
    [
        ({}, {}),
        ({"max_concurrency": "32", "batch_size": " 5 "}, {"max_concurrency": 32, "batch_size": 5}),
        ({"content_based_deduplication": "TRUE"}, {"content_based_deduplication": True}),
        ({"queue": "FIFO"}, {"queue": "fifo"}),
        ({"ledger_retention_seconds": "Forever"}, {"ledger_retention_seconds": None}),
        ({"alarm_topic_arn": f"{TOPIC}Capital"}, {"alarm_topic_arn": f"{TOPIC}Capital"}),
        ({"@aws-cdk/core:x": True, "cli-telemetry": False, "acknowledged-issue-numbers": [19836]}, {}),  # CDK's own
    ],
)
def test_context_changes_the_settings_of_dev(context: dict[str, Any], changes: dict[str, Any]) -> None:
    assert settings_from_context(context) == replace(DEV, **changes)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"stage": "production"}, "'production' is unknown; .* dev, prod"),
        ({"stage": ["dev"]}, "dev, prod"),
        ({"max_concurency": "3"}, "-c max_concurency is unknown; did you mean max_concurrency?"),
        ({"batch-size": "3"}, "batch-size is unknown; did you mean batch_size?"),
        ({"zzz": "3"}, "-c zzz is unknown; use one of: .*batch_size"),
        *(({name: "3"}, f"-c {re.escape(name)} is unknown") for name in ("batch size", "batch_size2", "", "über")),
        ({" queue": "fifo -c audit=true"}, "passed several options as one word; use make deploy STAGE"),  # zsh's $GIVEN
        ({"retain_data": "true"}, "retain_data belongs to the stage; change it in stacks/settings.py"),
        *(({"batch_size": text}, f"batch_size is '{text}'; use a whole number") for text in ("ten", "5.5", True, None)),
        ({"batch_size": "forever"}, "batch_size is 'forever'; use a whole number$"),
        ({"ledger_retention_seconds": "ever"}, "'ever'; use a whole number, or forever"),
        ({"audit": "1"}, "audit is '1'; use true or false"),
    ],
)
def test_context_is_refused_when_it_is_invalid(context: dict[str, Any], said: str) -> None:
    with pytest.raises(ContradictorySettings, match=said):
        settings_from_context(context)


@pytest.mark.parametrize(
    "context",
    [
        {"stage": "prod"},
        {"stage": "prod", "max_concurrency": "50"},
        {"stage": "prod", "audit": "true", "ledger_retention_seconds": "forever", "max_concurrency": "100"},
        {"stage": "dev", "alarm_topic_arn": TOPIC, "queue": "fifo"},
        {"stage": "prod", "ledger_forgotten_before": "2026-11-23T14:00:00Z"},
    ],
)
def test_given_settings_can_be_given_again(context: dict[str, str]) -> None:
    settings = settings_from_context(context)
    words = given_settings(settings).split()
    again = dict(word.split("=", 1) for word in words if word != "-c")
    assert words.count("-c") == len(again)
    assert again == {
        name: value
        for name, value in context.items()
        if (name, value) not in {("stage", context["stage"]), ("max_concurrency", "50")}
    }
    assert settings_from_context({"stage": context["stage"], **again}) == settings
