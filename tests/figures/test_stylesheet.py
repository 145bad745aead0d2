"""The stylesheet's colours: text can be read on what lies behind it, in the light scheme and in the dark one."""

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[2] / "docs/assets/lessons.css").read_text()


def scheme(name):
    block = re.search(rf'\[data-md-color-scheme="{name}"\] \{{(.*?)\}}', CSS, re.S).group(1)
    return dict(re.findall(r"(--kl-[\w-]+):\s*(#[0-9a-f]{6})", block))


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


TEXT = [
    ("ink", "paper"), ("ink", "raised"), ("ink", "hatch-back"), ("ink", "bad-paper"),
    ("soft", "paper"), ("soft", "raised"), ("bad", "paper"), ("bad", "bad-paper"),
    ("accent", "paper"), ("good", "paper"),
    *[("ink", f"f{i}") for i in range(8)],
    *[(f"e{i}", "paper") for i in range(8)],
    *[(f"e{i}", "raised") for i in range(8)],
]  # fmt: skip


@pytest.mark.parametrize("name", ["default", "slate"])
def test_text_can_be_read(name):
    colours = scheme(name)
    low = {
        (front, back): round(contrast(colours[f"--kl-{front}"], colours[f"--kl-{back}"]), 2)
        for front, back in TEXT
        if contrast(colours[f"--kl-{front}"], colours[f"--kl-{back}"]) < 4.5
    }
    assert low == {}


@pytest.mark.parametrize("name", ["default", "slate"])
def test_shapes_stand_out(name):
    colours = scheme(name)
    for front in ("strong-rule", *[f"e{i}" for i in range(8)]):
        assert contrast(colours[f"--kl-{front}"], colours["--kl-paper"]) >= 3, front


def test_every_variable_is_set_somewhere_and_no_colour_outside_the_schemes():
    assert scheme("default").keys() == scheme("slate").keys()
    set_in_figures = {"--kl-fill", "--kl-edge", "--kl-grow", *(f"--kl-w{i}" for i in range(1, 9))}
    assert set(re.findall(r"var\((--kl-[\w-]+)\)", CSS)) <= set(re.findall(r"(--kl-[\w-]+):", CSS)) | set_in_figures
    rules = re.sub(r"(:root,\s*)?\[data-md-color-scheme[^{]*\{[^}]*\}", "", CSS)
    assert not re.search(r":[^;{}]*#[0-9a-fA-F]{3,8}\b", rules.split("@media print")[0])


def test_print_and_reduced_motion_are_taken_care_of():
    assert "@media print" in CSS and "prefers-reduced-motion" in CSS
