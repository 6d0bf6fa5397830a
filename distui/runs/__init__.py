"""A run from its plan to its end, cut by subject.

In: a plan and sessions to hosts. Out: events, the state folded from them, a record on disk, nothing left on hosts.
Lowest first, each imports only what stands before it: `lines`, `state`, `verdict`, `store`, `series`, `hosts`, `code`,
`images`, `task`, `follow`, `insight`, `watch`, `report`, `attempt`, `ending`, `launch`, `control`.
"""
