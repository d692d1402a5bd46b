#!/usr/bin/env python3
"""Pages per second fetched and stored: springtide beside Scrapy.

Both fetch the same pages (20,000 of about 2 kB, by default) of the same origin on
loopback, on the same machine, one after the other, and keep them: Scrapy writes each
body to a file, and no more; springtide keeps body, digest, validators and what it has
learned in its store. Needs `pip install scrapy`.

    cargo build --release -p springtide
    cargo build --release -p springtide-engine --example origin
    python3 benches/scrapy.py [--pages 20000] [--rounds 3]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

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
    began = time.monotonic()
    subprocess.run(command, check=True, **options)
    return time.monotonic() - began


def scrapy(url, folder):
    spider = folder / "spider.py"
    spider.write_text(SPIDER)
    pages = folder / "pages"
    pages.mkdir()
    seconds = timed([sys.executable, spider, url, pages])
    return seconds, len(list(pages.iterdir()))


def springtide(url, folder):
    (folder / "springtide.toml").write_text(PROJECT.format(url=url))
    binary = RELEASE / "springtide"
    seconds = timed([binary, "run", "--once", "--quiet"], cwd=folder)
    status = subprocess.run([binary, "status", "--json"], cwd=folder, check=True, capture_output=True)
    return seconds, json.loads(status.stdout)["n_polls"] - 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    command = [RELEASE / "examples" / "origin", str(args.pages), "0"]
    origin = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = origin.stdout.readline().strip()
    ratios = []
    try:
        for number in range(args.rounds):
            rates = {}
            for name, crawl in [("scrapy", scrapy), ("springtide", springtide)]:
                with tempfile.TemporaryDirectory() as folder:
                    seconds, n_pages = crawl(url, pathlib.Path(folder))
                if n_pages != args.pages:
                    sys.exit(f"{name} got {n_pages} of {args.pages} pages")
                rates[name] = n_pages / seconds
                print(f"round {number + 1}: {name:10} {rates[name]:8.0f} pages/s")
            ratios.append(rates["springtide"] / rates["scrapy"])
    finally:
        origin.stdin.close()
        origin.wait()
    ratios.sort()
    print(f"springtide is {ratios[len(ratios) // 2]:.1f} times as fast (median of {args.rounds})")


if __name__ == "__main__":
    main()
