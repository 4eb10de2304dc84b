# Each target creates the virtual environment that it needs.
PYTHON ?= python3
# Tests start hundreds of processes, each of which would compile the project again.
unexport PYTHONDONTWRITEBYTECODE
ARGS ?=
# One more than the cores of a small machine: integration tests wait a lot.
WORKERS ?= 3

SERVE := .venv-serve
TRAIN := .venv-train
DEV := .venv-dev
GPU := .venv-gpu
BUILD := .venv-build
BILL := .venv-bill
LOCK ?= serve
# PyTorch's own index has torch for CPUs; the one on PyPI includes CUDA, several gigabytes.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH_LOCK := locks/torch$(if $(TORCH_INDEX),-cpu).txt
TORCH := $(TORCH_LOCK) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# Fills an environment: $(call install,ENVIRONMENT,PACKAGES). uv takes a tenth of pip's time. It reads no settings of
# pip's, so that pip installs where only these name an index.
install = $(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2) || $(1)/bin/pip install --quiet $(2)
PROJECTS := pyproject.toml setup.py client/pyproject.toml load_test/pyproject.toml $(wildcard build_backend/*.py) \
	$(wildcard serving/dragoman_serving/engine/compiled/*.[ch] serving/dragoman_serving/relay/*.[ch])

# torch has a separate lock, written by hand. The client and the load test are our own packages.
COMPILE = $(DEV)/bin/uv pip compile --quiet --universal --generate-hashes \
	--custom-compile-command 'make lock' --no-emit-package torch --no-emit-package dragoman-client \
	--no-emit-package dragoman-load-test $(ARGS)

# In the order of collection: integration tests, which take longest, come first.
IN_WORKERS := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

.PHONY: help serve train-env demo wheels test tests test-all coverage containers campaign gpu-check zig-check lint style types format lock \
	sbom docs attention-figures clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 19

serve: $(SERVE)/.done  ## Serve the shipped model, with the gateway at http://localhost:5000; ARGS="--gateway-port 80 ..."
	$(SERVE)/bin/dragoman serve $(ARGS)

train-env: $(TRAIN)/.done  ## Create .venv-train for training and export, with torch for CPUs; TORCH_INDEX= for GPUs

demo: $(SERVE)/.done  ## Start the server, translate thirty sentences over HTTP and gRPC, stop it
	$(SERVE)/bin/dragoman demo

wheels: $(BUILD)/.done  ## Build wheels of the server, the client and the shipped model into dist/; MACHINE=aarch64
	rm -rf build  # it may contain libraries for another machine
	CC=none MACHINE=$(MACHINE) $(BUILD)/bin/pip wheel --quiet --no-deps --no-build-isolation \
		--wheel-dir dist . ./client ./load_test ./model_repository
	rm -rf build client/build load_test/build model_repository/build model_repository/*.egg-info

test: style  ## Lint, type-check and run the tests, in WORKERS processes
	$(MAKE) --no-print-directory --jobs 2 types tests

tests: $(DEV)/.done
	$(DEV)/bin/pytest $(IN_WORKERS) $(ARGS)

test-all: $(DEV)/.done  ## Run long tests, tests of starting and ending processes, and the short campaign of attacks, faults and overload; needs apt
	$(DEV)/bin/pytest $(IN_WORKERS) -m 'process_life or thorough'
	$(DEV)/bin/python -m tests.campaigns --short $(ARGS)

coverage: $(DEV)/.done  ## Print which lines and branches of the product no test reaches, over all that .ci/run runs
	rm -rf build/coverage
	-for tests in "pytest $(IN_WORKERS)" "pytest $(IN_WORKERS) -m 'process_life or thorough'" \
		"tests.campaigns --short"; do \
		eval "$(DEV)/bin/python -m coverage run -m $$tests"; done
	$(DEV)/bin/coverage combine --quiet
	$(DEV)/bin/coverage report $(ARGS)

containers: $(DEV)/.done  ## Build the images; run Compose and the chart's pods with podman; as root, needs apt
	$(DEV)/bin/pytest -m containers tests/containers $(ARGS)

campaign: $(DEV)/.done  ## Run the whole campaign (50 minutes); ARGS="--seed 2 --json FILE http faults"
	$(DEV)/bin/python -m tests.campaigns $(ARGS)

# With GPU_PYTHON=python3, that interpreter is used as it is: without a package index.
gpu-check: $(if $(GPU_PYTHON),,$(GPU)/.done)  ## Run tests and measure speed on a machine with an NVIDIA GPU; ARGS="--data-dir ..."
	$(if $(GPU_PYTHON),PYTHONPATH=.:client/src:load_test/src:training:export:serving $(GPU_PYTHON),$(GPU)/bin/python) -m lab.gpu.gpu_check $(ARGS)

zig-check: $(DEV)/.done  ## Compile without the machine's C compiler, test the result
	trap '$(DEV)/bin/pip install --quiet --no-deps --no-build-isolation --editable .' EXIT; \
	CC=none $(DEV)/bin/pip install --quiet --no-deps --no-build-isolation --editable . && \
	$(DEV)/bin/pytest tests/unit/serving/engine/compiled tests/integration/test_engine_served.py $(ARGS)

lint: style types  ## Check style and types

style: $(DEV)/.done
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	git ls-files '*.[ch]' | xargs $(DEV)/bin/clang-format --dry-run -Werror

types: $(DEV)/.done
	$(DEV)/bin/mypy

format: $(DEV)/.done  ## Rewrite the code in the project's style
	$(DEV)/bin/ruff check --fix .
	$(DEV)/bin/ruff format .
	git ls-files '*.[ch]' | xargs $(DEV)/bin/clang-format -i

lock: $(DEV)/.done  ## Update the locks after a change of requirements; ARGS=--upgrade for the newest releases
	$(COMPILE) --python-version 3.11 -o locks/uv.txt locks/uv.in
	$(COMPILE) --python-version 3.11 -o locks/build.txt locks/build.in
	$(COMPILE) --python-version 3.11 --extra serve --extra import --extra load-test -o locks/serve.txt pyproject.toml
	$(COMPILE) --python-version 3.11 --extra export -o locks/train.txt pyproject.toml
	$(COMPILE) --python-version 3.11 --extra serve --extra dev -o locks/dev.txt pyproject.toml
	$(COMPILE) --python-version 3.12 --extra serve-cpu --extra import --extra tracing -o locks/serve-cpu.txt pyproject.toml
	$(COMPILE) --python-version 3.12 --extra gateway-redis --extra tracing -o locks/gateway.txt pyproject.toml
	$(COMPILE) --python-version 3.12 --extra serve-gpu --extra tensorrt --extra tracing -o locks/serve-gpu.txt pyproject.toml

sbom: wheels $(DEV)/.done  ## Write the software bill of materials of an installation into dist/; LOCK=serve-cpu
	$(PYTHON) -m venv --clear $(BILL)
	$(BILL)/bin/pip install --quiet --require-hashes -r locks/$(LOCK).txt
	$(BILL)/bin/pip install --quiet --no-index --no-deps --find-links dist dragoman dragoman-client dragoman-load-test dragoman-model
	$(DEV)/bin/python -m deploy.software_bill $(BILL)/bin/python dist/dragoman-$(LOCK).cdx.json
	rm -rf $(BILL)

docs: $(DEV)/.done  ## Build the documentation as a site in build/site; fails on broken links and on pages that no menu has
	NO_MKDOCS_2_WARNING=1 $(DEV)/bin/mkdocs build --quiet
	@echo "open build/site/index.html, or for the search: python -m http.server --directory build/site"

attention-figures: $(DEV)/.done  ## Redraw the pictures of docs/attention.md
	$(DEV)/bin/python -m lab.attention.figures $(ARGS)

clean:  ## Remove the virtual environments and compiled files
	rm -rf $(SERVE) $(TRAIN) $(DEV) $(GPU) $(BUILD) build dist serving/dragoman_serving/relay/*.so \
		serving/dragoman_serving/engine/compiled/*.so

# Serving needs no torch; a test checks this. This and the next environment replace the development
# build of the libraries in the checkout.
$(SERVE)/.done: $(PROJECTS) locks/uv.txt locks/serve.txt
	$(PYTHON) -m venv $(SERVE)
	$(SERVE)/bin/pip install --quiet --require-hashes -r locks/uv.txt
	$(call install,$(SERVE),--require-hashes -r locks/serve.txt)
	$(call install,$(SERVE),--no-deps --editable ./client --editable ./load_test --editable .)
	$(SERVE)/bin/pip uninstall --quiet --yes uv
	rm -f $(DEV)/.done
	touch $@

$(TRAIN)/.done: $(PROJECTS) $(TORCH_LOCK) locks/uv.txt locks/train.txt
	$(PYTHON) -m venv $(TRAIN)
	$(TRAIN)/bin/pip install --quiet --require-hashes -r locks/uv.txt
	$(call install,$(TRAIN),--require-hashes -r locks/train.txt)
	$(TRAIN)/bin/pip install --quiet --no-compile --no-deps --require-hashes -r $(TORCH)
	$(call install,$(TRAIN),--no-deps --editable ./client --editable .)
	$(TRAIN)/bin/pip uninstall --quiet --yes uv
	rm -f $(DEV)/.done
	touch $@

# With assertions in the compiled libraries, and without warnings; see build_backend/libraries.py.
$(DEV)/.done zig-check: export DRAGOMAN_DEVELOPMENT = 1

$(DEV)/.packages: locks/uv.txt locks/build.txt $(TORCH_LOCK) locks/kubernetes.txt locks/dev.txt
	$(PYTHON) -m venv $(DEV)
	$(DEV)/bin/pip install --quiet --require-hashes -r locks/uv.txt
	$(call install,$(DEV),--require-hashes -r locks/build.txt)
	$(DEV)/bin/pip install --quiet --no-compile --no-deps --require-hashes -r $(TORCH)
	$(call install,$(DEV),--no-deps --no-build-isolation --require-hashes -r locks/kubernetes.txt -r locks/dev.txt)
	touch $@

$(DEV)/.done: $(DEV)/.packages $(PROJECTS) tests/data/npm/package-lock.json
	$(call install,$(DEV),--no-deps --no-build-isolation --editable ./client --editable ./load_test --editable .)
# Without these packages, the tests that need them are skipped, or fail with DRAGOMAN_CI=1.
	-$(DEV)/bin/python -m tests.npm_packages
	touch $@

$(GPU)/.done: $(PROJECTS)
	$(PYTHON) -m venv $(GPU)
	$(GPU)/bin/pip install --quiet --editable ./client --editable ./load_test --editable '.[gpu-check]'
	touch $@

$(BUILD)/.done: locks/build.txt
	$(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/pip install --quiet --require-hashes -r locks/build.txt
	touch $@
