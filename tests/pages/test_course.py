"""The schedule names a command that exists for each session, the journal is true, every answer is explained."""

from __future__ import annotations

import re

import pytest
from typed_commands import ROOT, fault

from kernels.exercises import library
from kernels.lessons.answers import answers_html

LESSONS = ROOT / "docs" / "lessons"
SCHEDULE = (LESSONS / "schedule.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", SCHEDULE, re.MULTILINE)


def commands(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_there_are_eighteen_sessions_in_order():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 19))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_session_says_what_to_do_to_type_and_to_produce(row):
    _, do, typed, produce = row
    assert commands(typed), "nothing to type"
    assert [why for command in commands(typed) if (why := fault(command))] == []
    assert len(do) > 15 and len(produce) > 15


def test_every_exercise_and_every_lesson_has_its_session():
    assert [name for name in library.exercises() if f"`lessons check {name}`" not in SCHEDULE] == []
    done = " ".join(do for _, do, _, _ in ROWS)
    pages = [path.name for path in LESSONS.glob("[0-9]*.md")]
    assert [name for name in pages if f"]({name}" not in done] == []
    labs = [path.name for path in (ROOT / "docs" / "labs").glob("[0-9]*.md")]
    assert [name for name in labs if f"](../labs/{name}" not in done] == []
    linked = re.findall(r"\]\(((?:\.\./labs/)?[\w-]+\.md)", done)
    numbers = [int(re.search(r"(\d+)-", name)[1]) for name in linked if name.startswith(tuple("0123456789"))]
    assert numbers == sorted(numbers), "sessions follow the lessons in number order"


def test_the_filled_entry_has_the_lines_of_the_template_and_numbers_that_were_seen():
    template = (ROOT / "lessons_src" / "examples" / "journal.md").read_text("utf-8")
    outputs = ROOT / "lessons_src" / "outputs" / "lessons" / "journal"
    entry = (outputs / "entry.txt").read_text("utf-8")

    def words(text: str) -> list[str]:
        return re.findall(r"^([A-Z][a-z]+(?: [a-z]+)?) {2,}\S", text, re.MULTILINE)

    assert words(entry) == words(template) and len(words(entry)) == 9
    seen = re.findall(r"n = ([\d,]+): (\d+) programs", (outputs / "run.txt").read_text("utf-8"))
    assert f"{seen[0][1]} and {seen[1][1]}." in re.search(r"^Saw +(.*)$", entry, re.MULTILINE)[1]
    assert "FAIL" in (outputs / "mistake.txt").read_text("utf-8")
    page = (LESSONS / "journal.md").read_text("utf-8")
    assert template.split("\n")[0] in (outputs / "template.txt").read_text("utf-8") and "journal.md" in page


def test_every_exercise_is_explained_and_folded_in_the_learners_order():
    html = answers_html(lambda place: f"/{place}")
    names = re.findall(r'<details class="success" id="answer-(\w+)">', html)
    assert sorted(names) == library.exercises()
    places = [re.search(r'href="/(\w+)/([ia]?)(\d+)-', part) for part in html.split("<details")[1:]]
    folders = ("lessons", "labs", "workshops")
    order = [(folders.index(match[1]), match[2] == "a", int(match[3])) for match in places if match]
    assert order == sorted(order) and len(order) == len(names)
    accepted = ROOT / "lessons_src" / "outputs" / "lessons" / "answers" / "answers.html"
    assert re.findall(r'id="answer-(\w+)"', accepted.read_text("utf-8")) == names


def project(root, explain: str, marks: bool = True):
    for folder in ("exercises", "solutions", "checks"):
        (root / "lessons_src" / folder).mkdir(parents=True)
    code = "# --- fill in ---\n    answer = 1 < 2\n# --- end ---\n" if marks else "answer = 1\n"
    (root / "lessons_src" / "solutions" / "one.py").write_text(code)
    (root / "lessons_src" / "checks" / "one.py").write_text(
        "from kernels.exercises import Exercise\n\n"
        f'EXERCISE = Exercise(lesson="lessons/3-x.md#exercise", task="Say *it* with `<`.", explain={explain!r})\n'
    )
    return root


def test_an_answer_holds_task_solution_and_explanation(tmp_path):
    html = answers_html(lambda place: f"/{place}", project(tmp_path, "Because `1` is *less*."))
    assert "<summary>one: Say it with &lt;.</summary>" in html
    assert 'href="/lessons/3-x.md#exercise">Lesson 3</a>' in html
    assert "<p>Because <code>1</code> is <em>less</em>.</p>" in html
    assert (
        re.sub(r"<[^>]+>", "", re.search(r"<pre><code>(.*?)</code>", html, re.DOTALL)[1]).strip() == "answer = 1 &lt; 2"
    )


@pytest.mark.parametrize(
    ("explain", "marks", "said"), [("", True, "says no explain"), ("Because.", False, "no region")]
)
def test_an_answer_without_explanation_or_marks_is_refused(tmp_path, explain, marks, said):
    with pytest.raises(ValueError, match=said):
        answers_html(str, project(tmp_path, explain, marks))
