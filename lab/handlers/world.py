"""The table of the world: every handler that a rule chooses from public repositories, through `oneslot scan`.

`python -m lab.handlers.world CLONES` takes a folder with a clone of each repository, named OWNER+NAME. The rule is in
`lab/docs/handlers.md`, and `chosen` is its code. Nothing of a clone is kept but the paths that the explorer prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oneslot.explorer.handlers.templates.intrinsics import Resolver, Unresolved
from oneslot.explorer.handlers.templates.sources import functions, sources_of
from oneslot.explorer.handlers.templates.template import folders, function_properties, read_template
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan.first_events import KNOWN
from oneslot.explorer.scan.scan import inline_code

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

WRITES = re.compile(
    r"\.(?:put_item|update_item|delete_item|batch_writer|batch_write_item|transact_write_items"
    r"|put_object|upload_file|upload_fileobj|copy_object|delete_object|delete_objects"
    r"|send_message|send_message_batch|publish|publish_batch|put_events"
    r"|start_execution|send_task_success|send_task_failure)\("
)
"""The calls that write to DynamoDB, S3, SQS, SNS, EventBridge and Step Functions."""

TEMPLATES = (".yaml", ".yml", ".json", ".template")


@dataclass(frozen=True)
class Chosen:
    """A function that the rule chooses. `template` is its path in the clone, `source` the title of its first source."""

    template: str
    function: str
    source: str


def chosen(clone: Path) -> Iterator[Chosen]:
    """Yield what the rule chooses from a clone, in the order of the templates' paths."""
    seen: set[object] = set()
    for file in sorted(clone.rglob("*")):
        if file.suffix in TEMPLATES and file.is_file() and b"::Function" in file.read_bytes():
            for name, source, code, text in _candidates(file):
                if WRITES.search(text) and code not in seen:
                    seen.add(code)
                    yield Chosen(str(file.relative_to(clone)), name, source)


def _candidates(file: Path) -> Iterator[tuple[str, str, object, str]]:
    """Yield the Python functions of a template that have a known source: name, source, and the code's place and text."""
    try:
        document = read_template(file)
    except (NotExplorable, UnicodeDecodeError):
        return
    resolver = Resolver(document, {})
    for name in functions(resolver):
        properties = function_properties(document, name)
        source = next((one.title for one in sources_of(resolver, name) if one.kind in KNOWN), "")
        if not source or not str(properties.get("Runtime")).startswith("python"):
            continue
        if text := inline_code(resolver, properties):
            yield name, source, (file, name), text
            continue
        try:
            folder, *_ = folders(resolver, resolver.resources[name], properties)
            module, _, _ = str(resolver.value(properties["Handler"])).rpartition(".")
        except Unresolved:
            continue
        code = (file.parent / folder / f"{module.replace('.', '/')}.py").resolve()
        if code.is_file():
            yield name, source, code, code.read_text()
