"""What a data engineer would export a table with: DuckDB or chDB, from PostgreSQL to files in the
folder `out` of the working directory. Prints the seconds from the connection to the last byte, and
the peak of its resident memory in bytes.

    DATABASE=postgres://… copy_out.py duckdb|chdb ndjson|parquet TABLE COLUMN

COLUMN holds each user's record as a text of JSON. NDJSON is compressed with gzip, Parquet with
zstd, both at the tool's own level.
"""

import os
import resource
import sys
import time
from importlib.resources import files
from urllib.parse import unquote, urlsplit

# Columns are separated by a byte that no JSON text has, and nothing is quoted: the lines are the
# texts as they are.
SEPARATOR = "\x01"


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def duckdb(form, table, column):
    import duckdb

    began = time.monotonic()
    # The registry's package has the extension that DuckDB would download; DuckDB checks its
    # signature in both cases.
    package = files("duckdb_extension_postgres_scanner") / "extensions"
    extension = package / f"v{duckdb.__version__}" / "postgres_scanner.duckdb_extension"
    connection = duckdb.connect(config={"preserve_insertion_order": False})
    connection.execute(f"LOAD {literal(str(extension))}")
    connection.execute(f"ATTACH {literal(os.environ['DATABASE'])} AS pg (TYPE postgres, READ_ONLY)")
    options = {
        "ndjson": f"FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '{SEPARATOR}', "
        "COMPRESSION gzip, FILE_EXTENSION 'json'",
        "parquet": "FORMAT parquet, COMPRESSION zstd",
    }[form]
    # One file per thread, or one thread would compress everything.
    connection.execute(
        f"COPY (SELECT {column} FROM pg.public.{table}) TO 'out' ({options}, PER_THREAD_OUTPUT)"
    )
    return time.monotonic() - began


def chdb(form, table, column):
    from chdb import session

    began = time.monotonic()
    url = urlsplit(os.environ["DATABASE"])
    source = ", ".join(
        [
            literal(f"{url.hostname}:{url.port or 5432}"),
            literal(url.path.lstrip("/")),
            literal(table),
            literal(unquote(url.username or "")),
            literal(unquote(url.password or "")),
        ]
    )
    os.mkdir("out")
    name, output = {
        "ndjson": ("out/lines.gz", "LineAsString"),
        "parquet": ("out/lines.parquet", "Parquet"),
    }[form]
    compression = "'gzip'" if form == "ndjson" else "'none'"
    session.Session().query(
        f"INSERT INTO FUNCTION file({literal(os.path.abspath(name))}, '{output}', 'line String', "
        f"{compression}) SELECT {column} FROM postgresql({source})"
    )
    return time.monotonic() - began


def main():
    tool, form, table, column = sys.argv[1:]
    # To load the library is no part of an export, so each measures itself.
    print({"duckdb": duckdb, "chdb": chdb}[tool](form, table, column))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main()
