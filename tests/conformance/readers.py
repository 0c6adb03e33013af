"""Holds docs/how-to/read-exports.md against real exports: its own commands are run.

readers.py users                 prints users to import
readers.py command N             prints the Nth command that gets the files
readers.py export FORMAT         requests an export and waits for it: prints its id and its URL, if any
readers.py imported FILE         compares the lines of the folder export with the users of FILE
readers.py read READER           runs the commands of a reader, and compares what it reads
readers.py inferred READER       runs its command without a schema, which fails as the page has it
readers.py complete              checks that each reader of the page is checked, or marked
"""

import datetime
import decimal
import glob
import gzip
import importlib.metadata
import json
import os
import re
import sys
import time
import urllib.request
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/how-to/read-exports.md").read_text()
READERS = ["DuckDB", "Polars", "pandas", "pyarrow", "Spark"]
FIELDS = [
    "external_id", "email", "first_name", "dob", "created_at", "random_bucket",
    "total_revenue", "last_coordinates", "purchases", "custom_attributes",
]  # fmt: skip
TEXTS = ["Zoë", "Кира", "李 小龍", "👩🏽‍🚀 \"quoted\" \\ \n\u2028", "مريم"]


def section(title):
    """A section of the page: its text, and its commands with their languages."""
    text = re.search(rf"(?ms)^## {title}\n(.*?)(?=^## |\Z)", PAGE)[1]
    return text, re.findall(r"(?ms)^```(\w+)\n(.*?)^```", text)


def users():
    """More than two files of users. Those who are special are few, so that samples miss them."""
    today = datetime.datetime.now(datetime.UTC).date()
    days = [f"{today - datetime.timedelta(days)}T10:00:00.123Z" for days in (9, 2)]
    for number in range(12_003):
        user = {"external_id": f"user-{number}", "created_at": f"2021-06-28T17:02:{number % 60:02}.032Z"}
        if number % 3:
            user["email"] = f"user-{number}@acme.example"
        if number % 5 == 0:
            user["first_name"] = TEXTS[number // 5 % len(TEXTS)]
        if number % 7 == 0:
            user["dob"] = f"19{number % 90 + 10}-02-{number % 28 + 1:02}"
        if number % 2:
            user["total_revenue"] = number / 100
        if number % 11 == 0:
            user["last_coordinates"] = [10.75, -59.913869]
        if number % 4 == 0:
            user["purchases"] = [
                {"name": name, "first": days[0], "last": days[1], "count": number % 9 + 2}
                for name in ["tea", TEXTS[1]][: number % 8 // 4 + 1]
            ]
        custom = {}
        if number % 3 == 0:
            custom["tier"] = "gold"
        if number % 6 == 0:
            custom["Tier"] = "silver"
        if number % 2 == 0:
            custom["score"] = number / 4
        if number % 10 == 0:
            custom["address"] = {"city": TEXTS[number // 10 % len(TEXTS)], "lines": ["a", {"b": [1, None]}]}
        if number % 13 == 0:
            custom["points_total"] = 2**53 + 1
        custom |= {
            7001: {"score": "high"},
            7002: {"score": {"value": 7, "unit": "points"}},
            7003: {"score": "0042"},
            7004: {"score": [1, "a"]},
            7005: {"points_total": 12_345_678_901_234_567_890_123},
            7006: {"score": True},
        }.get(number, {})
        if custom:
            user["custom_attributes"] = custom
        yield user


def export(output_format):
    """Requests an export, and waits until it is done."""

    def send(path, body=None):
        headers = {
            "Authorization": f"Bearer {os.environ['READERS_KEY']}",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(os.environ["URL"] + path, data, headers)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    body = {"fields_to_export": FIELDS, "output_format": output_format}
    accepted = send("/users/export/global_control_group", body)
    for _ in range(600):
        status = send(f"/users/export/{accepted['object_prefix']}")
        if status["state"] in ("done", "failed"):
            break
        time.sleep(0.2)
    assert status["state"] == "done", status
    print(accepted["object_prefix"], accepted.get("url", ""))


def exported():
    """The users of the folder, by their external ids; numbers as they are written."""
    users = []
    for path in glob.glob("export/*"):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
            users.extend(json.loads(line, parse_float=decimal.Decimal) for line in file)
    return by_id(users)


def by_id(rows):
    found = {row["external_id"]: row for row in rows}
    assert len(found) == len(rows), f"{len(rows) - len(found)} users twice"
    return found


def compare(read, expected):
    assert read.keys() == expected.keys(), f"{len(read)} of {len(expected)} users"
    different = [(read[key], row) for key, row in expected.items() if read[key] != row]
    if different:
        sys.exit(f"{len(different)} differ: read {different[0][0]}, expected {different[0][1]}")
    print(f"{len(read)} users")


def imported(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line, parse_float=decimal.Decimal) for line in file]
    read = exported()
    for user in read.values():
        assert 0 <= user.pop("random_bucket") < 10_000
    compare(read, by_id(rows))


def plain(value):
    """A value of a reader as it would be in JSON."""
    if isinstance(value, dict):
        return {name: plain(value) for name, value in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__name__ == "ndarray":
        return [plain(one) for one in value]
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.UTC)
        value = value.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
        return value.replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if hasattr(value, "item"):
        return value.item()
    return value


def rows_of(table, connection=None):
    """The rows of a table of any of the readers, as dictionaries."""
    if connection is not None:
        table = connection.table(table).to_arrow_table()
    return {
        "polars": lambda: table.rows(named=True),
        "pandas": lambda: table.to_dict("records"),
        "pyarrow": lambda: table.to_pylist(),
        "pyspark": lambda: [row.asDict(recursive=True) for row in table.collect()],
    }[type(table).__module__.split(".")[0]]()


def expected_user(user, reader):
    row = {name: user.get(name) for name in FIELDS}
    for name in ("total_revenue", "last_coordinates"):
        row[name] = floats(row[name])
    custom = user.get("custom_attributes")
    if reader == "pyarrow" and custom is not None:
        address = custom.get("address")
        row["custom_attributes"] = {
            "tier": custom.get("tier"),
            "Tier": custom.get("Tier"),
            "address": address and {"city": address["city"]},
            "points_total": custom.get("points_total"),
        }
    elif reader in ("Polars", "pandas"):
        row["custom_attributes"] = floats(custom)
        if reader == "Polars" and (custom or {}).get("points_total", 0) > 2**64:
            row["custom_attributes"]["points_total"] = float(custom["points_total"])
    return row


def floats(value):
    if isinstance(value, dict):
        return {name: floats(value) for name, value in value.items()}
    if isinstance(value, list):
        return [floats(one) for one in value]
    return float(value) if isinstance(value, decimal.Decimal) else value


def read_user(row, reader):
    row = plain(row)
    if reader == "pandas":
        if row["dob"]:
            row["dob"] = row["dob"].removesuffix("T00:00:00.000Z")
    elif reader != "pyarrow" and row["custom_attributes"] is not None:
        parse_float = float if reader == "Polars" else decimal.Decimal
        row["custom_attributes"] = json.loads(row["custom_attributes"], parse_float=parse_float)
    elif row["custom_attributes"] and row["custom_attributes"]["points_total"] is not None:
        row["custom_attributes"]["points_total"] = int(row["custom_attributes"]["points_total"])
    return row


def expected_attributes(user, texts_are_numbers, true_is):
    custom = user.get("custom_attributes", {})
    score = floats(custom.get("score"))
    number = {str: 42.0 if score == "0042" and texts_are_numbers else None, bool: true_is}
    points = number.get(type(score), float(score) if isinstance(score, (int, float)) else None)
    return {
        "external_id": user["external_id"],
        "tier": custom.get("tier"),
        "other_tier": custom.get("Tier"),
        "score": score,
        "points": points,
        "city": custom.get("address", {}).get("city"),
    }


def read_attributes(row):
    """The score as JSON, if it is the text of JSON."""
    row = plain(row)
    try:
        if isinstance(row["score"], str):
            row["score"] = json.loads(row["score"])
    except json.JSONDecodeError:
        pass
    return row


def check_version(reader, text):
    package = {"Spark": "pyspark"}.get(reader, reader.lower())
    shown = re.search(r"^(?:Py)?\w+ (\d[\d.]*\d)", text.strip())[1]
    assert shown == importlib.metadata.version(package), f"the page has {reader} {shown}"


def read(reader):
    text, commands = section(reader)
    check_version(reader, text)
    expected, space, connection = exported(), {}, None
    if reader == "DuckDB":
        import duckdb

        connection = duckdb.connect()
        space = {"users": "users", "attributes": "attributes"}
    for language, command in commands:
        if language == "sql":
            connection.execute(command)
        else:
            exec(command, space)
    rows = [read_user(row, reader) for row in rows_of(space["users"], connection)]
    compare(by_id(rows), {key: expected_user(user, reader) for key, user in expected.items()})
    for name in ("attributes", "variants", "inferred"):
        if name in space:
            rows = [read_attributes(row) for row in rows_of(space[name], connection)]
            wanted = {
                key: expected_attributes(user, *NUMBERS.get((reader, name), (True, None)))
                for key, user in expected.items()
            }
            compare(by_id(rows), wanted)


# Whether a number in a text counts as one, and what `true` is as a number, where they differ.
NUMBERS = {("pandas", "attributes"): (True, 1.0), ("Spark", "variants"): (True, 1.0)}


def inferred(reader):
    """Runs the command without a schema."""
    command, error = re.search(rf"(?m)^\| {reader} \| `(.*)` \| `(.*)` \|$", PAGE).groups()
    space = {"files": sorted(glob.glob("export/*"))}
    names = {"pyarrow": ["pyarrow", "pyarrow.dataset"], "Spark": []}.get(reader, [reader.lower()])
    for name in names:
        exec(f"import {name}", space)
    if reader == "Spark":
        from pyspark.sql import SparkSession

        space["spark"] = SparkSession.builder.getOrCreate()
    try:
        read = eval(command, space)
    except Exception as failure:
        assert error in str(failure), f"another error: {failure}"
    else:
        sys.exit(f"no error, but {read}")


def complete():
    for title in re.findall(r"(?m)^## (.*)$", PAGE):
        text, commands = section(title)
        is_run = title in [*READERS, "Get the files"]
        is_marked = "Not run by the test" in text
        assert not commands or is_run != is_marked, title


name, *arguments = sys.argv[1:]
if name == "users":
    for user in users():
        print(json.dumps(user, ensure_ascii=False, separators=(",", ":")))
elif name == "command":
    print(section("Get the files")[1][int(arguments[0]) - 1][1])
else:
    globals()[name](*arguments)
