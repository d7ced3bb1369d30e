"""Relay ACP traffic between a client and any agent, and record or repair it on the way.

The agent needs no support for this. How the modules work together:

- `stdio` starts the agent (`callsheet.processes.child`) and passes bytes on in both directions, in one
  thread. What becomes of the bytes is up to a `Traffic`, which records them (`recording`) or repairs
  what is in them (`live`).
- `live` drives a `pipeline` by lines and by the clock; `offline` drives one over a recording.
- In the pipeline, what is not about calls goes through `passthrough`. Calls go to their `tapped_session`:
  what is known of one (`context`) becomes a draft (`repair`, `profiles`), which becomes a safe report
  (`render`, `reports`), which is sent when it is time (`outbox`, `hold`). `permissions` completes
  requests, `terminals` cleans output.
- `history_sink` stores what the client was shown; `stats` counts what was done.
"""
