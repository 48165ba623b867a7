# Set-up, training, tests and measurements. `make help` lists the targets.
#
# Every target first brings its environment up to date (0.1 s if it is).

PYTHON ?= python3
NP ?= 1
MESH ?=
LAYOUT ?=
ARGS ?=
# Compilers at once when Horovod is built; 0: as many as the machine carries.
JOBS ?= 0

DEFAULT_TF := $(shell sed -n 's/^DEFAULT_TENSORFLOW = "\(.*\)"/\1/p' \
                meshkeras/version.py)
TF ?= $(DEFAULT_TF)
# Each TensorFlow but the default has its own environment, so that going back
# and forth between two installs nothing.
VENV ?= $(if $(filter $(DEFAULT_TF),$(TF)),.venv,.venv-tf$(TF))

RUN := $(VENV)/bin/python
SETUP = @$(PYTHON) tools/setup_env.py --venv "$(VENV)" --tensorflow "$(TF)" \
         --jobs $(JOBS)
MESH_FLAGS = $(if $(MESH),--mesh_shape="$(MESH)") \
             $(if $(LAYOUT),--layout="$(LAYOUT)")

ifeq ($(NP),1)
LAUNCH = $(RUN)
LAUNCH_NEEDS = install
else
LAUNCH = $(VENV)/bin/horovodrun -np $(NP) $(RUN)
LAUNCH_NEEDS = install-horovod
endif

.PHONY: help venv install install-horovod install-dev train test lint bench \
        bench-checkpoint equality clean

help:
	@echo "make train                  train on real images in one process"
	@echo "make train NP=4 MESH=data:2,model:2 LAYOUT=batch:data,hidden1:model"
	@echo "                            the same on 4 processes"
	@echo "make test                   run every test"
	@echo "make lint                   check the style"
	@echo "make equality               np x layout: how equal the numbers are"
	@echo "make bench                  speed, next to tf.keras and Horovod"
	@echo "make bench-checkpoint       speed and size of checkpoints"
	@echo "make install                for one process (no Horovod)"
	@echo "make install-horovod        for several processes"
	@echo "make clean                  remove the environments of this folder"
	@echo
	@echo "TF=2.18.1 another TensorFlow   PYTHON=python3.12 another Python"
	@echo "VENV=... another environment   ARGS=... flags for the script"
	@echo "now: PYTHON=$(PYTHON) TF=$(TF) VENV=$(VENV) NP=$(NP)"

venv: install

install:
	$(SETUP)

install-horovod:
	$(SETUP) --horovod

install-dev:
	$(SETUP) --horovod --dev

train: $(LAUNCH_NEEDS)
	$(LAUNCH) examples/mnist.py $(MESH_FLAGS) $(ARGS)

test: install-dev
	$(RUN) -m pytest tests $(ARGS)

lint:
	$(SETUP) --dev
	$(RUN) -m ruff check .

bench: install-horovod
	$(RUN) tools/bench.py $(ARGS)

bench-checkpoint: install-horovod
	$(RUN) tools/bench_checkpoint.py $(ARGS)

equality: install-horovod
	$(RUN) tools/equality.py $(ARGS)

# The cache of Horovod wheels stays: other clones use it.
clean:
	rm -rf .venv .venv-tf* .venv*.log build meshkeras.egg-info \
	  .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
