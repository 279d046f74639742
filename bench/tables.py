# SPDX-License-Identifier: BSD-2-Clause
"""Tables of medians from the records of runs; README.md says what each column means."""
import statistics

from cases import CASES


def median(rows, value):
    values = [x for x in map(value, rows) if x is not None]
    return statistics.median(values) if values else None


def number(x, digits=1):
    if x is None:
        return "-"
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.{digits}f}"


def ratio(a, b):
    return f"{a / b:.2f}" if a is not None and b else "-"


def percent(x):
    return "-" if x is None else f"{100 * x:.0f} %"


def spread(rows, value):
    values = [value(row) for row in rows]
    middle = statistics.median(values)
    return percent((max(values) - min(values)) / middle) if middle else "-"


def ms(key, quantile):
    return lambda row: row[key][quantile] / 1000


def field(name):
    return lambda row: row[name]


def foreign(rows):
    return percent(median(rows, field("foreign_cpu_share")))


class Group:
    """The exact runs of one case, by server and number of workers."""

    def __init__(self, good):
        self.good = good
        self.plain = good.get(("plain", 1), [])
        self.floor = good.get(("nginx-return", 1), [])
        self.ungated = good.get(("gate-off", 1), [])

    def nchan(self, workers):
        return self.good.get(("nchan", workers)) or self.good.get(("nchan", 1)) or []


def throughput_head(floor_name, what):
    return [what, f"÷ {floor_name}", "÷ nchan", "CPU µs each", f"÷ {floor_name}", "÷ nchan", "CPU spread", "msgs/recv",
            "lat p50 ms", "lat p99 ms", "publish p50 ms", "load CPU", "foreign"]


def throughput_row(rows, group, workers, floor, rate, cost, has_deliveries):
    nchan = group.nchan(workers)
    per_s, each = median(rows, rate), median(rows, cost)
    latency = [number(median(rows, field("msgs_per_recv")), 2), number(median(rows, ms("lat_us", "p50")), 2),
               number(median(rows, ms("lat_us", "p99")), 2)]
    load = median(rows, lambda row: row["client_cpu_s"] / row["wall_s"] if row["wall_s"] else 0)
    return [number(per_s), ratio(per_s, median(floor, rate)), ratio(per_s, median(nchan, rate)), number(each, 2),
            ratio(each, median(floor, cost)), ratio(each, median(nchan, cost)), spread(rows, cost),
            *(latency if has_deliveries else ["-"] * 3), number(median(rows, ms("pub_rtt_us", "p50")), 2),
            percent(load), foreign(rows)]


def delivery_row(rows, group, workers):
    return throughput_row(rows, group, workers, group.plain, field("delivered_per_s"), field("cpu_us_per_delivery"), True)


def publish_row(rows, group, workers):
    return throughput_row(rows, group, workers, group.floor, field("publish_per_s"), field("cpu_us_per_publish"), False)


GATE_HEAD = ["requests/s", "÷ gate-off", "CPU µs each", "÷ gate-off", "CPU spread", "p50 ms", "foreign"]


def gate_row(rows, group, _workers):
    rate, cost = field("publish_per_s"), field("cpu_us_per_publish")
    per_s, each = median(rows, rate), median(rows, cost)
    return [number(per_s), ratio(per_s, median(group.ungated, rate)), number(each, 2),
            ratio(each, median(group.ungated, cost)), spread(rows, cost), number(median(rows, ms("pub_rtt_us", "p50")), 2),
            foreign(rows)]


CALLS_HEAD = [f"{where}: {what}" for where in ("same worker", "another")
              for what in ("wake p50 ms", "p99 ms", "rounds/s", "÷ two returns")]


def calls_row(rows, _group, _workers):
    cells = []
    for where in ("same", "other"):
        value = {key: median(rows, lambda row, key=key: row[where][key]) for key in rows[0][where]}
        cells += [number(value["wake_p50_us"] / 1000, 3), number(value["wake_p99_us"] / 1000, 3),
                  number(value["rounds_per_s"]), ratio(value["rounds_per_s"], value["return_rounds_per_s"])]
    return cells


LATENCY_HEAD = ["p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "p50 ÷ plain", "p50 ÷ nchan", "last sub p50 ms",
                "CPU µs each", "÷ plain", "÷ nchan", "foreign"]


def latency_row(rows, group, workers):
    nchan, cost, p50 = group.nchan(workers), field("cpu_us_per_delivery"), ms("lat_us", "p50")
    middle, each = median(rows, p50), median(rows, cost)
    return [*(number(median(rows, ms("lat_us", q)), 2) for q in ("p50", "p90", "p99", "p999", "max")),
            ratio(middle, median(group.plain, p50)), ratio(middle, median(nchan, p50)),
            number(median(rows, ms("fanout_us", "p50")), 2), number(each, 2), ratio(each, median(group.plain, cost)),
            ratio(each, median(nchan, cost)), foreign(rows)]


IDLE_HEAD = ["start RSS MB", "start PSS MB", "RSS B/sub", "PSS B/sub", "÷ nchan", "idle CPU %", "connects/s",
             "CPU µs/connect", "PSS after MB"]


def idle_row(rows, group, workers):
    pss = median(rows, field("pss_per_sub"))
    return [number(median(rows, lambda row: row["mem_start"]["rss_kb"] / 1024)),
            number(median(rows, lambda row: row["mem_start"]["pss_kb"] / 1024)),
            number(median(rows, field("rss_per_sub")), 0), number(pss, 0),
            ratio(pss, median(group.nchan(workers), field("pss_per_sub"))),
            number(median(rows, lambda row: 100 * row["idle_cpu"]), 2), number(median(rows, field("connects_per_s"))),
            number(median(rows, field("connect_cpu_us"))),
            number(median(rows, lambda row: row["mem_after"]["pss_kb"] / 1024))]


SLOW_HEAD = ["p50 ms", "p99 ms", "p99.9 ms", "max ms", "p99 ÷ plain", "CPU µs each", "PSS idle MB", "PSS end MB",
             "slow: closed", "got all", "got part", "foreign"]


def slow_row(rows, group, _workers):
    p99 = ms("lat_us", "p99")
    return [*(number(median(rows, ms("lat_us", q)), 2) for q in ("p50", "p99", "p999", "max")),
            ratio(median(rows, p99), median(group.plain, p99)), number(median(rows, field("cpu_us_per_delivery")), 2),
            number(median(rows, lambda row: row["mem_idle"]["pss_kb"] / 1024)),
            number(median(rows, lambda row: row["mem_end"]["pss_kb"] / 1024)),
            *(number(median(rows, lambda row, q=q: row.get(q, 0)), 0) for q in ("slow_closed", "slow_complete", "slow_short")),
            foreign(rows)]


KINDS = {
    "fanout": (throughput_head("plain", "delivered/s"), delivery_row),
    "many": (throughput_head("plain", "delivered/s"), delivery_row),
    "publish": (throughput_head("nginx return", "publish/s"), publish_row),
    "gate": (GATE_HEAD, gate_row),
    "calls": (CALLS_HEAD, calls_row),
    "latency": (LATENCY_HEAD, latency_row),
    "idle": (IDLE_HEAD, idle_row),
    "slow": (SLOW_HEAD, slow_row),
}


def markdown(head, body):
    width = [max(len(str(row[i])) for row in [head] + body) for i in range(len(head))]

    def line(cells):
        texts = [str(cell).rjust(width[i]) if i else str(cell).ljust(width[0]) for i, cell in enumerate(cells)]
        return "| " + " | ".join(texts) + " |"

    rule = [":" + "-" * (width[0] + 1)] + ["-" * (w + 1) + ":" for w in width[1:]]
    return "\n".join([line(head), "|" + "|".join(rule) + "|"] + [line(row) for row in body])


def why_not(row):
    return row.get("first_error") or f"lost {row.get('lost')} of {row.get('lost', 0) + row.get('delivered', 0)}"


def case_table(case, records):
    kind, options = CASES[case]
    runs = {}
    for record in records:
        runs.setdefault((record["peer"], record["workers"]), []).append(record)
    good = {key: [row for row in rows if row.get("ok")] for key, rows in runs.items()}
    group = Group(good)
    columns, make_row = KINDS[kind]
    body = []
    for (peer, workers), rows in runs.items():
        exact = good[peer, workers]
        start = [f"{peer}/{workers}", f"{len(exact)}/{len(rows)}"]
        cells = make_row(exact, group, workers) if exact else [why_not(rows[0])[:60]] + ["-"] * (len(columns) - 1)
        body.append(start + cells)
    work = " ".join(f"{key}={value}" for key, value in options.items())
    return f"### {case}\n\n`{work}`\n\n" + markdown(["server/workers", "runs ok", *columns], body) + "\n"


def tables(records):
    by_case = {case: [r for r in records if r["case"] == case] for case in CASES}
    return "\n".join(case_table(case, rows) for case, rows in by_case.items() if rows)
