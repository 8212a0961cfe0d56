# `make demo` shows the main job, `make test` runs the CPU tests. Both make .venv first; no GPU.
#   PYTHON  the interpreter to build .venv from; without it, the first on the PATH that is 3.11 or newer
#   TORCH   the torch that tests of operators run with, all others need none; a version with +cpu is never one of gigabytes for CUDA
#   MORE    packages that the tests of integrations run with, where they can be had
#   URL     the project's address, for `make dist`
#   ARGS    passed on: make test ARGS="tests/cli -k run", make demo ARGS="--out /tmp/gemm.html"
PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV ?= .venv
ARGS ?=
TORCH ?= torch==2.13.0+cpu
MORE ?= transformers==5.24.0 fla-core==0.6.0 kernels==0.17.2

BIN := $(VENV)/bin
# What is imported is compiled then: pip would compile all of torch and transformers, of which most is imported by nobody.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
TORCH_STAMP := $(VENV)/with-$(subst /,-,$(subst =,-,$(TORCH))).stamp

.PHONY: demo test lint site dist clean

demo: $(VENV)/package.stamp
	@$(BIN)/mimw demo $(ARGS)

# Python keeps what it has compiled of the modules and of the tests' assertions, also where the environment tells it not to: each of
# the many processes that tests start would compile them again.
test: $(VENV)/test.stamp $(TORCH_STAMP)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q --forked 2 $(ARGS)

lint: $(VENV)/lint.stamp
	@$(BIN)/ruff check .

# The pages of docs/ and the reference from the code as HTML: site/index.html. A warning, such as a link that leads nowhere, ends it.
site: $(VENV)/docs.stamp
	@$(BIN)/python -m sphinx -q -W --keep-going -n -b html -d build/site docs site
	@echo "site/index.html"

# The two wheels and the source package in dist/; URL=https://HOST/OWNER/mimw puts the project's addresses into them.
dist: | $(BIN)/python
	@$(PIP) 'setuptools>=77'
	@$(BIN)/python docs/support/package.py --out dist $(if $(URL),--url $(URL))

clean:
	rm -rf $(VENV) .pytest_cache build dist site *.egg-info

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
	  echo "No Python 3.11 or newer on the PATH. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The package is installed in place, so only a change of its requirements calls for another install.
$(VENV)/package.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[test,docs]'
	@touch $@ $(VENV)/package.stamp $(VENV)/docs.stamp

# Where no such build is to be had the tests of operators are skipped, and the next `make test` asks again. Without MORE, tests of
# those packages are skipped.
$(TORCH_STAMP): $(VENV)/test.stamp
	@if $(PIP) '$(TORCH)' $(MORE) 2> $(VENV)/torch.log; then touch $@; elif $(PIP) '$(TORCH)' 2>> $(VENV)/torch.log; then touch $@; \
	  echo "pip finds no $(MORE) (see $(VENV)/torch.log): their tests are skipped"; else \
	  echo "pip finds no $(TORCH) (see $(VENV)/torch.log): tests of operators are skipped; name one: make test TORCH=torch==VERSION+cpu"; fi

$(VENV)/docs.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/package.stamp

$(VENV)/lint.stamp: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[lint]'
	@touch $@ $(VENV)/package.stamp
