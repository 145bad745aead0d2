"""Stand-ins for compute-sanitizer and for the process that it watches, which behave as a scenario says.

    python sanitizer_stand_ins.py tool --tool racecheck --log-file LOG ... COMMAND...
    python sanitizer_stand_ins.py worker TOOL PHASE TASKS PROGRESS

SCENARIO is JSON: for "TOOL PHASE" a list of [place, what happens], where "hang" and "die" are what they
say, "error" is a failure of the path, "report" a report on a path as it is, and "blind" none on one with a plant.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

BODIES = {
    "memcheck": """========= Invalid __global__ read of size 4 bytes
=========     at {name}+0x350 in softmax.py:53
=========     by thread (30,0,0) in block (2,0,0)
=========     Access at 0x7f2c7de00bfc is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2c7de00000 of size 3068 bytes
=========
""",
    "racecheck": """========= Error: Race reported between Write access at {name}+0x1b0 in standard.py:290
=========     and Read access at {name}+0x2d0 in standard.py:290 [24 hazards]
=========
""",
    "initcheck": """========= Uninitialized __global__ memory read of size 4 bytes
=========     at {name}+0x90 in softmax.py:53
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
""",
    "synccheck": """========= Barrier error detected. Divergent thread(s) in warp.
=========     at {name}+0x520 in standard.py:290
=========     by thread (1,0,0) in block (0,0,0)
=========
""",
}
SEES = {"shared": True, "barrier": True, "other_barrier": False, "loads": True}
KERNELS = {0: ["_rows"], 1: ["_parts", "_finish"], 2: ["_plain"], 3: ["softmax_online"]}


def sees(kernel):
    return SEES | ({"shared": False, "barrier": False} if kernel == "_plain" else {})


def symbol(kernel, place):
    return kernel if place == 3 else f"{kernel}__p{place}"


def tool(arguments):
    name, log = arguments[arguments.index("--tool") + 1], arguments[arguments.index("--log-file") + 1]
    command = arguments[arguments.index(sys.executable) :]
    with Path(log).open("w") as out:
        out.write("========= COMPUTE-SANITIZER\n")
    done = subprocess.run(command, env=os.environ | {"FAKE_LOG": log}, check=False)
    text = Path(log).read_text()
    count = text.count("Invalid __") + text.count("Race reported") + text.count("Uninit") + text.count("Barrier error")
    with Path(log).open("a") as out:
        if name == "racecheck":
            out.write(f"========= RACECHECK SUMMARY: {count} hazards displayed ({count} errors, 0 warnings)\n")
        else:
            out.write(f"========= ERROR SUMMARY: {count} errors\n")
    return done.returncode


def worker(name, phase, tasks, progress):
    scenario = dict(json.loads(os.environ["SCENARIO"]).get(f"{name} {phase}", []))
    with Path(progress).open("a") as out:

        def say(**words):
            out.write(json.dumps(words) + "\n")
            out.flush()

        say(pid=os.getpid())
        for place, kernel in json.loads(Path(tasks).read_text()):
            say(begin=[place, kernel])
            what = scenario.get(place, "")
            if what == "hang":
                time.sleep(1000)
            if what == "die":
                os._exit(9)
            if what == "report" or (phase == "plant" and what != "blind"):
                with Path(os.environ["FAKE_LOG"]).open("a") as log:
                    log.write(BODIES[name].format(name=symbol(kernel or KERNELS[place][0], place)))
            launched = {each: {"symbol": symbol(each, place), "sees": sees(each)} for each in KERNELS[place]}
            say(done=[place, kernel], launched=launched, error="RuntimeError: no" if what == "error" else None)
        say(end=True)
    return 0


if __name__ == "__main__":
    sys.exit(tool(sys.argv[2:]) if sys.argv[1] == "tool" else worker(*sys.argv[2:]))
