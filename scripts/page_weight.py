#!/usr/bin/env python3
"""What each page of a built site weighs, and how soon a slow machine shows it: `page_weight.py SITE [--only PART]`.

A page is loaded into a Chromium with an empty cache, over a line of 10 Mbit/s and 40 ms, on a processor slowed four
times. What came over the line is counted compressed, headers included; the search index, which the theme asks for
without waiting for it, is counted apart. First contentful paint and the layout shift come from the browser itself, as a
reader's would; every page is also scrolled to its end, so that what shifts late is counted.

Exit status 1 where a page weighs more than 300 KB, paints later than 1 s or shifts; 2 where the site or the browser is
missing. Another program at work on this machine makes paints late: `--runs 3` takes the best of three.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from site_browser import NoBrowser, chromium, hosted, page_names

MOST_KB, LATEST_MS = 300, 1000
MOST_SHIFT = 0.005  # a layout shift of 0.00, as browsers show it
LINE = {"offline": False, "latency": 40, "downloadThroughput": 10e6 / 8, "uploadThroughput": 10e6 / 8}
SLOWER = 4
WATCH = """window.klShift = 0; window.klMoved = []
const name = node => (node.tagName || node.parentElement?.tagName) + "." + (node.className || "")
new PerformanceObserver(list => { for (const entry of list.getEntries()) {
    klShift += entry.value
    for (const source of entry.sources || []) if (source.node) klMoved.push(name(source.node)) } })
    .observe({type: "layout-shift", buffered: true})"""
SCROLL = """async () => { for (let y = 0; y < document.body.scrollHeight; y += 800) { scrollTo(0, y)
    await new Promise(requestAnimationFrame) } }"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def measure(browser, url: str, width: int = 1280) -> dict[str, object]:
    """One page in a fresh window: bytes over the line, first contentful paint in ms, layout shift and what moved."""
    context = browser.new_context(viewport={"width": width, "height": 800})
    try:
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        session.send("Network.emulateNetworkConditions", LINE)
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        names: dict[str, str] = {}
        sizes: dict[str, int] = {}
        session.on("Network.requestWillBeSent", lambda e: names.update({e["requestId"]: e["request"]["url"]}))
        session.on("Network.loadingFinished", lambda e: sizes.update({e["requestId"]: int(e["encodedDataLength"])}))
        page.add_init_script(WATCH)
        page.goto(url, wait_until="load")
        page.wait_for_timeout(300)
        paint = page.evaluate(PAINT)
        page.evaluate(SCROLL)
        page.wait_for_timeout(200)
        shift, moved = page.evaluate("[klShift, [...new Set(klMoved)].slice(0, 4)]")
    finally:
        context.close()
    search = {key for key, name in names.items() if "/search/" in name or "/workers/search" in name}
    return {
        "kilobytes": round(sum(size for key, size in sizes.items() if key not in search) / 1000, 1),
        "search_kilobytes": round(sum(size for key, size in sizes.items() if key in search) / 1000, 1),
        "paint_ms": None if paint is None else round(paint),
        "shift": round(shift, 4),
        "moved": moved,
    }


def faults(found: dict[str, object]) -> list[str]:
    """What of a page's measurements is beyond the limits, as sentences."""
    wrong = []
    if found["kilobytes"] > MOST_KB:
        wrong.append(f"{found['kilobytes']:.0f} KB came over the line; a page may take {MOST_KB}")
    if found["paint_ms"] is None or found["paint_ms"] > LATEST_MS:
        when = "never" if found["paint_ms"] is None else f"after {found['paint_ms']} ms"
        wrong.append(f"it was first painted {when}; {LATEST_MS} ms is the limit")
    if found["shift"] > MOST_SHIFT:
        wrong.append(f"the layout shifted by {found['shift']}: {', '.join(found['moved'])}")
    return wrong


def best(runs: list[dict[str, object]]) -> dict[str, object]:
    """The earliest paint of several runs, with the most that any of them weighed and shifted."""
    painted = [run["paint_ms"] for run in runs if run["paint_ms"] is not None]
    worst = max(runs, key=lambda run: run["shift"])
    return worst | {
        "kilobytes": max(run["kilobytes"] for run in runs),
        "search_kilobytes": max(run["search_kilobytes"] for run in runs),
        "paint_ms": min(painted, default=None),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Weigh every page of a built site, and time it on a slow machine.")
    parser.add_argument("site", type=Path, help="folder with the built site")
    parser.add_argument("--only", default="", metavar="PART", help="only pages whose address contains this")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="load each page so often (default: once)")
    parser.add_argument("--width", type=int, default=1280, metavar="PX", help="of the window (default: 1280)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here, too")
    asked = parser.parse_args()
    names = [name for name in page_names(asked.site) if asked.only in name] if asked.site.is_dir() else []
    if not names:
        print(f"{asked.site} holds no such page: build the site first.", file=sys.stderr)
        return 2
    found, wrong = {}, 0
    try:
        with hosted(asked.site) as root, chromium() as browser:
            for name in names:
                found[name] = one = best(
                    [measure(browser, root + name, asked.width) for _ in range(max(1, asked.runs))]
                )
                beyond = faults(one)
                wrong += len(beyond)
                print(f"{one['kilobytes']:7.1f} KB {one['paint_ms'] or 0:5d} ms  shift {one['shift']:.3f}  /{name}")
                for each in beyond:
                    print(f"    {each}", flush=True)
    except NoBrowser as error:
        print(error, file=sys.stderr)
        return 2
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    search = max(one["search_kilobytes"] for one in found.values())
    print(f"{len(names)} pages, {wrong} beyond the limits; the search index and its worker are {search:.0f} KB apart")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
