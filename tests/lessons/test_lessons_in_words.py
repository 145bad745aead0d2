"""A program whose figures are HTML says in a terminal what they hold, and all else as it is."""

import sys

import pytest

from kernels.lessons import in_words


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """`run(code)`: what the program says, as it ends."""

    def run(code: str) -> str:
        file = tmp_path / "program.py"
        file.write_text(code)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["before"])
            patch.setattr(sys, "stdout", sys.stdout)
            assert in_words.main([str(file)]) == 0
        return capsys.readouterr().out

    return run


def test_a_figure_is_told_in_words_and_what_is_printed_stays(run):
    table = '<div class="kl-scroll"><table><tr><th>shape</th><td>4 &lt; 5</td></tr></table></div>'
    code = f"import sys\nprint('a <b> c < d')\nprint({table!r})\nprint(__name__, sys.argv[0].endswith('program.py'))\n"
    assert run(code) == "a <b> c < d\nshape 4 < 5\n__main__ True\n"
    assert run("print('<p>One.</p>', end='')\nprint('<svg><text>no</text></svg>')") == "One.a figure\n"


def test_one_program_is_named(capsys):
    assert in_words.main([]) == 2
    assert "name one program" in capsys.readouterr().err
