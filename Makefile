# The front door. Each target installs what it needs (tools/setup), says what it
# does, and leaves all it makes in build/ (test-full also writes its result to
# docs/results/test-full.md). The work itself is in CMakeLists.txt and in tools/.

PREFIX ?= /usr/local
export PREFIX

# What `make run` does for somebody who has just cloned this.
RUN = build/bin/trident train --data fashion-mnist --model lenet --workers 2 --epochs 4 \
      --out build/fashion.safetensors

.PHONY: build run test test-full bench lint sanitize fuzz faults verify install clean help

build: ## compile the library and the command (build/bin/trident)
	@tools/setup build
	@tools/build build

run: build ## build, and train a net on Fashion-MNIST with 2 workers: about two minutes
	@tools/setup data
	@echo "== $(RUN)"
	@$(RUN)
	@echo
	@echo "Here trident is build/bin/trident. And:"
	@echo "  build/bin/trident plan --model vgg19 --workers 8 --bandwidth 10Gbit"
	@echo "  build/bin/trident run -n 4 -- build/bin/examples/sgd    # your own loop: examples/"
	@echo "All commands: build/bin/trident help"

test: ## what CI runs: all tests, sanitizers, short fuzzing, lint, install, README
	@tools/setup build test clang lint install data
	@tools/test

test-full: ## the long version: FUZZ_SECONDS=300 each, lint of all files, docs/results/test-full.md
	@tools/setup build test clang lint install data verify launch
	@tools/test full

bench: ## build and run the benchmarks
	@tools/setup build
	@tools/bench

lint: ## format, clang-tidy, include rules, banned functions, headers (ARGS=--all)
	@tools/setup build test clang lint
	@tools/lint $(ARGS)

sanitize: ## the tests under address, undefined behaviour and thread sanitizers
	@tools/setup build test clang
	@tools/test-tree asan
	@tools/test-tree tsan

fuzz: ## run each fuzz target for FUZZ_SECONDS=60
	@tools/setup build test clang
	@tools/fuzz

faults: ## RUNS=2000 simulated jobs in which things go wrong, from a fresh seed
	@tools/setup build test
	@tools/build test-gcc
	@tools/faults $(or $(RUNS),2000)

verify: ## search the protocol models in verify/, and their mutants
	@tools/setup build verify
	@tools/verify

install: build ## install below PREFIX=/usr/local, or below DESTDIR
	@echo "== installing into $(DESTDIR)$(PREFIX)"
	@dir="$(DESTDIR)$(PREFIX)"; while [ ! -e "$$dir" ]; do dir=$$(dirname "$$dir"); done; \
	[ -w "$$dir" ] || { echo "cannot write to $(DESTDIR)$(PREFIX): use PREFIX=\$$HOME/.local or" \
	"sudo make install" >&2; exit 1; }
	@cmake --install build >build/install.log || { cat build/install.log; exit 1; }

clean: ## remove build/
	@echo "== removing build/"
	@rm -rf build

help: ## this list
	@echo "make TARGET; no target means build."
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-12s %s\n", $$1, $$2}'
