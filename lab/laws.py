"""The laws about calls (the explorer checks them) and about processes (the simulation), of which no history shows a breach."""

OF_CALLS = {
    "E1": "One delivery with one transient fault of a write finishes within that delivery.",
    "E2": "A live lease is never taken over.",
    "E3": "A duplicate of a finished request costs one call.",
}
OF_PROCESSES = {
    "Q1": "A request is committed once at most, counted where DynamoDB performs the writes.",
    "Q2": "Without a fault, each message is received once.",
    "Q3": "b crashes cost a message 2b + 1 receives, its short waits, and one for each request that lands after its "
    "process died. They send it to no dead-letter queue if it has as many.",
    "Q4": "Messages of a FIFO group are sent, begun and committed in their order.",
    "Q5": "A worker has no more messages at work than threads, and asks for no more than are idle.",
    "Q6": "The queue drains soon after the last fault: the longest lease, a visibility timeout, 5 s.",
    "Q7": "The archive holds every message of which an ended sender knows that it was accepted.",
    "Q8": "Every dead letter has its reason.",
    "Q9": "No thread dies.",
    "Q10": "A redrive that ends has moved what it planned, and repeated redrives end.",
    "Q11": "A redrive sends each message as its producer did.",
    "Q12": "An operator's change is in the operator log before it is made.",
    "Q13": "The archive holds nothing that the queue did not accept.",
    "Q14": "A producer gives one result for each message, also for one that it is given twice.",
    "Q15": "Every sender ends.",
    "Q18": "A renewed lease never ends later than its message's limit.",
    "Q19": "A renewed claim is not taken over while its process lives and its calls are answered.",
    "Q20": "In the history of Valkey that survives, each request takes effect once, whole, and by its claim's holder.",
    "Q21": "A request in Valkey is lost only if a failover lost its commit.",
    "M1": "A mapping keeps the limits of its function: environments, batch size, payload.",
    "M2": "A mapping offers no message that is visible in its queue again.",
    "M3": "A mapping that stops has accounted for every message that it received.",
}
