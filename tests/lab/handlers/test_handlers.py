"""The pages show the kept figures of their handlers, and a new run finds the same."""

import resource
from pathlib import Path

import pytest

from lab.handlers.figures import ASKED, JUDGED, PAGES, WORLD, fill, judged, kept
from lab.handlers.questions.__main__ import HANDLERS, explored
from lab.handlers.world import Chosen, chosen, run
from lab.handlers.world_given import GIVEN
from oneslot.explorer.handlers.verdict import Kind

LONG = "in_progress.fixed"
"""The handler with the most states."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_has_the_kept_figures(page: Path) -> None:
    assert fill(page.read_text(encoding="utf-8")) == page.read_text(encoding="utf-8"), "run: make -C lab handlers"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == LONG else name for name in HANDLERS]
)
def test_handler_is_found_as_it_is_kept(name: str) -> None:
    (row,) = (one for one in kept(ASKED) if one["handler"] == name)

    found = explored(name)

    assert {key: found[key] for key in ("holds", "complete", "path")} == {
        key: row[key] for key in ("holds", "complete", "path")
    }


def test_each_question_has_a_handler_that_breaks_and_a_fixed_one_that_holds() -> None:
    assert [one["holds"] for one in kept(ASKED)] == [False, True] * (len(HANDLERS) // 2)


# The table of the world: the rule chooses what it says, each breach is judged, and the tables show the kept rows.


TEMPLATE = """
Globals: {Function: {Runtime: python3.12, Timeout: 9}}
Resources:
  Queue: {Type: AWS::SQS::Queue, Properties: {VisibilityTimeout: 60}}
  Writer: &writer
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.handler
      CodeUri: src
      Events: {Order: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn}}}
  Same: *writer
  Idle: {Type: AWS::Serverless::Function, Properties: {Handler: app.handler, CodeUri: src}}
  Reader:
    Type: AWS::Serverless::Function
    Properties:
      Handler: reader.handler
      CodeUri: src
      Events: {Call: {Type: Api, Properties: {Path: /, Method: get}}}
  Node:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.handler
      CodeUri: src
      Runtime: nodejs20.x
      Events: {Call: {Type: Api, Properties: {Path: /, Method: get}}}
"""
WRITER = """
import boto3
def handler(event, context):
    for record in event["Records"]:
        boto3.client("s3").put_object(Bucket="orders", Key=record["messageId"], Body=b"")
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "aws-samples+serverless-patterns"
    (folder / "src").mkdir(parents=True)
    (folder / "template.yaml").write_text(TEMPLATE)
    (folder / "src" / "app.py").write_text(WRITER)
    (folder / "src" / "reader.py").write_text("def handler(event, context):\n    return {'statusCode': 200}\n")
    return folder


def test_rule_chooses_each_file_once_that_writes_for_a_known_source(clone: Path) -> None:
    assert list(chosen(clone)) == [Chosen("template.yaml", "Writer", "SQS Queue")]


def test_run_gives_a_row_when_a_function_is_scanned(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: None)  # it would limit the tests

    row = run(clone.parent, "aws-samples/serverless-patterns", *chosen(clone))

    assert (row["verdict"], row["given"], row["path"]) == ("holds", [], [])
    assert str(clone) not in str(row)


def test_each_breach_is_judged_and_each_judgement_is_of_a_breach() -> None:
    breaks: Kind = "breaks"
    breaches = [row["key"] for row in kept(WORLD) if row["verdict"] == breaks]

    assert all(judged(key) for key in breaches)
    assert [end for end in JUDGED if not any(key.endswith(end) for key in breaches)] == []


def test_what_is_given_is_for_a_chosen_handler() -> None:
    assert sorted(GIVEN.keys() - {row["key"] for row in kept(WORLD)}) == []
