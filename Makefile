# make demo: a live run of embedded models, a replay of recorded ones, a report.   make test: all that needs no engine, Ray or browser.
# make test-engines: all that does.   make test-all: those that take minutes, too.   make paper: tables of the paper.
# make test-readers: exports, opened by the programs that they are for.
# make lint, lock, docs (the site), test-wheel, coverage
# the first of these that runs; the locks are made for 3.11
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  $$p -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))" 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
TORCH := 2.13.0
# PyTorch's CPU build is on an index of its own; a wheel at hand (PIP_FIND_LINKS) is taken first
TORCH_INDEX := https://download.pytorch.org/whl/cpu

.PHONY: docs test-wheel demo paper test test-engines test-all test-readers coverage lint audit lock install install-dev clean

demo: install
	@run=demo-$$(date +%Y%m%d-%H%M%S); set -e; \
	$(BIN)/python -m jobs.evaluate --config configs/demo.yaml --name $$run; \
	echo; echo "Recorded completions of another model, whose verifier cannot choose among a question's answers:"; \
	$(BIN)/python -m jobs.sweep --pool data/pools/arithmetic --config configs/sweeps/demo.yaml --out runs/recorded/$$run.parquet; \
	$(BIN)/python -m jobs.report runs/$$run

paper: install
	$(BIN)/python -m jobs.paper --pool data/pools/steps-small --pool data/pools/steps-medium \
	  --pool data/pools/steps-large --out runs/paper
	$(BIN)/python -m jobs.paper --pool data/pools/arithmetic --pool data/pools/sums --out runs/paper-expressions

# compiled modules are kept, whatever the shell says: tests start many processes
test: install-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder \
	  -m "not ray and not vllm and not browser and not slow and not gpu and not readers"

# the same tests with the branches of pipeline/ that they take; tracing doubles their time
coverage: install-dev
	$(BIN)/python -m pytest -m "not ray and not vllm and not browser and not slow and not gpu and not readers" \
	  -n 2 --dist loadfile --cov --cov-report= --cov-fail-under=95

test-engines: install-dev
	$(BIN)/python -m pytest -m "(ray or vllm or browser) and not slow and not gpu"

test-all: install-dev
	$(BIN)/python -m pytest -m "not gpu and not readers" --hypothesis-profile=thorough

test-readers: $(VENV)/.installed-readers
	$(VENV)/readers/bin/python -m pytest -m readers tests/test_*_readers.py

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# the site of docs/, with references made from the code, in build/site
docs: install-dev
	$(BIN)/pip install -qq mkdocs-material==9.8.2
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --strict -q -f deploy/mkdocs.yml

# the wheel, installed and used outside of the checkout
test-wheel: install-dev
	$(BIN)/python -m pytest tests/test_wheel.py

audit: install-dev
	$(BIN)/pip install -qq pip-audit
	@for lock in cpu gpu; do \
	  $(BIN)/pip-audit --no-deps --disable-pip --progress-spinner off --timeout 15 \
	    -r requirements/$$lock.lock > .audit 2>&1; status=$$?; \
	  if grep -q "Connection\|Max retries\|timed out" .audit || \
	     [ $$(grep -c "could not be audited" .audit) -ge $$(grep -c == requirements/$$lock.lock) ]; \
	  then echo "audit: the vulnerability service cannot be reached, $$lock.lock was not checked"; \
	  else cat .audit; [ $$status -eq 0 ] || { rm -f .audit; exit 1; }; fi; \
	done; rm -f .audit

install: $(VENV)/.installed-cpu
install-dev: $(VENV)/.installed-dev

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch: | $(BIN)/python
	$(BIN)/pip install -qq --no-deps --no-index "torch==$(TORCH)+cpu" 2>/dev/null \
	  || $(BIN)/pip install -qq --no-deps --retries 0 --timeout 15 --index-url $(TORCH_INDEX) "torch==$(TORCH)+cpu" \
	  || $(BIN)/pip install -qq --no-deps "torch==$(TORCH)"
	touch $@

$(VENV)/.installed-cpu: requirements/cpu.lock $(VENV)/.torch
	$(BIN)/pip install -qq --no-deps -r requirements/cpu.lock
	$(BIN)/pip install -qq --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.installed-dev: requirements/dev.lock $(VENV)/.installed-cpu
	$(BIN)/pip install -qq --no-deps -r requirements/dev.lock
	touch $@

# What reads our exports wants other versions than we do: a folder of its own, over ours.
$(VENV)/.installed-readers: requirements/readers.lock $(VENV)/.installed-dev
	$(BIN)/python -m venv $(VENV)/readers
	$(BIN)/python -c "import site; print('import site; site.addsitedir(%r)' % site.getsitepackages()[0])" \
	  > $$($(VENV)/readers/bin/python -c "import site; print(site.getsitepackages()[0])")/ours.pth
	$(VENV)/readers/bin/pip install -qq --no-deps --ignore-requires-python -r requirements/readers.lock
	touch $@

# The locks are made from pyproject.toml for CPython 3.11 on Linux x86-64. torch is installed by a line
# of its own above; torchvision, torchaudio and torchcodec are left out: this is text only, and a
# torchvision built for another torch breaks every import of transformers.
COMPILE = $(BIN)/uv pip compile pyproject.toml -q --no-header --no-annotate --python-version 3.11 \
  --python-platform x86_64-manylinux_2_28 \
  --no-emit-package torchvision --no-emit-package torchaudio --no-emit-package torchcodec

lock: | $(BIN)/python
	$(BIN)/pip install -qq uv
	$(COMPILE) --override requirements/overrides.txt --extra cpu -o requirements/cpu.lock
	$(COMPILE) --override requirements/overrides.txt --extra cpu --extra dev -c requirements/cpu.lock -o requirements/dev.lock
	$(COMPILE) --extra gpu -o requirements/gpu.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
