"""Rate negotiation: its `latency`, and a `step` of a link's rate; `worker` is one rank."""
