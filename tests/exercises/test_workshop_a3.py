"""What Workshop A3 runs beside its exercise: attention over two sets of keys, merged, and the test of such a merge."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from lessons_src.examples.try_halves import attend, complaint, merge_halves  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def test_any_cuts_in_any_order_give_attention_over_all_keys():
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(n, 8, generator=generator, dtype=torch.float64) for n in (4, 30, 30))
    parts = [attend(q, k[a:b], v[a:b]) for a, b in ((0, 7), (7, 7), (7, 8), (8, 30))]
    chain = parts[0]
    for part in parts[1:]:
        chain = merge_halves(*chain, *part)
    tree = merge_halves(*merge_halves(*parts[3], *parts[1]), *merge_halves(*parts[2], *parts[0]))
    for out, lse in (chain, tree):
        assert torch.allclose(out, attend(q, k, v)[0]) and torch.allclose(lse, attend(q, k, v)[1])
    nothing = attend(q, k[:0], v[:0])
    assert all(torch.equal(got, kept) for got, kept in zip(merge_halves(*nothing, *nothing), nothing))
    assert complaint(merge_halves) == ""


WRONG = {
    "out is wrong": "(out_a + out_b) / 2, torch.logaddexp(lse_a, lse_b)",
    "lse is wrong": "try_halves.merge_halves(out_a, lse_a, out_b, lse_b)[0], lse_a + lse_b",
    "out is NaN": "out_a * (lse_a - torch.logaddexp(lse_a, lse_b)).exp()[:, None]"
    " + out_b * (lse_b - torch.logaddexp(lse_a, lse_b)).exp()[:, None], torch.logaddexp(lse_a, lse_b)",
}


@pytest.mark.parametrize("said", WRONG)
def test_the_command_says_what_is_wrong_with_a_file(said, tmp_path):
    head = (
        "import torch\nfrom lessons_src.examples import try_halves\n\n\ndef merge_halves(out_a, lse_a, out_b, lse_b):\n"
    )
    (tmp_path / "mine.py").write_text(f"{head}    return {WRONG[said]}\n", encoding="utf-8")
    command = [sys.executable, "-m", "lessons_src.examples.try_halves"]
    done = subprocess.run([*command, str(tmp_path / "mine.py")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and said in done.stdout, done
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.startswith("right: ")
    (tmp_path / "mine.py").write_text("", encoding="utf-8")
    done = subprocess.run([*command, str(tmp_path / "mine.py")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "defines no merge_halves" in done.stderr
