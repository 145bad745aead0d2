"""The clock of the model: partitions of a program as tasks, of which one goes on at a time, and copies under way."""

import random
import threading


class Broken(AssertionError):
    """A rule of the machine was broken."""


class Machine:
    """Tasks, copies under way, and the order in which they go on."""

    def __init__(self, seed: int):
        self.random, self.tasks, self.copies = random.Random(seed), [], []
        # Some seeds let results leave as late as they may.
        self.slow_stores = self.random.random() < 0.5

    def run(self, functions) -> None:
        self.tasks = [Task(self, function) for function in functions]
        while True:
            ready = [task for task in self.tasks if not task.done and task.ready()]
            if not ready and not self.copies:
                break
            copies = [each for each in self.copies if each.__name__ == "land" or not self.slow_stores]
            if not ready:
                copies = copies or self.copies
            pick = self.random.randrange(len(ready) + len(copies))
            if pick < len(ready):
                ready[pick].go_on()
            else:
                copy = copies[pick - len(ready)]
                self.copies.remove(copy)
                copy()
            failed = next((task.error for task in self.tasks if task.error), None)
            if failed:
                raise failed
        if not all(task.done for task in self.tasks):
            raise Broken("deadlock: every task waits at a barrier, and no copy is under way")

    @property
    def current(self) -> "Task":
        return threading.current_thread().task


class Task:
    """One partition, on a thread of its own that runs only while it has the turn."""

    def __init__(self, machine: Machine, function):
        self.ready, self.done, self.error = (lambda: True), False, None
        self.products, self.stores = [], []
        self._mine, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.task = self
        self._thread.start()

    def _run(self, function) -> None:
        self._mine.acquire()
        try:
            function()
        except BaseException as error:
            self.error = error
        self.done = True
        self._theirs.release()

    def go_on(self) -> None:
        self._mine.release()
        self._theirs.acquire()

    def pause(self, until=lambda: True) -> None:
        self.ready = until
        self._theirs.release()
        self._mine.acquire()
