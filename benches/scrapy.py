#!/usr/bin/env python3
"""Pages per second fetched and stored: springtide beside Scrapy and wget.

All fetch the same pages (20,000 of about 2 kB, by default) of the same origin on
loopback, on the same machine, one after the other, and keep them: Scrapy and wget write
each body to a file, and no more, and force nothing to the disk; springtide keeps body,
digest, validators and what it has learned in its store, and forces each batch to the
disk before it goes on. wget is given a list of addresses, since it reads no sitemaps.

Pages per second are by the clock; CPU time is what the process itself took, user and
system, per page, whatever else the machine does. Needs `pip install scrapy` and wget.

    cargo build --release -p springtide
    cargo build --release -p springtide-engine --example origin
    python3 benches/scrapy.py [--pages 20000] [--rounds 3] [--program PATH] [--origin PATH]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "target" / "release"

SPIDER = '''
import hashlib, pathlib, sys
from scrapy.crawler import CrawlerProcess
from scrapy.spiders import SitemapSpider

class Pages(SitemapSpider):
    name = "pages"
    sitemap_urls = [sys.argv[1]]
    folder = pathlib.Path(sys.argv[2])

    def parse(self, response):
        name = hashlib.sha1(response.url.encode()).hexdigest()
        (self.folder / name).write_bytes(response.body)

process = CrawlerProcess(settings={
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "ROBOTSTXT_OBEY": True,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
})
process.crawl(Pages)
process.start()
'''

PROJECT = '''
[budget]
polls = "100000/s"
[http]
allow_private = ["127.0.0.1"]
[[group]]
match = "127.0.0.1"
rate = "100000/s"
concurrency = 64
[source.pages]
kind = "sitemap"
url = "{url}"
'''


def timed(command, **options):
    """What a process takes, in seconds: by the clock, and of the processors."""
    began = time.monotonic()
    process = subprocess.Popen(command, **options)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime


def scrapy(url, folder, args):
    spider = folder / "spider.py"
    spider.write_text(SPIDER)
    pages = folder / "pages"
    pages.mkdir()
    took = timed([sys.executable, spider, url, pages])
    return took, len(list(pages.iterdir()))


def wget(url, folder, args):
    with urllib.request.urlopen(url) as sitemap:
        addresses = re.findall(r"<loc>(.*?)</loc>", sitemap.read().decode())
    (folder / "addresses").write_text("\n".join(addresses) + "\n")
    pages = folder / "pages"
    took = timed(["wget", "--quiet", "--input-file", folder / "addresses", "--directory-prefix", pages])
    return took, len(list(pages.iterdir()))


def springtide(url, folder, args):
    (folder / "springtide.toml").write_text(PROJECT.format(url=url))
    took = timed([args.program, "run", "--once", "--quiet"], cwd=folder)
    status = subprocess.run([args.program, "status", "--json"], cwd=folder, check=True, capture_output=True)
    return took, json.loads(status.stdout)["n_polls"] - 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", type=pathlib.Path, default=RELEASE / "springtide")
    parser.add_argument("--origin", type=pathlib.Path, default=RELEASE / "examples" / "origin")
    args = parser.parse_args()
    args.program = args.program.resolve()
    others = {"scrapy": scrapy, "wget": wget}
    if shutil.which("wget") is None:
        sys.exit("there is no wget")
    command = [args.origin, str(args.pages), "0"]
    origin = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = origin.stdout.readline().strip()
    faster = {name: [] for name in others}
    cheaper = {name: [] for name in others}
    try:
        for number in range(args.rounds):
            took = {}
            for name, crawl in [*others.items(), ("springtide", springtide)]:
                with tempfile.TemporaryDirectory() as folder:
                    took[name], n_pages = crawl(url, pathlib.Path(folder), args)
                if n_pages != args.pages:
                    sys.exit(f"{name} got {n_pages} of {args.pages} pages")
                seconds, cpu_seconds = took[name]
                print(
                    f"round {number + 1}: {name:10} {n_pages / seconds:8.0f} pages/s, "
                    f"{1e6 * cpu_seconds / n_pages:6.0f} µs of CPU time each",
                    flush=True,
                )
            for name in others:
                faster[name].append(took[name][0] / took["springtide"][0])
                cheaper[name].append(took[name][1] / took["springtide"][1])
    finally:
        origin.stdin.close()
        origin.wait()
    for name in others:
        print(
            f"springtide is {statistics.median(faster[name]):.2f} times as fast as {name}, and takes a page "
            f"for 1/{statistics.median(cheaper[name]):.2f} of its CPU time (medians of {args.rounds})"
        )


if __name__ == "__main__":
    main()
