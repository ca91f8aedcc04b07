"""A quick look at the columns of a chunk: the subjects of which no law would speak, and their verdicts.

This says a second time what the laws say, for speed alone, and is one-sided: a subject is clean only if every condition here
holds, and any doubt leaves it to the laws. `Plain` says what the consumer's own laws need. The laws also judge every
thousandth clean subject, and a difference refuses the audit.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oneslot.audit.judge.columns import NEVER, RESULT, CarriedColumns, Keys, Mask, lacks, same, sure
from oneslot.audit.judge.evidence import evidence_of
from oneslot.audit.judged import EVIDENCE, SubjectKind, Subjects, with_own
from oneslot.audit.model import Model
from oneslot.audit.read.source import TEXT
from oneslot.errors import VerdictsDiffer
from oneslot.laws.evidence import Evidence
from oneslot.laws.form import RESERVED, ROW_PREFIX
from oneslot.laws.traces import COMPLETE, LEDGER

WITHOUT_ANSWER = ("duplicate", "fenced", "busy", "failed")
"""Outcomes of deliveries that leave a request as it is."""
SAMPLED = 1000
DIFFERENT = (
    "The audit takes {key} for clean, and the laws say otherwise: a fault in Oneslot, or in the consumer's `Plain`. Report it, "
    "and audit with --continue, which asks the laws alone."
)


class CleanSubjects:
    """The clean subjects of a chunk, with the columns of their verdicts."""

    def __init__(self, carried: CarriedColumns, model: Model, silent: Mask, undone: tuple[Mask, str]) -> None:
        self.carried = carried
        self.model = model
        found = [self._requests(silent & ~carried.odd, *undone), *self._rows(silent & ~carried.odd)]
        self.keys = np.concatenate([keys for keys, _ in found])
        self.table = pa.concat_tables([self._columns(keys, columns) for keys, columns in found])

    def _columns(self, keys: Keys, made: Mapping[str, Any]) -> pa.Table:
        columns = {"key": self.carried.named(keys), "violations": pa.array([""] * len(keys)), **made}
        schema, missing = self.model.arrow_schema, pa.nulls(len(keys))
        return pa.Table.from_arrays([columns.get(each.name, missing).cast(each.type) for each in schema], schema=schema)

    def _rows(self, silent: Mask) -> Iterator[tuple[Keys, Mapping[str, Any]]]:
        """Yield the rows that are subjects themselves: with a key of several attributes, or of a table without effects."""
        carried, tables = self.carried, self.model.declaration.schema.tables
        alone = silent & (sum(carried.own.values()) == 1)
        unseen = sum(carried.count[name] for name in (LEDGER, "deliveries", "accepted")) == 0
        for name, table in tables.items():
            several = len(table.key) > 1
            if table.effects and not several:
                continue
            keys = np.flatnonzero(alone & unseen & (carried.own[name] == 1))
            ids = carried.named(keys)
            # The laws cannot tell a row from a request whose id is what it is shown as.
            first, shown = pc.utf8_slice_codeunits(ids, 0, 1), pc.utf8_slice_codeunits(ids, 1)
            confused = pc.is_in(shown, carried.names) if several else pc.is_in(first, pa.array(RESERVED))
            keys = keys[~sure(confused)]
            subject = (self.model.row_subject or "row") if several else name
            counted = {self.model.exports[name].counted: pa.array(np.ones(len(keys), np.int64))}
            yield keys, {"subject": pa.array([subject] * len(keys), TEXT), **counted}

    def _requests(self, silent: Mask, undone: Mask, deed: str) -> tuple[Keys, Mapping[str, Any]]:
        """Return the requests with one COMPLETE row, which keeps a declared answer and counts the claims of all lines."""
        carried, outcomes = self.carried, self.model.declaration.schema.outcomes
        words = [*outcomes]
        keys = np.flatnonzero(silent & (carried.count[LEDGER] == 1))
        ids = carried.named(keys)
        good = same(carried.of(LEDGER, "status", keys), COMPLETE)
        good &= lacks(carried.of(LEDGER, "unsent", keys))
        shown = pc.binary_join_element_wise(ROW_PREFIX, ids, "")
        good &= ~sure(pc.is_in(shown, carried.names))  # nor this from a row
        kept = _number(carried.of(RESULT, "outcome", keys), words)
        good &= kept >= 0
        for number, word in enumerate(words):
            if request := outcomes[word].request:
                good &= (kept != number) | same(carried.of(RESULT, request, keys), ids)
            if names := outcomes[word].names:
                good &= (kept != number) | sure(pc.not_equal(carried.of(RESULT, names, keys), ""))
        kept_of = np.full(len(carried.names), -1)
        kept_of[keys] = kept
        lines = self._lines(kept_of, words)
        good &= lines["fit"][keys]
        claims = pc.fill_null(carried.of(LEDGER, "consumption_count", keys), 0).to_numpy()
        good &= claims >= np.maximum(1, np.maximum(lines["claims"], lines["claimants"])[keys])
        keys, kept, claims = keys[good], kept[good], claims[good]
        codes = np.array([self.model.codes[word] for word in words])[kept]
        lines = {name: values[keys] for name, values in lines.items()}
        verdicts = pa.array(words, TEXT).take(pa.array(kept))
        verdicts = pc.if_else(pa.array(undone[keys]), deed, verdicts)
        return keys, {
            "subject": pa.array([str(SubjectKind.REQUEST)] * len(keys)),
            "verdict": verdicts,
            **{export.counted: _shown(carried.own[name][keys]) for name, export in self.model.exports.items()},
            "ledger_complete": pa.array(np.ones(len(keys), np.int64)),
            "ledger_outcome": pa.array(codes),
            "ledger_consumptions": pa.array(claims),
            "deliveries": _shown(lines["all"]),
            "deliveries_done": _shown(lines["answered"] + lines["duplicate"]),
            "deliveries_duplicate": _shown(lines["duplicate"]),
            "delivered_outcome": pa.array(codes, mask=lines["answered"] == 0),
            "delivery_sent": _shown(lines["sent"], NEVER),
            "last_finished": _shown(lines["last"], -NEVER),
            "first_done": _shown(lines["first"], NEVER),
            "consumptions_seen": _shown(lines["claims"]),
            "accepted_copies": _shown(lines["copies"]),
            "accepted_sent": _shown(lines["accepted"], NEVER),
        }

    def _lines(self, kept: Any, words: Sequence[str]) -> Mapping[str, Any]:
        """Return figures of the logs by subject. `fit`: lines give no other answer than the row, and all the same."""
        of, rows = self.carried.subject_of["deliveries"], self.carried.rows["deliveries"]
        accepted, archive = self.carried.subject_of["accepted"], self.carried.rows["accepted"]
        counted, least = self.carried.counted, self.carried.least
        outcome = _number(rows["outcome"].combine_chunks(), [*words, *WITHOUT_ANSWER])
        answers, duplicates = outcome == kept[of], outcome == len(words)
        said = pc.fill_null(rows["answer"].combine_chunks().dictionary_encode().indices, -1).to_numpy()
        has = said >= 0
        sent, finished = (rows[name].to_numpy() for name in ("sent", "finished"))
        claims = pc.fill_null(rows["consumption_count"].combine_chunks(), 0).to_numpy()
        claimed = rows["claimed_by"].combine_chunks().dictionary_encode()
        claimant = pc.fill_null(claimed.indices, -1).to_numpy()
        claimant = np.where(pc.fill_null(pc.equal(rows["claimed_by"].combine_chunks(), ""), True), -1, claimant)
        pairs = np.unique((of * (len(claimed.dictionary) + 1) + claimant)[claimant >= 0])
        copies = np.zeros(len(kept), np.int64)
        np.add.at(copies, accepted, archive["copies"].to_numpy())
        fit = counted(of[~answers & (outcome < len(words))]) == 0
        return {
            "fit": fit & (least(of[has], said[has]) >= -least(of[has], -said[has], 0)),
            "all": counted(of),
            "answered": counted(of[answers]),
            "duplicate": counted(of[duplicates]),
            "sent": least(of, sent),
            "last": -least(of, -finished),
            "first": least(of[answers], finished[answers]),
            "claims": -least(of, -claims, 0),
            "claimants": counted(pairs // (len(claimed.dictionary) + 1)),
            "copies": copies,
            "accepted": least(accepted, archive["sent"].to_numpy()),
        }

    @cached_property
    def sample(self) -> Mapping[str, list[Any]]:
        """Every thousandth clean subject, which the laws judge as well: its row of the verdicts by its key."""
        rows = self.table.take(pa.array(np.arange(0, len(self.keys), SAMPLED))).drop_columns([EVIDENCE])
        return {row[0]: [*row] for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)}

    @property
    def left(self) -> dict[str, pa.Table]:
        """The rows that the laws must judge, by source: those of all other subjects, and of the sample."""
        left = np.ones(len(self.carried.names), bool)
        left[self.keys] = False
        left[self.keys[::SAMPLED]] = True
        of = self.carried.keys_of
        return {name: rows.filter(pa.array(left[of[name]])) for name, rows in self.carried.tables.items()}

    def compare(self, row: list[Any]) -> None:
        """Raise `VerdictsDiffer` if the laws say otherwise about a subject of the sample."""
        if self.sample[row[0]] != row:
            raise VerdictsDiffer(DIFFERENT.format(key=row[0]))

    @cached_property
    def subjects(self) -> Subjects:
        """The clean subjects, with the attributes of their own rows that operations tables read."""
        own = {}
        for source, name, kind in self.model.reads:
            column = self.carried.of(source, name, self.keys)
            mine = pa.array(self.carried.own[source][self.keys] == 1)
            own[f"{source}.{name}"] = pc.if_else(mine, column, pa.scalar(None, kind))
        return with_own(self.table, own)


def _number(column: pa.Array, words: Sequence[str]) -> Any:
    """Return the places of a column's values among these words; -1 for others."""
    return pc.fill_null(pc.index_in(column, pa.array(words, TEXT)), -1).to_numpy()


def _shown(values: Any, absent: int = 0) -> pa.Array:
    """Return a figure's column, null where it is `absent`."""
    return pa.array(values.astype(np.int64), mask=values == absent)


def find_clean(
    tables: Mapping[str, pa.Table], odd: Sequence[pa.Table], model: Model, moment: Evidence
) -> tuple[CleanSubjects | None, str]:
    """Return the clean subjects of a chunk; None and the reason if the laws must judge all of it."""
    plain = model.plain
    if plain is None:
        return None, "no Plain"
    try:
        carried = CarriedColumns(tables, odd, model.exports, model.declaration.schema, plain.results)
        evidence = partial(evidence_of, tables, model.exports, model.declaration.schema, moment)
        silent, undone = plain.silent(carried, evidence)
        return CleanSubjects(carried, model, silent, (undone, plain.deed)), ""
    except (ValueError, pa.ArrowException) as doubt:  # a row twice, or a result that the parser does not read
        return None, type(doubt).__name__
