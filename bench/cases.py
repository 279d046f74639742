# SPDX-License-Identifier: BSD-2-Clause
"""The work that is measured: for each case what the tables show of it, and options of sse_load."""

CASES = {
    "fan-1000-100": ("fanout", dict(mode="fanout", subs=1000, bytes=100, messages=400, duration=5)),
    "fan-1000-1024": ("fanout", dict(mode="fanout", subs=1000, bytes=1024, messages=300, duration=5)),
    "fan-5000-100": ("fanout", dict(mode="fanout", subs=5000, bytes=100, messages=80, duration=5, warm=8)),
    "fan-5000-1024": ("fanout", dict(mode="fanout", subs=5000, bytes=1024, messages=60, duration=5, warm=8)),
    "fan-10000-100": ("fanout", dict(mode="fanout", subs=10000, bytes=100, messages=40, duration=5, warm=5)),
    "fan-10000-1024": ("fanout", dict(mode="fanout", subs=10000, bytes=1024, messages=30, duration=5, warm=5)),
    "fan-19000-100": ("fanout", dict(mode="fanout", subs=19000, bytes=100, messages=20, duration=5, warm=3)),
    "lat-1000-100": ("latency", dict(mode="fanout", subs=1000, bytes=100, messages=40, rate=10, duration=8)),
    "many-1000-100": ("many", dict(mode="many", subs=1000, bytes=100, messages=60000, duration=4, pub_conns=16)),
    "many-1000-1024": ("many", dict(mode="many", subs=1000, bytes=1024, messages=60000, duration=4, pub_conns=16)),
    "publish0": ("publish", dict(mode="publish0", bytes=100, messages=100000, duration=4, pub_conns=16)),
    "gate": ("gate", dict(mode="publish0", bytes=100, messages=100000, duration=4, pub_conns=16)),
    "calls": ("calls", dict(rounds=4000)),
    "idle-5000": ("idle", dict(mode="idle", subs=5000, idle_seconds=3, settle=1)),
    "slow-0": ("slow", dict(mode="slow", subs=100, slow_share=0, bytes=8192, messages=600, rate=100, duration=12)),
    "slow-10": ("slow", dict(mode="slow", subs=100, slow_share=0.1, bytes=8192, messages=600, rate=100, duration=12)),
}

SETS = {
    "quick": ["fan-1000-100", "lat-1000-100", "many-1000-100", "publish0", "gate", "calls", "idle-5000",
              "slow-0"],
    "full": [case for case in CASES if case != "many-1000-1024"],
}

# What `make bench BENCH=NAME` stands for.
OURS = "durable,nginx-return,gate-off,gate-on,gate-exclusive,calls"
RUNS = {
    "quick": ["--cases", "quick", "--peers", "plain,plain-uring,nchan," + OURS, "--rounds", "2"],
    "full": ["--cases", "full", "--peers", "plain,plain-uring,nchan,pushpin," + OURS,
             "--workers", "1,2", "--rounds", "3", "--quiet-max", "0.1"],
}
