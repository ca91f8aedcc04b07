"""The construct: a queue, its consumer and its ledger, for a CDK stack. `pip install "oneslot[cdk]"` brings CDK.

Importing CDK starts Node.js and unpacks CDK. So this package chooses both places before it imports CDK.
"""

from importlib.util import find_spec

from oneslot.cdk.node import choose_cache, choose_node
from oneslot.errors import missing_package

choose_cache()
choose_node()

if not find_spec("aws_cdk"):
    raise ModuleNotFoundError(missing_package("aws-cdk-lib", "cdk"), name="aws_cdk")

from oneslot.cdk.asset import VendoringProblem, lambda_code  # noqa: E402
from oneslot.cdk.consumer import ExactlyOnceConsumer  # noqa: E402
from oneslot.cdk.numbers import ContradictorySettings, Numbers, Thresholds  # noqa: E402
from oneslot.cdk.rights import TableRights  # noqa: E402
from oneslot.cdk.tables import new_table  # noqa: E402

__all__ = [
    "ContradictorySettings",
    "ExactlyOnceConsumer",
    "Numbers",
    "TableRights",
    "Thresholds",
    "VendoringProblem",
    "lambda_code",
    "new_table",
]
