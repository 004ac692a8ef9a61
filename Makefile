# Foldmill. `make help` lists the targets. GNU make; gcc or clang. Sources are found by wildcard: a new file in
# src/<floor>/ or src/<floor>/<room>/, tests/<module>/test_*.c, tests/plain/*.c, tests/fuzz/fuzz_*.c or
# tests/slow/*.sh needs no change here.

ifeq ($(origin CC),default)
CC := gcc
endif
VERSION := 0.1.0
SOVERSION := 0
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
SAN ?=
T ?=
FUZZ_SECONDS ?= 30
# The CUDA plug-ins: 0 = none. WANT="75 90" limits the architectures; see scripts/cuda_probe.sh for more.
CUDA ?= 1
WANT ?=
MAJOR ?=

comma := ,
ifneq ($(and $(findstring thread,$(SAN)),$(findstring address,$(SAN))),)
$(error SAN=$(SAN): the thread and the address sanitizer exclude each other; choose one)
endif

# Every choice of sanitizers has its own folder, so that changing to and fro builds nothing anew.
B := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
SAN_FLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
WERROR ?= -Werror
# Sanitizers make gcc warn about code that they wrote themselves; the plain build has warned about ours.
WARNINGS = $(if $(SAN),-w,-Wall -Wextra $(WERROR))
OPT = -O2
CFLAGS ?= -g
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) $(OPT) $(CFLAGS) -ffp-contract=off -fno-math-errno \
	-fPIC -fvisibility=hidden -DFM_VERSION='"$(VERSION)"' $(SAN_FLAGS) -Isrc -Iinclude

# Asked once and only when something is compiled: before set-up pkg-config may be missing.
PACKAGES := libfyaml jansson libzip sqlite3
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PACKAGES)))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $(shell pkg-config --libs $(PACKAGES)))$(PKG_LIBS)
LDLIBS = $(PKG_LIBS) -lcsv -lm -lpthread

CLI_SOURCES := $(wildcard src/cli/*.c)
LIB_SOURCES := $(filter-out src/cli/%,$(wildcard src/*/*.c src/*/*/*.c))
ISA_SOURCES := $(wildcard src/engine/cpu/isa/*.c)
SUPPORT_SOURCES := $(wildcard tests/support/*.c)
TEST_SOURCES := $(filter-out tests/plain/% tests/fuzz/% tests/slow/% tests/bench/%,$(wildcard tests/*/test_*.c))
PLAIN_SOURCES := $(wildcard tests/plain/*.c)
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
objects = $(patsubst %.c,$(B)/obj/%.o,$(1))
ISAS := $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine)),avx512 avx2) portable
ISA_OBJECTS := $(foreach isa,$(ISAS),$(patsubst %.c,$(B)/obj/%.$(isa).o,$(ISA_SOURCES)))
LIB_OBJECTS := $(call objects,$(LIB_SOURCES)) $(ISA_OBJECTS)
CLI_OBJECTS := $(call objects,$(CLI_SOURCES))
SUPPORT_OBJECTS := $(call objects,$(SUPPORT_SOURCES))
TEST_OBJECTS := $(call objects,$(TEST_SOURCES))
PLAIN_PROGRAMS := $(patsubst tests/plain/%.c,$(B)/tests/plain/%,$(PLAIN_SOURCES))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ_SOURCES))

# The CUDA half, compiled for the emulator: part of the tests, and a plug-in for `make emulated`.
CUDA_SOURCES := $(wildcard cuda/*.c cuda/plan/*.c cuda/library/*.c cuda/kernels/*.cu)
EMULATED_SOURCES := $(CUDA_SOURCES) $(wildcard cuda/emulator/*.c cuda/emulator/*.cc cuda/emulator/*.S)
EMULATED_OBJECTS := $(patsubst %,$(B)/emulated/obj/%.o,$(EMULATED_SOURCES))

PROGRAM := $(if $(CLI_SOURCES),$(B)/foldmill)
LIBRARY := $(B)/libfoldmill.a
SHARED := $(B)/libfoldmill.so
TESTS := $(B)/tests/foldmill_tests
MAN := $(if $(wildcard doc/foldmill.1.scd),build/foldmill.1)

# Tests fail our own allocations in turn; the wrapped calls are in tests/support/allocation.c.
WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=pthread_mutex_lock

MAKEFLAGS += --no-print-directory --no-builtin-rules
# A target that first sets up builds on all cores, unless the caller said how many.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))

.PHONY: all check slow demo bench bench-kernels bench-networks install uninstall clean format help config setup man fuzzers tests emulated FORCE \
	check-run plain-programs host plugins plugins-run plugin-objects \
	plugin-objects-run cuda-report cuda-matrix gpu-programs check-gpu bench-gpu
.DELETE_ON_ERROR:
.SECONDARY:

.DEFAULT_GOAL := all
host: $(LIBRARY) $(if $(SAN),,$(SHARED)) $(PROGRAM)
all: host $(if $(SAN)$(filter 0,$(CUDA)),,plugins)

# ---- what the objects were built with --------------------------------------------------------------------

# Rewritten only when they change, so that changed flags rebuild and nothing else does.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@pkg-config --exists $(PACKAGES) 2>/dev/null || { \
	    echo "A library is missing ($(PACKAGES), found by pkg-config): run 'make setup' first." >&2; exit 1; }
	@printf '%s\n' '$(subst ','\'',$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(PKG_CFLAGS) $(LDLIBS))' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# A removed file leaves no newer object behind, so the lists of objects are stamps of their own.
$(B)/objects-%: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(OBJECT_LIST)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(B)/objects-library: OBJECT_LIST = $(LIB_OBJECTS)
$(B)/objects-program: OBJECT_LIST = $(CLI_OBJECTS)
$(B)/objects-tests: OBJECT_LIST = $(TEST_OBJECTS) $(SUPPORT_OBJECTS)

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@

# The plain loops of the reference backend are worth the vectoriser's time.
$(B)/obj/src/engine/reference/%.o: private OPT = -O3
# So are the weights, which are drawn anew for every run.
$(B)/obj/src/net/initialize.o: private OPT = -O3
# The routines of the CPU engine are compiled once per instruction set; the program chooses when it starts.
ISA_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
ISA_avx2 := -march=x86-64-v3
ISA_portable :=
# Lines, no variables: those of unrolled tiles take as long to track as all else takes to compile.
ISA_DEBUG := $(if $(filter -g%,$(CFLAGS)),-g1)
$(B)/flags-isa: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(foreach isa,$(ISAS),$(isa): $(ISA_$(isa)) $(ISA_DEBUG))' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
define ISA_RULE
$(B)/obj/src/engine/cpu/isa/%.$(1).o: src/engine/cpu/isa/%.c $(B)/flags $(B)/flags-isa
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(ISA_$(1)) $$(ISA_DEBUG) -DFM_ISA=$(1) -MMD -MP -c $$< -o $$@
endef
$(foreach isa,$(ISAS),$(eval $(call ISA_RULE,$(isa))))
$(ISA_OBJECTS): private OPT = $(if $(SAN),-O1 -DFM_KEEP_LOOPS,-O3) -Wno-psabi

$(B)/obj/tests/%.o: private ALL_CFLAGS += -Itests
$(B)/obj/tests/cuda/%.o: private ALL_CFLAGS += $(EMULATED_FLAGS)

-include $(patsubst %.o,%.d,$(LIB_OBJECTS) $(CLI_OBJECTS) $(SUPPORT_OBJECTS) $(TEST_OBJECTS) \
	$(call objects,$(PLAIN_SOURCES) $(FUZZ_SOURCES) $(wildcard tests/bench/*.c tests/gpu/*.c)))

# ---- the CUDA half on the emulator -----------------------------------------------------------------------

CXX := $(if $(filter clang,$(notdir $(CC))),clang++,g++)
EMULATED_FLAGS = -DFM_EMULATED -Icuda -Icuda/emulator/include
EMULATED_CXX_FLAGS = $(subst -std=c11,-std=c++14,$(filter-out -fno-math-errno,$(ALL_CFLAGS))) -fno-math-errno -fno-exceptions \
	-fno-rtti -Wno-unknown-pragmas $(EMULATED_FLAGS)
# Kernels are full of fmaf: one instruction where this machine has it, else a call of libm; the same bits.
EMULATED_FMA := $(if $(shell grep -om1 -w fma /proc/cpuinfo 2>/dev/null),-mfma)
$(B)/emulated/obj/%.c.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(EMULATED_FLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@
$(B)/emulated/obj/%.cu.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(CXX) $(EMULATED_CXX_FLAGS) $(EMULATED_FMA) -MMD -MP -x c++ -c $< -o $@
$(B)/emulated/obj/%.cc.o: %.cc $(B)/flags
	@mkdir -p $(@D)
	$(CXX) $(EMULATED_CXX_FLAGS) -MMD -MP -c $< -o $@
$(B)/emulated/obj/%.S.o: %.S $(B)/flags
	@mkdir -p $(@D)
	$(CC) -c $< -o $@
-include $(EMULATED_OBJECTS:.o=.d)

EMULATED_PLUGIN := $(B)/emulated/libfoldmill_cuda_emulated.so
$(B)/objects-emulated: OBJECT_LIST = $(EMULATED_OBJECTS)
EMULATED := $(B)/emulated/libfoldmill_cuda.a
$(EMULATED): $(EMULATED_OBJECTS) $(B)/objects-emulated
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $(EMULATED_OBJECTS)
$(EMULATED_PLUGIN): $(EMULATED_OBJECTS) $(LIBRARY) $(B)/objects-emulated
	$(CC) -shared $(SAN_FLAGS) $(LDFLAGS) -Wl,--exclude-libs,ALL -o $@ $(EMULATED_OBJECTS) $(LIBRARY) $(LDLIBS) -lstdc++ -ldl
$(B)/emulated/foldmill: $(PROGRAM) $(EMULATED_PLUGIN)
	@cp -f $(PROGRAM) $@
emulated: $(B)/emulated/foldmill

# ---- the CUDA half as it is ------------------------------------------------------------------------------

# What was found is asked again when the variables or the toolkits themselves have changed.
export NVCC CUDA_HOME CUDA_PATH CUDA_TOOLKITS HOSTCXX WANT CUDNN
$(B)/cuda-asked: FORCE
	@mkdir -p $(@D)
	@{ echo '$(subst ','\'',$(HOSTCXX)|$(WANT)|$(CUDNN))'; scripts/cuda_probe.sh list; } > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(B)/cuda.mk: $(B)/cuda-asked scripts/cuda_probe.sh
	@scripts/cuda_probe.sh probe > $@.new && mv $@.new $@
plugins: $(LIBRARY) $(B)/cuda.mk
	@$(MAKE) plugins-run
# Only compiles: the same without the parts that are linked.
plugin-objects: $(B)/cuda.mk
	@$(MAKE) plugin-objects-run
ifneq ($(filter plugins-run plugin-objects-run,$(MAKECMDGOALS)),)
include cuda/plugin.mk
endif

# Registers, shared memory and spills of every kernel on every architecture.
cuda-report: $(B)/cuda.mk
	@scripts/cuda_report.sh $<
# The older toolkits are fetched; everything is compiled for every architecture that one of them knows.
cuda-matrix:
	@MAKE='$(MAKE)' scripts/cuda_matrix.sh

# Programs that talk to the plug-in as foldmill does: for a machine with a card, or with FOLDMILL_PLUGINS=build/emulated.
GPU_CHECKS := $(patsubst %,$(B)/obj/tests/engine/test_%.o,lanes nan evaluate training cpu_engine)
$(B)/tests/gpu/contract: $(B)/obj/tests/gpu/contract.o $(GPU_CHECKS) $(SUPPORT_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(SAN_FLAGS) $(WRAP) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBRARY) -lcriterion $(LDLIBS) -ldl
$(B)/tests/gpu/steps: $(B)/obj/tests/gpu/steps.o $(SUPPORT_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(SAN_FLAGS) $(WRAP) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBRARY) $(LDLIBS) -ldl
# Opens plug-ins by itself, so it needs nothing of the library.
$(B)/tests/gpu/usable: $(B)/obj/tests/gpu/usable.o
	@mkdir -p $(@D)
	$(CC) $(SAN_FLAGS) $(LDFLAGS) -o $@ $< -ldl
gpu-programs: $(B)/tests/gpu/contract $(B)/tests/gpu/steps $(B)/tests/bench/gpu
check-gpu:
	@scripts/setup.sh
	@MAKE='$(MAKE)' scripts/check_gpu.sh
bench-gpu: host $(B)/tests/bench/gpu $(if $(FOLDMILL_PLUGINS),,plugins)
	@FOLDMILL_PLUGINS=$${FOLDMILL_PLUGINS:-$(B)} $(B)/tests/bench/gpu $(T)

# ---- program and libraries -------------------------------------------------------------------------------

$(LIBRARY): $(LIB_OBJECTS) $(B)/objects-library
	@rm -f $@
	$(AR) rcs $@ $(LIB_OBJECTS)

$(SHARED): $(LIB_OBJECTS) $(B)/objects-library
	$(CC) -shared -Wl,-soname,libfoldmill.so.$(SOVERSION) $(if $(PROGRAM),-Wl$(comma)-z$(comma)defs) $(LDFLAGS) -o $@ $(LIB_OBJECTS) $(LDLIBS)
	@ln -sf libfoldmill.so $(B)/libfoldmill.so.$(SOVERSION)

$(B)/foldmill: $(CLI_OBJECTS) $(LIBRARY) $(B)/objects-program
	$(CC) $(SAN_FLAGS) $(LDFLAGS) -o $@ $(CLI_OBJECTS) $(LIBRARY) $(LDLIBS)

# ---- tests -----------------------------------------------------------------------------------------------

$(TESTS): $(TEST_OBJECTS) $(SUPPORT_OBJECTS) $(EMULATED) $(LIBRARY) $(B)/objects-tests
	@mkdir -p $(@D)
	$(CC) $(SAN_FLAGS) $(WRAP) $(LDFLAGS) -o $@ $(TEST_OBJECTS) $(SUPPORT_OBJECTS) $(EMULATED) $(LIBRARY) \
	    -lcriterion $(LDLIBS) -lstdc++ -ldl

$(B)/tests/plain/%: $(B)/obj/tests/plain/%.o $(SUPPORT_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(SAN_FLAGS) $(WRAP) $(LDFLAGS) -o $@ $< $(SUPPORT_OBJECTS) $(LIBRARY) $(LDLIBS)

plain-programs: $(PLAIN_PROGRAMS)
tests: $(PLAIN_PROGRAMS) $(PROGRAM) $(if $(findstring thread,$(SAN)),,$(EMULATED_PLUGIN) $(TESTS))

check:
	@scripts/setup.sh
	@$(MAKE) $(JOBS) check-run

check-run: $(if $(SAN),,host) tests
	@FOLDMILL=$(B)/foldmill SAN='$(SAN)' FILTER='$(subst ','\'',$(T))' SUMMARY=$(B)/summary \
	    scripts/check.sh $(TESTS) $(PLAIN_PROGRAMS)

slow:
	@scripts/setup.sh slow
	@MAKE='$(MAKE)' FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/slow.sh

# Built by `make slow` with CC=clang SAN=fuzzer-no-link,address,undefined.
$(B)/fuzz/%: $(B)/obj/tests/fuzz/%.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(subst fuzzer-no-link,fuzzer,$(SAN_FLAGS)) $(LDFLAGS) -o $@ $< $(LIBRARY) $(LDLIBS)

fuzzers: $(FUZZERS)

# ---- use -------------------------------------------------------------------------------------------------

setup:
	@scripts/setup.sh

demo:
	@scripts/setup.sh
	@$(MAKE) -s $(JOBS) host
	@scripts/demo.sh

bench: host
	@scripts/bench.sh

bench-kernels: $(B)/tests/bench/kernels $(B)/tests/bench/convolve
	@for program in $^; do $$program $(T); done

bench-networks: $(B)/tests/bench/networks
	@$< $(T)

$(B)/tests/bench/networks: $(B)/obj/tests/support/bench.o
$(B)/tests/bench/%: $(B)/obj/tests/bench/%.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(SAN_FLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBRARY) $(LDLIBS)

man: $(MAN)

build/foldmill.1: doc/foldmill.1.scd
	@mkdir -p $(@D)
	scdoc < $< > $@

install: all
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(PREFIX)/include'
	$(if $(PROGRAM),install -m 755 build/foldmill '$(DESTDIR)$(PREFIX)/bin/foldmill')
	install -m 644 $(LIBRARY) '$(DESTDIR)$(LIBDIR)/libfoldmill.a'
	install -m 755 $(SHARED) '$(DESTDIR)$(LIBDIR)/libfoldmill.so.$(VERSION)'
	ln -sf libfoldmill.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/libfoldmill.so.$(SOVERSION)'
	ln -sf libfoldmill.so.$(SOVERSION) '$(DESTDIR)$(LIBDIR)/libfoldmill.so'
	$(if $(filter 0,$(CUDA)),,set -e; for plugin in build/libfoldmill_cuda*.so; do [ -f "$$plugin" ] || continue; \
	    install -d '$(DESTDIR)$(LIBDIR)/foldmill'; install -m 755 "$$plugin" '$(DESTDIR)$(LIBDIR)/foldmill/'; done)
# The program looks in lib/foldmill beside its own folder, wherever the libraries go.
	$(if $(or $(filter 0,$(CUDA)),$(filter $(PREFIX)/lib,$(LIBDIR))),,[ ! -d '$(DESTDIR)$(LIBDIR)/foldmill' ] || \
	    { install -d '$(DESTDIR)$(PREFIX)/lib' && ln -sfn '$(LIBDIR)/foldmill' '$(DESTDIR)$(PREFIX)/lib/foldmill'; })
	$(if $(wildcard include/foldmill.h),install -m 644 include/foldmill.h '$(DESTDIR)$(PREFIX)/include/foldmill.h')
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' '' 'Name: foldmill' \
	    'Description: Cross-validation of small 1-D convolutional networks' 'Version: $(VERSION)' \
	    'Requires.private: $(PACKAGES)' 'Libs: -L$${libdir} -lfoldmill' 'Libs.private: -lcsv -lm -lpthread' \
	    'Cflags: -I$${includedir}' > '$(DESTDIR)$(LIBDIR)/pkgconfig/foldmill.pc'
ifneq ($(MAN),)
	@if command -v scdoc >/dev/null; then \
	    $(MAKE) man && install -d '$(DESTDIR)$(PREFIX)/share/man/man1' && \
	    install -m 644 $(MAN) '$(DESTDIR)$(PREFIX)/share/man/man1/foldmill.1'; \
	else echo "No man page: scdoc is missing ('make setup' installs it)." >&2; fi
endif
ifneq ($(wildcard scripts/foldmill.bash-completion),)
	install -d '$(DESTDIR)$(PREFIX)/share/bash-completion/completions'
	install -m 644 scripts/foldmill.bash-completion '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/foldmill'
endif

uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/foldmill' '$(DESTDIR)$(LIBDIR)'/libfoldmill.a \
	    '$(DESTDIR)$(LIBDIR)'/libfoldmill.so '$(DESTDIR)$(LIBDIR)'/libfoldmill.so.$(SOVERSION) \
	    '$(DESTDIR)$(LIBDIR)'/libfoldmill.so.$(VERSION) '$(DESTDIR)$(PREFIX)/include/foldmill.h' \
	    '$(DESTDIR)$(LIBDIR)/pkgconfig/foldmill.pc' '$(DESTDIR)$(PREFIX)/share/man/man1/foldmill.1' \
	    '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/foldmill' '$(DESTDIR)$(LIBDIR)/foldmill'/libfoldmill_cuda*.so
	-@rmdir '$(DESTDIR)$(LIBDIR)/foldmill' 2>/dev/null || :
	@[ ! -h '$(DESTDIR)$(PREFIX)/lib/foldmill' ] || rm -f '$(DESTDIR)$(PREFIX)/lib/foldmill'

clean:
	rm -rf build

format:
	clang-format -i $(wildcard include/*.h src/*/*.[ch] src/*/*/*.[ch] src/*/*/*.inc src/*/*/*/*.[ch] tests/*/*.[ch] \
	    cuda/*.[ch] cuda/*/*.h cuda/*/*.c cuda/*/*.cc cuda/*/*.cu cuda/*/*/*.h)

config:
	@scripts/setup.sh show
	@echo "  compiler: $$($(CC) --version 2>/dev/null | head -n 1 || echo '$(CC) not found')"
	@$(MAKE) -s $(B)/cuda.mk
	@$(if $(filter 0,$(CUDA)),echo "  CUDA: switched off (CUDA=0)",scripts/cuda_config.sh $(B)/cuda.mk)

help:
	@echo "make                build/foldmill, build/libfoldmill.a, build/libfoldmill.so, and a plug-in for every CUDA found"
	@echo "                    (CUDA=0: none; WANT='75 90': only these architectures; CUDA_TOOLKITS='dir dir': look there)"
	@echo "make host           the same without plug-ins"
	@echo "make demo           install what is missing, build, and run a small cross-validation on real data"
	@echo "make check          install what is missing, build and run all tests (T='suite/test*' runs some)"
	@echo "make check SAN=...  the same under address,undefined or thread, in a folder of its own"
	@echo "make slow           sanitizers over the suite, fuzzers ($(FUZZ_SECONDS) s each), kills, learning"
	@echo "make bench          measure this machine; beside the study's prototype where ../shared has it"
	@echo "make bench-kernels  measure the CPU engine's routines by shape and instruction set (T=word picks lines)"
	@echo "make bench-networks measure training steps and evaluations of networks on the CPU engine (T=word picks)"
	@echo "make check-gpu      everything that a machine with a GPU can tell, into build/check-gpu.txt (under 6 minutes; GPU_SECONDS=1000: more)"
	@echo "make bench-gpu      training steps a second on the GPU by network, batch size and lanes (T='-s 1 -b 64 -l 1,16 S')"
	@echo "make cuda-report    registers, shared memory and spills of each kernel (WANT='75 90' limits the architectures)"
	@echo "make cuda-matrix    fetch CUDA 13, 12 and 11 and compile for sm_30 to sm_120 (network, 3 GB, minutes)"
	@echo "make install        program, libraries, header, man page (PREFIX=$(PREFIX) DESTDIR=)"
	@echo "make uninstall      take them away again"
	@echo "make setup          only install the Debian packages that are missing"
	@echo "make format         clang-format over all sources"
	@echo "make clean          remove build/"
	@echo
	@$(MAKE) config
