"""Every mutant of the whole system."""

from __future__ import annotations

from lab.simulation.mutants.of_mapping import MAPPING_CHANGES, ORDER_CHANGES
from lab.simulation.mutants.of_repair import LEDGER_CHANGES, REPAIR_CHANGES
from lab.simulation.mutants.of_sending import SENDING_CHANGES
from lab.simulation.mutants.of_worker import WORKER_CHANGES

CHANGES = (*WORKER_CHANGES, *MAPPING_CHANGES, *ORDER_CHANGES, *SENDING_CHANGES, *REPAIR_CHANGES, *LEDGER_CHANGES)
