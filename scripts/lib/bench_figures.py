"""Reads the files that benches write with --json, and prints one table. Used by scripts/bench.

    bench_figures.py compare FOLDER OLD NEW [JSON]  from FOLDER/ROUND.BENCH.{old,new}.json: OLD and
                                                    NEW name the two revisions
    bench_figures.py all FOLDER [JSON]              from FOLDER/BENCH.json
    bench_figures.py executables                    from cargo's messages: a line each, name and path

docs/explanation/benchmarks-method.md describes the lanes and both tables.
"""

import json
import re
import sys
from pathlib import Path
from statistics import median

# A case that begins so is a bound or a peer: it shows what else changed between two revisions.
NOT_LONGSHORE = re.compile(r"bound|igzip|gzip|sha256sum|duckdb|chdb|no key")
# The units of columns that are compared. Other columns are shares, which follow from these.
MORE_IS_BETTER = re.compile(r"/s$|/min$|/CPU-s$")
LESS_IS_BETTER = re.compile(r"seconds$| s$|^s/| ms$| MB$")
NEITHER = re.compile(r"cores$")
# The size of what is exported, which is the same for both.
GIVEN = {"line MB"}


def read(path):
    """The environment, and the runs of each case: [{column: figure}]."""
    content = json.loads(path.read_text())
    runs, environment = {}, {}
    # The benches `scale` and `console` write a list, with one entry for each of their sections.
    for figures in content if isinstance(content, list) else [content]:
        environment = figures.get("environment") or environment
        for case in figures.get("cases", []):
            runs[case["case"]] = case["runs"]
        # Before revisions wrote cases, the export had a form of its own.
        for measured in figures.get("measured", []):
            runs[measured["runs"][0]["name"]] = [of_export(run) for run in measured["runs"]]
    return environment, runs


def of_export(run):
    columns = {
        "seconds": run["seconds"],
        "line MB": run["raw_bytes"] / 1e6,
        "file MB": run["bytes"] / 1e6,
    }
    if run["resident"] is not None:
        columns["resident MB"] = run["resident"] >> 20
    return columns


def is_number(value):
    return isinstance(value, (int, float))


def number(value):
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def table(heads, rows):
    """Texts to the left, figures to the right."""
    widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    for row in [heads, *rows]:
        cells = [
            cell.rjust(width) if at in RIGHT.get(len(heads), ()) else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip())


# By the number of columns: which of them hold figures.
RIGHT = {7: (2, 3, 4), 6: (2, 4, 5)}


# ---- compare --------------------------------------------------------------------------------


def verdict(unit, ratios):
    if not ratios or min(ratios) <= 1 <= max(ratios):
        return ""
    if NEITHER.search(unit):
        return "differs"
    return "better" if (min(ratios) > 1) == bool(MORE_IS_BETTER.search(unit)) else "worse"


def lanes_of(folder):
    """{(bench, case, unit): {side: {round: figure}}}, and the environment of each side."""
    lanes, environments = {}, {}
    for path in sorted(folder.glob("*.json"), key=lambda path: int(path.name.split(".")[0])):
        number_of_round, bench, side, _ = path.name.split(".")
        environment, runs = read(path)
        if environment:
            environments[side] = environment
        for case, all_runs in runs.items():
            for unit in {unit: None for run in all_runs for unit in run}:
                kinds = (MORE_IS_BETTER, LESS_IS_BETTER, NEITHER)
                if unit in GIVEN or not any(kind.search(unit) for kind in kinds):
                    continue
                figures = [run[unit] for run in all_runs if is_number(run.get(unit))]
                if figures:
                    sides = lanes.setdefault((bench, case, unit), {"old": {}, "new": {}})
                    sides[side][int(number_of_round)] = median(figures)
    return lanes, environments


def compared(lanes):
    for (bench, case, unit), sides in lanes.items():
        old, new = sides["old"], sides["new"]
        ratios = [new[n] / old[n] for n in sorted(old.keys() & new.keys()) if old[n]]
        yield {
            "lane": f"{bench}: {case}",
            "unit": unit,
            "old": median(old.values()) if old else None,
            "new": median(new.values()) if new else None,
            "ratio": median(ratios) if ratios else None,
            "min": min(ratios, default=None),
            "max": max(ratios, default=None),
            "verdict": verdict(unit, ratios),
            "is_longshore": not NOT_LONGSHORE.match(case),
        }


def compare(folder, old, new, file=None):
    lanes, environments = lanes_of(Path(folder))
    if not lanes:
        sys.exit(f"no figures in {folder}")
    rows = list(compared(lanes))
    rounds = max(len(sides[side]) for sides in lanes.values() for side in sides)
    environment = environments.get("new") or environments.get("old") or {}
    print(f"old: {old}\nnew: {new}\n{machine(environment)}\nmedians of {rounds} rounds\n")
    for is_longshore, title in (
        (True, "Longshore"),
        (False, "Bounds and peers: a marked ratio here means that the machine, or the bound's own "
                "code, changed too"),
    ):
        part = [row for row in rows if row["is_longshore"] == is_longshore]
        if part:
            print(f"{title}\n")
            heads = ["lane", "unit", "old", "new", "new/old", "min to max", ""]
            table(heads, [cells(row) for row in part])
            print()
    marked = sum(1 for row in rows if row["verdict"])
    with_ratio = sum(1 for row in rows if row["ratio"] is not None)
    # Sizes that are the same in each round are marked by no chance.
    varying = sum(1 for row in rows if row["ratio"] is not None and row["min"] != row["max"])
    chance = 2 * 0.5**rounds
    print(
        f"{marked} of {with_ratio} ratios are marked: those of all rounds are above 1, or all below.\n"
        f"Without any change, about {chance * varying:.1f} would be marked by chance "
        f"({chance:.1%} of those that vary)."
    )
    write(file, {"old": old, "new": new, "rounds": rounds, "environment": environment, "lanes": rows})


def cells(row):
    spread = "" if row["ratio"] is None else f"{row['min']:.2f} to {row['max']:.2f}"
    figures = [number(row["old"]), number(row["new"]), number(row["ratio"])]
    return [row["lane"], row["unit"], *figures, spread, row["verdict"]]


def machine(environment):
    processor = environment.get("processor") or "unknown processor"
    return f"{environment.get('cores', '?')} cores, {processor}, profile {profile(environment)}"


def profile(environment):
    overrides = environment.get("overrides") or {}
    text = ", ".join(f"{name}={value}" for name, value in overrides.items())
    return environment.get("profile", "dist") + (f" with {text}" if text else "")


# ---- all ------------------------------------------------------------------------------------

# Bench, case, the column that is compared, and what it is compared with: the bound or peer. The
# columns of seconds are turned over, so that a ratio above 1 is always in Longshore's favour.
DOCUMENTS = ["igzip -1, documents", "gzip -6, documents", "duckdb ndjson, documents",
             "chdb ndjson, documents"]
RECORDS = ["igzip -1, records", "gzip -6, records", "duckdb ndjson, records",
           "chdb ndjson, records", "duckdb parquet, records", "chdb parquet, records"]
AGAINST = {
    ("export", "longshore, document fields"): ("seconds", ["bound, document fields", *DOCUMENTS]),
    ("export", "longshore, 5 fields"): ("seconds", ["bound, 5 fields"]),
    ("export", "longshore, all fields"): ("seconds", ["bound, all fields", *RECORDS]),
    ("export", "longshore, 1% segment, all fields"): ("seconds", []),
    ("export", "longshore, 60% segment, all fields"): ("seconds", []),
    ("export", "export verify"): ("seconds", ["sha256sum"]),
    ("ingest", "purchases, from a full topic"): ("objects/s", ["purchases, bound"]),
    ("ingest", "purchases, end to end"): ("objects/s", ["purchases, bound"]),
    ("ingest", "attributes, from a full topic"): ("objects/s", ["attributes, bound"]),
    ("gateway", "calls of one purchase"): ("objects/s", []),
    ("gateway", "calls of 75 purchases"): ("objects/s", []),
    ("gateway", "key and limit"): ("calls/s", ["no key, no limit"]),
    ("gateway", "key, limit and Idempotency-Key"): ("calls/s", ["no key, no limit"]),
    ("messages", "webhooks to an audience"): ("recipients/s", ["bound"]),
    ("messages", "transactional emails, at rest"): ("p99 ms", []),
    ("messages", "transactional emails, under load"): ("p99 ms", []),
    ("catalogs", "edits of a catalog"): ("items/s", []),
}
# The cases of `scale` depend on its options; each has its share of linear scaling.
OF_IDEAL = "of ideal"


def paired(runs, others, unit):
    """The median of the ratios of runs that were measured side by side."""
    pairs = [(run.get(unit), other.get(unit)) for run, other in zip(runs, others)]
    pairs = [(own, other) for own, other in pairs if own and other]
    if not pairs:
        return None
    is_faster_if_more = MORE_IS_BETTER.search(unit)
    return median(own / other if is_faster_if_more else other / own for own, other in pairs)


def column(runs, unit):
    figures = [run[unit] for run in runs if is_number(run.get(unit))]
    return median(figures) if figures else None


def lanes_of_bench(bench, runs):
    for (owner, case), (unit, others) in AGAINST.items():
        if owner != bench or case not in runs:
            continue
        row = {"lane": f"{bench}: {case}", "unit": unit, "longshore": column(runs[case], unit)}
        known = [other for other in others if other in runs]
        if not known:
            yield {**row, "against": None, "figure": None, "ratio": None}
        for other in known:
            figure = column(runs[other], unit)
            ratio = paired(runs[case], runs[other], unit)
            yield {**row, "against": other, "figure": figure, "ratio": ratio}
    if bench == "scale":
        for case, of_case in runs.items():
            unit = "steady" if "users/s" in of_case[0] else "parts/s"
            if OF_IDEAL in of_case[0]:
                yield {
                    "lane": f"scale: {case}",
                    "unit": "users/s" if unit == "steady" else unit,
                    "longshore": column(of_case, unit),
                    "against": "linear scaling",
                    "figure": None,
                    "ratio": column(of_case, OF_IDEAL),
                }


def all_lanes(folder, file=None):
    rows, environment, rounds = [], {}, 0
    for path in sorted(Path(folder).glob("*.json")):
        of_bench, runs = read(path)
        environment = of_bench or environment
        rounds = max([rounds, *(len(of_case) for of_case in runs.values())])
        rows.extend(lanes_of_bench(path.stem, runs))
    if not rows:
        sys.exit(f"no figures in {folder}")
    print(f"revision {environment.get('revision')}, {machine(environment)}")
    print(f"medians of {rounds} runs\n")
    heads = ["lane", "unit", "Longshore", "bound or peer", "its figure", "ratio"]
    table(heads, [
        [row["lane"], row["unit"], number(row["longshore"]), row["against"] or "",
         number(row["figure"]), number(row["ratio"])]
        for row in rows
    ])
    print("\nratio: Longshore's speed as a share of the other's; more than 1 is faster.")
    write(file, {"environment": environment, "runs": rounds, "lanes": rows})


def write(file, content):
    if file:
        Path(file).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


# ---- cargo ----------------------------------------------------------------------------------


def executables():
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("executable"):
            print(message["target"]["name"], message["executable"])


if __name__ == "__main__":
    commands = {"compare": compare, "all": all_lanes, "executables": executables}
    commands[sys.argv[1]](*sys.argv[2:])
