# Viva Voce. `make help` lists the verbs; `make run` and `make test` need nothing else first.

PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
READY := .venv/ready
UNASKED := gpu or weights or slow or parity or asr or load

# What `make test` can run here. What it cannot is said loudly, before and after.
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
DESK := $(shell command -v pulseaudio >/dev/null && command -v parec >/dev/null && ldconfig -p 2>/dev/null | grep -o -m1 libportaudio.so.2)
ABSENT := $(if $(CHROMIUM),,browser) $(if $(DESK),,desk)
SAY_ABSENT = @$(if $(strip $(ABSENT)),echo "*** NOT RUN HERE: $(strip $(ABSENT)) TESTS. They need (Debian): apt install $(if $(CHROMIUM),,chromium) $(if $(DESK),,pulseaudio pulseaudio-utils libasound2-plugins libportaudio2) ***" >&2,true)

.DEFAULT_GOAL := help
.PHONY: help run test setup parity style types test-browser test-parity test-slow test-gpu bench load serve-free pins clean

help: ## show the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

run: setup ## the gateway with its page and the embedded voice on http://localhost:$PORT (8000)
	$(BIN)/vivavoce serve --port $(PORT)

test: setup ## the tests; in the browser and with a sound server too where there are such
	$(SAY_ABSENT)
	$(BIN)/python -m pytest --ignore tests/parity -m "not ($(UNASKED)$(foreach mark,$(ABSENT), or $(mark)))" $(ARGS)
	$(SAY_ABSENT)

setup: $(READY) ## .venv with the package and its vivavoce command; nothing when it is up to date

$(READY): pyproject.toml constraints.txt tools/install.py
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Viva Voce needs Python 3.11 or newer; %s is %d.%d. Say which: make setup PYTHON=python3.12" % (sys.executable, v[0], v[1]))'
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "Python has no venv here (Debian: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) tools/install.py
	@touch $@

parity: $(READY) ## the reference package beside ours, for test-parity
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[parity]' --no-build-isolation
	$(BIN)/python -m pip install -q --no-deps qwen-tts==0.1.1

style: setup ## ruff: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy: strict on the gateway and the engine's pure floor
	$(BIN)/mypy

test-browser: setup ## only the tests in Chromium
	$(BIN)/python -m pytest -m browser tests/browser $(ARGS)

test-parity: parity ## our model against the reference package
	$(BIN)/python -m pytest -m parity $(ARGS)

test-slow: setup ## the tests that take minutes, load tests among them
	$(BIN)/python -m pytest -m "(slow or load or asr) and not gpu" $(ARGS)

test-gpu: setup ## the tests that need an NVIDIA GPU
	$(BIN)/python -m pytest -m gpu $(ARGS)

bench: setup ## frame time, first audio, streams: engine/bench.py
	$(BIN)/python -m engine.bench $(ARGS)

load: setup ## clients that come, speak and leave, and what they heard: gateway/bench
	$(BIN)/python -m gateway.bench $(ARGS)

serve-free: setup ## the gateway on any free port, which it prints
	$(BIN)/vivavoce serve --port 0

pins: setup ## write constraints.txt anew from .venv
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed -E 's/^(torch==[0-9.]+)\+.*/\1/'; } > constraints.new
	@mv constraints.new constraints.txt

clean: ## remove .venv, caches and build folders
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
