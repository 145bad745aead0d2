"""The command `lessons`: choosing pages and blocks, sharing work, saying what is wrong with a request."""

import errno
import os
import re

import pytest
from lessons_project import CONFIG, Project, fence, marks

from kernels.lessons import store


@pytest.fixture(scope="module")
def seven(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("command") / "p")
    for number in range(7):
        folder = "labs/" if number % 2 else ""
        project.page(f"{folder}page{number}", f"# {number}\n\n{fence(marks(f'p{number}'), f'b{number}')}")
    assert project.lessons("accept").status == 0
    project.ran()
    return project


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "lessons: No space left on device; make room, and run it again\n"), (errno.EIO, "Traceback")],
)
def test_a_full_disk_is_a_sentence_and_leaves_what_was_accepted(project, monkeypatch, number, said):
    project.page("index", f"# P\n\n{fence('print(1)', 'a')}")
    assert project.lessons("accept").status == 0
    before = project.accepted()
    project.edit("docs/index.md", "print(1)", "print(2)")

    def refuse(*arguments, **named):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(store, "write_whole", refuse)
    done = project.lessons("accept")
    assert done.status != 0 and said in done.text
    assert project.accepted() == before


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 9])
def test_the_shards_share_all_pages_and_each_page_once(seven, parts):
    ran = []
    for index in range(1, parts + 1):
        done = seven.lessons("verify", "--shard", f"{index}/{parts}")
        assert done.status == 0, done.text
        assert parts == 1 or f"(part {index} of {parts})" in done.text
        ran += seven.ran()
    assert sorted(ran) == [f"p{number}" for number in range(7)]


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_bad_shard_is_a_usage_error(seven, shard):
    done = seven.lessons("verify", f"--shard={shard}")
    assert done.status == 2 and "is not i/n" in done.text and "Traceback" not in done.text
    assert seven.ran() == []


@pytest.mark.parametrize("command", ["verify", "accept", "list"])
def test_an_unknown_page_is_a_usage_error_with_a_suggestion(seven, command):
    done = seven.lessons(command, "page3.md")
    assert done.status == 2 and "there is no page 'page3.md'; did you mean labs/page3.md?" in done.text
    done = seven.lessons(command, "nothing-like-it.md")
    assert done.status == 2 and "did you mean" not in done.text


def test_pages_may_be_named_as_a_shell_completes_them(seven):
    done = seven.lessons("verify", "docs/labs/page3.md", "page2.md", "labs/page3.md")
    assert done.status == 0 and seven.ran() == ["p2", "p3"]


def test_list_says_where_and_what(seven):
    done = seven.lessons("list", "labs/page1.md")
    assert re.search(r"docs/labs/page1\.md:3\s+b1\s+cpu\s+exact\s+run\s+runs", done.text) and "1 blocks" in done.text


def test_help_names_every_command(seven):
    done = seven.lessons("--help")
    assert done.status == 0
    for command in ("build", "serve", "verify", "accept", "list", "doctor"):
        assert command in done.text
        assert "--help" in seven.lessons(command, "--help").text


def test_a_folder_without_a_site_is_a_sentence(tmp_path):
    project = Project(tmp_path / "p")
    project.write("mkdocs.yml", CONFIG.replace("plugins: [lessons]", "plugins: []"))
    done = project.lessons("list")
    assert done.status == 2 and "does not name the plugin 'lessons'" in done.text
    (project.root / "mkdocs.yml").unlink()
    done = project.lessons("verify")
    assert done.status == 2 and "mkdocs.yml" in done.text and "Traceback" not in done.text


@pytest.fixture
def two(project: Project) -> Project:
    project.page("index", "# P\n\n" + fence("print(1)", "a") + fence("print(2)", 'b needs="cxx"') + "`#!value 3`\n")
    project.page("other", "# O\n\n" + fence("print(4)", "a"))
    assert project.lessons("accept").status == 0
    for page, old, new in (("index", "(1)", "(10)"), ("index", "(2)", "(20)"), ("other", "(4)", "(40)")):
        project.edit(f"docs/{page}.md", f"print{old}", f"print{new}")
    return project


def changed(project: Project, before: dict[str, bytes]) -> set[str]:
    return {name for name, data in project.accepted().items() if before.get(name) != data}


def test_accepting_one_block_leaves_the_others(two):
    before = two.accepted()
    done = two.lessons("accept", "index.md#b")
    assert done.status == 0, done.text
    assert changed(two, before) == {"index/b.txt", "index/index.json"}
    assert two.lessons("verify", "index.md").text.count(": drift [a]") == 1


def test_a_block_and_a_whole_page_are_chosen_each_for_itself(two):
    before = two.accepted()
    assert two.lessons("accept", "index.md#a", "other.md").status == 0
    assert changed(two, before) == {"index/a.txt", "index/index.json", "other/a.txt", "other/index.json"}


def test_accepting_by_need(two):
    before = two.accepted()
    done = two.lessons("accept", "--needs", "cxx")
    assert done.status == 0 and "1 block on 1 page: 1 ran" in done.text, done.text
    assert changed(two, before) == {"index/b.txt", "index/index.json"}


@pytest.mark.parametrize(
    ("arguments", "named", "status", "words"),
    [
        (["--needs", "gpuu"], {}, 2, "--needs 'gpuu' is not one of cpu, triton, nvcc, cxx, gpu"),
        (["--needs", "gpu"], {}, 2, "none of the chosen blocks needs gpu"),
        (["--needs", "cxx", "other.md"], {}, 2, "none of the chosen blocks needs cxx"),
        (["--needs", "cxx"], {"LESSONS_WITHOUT": "cxx"}, 3, "cannot run here; cxx: cxx is hidden by LESSONS_WITHOUT"),
    ],
)
def test_a_need_that_chooses_nothing_to_run_is_no_success(two, arguments, named, status, words):
    before = two.accepted()
    done = two.lessons("accept", *arguments, **named)
    assert done.status == status and words in done.text, done.text
    assert two.accepted() == before


def test_only_what_is_chosen_runs_and_what_it_stands_on(project: Project):
    bad = fence(marks("bad") + "\nraise ValueError('planted')", 'bad session="s"')
    blocks = [fence(marks("a") + "\nn = 1", "a"), fence(marks("b") + "\nprint(n)", "b"), fence(marks("c"), "c"), bad]
    project.page("index", "# P\n\n" + "".join(blocks) + fence("print(1)", 'd session="s"') + "`#!value n`\n")
    done = project.lessons("accept", "index.md#b")
    assert done.status == 0 and "1 block on 1 page: 1 ran" in done.text and "did neither" not in done.text, done.text
    assert project.ran() == ["a", "b"]
    assert project.accepted().keys() == {"index/b.txt", "index/index.json"}
    done = project.lessons("accept", "index.md#d")
    assert project.ran() == ["bad"]
    assert done.status == 1 and ": failed [bad]: ValueError: planted" in done.text and "2 failed" in done.text
    assert "did neither" not in done.text
    assert "failed [d]: not run: block 'bad' before it failed" in done.text
    assert project.accepted().keys() == {"index/b.txt", "index/index.json"}


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (
            {"LESSONS_WITHOUT": "gpu, nvc"},
            "LESSONS_WITHOUT='gpu, nvc': 'nvc' is not one of cpu, triton, nvcc, cxx, gpu",
        ),
        ({"LESSONS_JOBS": "many"}, "LESSONS_JOBS='many' is not a number of pages to run at once"),
        ({"LESSONS_JOBS": "0"}, "LESSONS_JOBS='0' is not a number of pages to run at once"),
    ],
)
def test_a_setting_that_means_nothing_is_a_sentence(seven, named, words):
    for done in (seven.lessons("list", **named), seven.run("mkdocs", "build", **named)):
        assert done.status != 0 and words in done.text and "Traceback" not in done.text, done.text


def test_an_unknown_mode_is_a_usage_error(seven):
    done = seven.lessons("build", "--mode", "fast")
    assert done.status == 2 and "--mode 'fast' is not one of run, frozen, verify" in done.text


def test_an_unknown_block_is_a_usage_error(two):
    before = two.accepted()
    done = two.lessons("accept", "index.md#c")
    assert done.status == 2 and "index.md has no block 'c'; it has a, b" in done.text
    assert two.accepted() == before


def test_accepting_again_writes_nothing(two):
    assert two.lessons("accept").status == 0
    before = two.accepted()
    done = two.lessons("accept")
    assert done.status == 0 and "0 files written" in done.text
    assert two.accepted() == before


@pytest.mark.parametrize("command", ["build", "serve", "verify", "accept", "list", "doctor"])
def test_outside_of_a_project_a_command_says_where_to_go(seven, tmp_path, monkeypatch, command):
    monkeypatch.setattr(seven, "root", tmp_path)
    done = seven.lessons(command)
    assert done.status == 2 and f"no mkdocs.yml lies in {tmp_path} or above it; go to the project's folder" in done.text


@pytest.mark.parametrize("command", ["verify", "list", "doctor"])
def test_a_command_finds_its_project_from_a_folder_below(seven, monkeypatch, command):
    below = seven.root / "docs"
    there = seven.lessons(command)
    monkeypatch.setattr(seven, "root", below)
    assert seven.lessons(command).text.splitlines()[-1] == there.text.splitlines()[-1]


@pytest.mark.parametrize("address", ["8000", "nonsense", "localhost:", "localhost:http"])
def test_an_address_without_a_port_is_said_to_be_none(seven, address):
    done = seven.lessons("serve", "--address", address)
    assert done.status == 2
    assert done.text.endswith(f"--address {address!r} is not a host and a port, as in localhost:8000\n")
