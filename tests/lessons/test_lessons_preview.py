"""What one edit can have changed: which pages are looked at again, which are rendered, what stops for a save."""

from types import SimpleNamespace

import pytest

from kernels.lessons.engine import Engine
from kernels.lessons.look import Unchanged
from kernels.lessons.model import Block, Outcome, Output, PageOutcome, PageScan, PageSource
from kernels.lessons.preview import Preview


def outcome(name, text="a", output="1", data=()):
    scan = PageScan(PageSource(name, None, text, digest=text), [Block("b", 1, "python", "pass")])
    return PageOutcome(scan, {"b": Outcome(scan.blocks[0], "ran", Output(output, data=list(data)), "", "")})


UNREAD = {"title": None, "meta": {}, "toc": [], "present_anchor_ids": None}


class Site:
    """Builds that render what the preview asks for."""

    def __init__(self, *names):
        self.preview = Preview()
        self.preview.turns.stepwise = True
        self.pages = {name: outcome(name) for name in names}
        self.titles = dict.fromkeys(names, "title")
        self.before = {}

    def build(self):
        turn = self.preview.begin([page.scan.source for page in self.pages.values()], self.before)
        self.before = dict(self.pages)
        found = {name: SimpleNamespace(url=name, content=None, **UNREAD) for name in self.pages}
        self.preview.plan(self.pages, self.preview.in_common(found, []), complete=not turn.names)
        for name, page in found.items():
            if self.preview.is_due(name):
                page.title, page.content = self.titles[name], "read"
            else:
                self.preview.recall(name, page)
        self.preview.common = self.preview.in_common(found, [])
        for name, page in found.items():
            if self.preview.is_due(name):
                self.preview.show(name, f"{page.title} {self.pages[name].outcomes}", page, {})
        return sorted(turn.names) or sorted(self.pages)


def test_every_page_is_rendered_once_and_then_none():
    site = Site("a", "b")
    assert site.build() == ["a", "b"] and site.preview.rendered == ["a", "b"]
    assert site.build() == ["a", "b"] and site.preview.rendered == [] and not site.preview.behind()


def test_the_edited_page_is_looked_at_alone_and_the_rest_is_looked_at_after_it():
    site = Site("a", "b", "c")
    site.build()
    site.pages["b"] = outcome("b", text="another")
    assert site.build() == ["b"] and site.preview.rendered == ["b"]
    assert site.preview.behind()
    site.pages["c"] = outcome("c", output="another")  # as if a block of c read b
    assert site.build() == ["a", "b", "c"] and site.preview.rendered == ["c"] and not site.preview.behind()


def test_other_pages_show_a_new_title_after_its_page_does():
    site = Site("a", "b", "c")
    site.build()
    site.pages["b"], site.titles["b"] = outcome("b", text="another"), "another title"
    site.build()
    assert site.preview.rendered == ["b"]
    site.pages["c"] = outcome("c", text="another")  # saved before a could follow: c goes first
    site.build()
    assert site.preview.rendered == ["c"]
    site.build()
    assert site.preview.rendered == ["a"] and not site.preview.behind()


def test_a_save_stops_the_pages_that_follow_and_they_come_later():
    site = Site("a", "b", "c")
    site.build()
    site.pages["b"], site.titles["b"] = outcome("b", text="another"), "another title"
    site.build()
    asked = iter([False, True])
    site.preview.saved = lambda: next(asked, True)
    site.build()
    stopped = list(site.preview.rendered)
    site.preview.saved = lambda: False
    assert site.preview.behind()
    site.build()
    assert sorted(stopped + site.preview.rendered) == ["a", "c"] and site.preview.rendered


def test_an_edited_page_is_rendered_though_another_is_saved_meanwhile():
    site = Site("a", "b")
    site.build()
    site.pages["b"] = outcome("b", text="another")
    site.preview.saved = lambda: True
    site.build()
    assert site.preview.rendered == ["b"]


def test_html_that_did_not_change_is_not_repainted():
    site = Site("a")
    site.build()
    site.pages["a"] = outcome("a", text="another")  # a comment in the Markdown, say
    site.build()
    assert site.preview.rendered == ["a"] and site.preview.repainted == []


@pytest.fixture
def root(tmp_path):
    for name in ("kernels/a.py", "docs/data.txt", "docs/page.md", "build/made.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "known"),
    [("kernels/a.py", False), ("docs/data.txt", False), ("build/made.txt", True), ("kernels/new.py", False)],
)
def test_a_page_is_known_until_something_that_it_may_stand_on_changes(root, path, known):
    unchanged, page = Unchanged(root), outcome("page.md", data=["docs/data.txt"])
    look = unchanged.look()
    unchanged.put(page)
    assert unchanged.look() is look
    assert unchanged.get(page.scan.source).outcomes["b"].status == "kept"
    (root / path).write_text("22")
    unchanged.look()
    assert (unchanged.get(page.scan.source) is not None) is known


def test_a_page_with_another_text_is_not_known(root):
    unchanged = Unchanged(root)
    unchanged.look()
    unchanged.put(outcome("page.md"))
    assert unchanged.get(outcome("page.md", text="another").scan.source) is None


def test_a_save_stops_a_block_that_runs_and_leaves_its_page_out(root, monkeypatch):
    """One page runs after the other, so the first is done when the block of the second begins."""
    monkeypatch.setenv("LESSONS_JOBS", "1")
    pages = [PageSource(f"{name}.md", root / f"docs/{name}.md", name) for name in ("quick", "long")]
    engine = Engine(root, lambda: None)
    code = {"quick": "print(1)", "long": "import time; time.sleep(1000)"}
    engine.scan = lambda source: PageScan(source, [Block("it", 1, "python", code[source.slug])])
    begun = []
    try:
        report = engine.bring_up_to_date(
            pages, progress=lambda item, *_: begun.append(item), interrupted=lambda: "long.md it" in begun
        )
    finally:
        engine.close()
    assert report.interrupted and list(report.pages) == ["quick.md"]
    assert report.pages["quick.md"].outcomes["it"].output.text == "1"


def test_blocks_that_rest_run_when_what_they_stand_on_changes_or_their_page_is_asked_for(root):
    (root / "kernels/__init__.py").touch()
    (root / "kernels/a.py").write_text("x = 1\n")
    pages = [PageSource(f"{name}.md", root / f"docs/{name}.md", name, digest=name) for name in ("a", "b")]
    engine = Engine(root, lambda: None)
    code = {"a": "from kernels.a import x; print(x)", "b": "print(5)"}
    engine.scan = lambda source: PageScan(source, [Block("it", 1, "python", code[source.slug])])

    def waiting(**how):
        report = engine.bring_up_to_date(pages, **how)
        return {name: page.waiting for name, page in report.pages.items()}

    resting = {"a.md", "b.md"}
    try:
        assert waiting(runs=False) == {"a.md": 1, "b.md": 1}
        before = engine._unchanged.get(pages[1])
        assert waiting(resting=resting) == {"a.md": 1, "b.md": 1}
        assert engine._unchanged.get(pages[1]) is before is not None  # nothing was computed again
        shown = engine.bring_up_to_date(pages, resting=resting).pages["a.md"]
        assert engine.accept_shown(shown)[1].endswith("open the page, and press a again")
        (root / "kernels/a.py").write_text("x = 22\n")
        assert waiting(resting=resting) == {"a.md": 0, "b.md": 1}
        assert waiting(resting={"a.md"}) == {"a.md": 0, "b.md": 0}
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("code", "change", "said"),
    [
        ("print(open('docs/data.txt').read())", None, ""),
        ("print(open('docs/data.txt').read())", "docs/data.txt", "has changed since it was shown"),
        ("from kernels.a import x; print(x)", "kernels/a.py", "has changed since it was shown"),
        ("1 / 0", None, "one of its blocks fails"),
    ],
)
def test_what_is_shown_is_accepted_unless_it_fails_or_something_has_changed_since(root, code, change, said):
    (root / "kernels/__init__.py").touch()
    (root / "kernels/a.py").write_text("x = 1\n")
    engine = Engine(root, lambda: None)
    source = PageSource("page.md", root / "docs/page.md", "text")
    engine.scan = lambda source: PageScan(source, [Block("it", 1, "python", code)])
    try:
        shown = engine.bring_up_to_date([source]).pages["page.md"]
    finally:
        engine.close()
    if change:
        (root / change).write_text("x = 2\n")
    written, refusal = engine.accept_shown(shown)
    assert said in refusal and bool(refusal) == bool(said)
    assert written == ([] if said else ["page/it.txt", "page/index.json"])
    assert (root / "lessons_src/outputs/page/it.txt").exists() is not bool(said)
