# Two commands are enough: `make site` and `make test`. Both make .venv and install what they need.
# TORCH=cpu takes a CPU build of torch where pip can find one. Say it once: what .venv has is the default from then on.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= $(if $(wildcard $(VENV)/.installed-cpu),cpu,cuda)
STAMP := $(VENV)/.installed-$(TORCH)
PYTEST_ARGS ?=

.PHONY: site serve test verify accept cuda gpu lint clean install help
.DEFAULT_GOAL := help

help: ## Show this list.
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

install: $(STAMP) ## Make .venv and install the pinned toolchain.

$(STAMP): pyproject.toml constraints/site.txt constraints/torch-$(TORCH).txt scripts/install.sh
	PYTHON="$(PYTHON)" bash scripts/install.sh $(TORCH)

site: $(STAMP) ## Build the site into site/.
	$(BIN)/lessons build

serve: $(STAMP) ## Preview the site while you edit it.
	$(BIN)/lessons serve

test: $(STAMP) ## Run the tests.
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

verify: $(STAMP) ## Execute every block and compare it with its accepted output.
	$(BIN)/lessons verify

accept: $(STAMP) ## Execute every block and accept what it gives.
	$(BIN)/lessons accept

cuda: $(STAMP) ## Compile the CUDA library and build/cuda_portfolio.
	$(BIN)/python -m kernels.cuda library
	$(BIN)/python -m kernels.cuda portfolio

gpu: $(STAMP) ## Everything that needs a GPU: tests, sanitizers, measurements, records.
	PYTHON=$(BIN)/python bash scripts/gpu_runner.sh

lint: $(STAMP) ## Check style.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean: ## Remove what was built; accepted outputs and results stay.
	rm -rf build site .site-* .lessons
