"""Values that the user gives: parameters of Systems Manager, and secrets of Secrets Manager.

It leaves out writes, versions, types and encryption.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from oneslot.dynamodb_in_memory.answers import UnsupportedRequest, refuse
from oneslot.explorer.services.account import Account, Operation

PARAMETERS, SECRETS = "parameters", "secrets"
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)
"""When the values were written."""

Parameters = Mapping[str, Any]


def _parameter(name: str, value: Any) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "String",
        "Value": value if isinstance(value, str) else ",".join(value),
        "Version": 1,
        "LastModifiedDate": WRITTEN,
        "ARN": f"arn:aws:ssm:eu-west-2:000000000000:parameter/{name.lstrip('/')}",
        "DataType": "text",
    }


def _given(account: Account, kind: str, asked: str) -> Mapping[str, Any]:
    """Return the given values. Raises `UnsupportedRequest`, with the remedy, if there are none of this kind at all."""
    if kind not in account.values:
        raise UnsupportedRequest(f'no values are given. Give them: {kind}={{"{asked}": "..."}}')
    return account.values[kind]


def get_parameter(account: Account, parameters: Parameters) -> Mapping[str, Any]:
    """Return one parameter."""
    name = parameters["Name"]
    values = _given(account, PARAMETERS, name)
    if name not in values:
        refuse("GetParameter", "ParameterNotFound", f"Parameter {name} not found.")
    return {"Parameter": _parameter(name, values[name])}


def get_parameters(account: Account, parameters: Parameters) -> Mapping[str, Any]:
    """Return parameters by their names."""
    values = _given(account, PARAMETERS, parameters["Names"][0])
    found = [_parameter(name, values[name]) for name in parameters["Names"] if name in values]
    return {"Parameters": found, "InvalidParameters": [name for name in parameters["Names"] if name not in values]}


def get_parameters_by_path(account: Account, parameters: Parameters) -> Mapping[str, Any]:
    """Return the parameters below a path."""
    path = f"{parameters['Path'].rstrip('/')}/"
    values = _given(account, PARAMETERS, f"{path}name")
    names = [name for name in sorted(values) if name.startswith(path)]
    if not parameters.get("Recursive"):
        names = [name for name in names if "/" not in name[len(path) :]]
    return {"Parameters": [_parameter(name, values[name]) for name in names]}


def get_secret_value(account: Account, parameters: Parameters) -> Mapping[str, Any]:
    """Return one secret, by its name or ARN."""
    asked = parameters["SecretId"]
    values = _given(account, SECRETS, asked)
    name = asked if asked in values else asked.rpartition(":secret:")[2].rpartition("-")[0]
    if name not in values:
        message = "Secrets Manager can't find the specified secret."
        refuse("GetSecretValue", "ResourceNotFoundException", message)
    value = values[name]
    content = {"SecretBinary": value} if isinstance(value, bytes) else {"SecretString": _text(value)}
    return {
        "ARN": f"arn:aws:secretsmanager:eu-west-2:000000000000:secret:{name}-a1b2c3",
        "Name": name,
        "VersionId": "00000000-0000-4000-8000-000000000001",
        **content,
        "VersionStages": ["AWSCURRENT"],
        "CreatedDate": WRITTEN,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


OPERATIONS: dict[str, Operation] = {
    "ssm.get_parameter": get_parameter,
    "ssm.get_parameters": get_parameters,
    "ssm.get_parameters_by_path": get_parameters_by_path,
    "secretsmanager.get_secret_value": get_secret_value,
}
