"""Exercises: what a check file is written with, and what runs it. Importing it takes neither numpy nor torch."""

from kernels.exercises.expect import close, equal, fail
from kernels.exercises.memory import Memory
from kernels.exercises.model import Check, Exercise, Failure, Verdict
from kernels.exercises.traced import read_whole, traced

__all__ = ["Check", "Exercise", "Failure", "Memory", "Verdict", "close", "equal", "fail", "read_whole", "traced"]
