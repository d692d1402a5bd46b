#!/usr/bin/env python3
"""What a copy of a table costs its database: springtide beside COPY and reladiff.

Starts a PostgreSQL of its own on loopback with a table of 2 million rows (by default) and
measures, one after the other on the same machine: `COPY ... TO STDOUT` into a reader of
lines; springtide's first pass; what the server spends on reading a block, and on telling
that it has not changed; and, after 1,000 rows in five ranges were changed, reladiff (which
compares two tables by bisected checksums) and springtide finding them, twice: the second time
springtide knows more of where to look. Bytes are those of the loopback interface, so nothing
else should use it meanwhile. Needs Debian's `postgresql` and `pip install reladiff
psycopg2-binary`; without reladiff its part is left out.

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
            "-c shared_buffers=512MB -c fsync=off -c shared_preload_libraries=pg_stat_statements",
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


def latency(server, text, repeats=200):
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


def on_loopback():
    """Bytes that have gone over the loopback interface, both ways."""
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split(":")[1].split()[0])


def spent(server):
    """What statements took since this was last asked: how many, seconds, and rows sent."""
    text = server.sql(
        "select coalesce(sum(calls), 0), coalesce(sum(total_exec_time + total_plan_time), 0), "
        "coalesce(sum(rows), 0) from pg_stat_statements where query not ilike '%pg_stat_statements%'")
    calls, took, rows = text.split("|")
    server.sql("select pg_stat_statements_reset()")
    return int(calls), float(took) / 1000, int(rows)


def told(name, figures, n_bytes):
    calls, took, rows = figures
    print(f"{name:25} {calls:12,} statements, {took:.2f} s of the server, {rows:,} rows and {n_bytes / 1e6:.2f} MB sent")


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
        "create extension pg_stat_statements; "
        "create table orders (id bigint primary key, customer int, status text, total numeric(12, 2), "
        "note text, updated_at timestamptz); "
        "insert into orders select i, i % 99991, 'new', i % 10000 / 100.0, md5(i::text), now() "
        f"from generate_series(1, {n}) i")
    server.sql("vacuum analyze orders")

    took, n_rows, n_bytes = server.copy()
    print(f"COPY into a reader        {n_rows / took:12,.0f} rows/s  ({n_bytes / 1e6:.0f} MB)")
    project = folder / "project"
    project.mkdir()
    (project / "springtide.toml").write_text(PROJECT.format(polls="1000/s", url=server.url))
    first, memory = springtide(options.program, project, "run", "--once")
    print(f"springtide's first pass   {n / first:12,.0f} rows/s  ({took / first:.2f} of COPY's, {memory:.0f} MB)")

    server.sql(
        "create table narrow (id bigint primary key, n int); "
        "insert into narrow select i, i % 1000 from generate_series(1, 300000) i; "
        "create table wide (id bigint primary key, customer int, status text, total numeric(12, 2), tax numeric(12, 2), "
        "created_at timestamptz, updated_at timestamptz, name text, street text, city text, note text, is_paid bool, ref uuid); "
        "insert into wide select i, i % 99991, 'new', i % 10000 / 100.0, i % 777 / 100.0, now(), now(), 'Customer ' || i, "
        "md5(i::text) || ' street', 'city ' || i % 100, repeat(md5(i::text), 4), i % 2 = 0, md5(i::text)::uuid "
        "from generate_series(1, 100000) i")
    server.sql("vacuum analyze")
    for table, size in [("narrow", 2000), ("orders", 600), ("wide", 150)]:
        digest_cost(server, table, size)

    server.sql("create table copied as select * from orders; alter table copied add primary key (id)")
    server.sql("vacuum analyze copied")
    rounds = [find_changes(server, project, options) for _ in range(2)]
    (calls, took, _), (calls_again, took_again, _) = rounds
    print(f"the second time           {calls_again / calls:12.2f} of the statements, {took_again / took:.2f} of the time of the first")


def digest_cost(server, table, size):
    """What it takes to read a block, and to tell of 32 that they are what they were."""
    low = 50_000
    reading = latency(server, f"select *, xmin from {table} where id >= {low} and id < {low + size} order by id limit 40001")
    blocks = [(low + at * size, low + (at + 1) * size) for at in range(32)]
    counting = latency(server, f"select count(*) from {table} where id >= {blocks[0][0]} and id < {blocks[-1][1]}", 50) / 32
    told = {}
    quiet = server.sql(f"with {SEEN.format(table=table)} select quiet from seen")
    for name, known in [("written to elsewhere", "null"), ("not written to", f"'{quiet}'")]:
        values = ", ".join(f"({at}, {known}::text, '{start}'::int8, '{end}'::int8)" for at, (start, end) in enumerate(blocks))
        told[name] = latency(server, (
            f"with {SEEN.format(table=table)} "
            "select asked.place, seen.quiet, seen.columns, block.n, block.writers from seen, "
            f"(values {values}) as asked(place, quiet, from0, to0), lateral (select count(*) as n, {WRITERS.format(now='seen.now')} "
            f"as writers from {table} where (id) >= (asked.from0) and (id) < (asked.to0) and asked.quiet is distinct from seen.quiet) "
            "as block"), 50) / 32
    shares = "; ".join(f"{took:.4f} ms for its digest ({took / reading:.3f}) on a server {name}" for name, took in told.items())
    print(f"{table + f', {size} rows':25} {reading:12.3f} ms to read; {shares}; {counting:.4f} ms to count ({counting / reading:.3f})")


WRITERS = "coalesce(sum(hashint8extended(({now} - age(xmin)) & 4294967295, 0)), 0)"
SEEN = (
    "seen as materialized (select age('3'::xid)::int8 + 3 as now, case when txid_snapshot_xmin(s) = txid_snapshot_xmax(s) "
    "then txid_snapshot_xmax(s) || '@' || extract(epoch from pg_postmaster_start_time()) end as quiet, (select "
    + WRITERS.format(now="(select age('3'::xid)::int8 + 3)")
    + " from pg_attribute where attrelid = '{table}'::regclass and attnum > 0) as columns from txid_current_snapshot() as s)")


def find_changes(server, project, options):
    n = options.rows
    for at in range(5):
        low = n // 6 * (at + 1)
        server.sql(f"update orders set status = status || '+', updated_at = now() where id >= {low} and id < {low + 200}")
    spent(server)
    if shutil.which("reladiff"):
        url = server.url.replace("postgres:", "postgresql:").split("?")[0]
        command = ["reladiff", url, "orders", url, "copied", "-k", "id", "-c", "%", "--json"]
        before = on_loopback()
        found = subprocess.run(command, capture_output=True, text=True)
        n_bytes = on_loopback() - before
        told("reladiff", spent(server), n_bytes)
        if found.returncode != 0:
            print(found.stderr[-500:])
    else:
        print("reladiff                             is not installed")
    known = n_changed(options, project)
    began, before = time.monotonic(), on_loopback()
    for _ in range(60):
        springtide(options.program, project, "run", "--for", "2s", "--budget", "100/s")
        found = n_changed(options, project) - known
        if found >= 1000:
            break
    n_bytes = on_loopback() - before
    figures = spent(server)
    told("springtide", figures, n_bytes)
    print(f"                          {found:12,} of 1,000 changes in {time.monotonic() - began:.0f} s at 100 statements a second")
    server.sql("update copied set status = orders.status, updated_at = orders.updated_at from orders "
               "where orders.id = copied.id and orders.status <> copied.status")
    return figures


def n_changed(options, project):
    log = subprocess.run([options.program, "log", "--rows", "--json", "--since", "1h", "--limit", "5000"],
                         cwd=project, capture_output=True, text=True).stdout
    return sum('"kind":"changed"' in line for line in log.splitlines())


if __name__ == "__main__":
    main()
