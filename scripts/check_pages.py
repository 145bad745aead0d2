#!/usr/bin/env python3
"""Open every page of a built site in Chromium and say what is wrong with it: `check_pages.py SITE [--only PART]`.

Each page is loaded once in the light and once in the dark scheme, and looked at in windows of three widths. It must
write no error to the console, ask nobody else for anything, fit the window, hold no barrier that axe knows, and be
walked through with the Tab key in the order in which it is read. It is loaded once more without scripts: then it must
fit, too, show no control that does nothing, and say in a table or a described picture what a script would have drawn.

Exit status 1 where anything was found, 2 where the site or the browser is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from site_browser import NoBrowser, chromium, hosted, page_names

QUESTIONS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8").strip()
WIDTHS = (1440, 768, 390)
SCHEMES = {"light": "default", "dark": "slate"}
MOST_STOPS = 40  # Tab presses on one page; the order of the stops after them is read from the page
# What a rule looks at decides where it is asked. Names and roles are the same in both schemes, and change with the
# window only where the theme folds its navigation away; the size of targets and what scrolls follow the window;
# contrast follows both. `None` asks every rule but contrast.
LAYOUT = ("target-size", "scrollable-region-focusable")
ASKED = {("light", 1440): None, ("light", 768): LAYOUT, ("light", 390): None}
CONTRASTS = {("light", 1440), ("light", 390), ("dark", 1440), ("dark", 390)}


class Looker:
    """One browser, one window for each scheme and one without scripts, used for page after page."""

    def __init__(self, browser, root: str, *, plant: str = "", body: str = "") -> None:
        """`plant`, a script, runs on every loaded page; `body` stands in for every page. Both are for tests of this."""
        from axe_playwright_python.base import AXE_SCRIPT

        self.root, self._axe, self._plant, self._body = root, AXE_SCRIPT, plant, body
        self._origin = "{0.scheme}://{0.netloc}/".format(urlsplit(root))
        self._errors: list[str] = []
        self._good: set[int] = set()  # kinds of text whose contrast was judged and is good
        self.spent: Counter[str] = Counter()
        self._windows = {scheme: self._window(browser, color_scheme=scheme) for scheme in SCHEMES}
        self._bare = self._window(browser, java_script_enabled=False)

    def _window(self, browser, **named):
        context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900}, reduced_motion="reduce", **named)
        context.route("**/*", self._route)
        page = context.new_page()
        page.on(
            "console",
            lambda m: self._errors.append(f"the console says: {m.text}") if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self._errors.append(f"a script failed: {error}"))
        page.on("response", lambda r: self._errors.append(f"{r.status} for {r.url}") if r.status >= 400 else None)
        return page

    def close(self) -> None:
        """Close the windows; the browser stays."""
        for page in (*self._windows.values(), self._bare):
            page.context.close()

    def open(self, name: str, scheme: str = "light"):
        """The page, loaded into the widest window of a scheme."""
        page = self._windows[scheme]
        self._errors.clear()
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(self.root + name, wait_until="load")
        page.wait_for_timeout(150)  # the theme's script has made the page by then
        if self._plant:
            page.evaluate(self._plant)
        return page

    def shown(self, scheme: str = "light"):
        """The window of a scheme, with the page that was looked at last."""
        return self._windows[scheme]

    def _route(self, route) -> None:
        if self._body and route.request.resource_type == "document":
            return route.fulfill(body=self._body, content_type="text/html")
        if route.request.url.startswith((self._origin, "data:", "blob:")):
            return route.continue_()
        self._errors.append(f"asks another host for {route.request.url}")
        return route.abort()

    def faults(self, name: str) -> list[str]:
        """A sentence for everything that is wrong with one page; `name` is its address below the site's root."""
        found = []
        for scheme in SCHEMES:
            page = self.open(name, scheme)
            shown = page.evaluate("document.body.dataset.mdColorScheme")
            if shown != SCHEMES[scheme]:
                found.append(f"{scheme}: the page is shown in the scheme {shown}")
            if scheme == "light":
                found += [f"Tab: {each}" for each in self._timed("tab", self._walk, page)]
            page.evaluate(self._axe)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                page.evaluate(
                    "scrollTo({top: 0, behavior: 'instant'})"
                )  # the header covers what Tab has scrolled under it
                where = f"{scheme}, {width} px"
                wide = self._ask(page, "tooWide")
                if wide:
                    found.append(f"{where}: the page is {wide[0]} px too wide: {', '.join(wide[1])}")
                for rule, impact, nodes in self._timed("axe", self._barriers, page, scheme, width):
                    found.append(f"{where}: {rule} ({impact}): {'; '.join(nodes)}")
            found += [f"{scheme}: {each}" for each in dict.fromkeys(self._errors)]
        return found + [f"without scripts: {each}" for each in self._timed("bare", self._without_scripts, name)]

    def _barriers(self, page, scheme: str, width: int) -> list[tuple[str, str, list[str]]]:
        found, rules = [], ASKED.get((scheme, width), ())
        if (scheme, width) in CONTRASTS:
            judged = self._ask(page, "contrast", sorted(self._good))
            found += judged["found"]
            if not judged["found"]:
                self._good.update(judged["kinds"])
        if rules is None:
            found += self._ask(page, "axe", {"rules": {"color-contrast": {"enabled": False}}})
        elif rules:
            found += self._ask(page, "axe", {"runOnly": {"type": "rule", "values": list(rules)}})
        return found

    def _walk(self, page) -> list[str]:
        """Press Tab from the top of the page: where does it lead, and can the reader see it?"""
        wrong = self._ask(page, "order")
        before, stops = -1, 0
        for stops in range(1, MOST_STOPS + 1):
            page.keyboard.press("Tab")
            now = self._ask(page, "focus")
            if now["body"] or (stops > 1 and ".md-skip" in now["what"]):
                break  # past the last stop, to the browser or back to the first
            if stops == 1 and ".md-skip" not in now["what"]:
                wrong.append(f"the first stop is {now['what']}, not the link to the text")
            if now["at"] <= before:
                wrong.append(f"stop {stops}, {now['what']}, comes before the one left for it in the page")
            if not now["seen"]:
                wrong.append(f"stop {stops}, {now['what']}, cannot be seen")
            if not now["ring"] and stops > 1:
                wrong.append(f"stop {stops}, {now['what']}, does not show that it has the focus")
            before = now["at"]
        if stops < 5:
            wrong.append(f"only {stops} stops were reached")
        return wrong[:6]

    def _without_scripts(self, name: str) -> list[str]:
        found = []
        self._errors.clear()
        page = self._bare
        page.goto(self.root + name, wait_until="load")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            wide = self._ask(page, "tooWide")
            if wide:
                found.append(f"{width} px: the page is {wide[0]} px too wide: {', '.join(wide[1])}")
        return found + self._ask(page, "withoutScripts") + list(dict.fromkeys(self._errors))

    def _ask(self, page, question: str, options: object = None):
        return page.evaluate(f"options => ({QUESTIONS}).{question}(options)", options)

    def _timed(self, what: str, call, *arguments):
        start = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            self.spent[what] += time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description="Open every page of a built site in Chromium and look for faults.")
    parser.add_argument("site", type=Path, help="folder with the built site")
    parser.add_argument("--only", default="", metavar="PART", help="only pages whose address contains this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the faults of every page here, too")
    asked = parser.parse_args()
    names = [name for name in page_names(asked.site) if asked.only in name] if asked.site.is_dir() else []
    if not names:
        print(f"{asked.site} holds no such page: build the site first.", file=sys.stderr)
        return 2
    start, all_faults = time.perf_counter(), {}
    try:
        with hosted(asked.site) as root, chromium() as browser:
            looker = Looker(browser, root)
            for name in names:
                all_faults[name] = looker.faults(name)
                for each in all_faults[name]:
                    print(f"/{name}: {each}", flush=True)
    except NoBrowser as error:
        print(error, file=sys.stderr)
        return 2
    if asked.json:
        asked.json.write_text(json.dumps(all_faults, indent=1) + "\n", encoding="utf-8")
    count = sum(map(len, all_faults.values()))
    parts = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in looker.spent.items())
    print(f"{len(names)} pages, {count} faults, {time.perf_counter() - start:.0f} s ({parts})")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
