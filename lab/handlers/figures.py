"""The kept figures of the table of the world and of the question pages, what the lab thinks of them, and what pages show."""

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.figures import LEFT, RIGHT, replace_blocks, table
from oneslot.explorer.handlers.templates.sources import KNOWN

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs"
LAB = Path(__file__).resolve().parents[1]
WORLD = LAB / "results" / "world.json"
ASKED = LAB / "results" / "questions.json"
QUESTIONS = Path(__file__).parent / "questions"
PAGES = [
    LAB / "docs" / "handlers.md",
    DOCUMENTATION / "understand" / "what-handlers-get-wrong.md",
    *(DOCUMENTATION / "do" / "questions" / f"{name}.md" for name in ("twice", "dead-letter", "fifo")),
    DOCUMENTATION / "do" / "come-from-powertools.md",
]
Figures = dict[str, Any]


REPOSITORIES = {
    # collections of samples
    "aws-powertools/powertools-lambda-python": ("fa1c29f2d497a7c233f06eb69d0f7ee1b187a9e4", "MIT-0"),
    "aws-samples/serverless-patterns": ("fb7b5d06c27d8abb1bd35e52ab7523acf4baab7b", "MIT-0"),
    "aws-samples/serverless-samples": ("9894431baa0fcf5f05c40907b832d90191a50802", "MIT-0"),
    "aws-samples/serverless-snippets": ("4b91445818dcc3e064d88d8c0fd1b61bc885232a", "MIT-0"),
    "aws-samples/serverless-test-samples": ("a801c92eda191dc1ed0caa4a866500775a861f0f", "MIT-0"),
    "aws-samples/step-functions-workflows-collection": ("83bbec48d8f065de3dbcb4c5d8fe0e58a0479334", "MIT-0"),
    "awsdocs/aws-doc-sdk-examples": ("7d1e1237789cbf5033a7c22d917d17c64de1aaaa", "Apache-2.0"),
    "awsdocs/aws-lambda-developer-guide": ("8a681ab924e43870521f4e65caa78aa63c6376a6", "MIT-0"),
    # reference applications
    "aws-samples/aws-serverless-developer-experience-workshop-python": (
        "deb3745c1d3d7709d69e08e17cf3f1cab878086b",
        "MIT-0",
    ),
    "aws-samples/aws-serverless-ecommerce-platform": ("3b9ef36dd3e338c8ab697c2bcb1b672e064e303c", "MIT-0"),
    "aws-samples/aws-serverless-realtime-aggregation": ("f9803b4b7c4745c08a5cb35ff2a56020c99bdfa2", "MIT-0"),
    "aws-samples/aws-serverless-shopping-cart": ("66a863f1b7a2a7f319adddce6a55e090ce9f6734", "MIT-0"),
    "aws-samples/retail-demo-store": ("ad4313e648d51d5f0be20f45d46a9fb8e3a6464d", "MIT-0"),
    # tools that people deploy
    "awslabs/amazon-s3-find-and-forget": ("3ab47f62ab4969dd477de630efaa6c49fe07f41f", "Apache-2.0"),
    "awslabs/aws-deployment-framework": ("147545e6c69d3a826029c0537220462cb2f92b48", "Apache-2.0"),
    "awslabs/aws-serverless-data-lake-framework": ("b7fc83cbfdc26bb13e37465c634554639cad30b6", "MIT-0"),
    "DataDog/datadog-serverless-functions": ("b9af797e0266b2be4011a94147419089833605c5", "Apache-2.0"),
}
"""The repositories of the rule: commit and licence."""


def kept(file: Path) -> list[Figures]:
    """Return the rows of the last run: of `WORLD` or `ASKED`."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def keep(file: Path, rows: Sequence[Figures]) -> None:
    """Keep rows, and fill the pages with them."""
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")


def fill(page: str) -> str:
    """Return a page with its generated blocks filled. Raises `KeyError` for an unknown one."""
    asked = kept(ASKED)
    writers: Mapping[str, Callable[[], str]] = {
        **{f"world {name}": partial(made, kept(WORLD)) for name, made in WORLD_TABLES.items()},
        **{f"path {one['handler']}": partial(path_block, one) for one in asked},
        **{f"verdict {one['handler']}": partial(verdict, one) for one in asked},
        **{f"code {one['handler']}": partial(code_block, *one["handler"].split(".")) for one in asked},
    }
    return replace_blocks(page, writers)


def code_block(file: str, function: str) -> str:
    """Return a handler's code: `fixed` alone, or all of its file but that and the docstring."""
    text = (QUESTIONS / f"{file}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    (fixed,) = (one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "fixed")
    lines = text.splitlines()
    own = lines[fixed.lineno - 1 : fixed.end_lineno]
    rest = lines[tree.body[0].end_lineno : fixed.lineno - 1] + lines[fixed.end_lineno :]
    shown = "\n".join(own if function == "fixed" else rest).strip()
    return "```python\n" + re.sub(r"\n{4,}", "\n\n\n", shown) + "\n```\n"


def verdict(one: Figures) -> str:
    """Return a sentence for a handler that holds at every level."""
    return f"The explorer finds no breach in {one['schedules']:,} schedules ({one['states']:,} states).\n"


def path_block(one: Figures) -> str:
    """Return the shortest counterexample of a handler as a block of text."""
    return "```text\n" + "".join(f"{line}\n" for line in one["path"]) + "```\n"


def shown_path(counterexample: str) -> list[str]:
    """Return the lines of a counterexample from its first step on, without the rows that exist before."""
    lines = [line.rstrip() for line in counterexample.splitlines()]
    first = next((number for number, line in enumerate(lines) if re.match(r" +1  ", line)), len(lines))
    return lines[first:]


Row = Mapping[str, Any]
EXPLORED = ("holds", "breaks", "not finished")


def repositories_table(rows: Sequence[Row]) -> str:
    """Return a row for each repository of the rule."""
    found = []
    for name, (commit, licence) in REPOSITORIES.items():
        own = Counter(row["verdict"] for row in rows if row["repository"] == name)
        explored = sum(own[one] for one in EXPLORED)
        found.append([f"`{name}`", f"`{commit[:12]}`", licence, *map(str, (own.total(), explored, own["breaks"]))])
    sums = [str(sum(int(row[column]) for row in found)) for column in (3, 4, 5)]
    header = ["repository", "commit", "licence", "chosen", "explored", "break"]
    return table(header, [*found, ["all", "", "", *sums]], [LEFT] * 3 + [RIGHT] * 3)


def explored_table(rows: Sequence[Row]) -> str:
    """Return a row for each handler that was explored."""
    header = ["handler", "source", "verdict", "outside effects", "steps", "CPU s", "given"]
    found = [
        [
            _name(row),
            max((kind for kind in KNOWN if row["source"].startswith(kind)), key=len),  # without its resource's name
            row["verdict"],
            "may repeat" if row["outside"] else "none" if row["verdict"] == "holds" else "-",
            str(row["steps"] or "-"),
            f"{row['cpu_seconds']:.1f}",
            ", ".join(row["given"]) or "-",
        ]
        for row in rows
        if row["verdict"] in EXPLORED
    ]
    return table(header, found, [LEFT] * 4 + [RIGHT] * 2 + [LEFT])


def refused_table(rows: Sequence[Row]) -> str:
    """Return the reason for each handler that was not explored."""
    found = [
        [_name(row), row["verdict"], row["why"].split("\n")[0].split(". ")[0].replace("|", "\\|")]
        for row in rows
        if row["verdict"] not in EXPLORED
    ]
    return table(["handler", "verdict", "why"], found)


def breaches_table(rows: Sequence[Row]) -> str:
    """Return a row for each breach: its mistake, where it ends, and what its authors may say."""
    found = [
        [
            _name(row),
            judged(row["key"])[0],
            (row["path"] or row["why"].split(": "))[-1].strip().removeprefix("=> "),
            judged(row["key"])[1],
        ]
        for row in rows
        if row["verdict"] == "breaks"
    ]
    return table(
        ["handler", "mistake", "its shortest path ends in", "its authors"], sorted(found, key=lambda one: one[1])
    )


def mistakes_table(rows: Sequence[Row]) -> str:
    """Return how many breaches each mistake makes."""
    counts = Counter(judged(row["key"])[0] for row in rows if row["verdict"] == "breaks")
    return table(["mistake", "breaches"], [[one, str(counts[one])] for one in MISTAKES if counts[one]], [LEFT, RIGHT])


def _name(row: Row) -> str:
    folder = row["template"].rpartition("/")[0].replace("/infrastructure", "").split("/")
    inner = "/".join(part for part in folder[-2:] if part)
    return f"{row['repository'].partition('/')[2]}: {inner}{'/' if inner else ''}{row['function']}"


AGAIN = "done work fails when it is repeated"
PARTLY = "a partly refused batch is ignored"
SWALLOWED = "an exception ends in the log"
NEW = "each delivery makes a new identity"
COUNTED = "a counter is added to without a mark"
LATE = "a later write can be overtaken by an earlier one"
FIRST = "only the first record of a batch is read"
ENCODED = "the key of an object is not decoded"
MISTAKES = (AGAIN, PARTLY, NEW, SWALLOWED, COUNTED, ENCODED, LATE, FIRST)
YES = "agree"

JUDGED: dict[str, tuple[str, str]] = {
    "apigw-lambda-translate-polly-s3/template.yaml#ApiFunction": (
        SWALLOWED,
        "may be meant: the client reads the error in an answer of 200",
    ),
    "inspector-eventbridge-multi-destinations/template.yaml#WriteToDynamoDBFunction": (SWALLOWED, YES),
    "python-minimal-plugin/template.yaml#PythonMinimalPluginFunction": (SWALLOWED, YES),
    "fulfillment/template.yaml#FulfillmentFunction": (
        SWALLOWED,
        "may be meant: the client reads in an answer of 400 that its order is wrong",
    ),
    "s3-lambda-polly-sam/template.yaml#TextToSpeechFunction": (ENCODED, YES),
    "async-lambda-dynamodb/template.yaml#DestinationBucketListener": (ENCODED, YES),
    "templates/api.yaml#EnqueueDeletion": (NEW, "may be meant: a match that is queued twice is erased all the same"),
    "order/template.yaml#OrderFunction": (NEW, YES),
    "monetization/template.yaml#GenerateReportFunction": (NEW, YES),
    "monetization/template.yaml#CompileReportFunction": (NEW, "may be meant: a file for each run, named by its time"),
    "python-test-samples/apigw-lambda-dynamodb/template.yaml#PythonTestDemo": (
        NEW,
        "may be meant: a log of requests, kept by their time",
    ),
    "apigw-sqs-lambda-iot/template.yaml#iotpublish": (FIRST, YES),
    "queue-based-ingestion/python-sam/template.yaml#SQSMessageProcessorFunction": (LATE, YES),
    "checkout-processing-workflow/template.yaml#PaymentServiceEndpoint": (AGAIN, YES),
    "checkout-processing-workflow/template.yaml#ShippingServiceEndpoint": (AGAIN, YES),
    "human-in-the-loop/template.yaml#HandleApprovalFunction": (
        AGAIN,
        "may be meant: a second click on the mail's link shows an error",
    ),
    "lambda-orchestration-sam/template.yaml#BuySellFunction": (AGAIN, YES),
    "approvals-service/template.yaml#PropertiesApprovalSyncFunction": (AGAIN, YES),
    "payment/template.yaml#OnCompletedFunction": (AGAIN, YES),
    "payment/template.yaml#OnFailedFunction": (AGAIN, YES),
    "delivery/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "orders/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "products/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "warehouse/template.yaml#TableUpdateFunction": (PARTLY, YES),
    "users/template.yaml#SignUpFunction": (PARTLY, YES),
    **dict.fromkeys(
        ("shoppingcart-service.yaml#AddToCartFunction", "shoppingcart-service.yaml#UpdateCartFunction"),
        (NEW, "may be meant: a client without a cookie gets a new cart with each request, and carts expire"),
    ),
    "shoppingcart-service.yaml#CartDBStreamHandler": (COUNTED, YES),
}
"""By the end of the row's key."""


def judged(key: str) -> tuple[str, str]:
    """Return the mistake of a breach, and what its authors may say. Raises `StopIteration` for one that was not read."""
    return next(one for end, one in JUDGED.items() if key.endswith(end))


WORLD_TABLES = {
    "repositories": repositories_table,
    "explored": explored_table,
    "refused": refused_table,
    "breaches": breaches_table,
    "mistakes": mistakes_table,
}
