#!/usr/bin/env bash
# Everything that needs the GPU, in one script: tests, sanitizer, measurements, the pages' GPU blocks, verification, site.
#
#   scripts/gpu_runner.sh [STEP...]      run these steps in the order given; without any, all of them
#   scripts/gpu_runner.sh --list         the steps
#
# It runs from the project's root, goes on after a failure, prints a table last, and exits 0 only when every part passed;
# 1 when one failed, 2 for wrong usage, 3 where there is no GPU. It changes no setting of the card.
#
# PYTHON         the interpreter (default .venv/bin/python)
# RECORDS_OUT    where records.tar.gz, site.tar.gz and gpu_runner.log go (default build/gpu-records)
# KERNELS_COMMIT, KERNELS_DIRTY   the commit, for a copy of the tree without its .git
# STEP_LIMIT     seconds that any one command may take at most (default: its own limit)
# ITERS          samples of each timing (default 50)
# SANITIZER_SECONDS   time for all kernel paths under all sanitizers (default 240)
# SANITIZER_UNPROVED  1: only what does not stand in the sanitizers' record yet, put together with it
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

ALL_STEPS=(env tests portfolio sanitizer trace gate bench experiments pages verify site)
PYTHON=${PYTHON:-.venv/bin/python}
RECORDS_OUT=${RECORDS_OUT:-build/gpu-records}
ITERS=${ITERS:-50}
export PYTHONUNBUFFERED=1
PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH

usage() { sed -n '2,/^set -u/p' "${BASH_SOURCE[0]}" | sed -n 's/^# \{0,1\}//p'; }

case ${1:-} in
  --list) printf '%s\n' "${ALL_STEPS[@]}"; exit 0 ;;
  -h | --help) usage; exit 0 ;;
esac
STEPS=("$@")
[ ${#STEPS[@]} -gt 0 ] || STEPS=("${ALL_STEPS[@]}")
for step in "${STEPS[@]}"; do
  case " ${ALL_STEPS[*]} " in
    *" $step "*) ;;
    *) echo "There is no step '$step'; there are: ${ALL_STEPS[*]}." >&2; exit 2 ;;
  esac
done

if [[ -n ${STEP_LIMIT:-} && ! $STEP_LIMIT =~ ^[1-9][0-9]*$ ]]; then
  echo "STEP_LIMIT is '$STEP_LIMIT'; it is a number of seconds, such as 60." >&2
  exit 2
fi
if ! command -v "$PYTHON" >/dev/null 2>&1; then
  echo "PYTHON is '$PYTHON', which is not an interpreter here; set PYTHON, or run make site first." >&2
  exit 2
fi
if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
  echo "There is no NVIDIA GPU here, so nothing was run. Without one, make test checks what a CPU can check." >&2
  exit 3
fi

mkdir -p "$RECORDS_OUT" build results || exit 2
RECORDS_OUT=$(cd "$RECORDS_OUT" && pwd) || exit 2
LOG=$RECORDS_OUT/gpu_runner.log
: >"$LOG" || exit 2
SAID=$(mktemp) || exit 2 # what the part that runs has said
trap 'rm -f "$SAID"' EXIT

NAMES=() STATES=() SECONDS_OF=()
FAILED=0

note() { printf '%s\n' "$*" | tee -a "$LOG"; }

remember() { # NAME STATE SECONDS
  NAMES+=("$1") STATES+=("$2") SECONDS_OF+=("$3")
  [ "$2" = ok ] || FAILED=1
}

# part NAME LIMIT COMMAND...: run with a time limit, everything to the log, the end of it to the screen.
part() {
  local name=$1 limit=$2 status began took
  shift 2
  if [ -n "${STEP_LIMIT:-}" ] && [ "$STEP_LIMIT" -lt "$limit" ]; then limit=$STEP_LIMIT; fi
  note "== $name: $*"
  began=$(date +%s)
  timeout -k 10 "$limit" "$@" </dev/null >"$SAID" 2>&1
  status=$?
  took=$(($(date +%s) - began))
  cat "$SAID" >>"$LOG"
  if [ "$status" -eq 0 ]; then
    tail -n "${SHOW:-6}" "$SAID"
    remember "$name" ok "$took"
  elif [ "$status" -eq 124 ] || { [ "$status" -eq 137 ] && [ "$took" -ge "$limit" ]; }; then
    tail -n 40 "$SAID"
    note "-- $name: stopped after its $limit s"
    remember "$name" "time limit" "$took"
  elif [ "$status" -eq 137 ]; then
    tail -n 60 "$SAID"
    note "-- $name: killed after $took s, before its limit; was memory short? dmesg tells"
    remember "$name" killed "$took"
  else
    tail -n 60 "$SAID"
    note "-- $name: exit status $status"
    remember "$name" "exit $status" "$took"
  fi
  return "$status"
}

lessons() { # LIMIT NAME ARGUMENT...
  local limit=$1 name=$2
  shift 2
  part "$name" "$limit" "$PYTHON" -c 'from kernels.lessons.command import app; app(prog_name="lessons")' "$@"
}

kernel_bench() {
  part "$1" "$2" "$PYTHON" -m kernels.bench.command "${@:3}" --iters "$ITERS"
  pack_records
}

# The compiler and the sanitizer, wherever CUDA is.
find_tool() {
  local found place
  found=$(command -v "$1" 2>/dev/null) && { echo "$found"; return 0; }
  for place in "${CUDA_HOME:-/nonexistent}/bin" /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer /opt/cuda/bin; do
    [ -x "$place/$1" ] && { echo "$place/$1"; return 0; }
  done
  if [ "$1" = nvcc ]; then
    "$PYTHON" -m kernels.cuda compiler 2>/dev/null && return 0
  fi
  return 1
}

build_portfolio() {
  [ -z "${PORTFOLIO_BUILT:-}" ] || return 0
  part "build cuda_portfolio" 300 "$PYTHON" -m kernels.cuda portfolio && PORTFOLIO_BUILT=1
}

slug() {
  "$PYTHON" -c 'import torch; from kernels.bench.provenance import gpu_slug; print(gpu_slug(torch.cuda.get_device_name(0)))'
}

step_env() {
  SHOW=20 part "driver and card" 30 nvidia-smi \
    --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,power.draw,power.limit --format=csv
  SHOW=20 part "python" 120 "$PYTHON" -c 'if True:
    import platform, torch
    print("python", platform.python_version(), "torch", torch.__version__, "cuda", torch.version.cuda)
    try:
        import triton; print("triton", triton.__version__)
    except ImportError:
        print("triton is missing")
    assert torch.cuda.is_available(), "PyTorch sees no GPU"
    print(torch.cuda.get_device_properties(0))
    from importlib.metadata import entry_points
    names = [entry.name for entry in entry_points(group="mkdocs.plugins")]
    assert "lessons" in names, "the project is not installed: its MkDocs plugin is not among " + repr(names)'
  local tool
  for tool in nvcc compute-sanitizer; do
    if find_tool "$tool" >/dev/null; then
      part "$tool" 30 "$(find_tool "$tool")" --version
    else
      note "-- $tool: not found"
      remember "$tool" "not found" 0
    fi
  done
  SHOW=40 lessons 120 "lessons doctor" doctor
}

step_tests() {
  SHOW=15 part "tests marked gpu" 420 "$PYTHON" -m pytest tests -m gpu -q -p no:cacheprovider --tb=short \
    --ignore=tests/site --continue-on-collection-errors
  SHOW=15 part "operators on the GPU" 300 "$PYTHON" -m pytest tests/ops -m "not gpu" -q -p no:cacheprovider
}

step_portfolio() {
  build_portfolio || return
  part "cuda_portfolio --test-only" 120 build/cuda_portfolio --test-only
  local gpu
  gpu=$(slug) || { remember "name of the GPU" "unknown" 0; return; }
  mkdir -p "results/$gpu"
  part "cuda_portfolio --bench" 180 build/cuda_portfolio --bench --output "build/cuda_portfolio_$gpu.json"
}

# The tool must first report a fault that was planted; a clean report proves nothing before that.
sanitizer_sees() { # TOOL PLANT
  local tool=$1 plant=$2 status
  part "$tool: build the plant" 120 "$PYTHON" -c 'if True:
    import subprocess, sys
    from kernels.cuda import compiler
    nvcc = compiler()
    sys.exit(subprocess.call([str(nvcc.nvcc), *nvcc.flags, "-arch=native", "-lineinfo", "-o", *sys.argv[1:]]))' \
    "build/plant_$plant" "tests/cuda/plants/$plant.cu" || return
  timeout -k 10 120 "$SANITIZER" --tool "$tool" --error-exitcode 97 "build/plant_$plant" >"$SAID" 2>&1
  status=$?
  { echo "== $tool over the planted $plant: exit status $status"; cat "$SAID"; } >>"$LOG"
  tail -n 4 "$SAID"
  if [ "$status" -eq 97 ] && grep -Eq 'ERROR SUMMARY: [1-9]|RACECHECK SUMMARY: [1-9]' "$SAID"; then
    remember "$tool reports the planted fault" ok 0
  else
    note "-- $tool did not report the planted $plant (exit status $status)"
    remember "$tool reports the planted fault" "not reported" 0
  fi
}

step_sanitizer() {
  if ! SANITIZER=$(find_tool compute-sanitizer); then
    note "-- compute-sanitizer was not found"
    remember "compute-sanitizer" "not found" 0
    return
  fi
  sanitizer_sees memcheck out_of_bounds
  sanitizer_sees racecheck missing_barrier
  build_portfolio || return
  part "memcheck over cuda_portfolio" 300 "$SANITIZER" --tool memcheck --error-exitcode 97 build/cuda_portfolio --test-only
  part "racecheck over cuda_portfolio" 420 "$SANITIZER" --tool racecheck --error-exitcode 97 build/cuda_portfolio --test-only
  operators_under_sanitizer
}

# All four tools over every kernel path of the operators, each after a fault planted on that path.
operators_under_sanitizer() {
  local gpu
  gpu=$(slug) || { remember "name of the GPU" "unknown" 0; return; }
  mkdir -p "results/$gpu/experiments"
  local record=results/$gpu/experiments/sanitizers.json only=()
  [ "${SANITIZER_UNPROVED:-0}" = 1 ] && only=(--unproved "$record")
  SHOW=40 part "sanitizers over the operators" 330 "$PYTHON" scripts/sanitize_operators.py --sanitizer "$SANITIZER" \
    --seconds "${SANITIZER_SECONDS:-240}" "${only[@]}" --output "$record"
  pack_records
  if [ "$(nvidia-smi -L | grep -c '^GPU ')" -lt 2 ]; then
    note "-- this machine has one GPU, so nothing was called on a second one"
    return
  fi
  SHOW=40 part "two devices" 200 "$PYTHON" scripts/two_devices.py --seconds 100 \
    --output "results/$gpu/experiments/two-devices.json"
}

# What the kernels really access, and what the hardware counts: the records that the host's trace is compared with.
step_trace() {
  SHOW=12 part "gpu_trace" 240 "$PYTHON" scripts/gpu_trace.py
  SHOW=12 part "gpu_counters" 240 "$PYTHON" scripts/gpu_counters.py
}

# Before the records are taken again: is anything slower than they say? Only what has a record is measured.
step_gate() {
  local gpu op dtypes dtype line fresh=() chosen
  gpu=$(slug) || { remember "name of the GPU" "unknown" 0; return; }
  if ! compgen -G "results/$gpu/*.json" >/dev/null; then
    note "-- there is no committed record of this GPU, so nothing can be compared"
    remember "performance gate" "no record" 0
    return
  fi
  rm -rf build/gate && mkdir -p build/gate
  part "build the CUDA library" 300 "$PYTHON" -m kernels.cuda library
  while read -r line; do
    read -r op dtypes <<<"$line"
    [ -n "$op" ] || continue
    chosen=()
    for dtype in $dtypes; do chosen+=(--dtype "$dtype"); done
    kernel_bench "gate: kernel-bench $op" 300 --op "$op" "${chosen[@]}" --output "build/gate/$op.json"
    [ -f "build/gate/$op.json" ] && fresh+=("build/gate/$op.json")
  done < <("$PYTHON" scripts/performance_gate.py --cases "$gpu" 2>>"$LOG")
  SHOW=60 part "performance gate" 60 "$PYTHON" scripts/performance_gate.py "${fresh[@]}" \
    --output build/report-gate.md
}

step_bench() {
  local gpu
  gpu=$(slug) || { remember "name of the GPU" "unknown" 0; return; }
  local out=results/$gpu blocks=(--block-size 128 --block-size 256 --block-size 512 --block-size 1024)
  mkdir -p "$out/experiments"
  part "build the CUDA library" 300 "$PYTHON" -m kernels.cuda library
  kernel_bench "kernel-bench add" 300 --op add --dtype float32 --dtype bfloat16 --compile "${blocks[@]}" \
    --output "$out/add.json"
  kernel_bench "kernel-bench softmax" 480 --op softmax --dtype float32 --dtype bfloat16 --compile \
    --num-warps 4 --num-warps 8 --variant path=block --variant path=looped --output "$out/softmax.json"
  # What the labs ask beyond the operators' own shapes: needlessly small blocks, a length that is a multiple of 16 beside
  # the odd one, and one block against the loop at the widths around the limit.
  kernel_bench "kernel-bench add, small blocks" 120 --op add --dtype float32 --shape 4194304 --implementation torch \
    --block-size 1 --block-size 32 --block-size 1024 --output "$out/add-small-blocks.json"
  kernel_bench "kernel-bench add, even length" 120 --op add --dtype float32 --shape 98765424 --implementation triton \
    --implementation vector_add --implementation torch --output "$out/add-even-length.json"
  kernel_bench "kernel-bench softmax, wide" 120 --op softmax --dtype float32 --dtype bfloat16 --shape 4096x8192 \
    --shape 4096x32768 --implementation triton --implementation torch --variant path=block --variant path=looped \
    --output "$out/softmax-wide.json"
  part "row_plan_grid" 90 "$PYTHON" scripts/row_plan_grid.py --quick --seconds 60 --output "$out/experiments/row-plan-grid.json"
  # The same launches with dispatch in the time, and out of a warm cache: apart from the others.
  kernel_bench "kernel-bench add, dispatch" 120 --op add --dtype float32 --shape 4096 --shape 1048576 --timing events \
    --output "$out/add-dispatch.json"
  kernel_bench "kernel-bench softmax, dispatch" 120 --op softmax --dtype float32 --shape 4096x1024 --timing events \
    --output "$out/softmax-dispatch.json"
  kernel_bench "kernel-bench add, warm" 120 --op add --dtype float32 --shape 4096 --shape 1048576 --cache warm \
    --output "$out/add-warm.json"
  kernel_bench "kernel-bench softmax, warm" 120 --op softmax --dtype float32 --shape 4096x1024 --cache warm \
    --output "$out/softmax-warm.json"
  # Every other operator of the registry, in the dtypes that its table shows.
  local op dtypes dtype chosen all=(add softmax)
  while read -r op dtypes; do
    [ -n "$op" ] || continue
    chosen=()
    for dtype in $dtypes; do chosen+=(--dtype "$dtype"); done
    kernel_bench "kernel-bench $op" 300 --op "$op" "${chosen[@]}" --compile --output "$out/$op.json"
    all+=("$op")
  done < <("$PYTHON" -c 'if True:
    from kernels.ops import registry
    for op in registry.OPS.values():
        if op.name not in ("add", "softmax"):
            dtypes = op.bench_dtypes or op.dtypes
            print(op.name, *([d for d in dtypes if d in ("float32", "bfloat16")] or dtypes[:1]))' 2>>"$LOG")
  for op in "${all[@]}"; do
    [ -f "$out/$op.json" ] || continue
    part "report $op" 60 "$PYTHON" scripts/report_results.py "$out/$op.json" --output "build/report-$op.md"
  done
  if [ -f scripts/gpu_clock_probe.py ]; then
    SHOW=30 part "gpu_clock_probe" 90 "$PYTHON" scripts/gpu_clock_probe.py --output "build/gpu_clock_probe_$gpu.json"
  fi
}

# The experiments of the case studies, and what the counters say of one launch. They stand apart from the bench's records.
step_experiments() {
  local gpu
  gpu=$(slug) || { remember "name of the GPU" "unknown" 0; return; }
  local out=results/$gpu/experiments
  mkdir -p "$out"
  SHOW=12 part "specialization" 120 "$PYTHON" scripts/specialization.py --iters "$ITERS" --output "$out/scale_rows.json"
  SHOW=12 part "wrapper overhead" 120 "$PYTHON" scripts/wrapper_overhead.py --op softmax --iters "$ITERS" \
    --output "$out/overhead-softmax.json"
  local spec name
  for spec in "matmul:float32 bfloat16" "matmul_tf32:float32" "matmul_tf32x3:float32"; do
    name=${spec%%:*}
    local -a dtypes=()
    for dtype in ${spec#*:}; do dtypes+=(--dtype "$dtype"); done
    kernel_bench "precision: $name" 120 --op "$name" "${dtypes[@]}" --shape 4096x4096x4096 --output "$out/precision-$name.json"
  done
  SHOW=12 part "values of the inputs" 120 "$PYTHON" scripts/input_values.py --iters "$ITERS" --output "$out/input-values.json"
  SHOW=12 part "reports of the tools" 300 "$PYTHON" scripts/tool_reports.py --output "$out/tool-reports.json"
  if find_tool ncu >/dev/null; then
    SHOW=40 part "profile softmax" 240 "$PYTHON" scripts/profile_kernel.py --op softmax --shape 16384x4096 \
      --output "$out/profile-softmax.json"
  else
    note "-- ncu was not found, so no launch was profiled"
    remember "ncu" "not found" 0
  fi
}

step_pages() { lessons 540 "lessons accept" accept --needs gpu; }

step_verify() { SHOW=30 lessons 540 "lessons verify" verify; }

step_site() {
  lessons 540 "lessons build" build || return
  [ -d site ] && part "pack the site" 60 tar -czf "$RECORDS_OUT/site.tar.gz" site
}

# What must outlive this machine, in one file; what is missing is left out.
pack_records() {
  local wanted=(results lessons_src/outputs) found=() path
  for path in "${wanted[@]}" build/cuda_portfolio_*.json build/gpu_clock_probe_*.json build/report-*.md; do
    [ -e "$path" ] && found+=("$path")
  done
  [ ${#found[@]} -gt 0 ] || return 0
  if tar -czf "$RECORDS_OUT/records.tmp" --exclude=results/local "${found[@]}"; then
    mv "$RECORDS_OUT/records.tmp" "$RECORDS_OUT/records.tar.gz"
  else
    remember "pack the records" failed 0
  fi
}

for step in "${STEPS[@]}"; do
  note ""
  note "#### $step"
  case $step in
    env) step_env ;;
    tests) step_tests ;;
    portfolio) step_portfolio ;;
    sanitizer) step_sanitizer ;;
    trace) step_trace ;;
    gate) step_gate ;;
    bench) step_bench ;;
    experiments) step_experiments ;;
    pages) step_pages ;;
    verify) step_verify ;;
    site) step_site ;;
  esac
  pack_records # after every step: a run that is cut off keeps what it had
done

note ""
note "#### summary"
for index in "${!NAMES[@]}"; do
  note "$(printf '%-40s %-14s %6s s' "${NAMES[$index]}" "${STATES[$index]}" "${SECONDS_OF[$index]}")"
done
if [ "$FAILED" -eq 0 ]; then
  note "All passed."
else
  note "Some parts failed; the whole log is gpu_runner.log beside the records."
fi
exit "$FAILED"
