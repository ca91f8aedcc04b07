"""Tiny handlers, generated from a seed: two or three calls on one or two items, with loops, branches and variables."""

import random

HEAD = """\
import boto3

table = boto3.resource("dynamodb").Table("orders")
held = []


def add(key):
    return table.update_item(
        Key={"id": key},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": 1},
        ReturnValues="UPDATED_NEW",
    )


def number(key):
    return int(add(key)["Attributes"]["n"])


def store(key, value):
    table.put_item(Item={"id": key, "n": value})


class Counter:
    def __init__(self, key):
        self.key, self.value = key, 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.value = 0

    def more(self):
        self.value += number(self.key)
        return self.value


def found(key):
    return table.get_item(Key={"id": key}).get("Item", {})


def create(key, value):
    try:
        table.put_item(Item={"id": key, "n": value}, ConditionExpression="attribute_not_exists(id)")
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def handler(event, context):
    total = 0
    kept = []
"""

STATEMENTS = (
    "add({key!r})",
    "total = int(add({key!r})['Attributes']['n'])",
    "total += int(add({key!r})['Attributes']['n'])",
    "kept.append(add({key!r}))",
    "held.append(len(held))\n    table.put_item(Item={{'id': {key!r}, 'n': len(held)}})",
    "store({key!r}, total + {value})",
    "total = found({key!r}).get('n', 0)",
    "if not found({key!r}):\n        table.put_item(Item={{'id': {key!r}, 'n': {value}}})",
    "if create({key!r}, {value}):\n        total = 10",
    "create({key!r}, total)",
    "for value in range(2):\n        table.put_item(Item={{'id': {key!r}, 'n': value}})",
    "for key in ({key!r}, 'b'):\n        total = add(key)['Attributes']['n']",
    "for answer in [add(key) for key in ({key!r}, 'a')]:\n        total = answer['Attributes']['n']",
    "if add({key!r})['Attributes']['n'] > 1:\n        raise ValueError(total)",
    "try:\n        add({key!r})\n    except Exception:\n        kept.append(1)",
    "print(add({key!r}))",
    "total = number({key!r}) * 10 + number('a')",
    "total = sum(list(map(number, ({key!r}, 'a'))))",
    "total = sum(number(key) for key in ({key!r}, 'a'))",
    "store('a', number({key!r}) * 10 + number('a'))",
    "counter = Counter({key!r}); counter.more(); total = counter.value * counter.more()",
    "keys = iter(({key!r}, 'a')); kept = [number(next(keys)), number(next(keys))]",
    "with Counter({key!r}) as counter:\n        total = counter.more() - counter.more()",
    "try:\n        kept.append(number({key!r}))\n    finally:\n        total = number('a')",
    "total += number({key!r})\n    total += number('a')\n    store('a', total)",
    "for key, value in {{{key!r}: 1, 'a': 2}}.items():\n        total = total * 3 + number(key)",
)
CALLS = (1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 2, 2, 2, 2, 3, 2)
MOST_CALLS = 3


def tiny_handler(seed: int) -> str:
    """Return the source of the handler of a seed. The first seeds begin with each of the statements."""
    draw = random.Random(seed)
    body, calls = list[str](), 0
    keys = draw.choice(("a", "ab"))
    while calls < MOST_CALLS - 1:
        chosen = seed if seed < len(STATEMENTS) and not body else draw.randrange(len(STATEMENTS))
        if calls + CALLS[chosen] <= MOST_CALLS:
            calls += CALLS[chosen]
            body.append("    " + STATEMENTS[chosen].format(key=draw.choice(keys), value=len(body) + 1))
    if calls < MOST_CALLS:
        body.append("    store('a', total + len(kept))")
    body.append("    return {'total': str(total), 'kept': len(kept)}")
    return HEAD + "\n".join(body) + "\n"
