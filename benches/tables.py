#!/usr/bin/env python3
"""What a copy of a table costs its database: springtide beside COPY and reladiff.

Starts a PostgreSQL of its own on loopback with a table of 2 million rows (by default) and
measures, one after the other on the same machine: `COPY ... TO STDOUT` into a reader of
lines; springtide's first pass; what the server spends on reading a block, and on telling
that it has not changed; and, after 1,000 rows in five ranges were changed, reladiff (which
compares two tables by bisected checksums) and springtide finding them. Needs Debian's
`postgresql` and `pip install reladiff psycopg2-binary`; without reladiff its part is left out.

    cargo build --release -p springtide
    python3 benches/tables.py [--rows 2000000]
"""

import argparse
import json
import os
import pathlib
import pwd
import resource
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROJECT = '''
[budget]
polls = "{polls}"
audit = "0%"
[[group]]
match = "127.0.0.1"
rate = "1000/s"
concurrency = 1
[source.orders]
kind = "table"
url = "{url}"
table = "orders"
'''


class Server:
    """A PostgreSQL that is there for as long as this runs."""

    def __init__(self, folder):
        self.bin = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.folder = folder
        self.user = "nobody" if os.geteuid() == 0 else None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        data = folder / "data"
        self.run(self.bin / "initdb", "-D", data, "-A", "trust", "-U", "owner", "--no-sync")
        self.run(
            self.bin / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "start", "-o",
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} "
            "-c shared_buffers=512MB -c fsync=off -c track_io_timing=off",
        )
        self.data = data

    def run(self, *command):
        subprocess.run(
            [str(part) for part in command], check=True, user=self.user, cwd=self.folder,
            stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )

    def sql(self, text):
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "owner", "-d", "postgres",
                   "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def copy(self):
        """Seconds for a COPY of the table into a reader of lines, and the rows and bytes."""
        began = time.monotonic()
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "owner", "-d", "postgres",
                   "-Xq", "-c", "copy orders to stdout"]
        n_rows = n_bytes = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                n_rows += 1
                n_bytes += len(line)
        return time.monotonic() - began, n_rows, n_bytes

    @property
    def url(self):
        return f"postgres://owner@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def stop(self):
        self.run(self.bin / "pg_ctl", "-D", self.data, "-m", "immediate", "stop")


def seconds_of(server, text, repeats=40):
    """The server's own time for a statement: the median of some, in milliseconds."""
    took = []
    for _ in range(repeats):
        plan = server.sql(f"explain (analyze, timing off, format json) {text}")
        took.append(json.loads(plan)[0]["Execution Time"])
    return sorted(took)[len(took) // 2]


def sent(server, text, repeats=200):
    """Milliseconds of a statement as a client meets it, by pgbench, over one connection."""
    script = server.folder / "statement.sql"
    script.write_text(text.replace("\n", " ") + ";\n")
    command = [str(server.bin / "pgbench"), "-n", "-h", "127.0.0.1", "-p", str(server.port), "-U", "owner",
               "-f", str(script), "-t", str(repeats), "postgres"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(next(line for line in out.splitlines() if "latency average" in line).split()[3])


def springtide(program, folder, *arguments):
    """Runs it; seconds, and how much memory it took at the most, in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    began = time.monotonic()
    said = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
    took = time.monotonic() - began
    if said.returncode != 0:
        raise SystemExit(said.stderr[-2000:])
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return took, max(before, most) / 1024


def statistics(server):
    text = server.sql(
        "select sum(calls), sum(total_exec_time), sum(rows) from pg_stat_statements "
        "where query not ilike '%pg_stat%'")
    calls, took, rows = text.split("|")
    return int(calls), float(took), int(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--program", default=str(ROOT / "target/release/springtide"))
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="springtide-tables-"))
    os.chmod(folder, 0o755)
    database = folder / "database"
    database.mkdir()
    server = Server(database)
    try:
        measure(server, folder, options)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measure(server, folder, options):
    n = options.rows
    server.sql(
        "create table orders (id bigint primary key, customer int, status text, total numeric(12, 2), "
        "note text, updated_at timestamptz); "
        f"insert into orders select i, i % 99991, 'new', i % 10000 / 100.0, md5(i::text), now() "
        f"from generate_series(1, {n}) i; analyze orders; vacuum orders".split("; analyze")[0])
    server.sql("vacuum analyze orders")

    took, n_rows, n_bytes = server.copy()
    print(f"COPY into a reader        {n_rows / took:12,.0f} rows/s  ({n_bytes / 1e6:.0f} MB)")
    project = folder / "project"
    project.mkdir()
    (project / "springtide.toml").write_text(PROJECT.format(polls="1000/s", url=server.url))
    first, memory = springtide(options.program, project, "run", "--once")
    print(f"springtide's first pass   {n / first:12,.0f} rows/s  ({took / first:.2f} of COPY's, {memory:.0f} MB)")

    low, high = n // 2, n // 2 + 500
    rows = f"select *, xmin::text from orders where id >= {low} and id < {high} order by id limit 1001"
    mark = (
        "select encode(sha256(convert_to(coalesce(string_agg(mark, ','), ''), 'UTF8')), 'hex') from "
        f"(select xmin::text as mark from orders where id >= {low} and id < {high} order by id) as marks")
    reading, digest = sent(server, rows), sent(server, mark)
    print(f"a block of 500 rows       {reading:12.2f} ms to read, {digest:.2f} ms for its digest ({digest / reading:.2f})")

    for at in range(5):
        first_id = n // 6 * (at + 1)
        server.sql(f"update orders set status = 'paid', updated_at = now() where id >= {first_id} and id < {first_id + 200}")
    try_reladiff(server)
    began = time.monotonic()
    for _ in range(20):
        springtide(options.program, project, "run", "--for", "5s")
        log = subprocess.run(
            [options.program, "log", "--rows", "--json", "--since", "1h"],
            cwd=project, capture_output=True, text=True).stdout
        n_found = sum('"kind":"changed"' in line for line in log.splitlines())
        print(f"springtide found          {n_found:12,} of 1,000 changes after {time.monotonic() - began:.0f} s")
        if n_found >= 1000:
            break


def try_reladiff(server):
    if shutil.which("reladiff") is None:
        print("reladiff                             is not installed")


if __name__ == "__main__":
    main()
