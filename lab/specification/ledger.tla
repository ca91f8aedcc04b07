------------------------------- MODULE ledger -------------------------------
\* One request, sent by its producer as several messages, each delivered any number of times, to any consumers, at once.
\* docs/understand/correctness.md says which line of the code each action is. Left out: other requests (they meet only at
\* a slot, whose condition is in the same transaction), the ledger's time to live, quarantine.
EXTENDS Naturals, FiniteSets
CONSTANTS Consumers, Messages, Ids, Faults
VARIABLES row, effects, queue, network, consumer, faults, completed, trespass
vars == <<row, effects, queue, network, consumer, faults, completed, trespass>>

Writing == {"claiming", "working", "releasing"}
Idle == [at |-> "idle", message |-> "none", id |-> 0]
Init == /\ row = [status |-> "none", by |-> 0, live |-> FALSE]   \* the ledger's row; live: its lease has not ended
        /\ effects = 0                                            \* appointments that exist for the request
        /\ queue = Messages                                       \* not acknowledged yet
        /\ network = {}                                           \* writes that were given up and may still land
        /\ consumer = [c \in Consumers |-> Idle]
        /\ faults = Faults                                        \* how many more there may be
        /\ completed = FALSE /\ trespass = FALSE                  \* history, for the invariants only

Used     == {row.by} \cup {w.id : w \in network} \cup {consumer[c].id : c \in Consumers}
Fresh    == CHOOSE i \in Ids : i \notin Used
Enter(c, place) == consumer' = [consumer EXCEPT ![c].at = place]
Leave(c)        == consumer' = [consumer EXCEPT ![c] = Idle]
Fault           == faults > 0 /\ faults' = faults - 1
NoFault         == faults' = faults

\* ------ The three conditional writes, each atomic at the moment when it lands, whether or not anyone waits for it.
Claimable == \/ row.status = "none"
             \/ row.status = "IN_PROGRESS" /\ ~row.live
Owned(i)  == /\ row.status = "IN_PROGRESS"
             /\ row.by = i
LandClaim(i, live) ==                              \* a claim that comes late brings a lease that may be over already
  /\ row' = IF Claimable THEN [status |-> "IN_PROGRESS", by |-> i, live |-> live] ELSE row
  /\ trespass' = (trespass \/ (Claimable /\ row.live))
  /\ UNCHANGED <<effects, completed>>
LandCommit(i) ==
  /\ row' = IF Owned(i) THEN [row EXCEPT !.status = "COMPLETE", !.live = FALSE] ELSE row
  /\ effects' = IF Owned(i) THEN effects + 1 ELSE effects
  /\ completed' = (completed \/ Owned(i))
  /\ trespass' = (trespass \/ (Owned(i) /\ row.by # i))
LandRelease(i) ==
  /\ row' = IF Owned(i) THEN [row EXCEPT !.live = FALSE] ELSE row
  /\ trespass' = (trespass \/ (Owned(i) /\ row.by # i))
  /\ UNCHANGED <<effects, completed>>

Land(place, i) == IF place = "claiming" THEN \E live \in BOOLEAN : LandClaim(i, live)
                  ELSE IF place = "working" THEN LandCommit(i) ELSE LandRelease(i)

\* ------ A consumer: receive, claim, commit, acknowledge; or an exception, and release.
Receive(c) ==
  /\ consumer[c].at = "idle"
  /\ \E m \in queue : consumer' = [consumer EXCEPT ![c] = [at |-> "claiming", message |-> m, id |-> Fresh]]
  /\ NoFault /\ UNCHANGED <<row, effects, queue, network, completed, trespass>>
Claim(c) ==
  /\ consumer[c].at = "claiming"
  /\ \/ LandClaim(consumer[c].id, TRUE) /\ NoFault
     \/ LandClaim(consumer[c].id, FALSE) /\ Claimable /\ Fault
  /\ IF Claimable \/ Owned(consumer[c].id) THEN Enter(c, "working")          \* granted, or granted before
     ELSE IF row.status = "COMPLETE" THEN Enter(c, "acknowledging")          \* a duplicate
     ELSE Leave(c)                                                           \* busy: deferred
  /\ UNCHANGED <<queue, network>>
Commit(c) ==
  /\ consumer[c].at = "working" /\ Land("working", consumer[c].id)
  /\ IF Owned(consumer[c].id) \/ row.status = "COMPLETE" THEN Enter(c, "acknowledging")
     ELSE Leave(c)                                                           \* fenced
  /\ NoFault /\ UNCHANGED <<queue, network>>
Release(c) ==
  /\ consumer[c].at = "releasing" /\ Land("releasing", consumer[c].id) /\ Leave(c)
  /\ NoFault /\ UNCHANGED <<queue, network>>
Acknowledge(c) ==
  /\ consumer[c].at = "acknowledging" /\ queue' = queue \ {consumer[c].message} /\ Leave(c)
  /\ NoFault /\ UNCHANGED <<row, effects, network, completed, trespass>>

\* ------ Faults.
Crash(c) ==
  /\ consumer[c].at # "idle" /\ Leave(c)
  /\ Fault /\ UNCHANGED <<row, effects, queue, network, completed, trespass>>
Exception(c) ==                                                              \* before the commit, or instead of its answer
  /\ consumer[c].at = "working" /\ Enter(c, "releasing")
  /\ Fault /\ UNCHANGED <<row, effects, queue, network, completed, trespass>>
AnswerLost(c) ==                                                             \* it lands, and the SDK sends it again
  /\ consumer[c].at \in Writing /\ Land(consumer[c].at, consumer[c].id)
  /\ Fault /\ UNCHANGED <<queue, network, consumer>>
Delayed(c) ==                                                                \* it may land later, and is sent again
  /\ consumer[c].at \in Writing
  /\ network' = network \cup {[write |-> consumer[c].at, id |-> consumer[c].id]}
  /\ Fault /\ UNCHANGED <<row, effects, queue, consumer, completed, trespass>>
LandLate ==
  /\ \E w \in network : network' = network \ {w} /\ Land(w.write, w.id)
  /\ NoFault /\ UNCHANGED <<queue, consumer>>
LeaseEnds ==                                      \* while its owner works, this is a fault: the owner was too slow
  /\ row.live /\ row' = [row EXCEPT !.live = FALSE]
  /\ IF \E c \in Consumers : consumer[c].id = row.by THEN Fault ELSE NoFault
  /\ UNCHANGED <<effects, queue, network, consumer, completed, trespass>>

Step(c) == Receive(c) \/ Claim(c) \/ Commit(c) \/ Release(c) \/ Acknowledge(c)
Next == \/ \E c \in Consumers : Step(c) \/ Crash(c) \/ Exception(c) \/ AnswerLost(c) \/ Delayed(c)
        \/ LandLate \/ LeaseEnds
Spec == Init /\ [][Next]_vars /\ WF_vars(LandLate) /\ WF_vars(LeaseEnds) /\ \A c \in Consumers : WF_vars(Step(c))

\* ------ What must hold.
AtMostOneEffect           == effects <= 1
EffectIffComplete         == (effects = 1) = (row.status = "COMPLETE")
CompleteStays             == completed => row.status = "COMPLETE"
AcknowledgedMeansComplete == queue # Messages => row.status = "COMPLETE"
OnlyTheOwnerWrites        == ~trespass            \* no takeover of a live lease, no write under another's claim
Finished                  == <>(row.status = "COMPLETE" /\ queue = {})
=============================================================================
