"""`python -m kernels.cuda compiler|library|portfolio`: say which compiler is used, or build with it.

Exit status: 0 done, 1 the sources do not compile, 2 wrong usage, 3 there is no usable compiler.
"""

from __future__ import annotations

import argparse
import sys

from kernels.cuda import BuildFailed, CompilerMissing, build, build_portfolio, compiler


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels.cuda", description="Build the CUDA kernels with nvcc.")
    parser.add_argument("what", choices=("compiler", "library", "portfolio"))
    parser.add_argument("--arch", type=int, action="append", help="such as 90 for sm_90; repeat for several")
    options = parser.parse_args(arguments)
    try:
        found = compiler()
        print(f"Compiler: {found}", file=sys.stderr)
        if options.what == "compiler":
            print(found.nvcc)
        else:
            builder = build if options.what == "library" else build_portfolio
            print(builder(archs=options.arch))
    except CompilerMissing as missing:
        print(missing, file=sys.stderr)
        return 3
    except (BuildFailed, FileNotFoundError, ValueError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
