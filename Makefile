# hlosh — one non-recursive Makefile. `make help` lists the targets. V=1 shows the commands.
#
#   make            build/hlosh            make demo     from a bare Debian to the main job's report
#   make check      what a change needs    make check-all  that and everything else
#   make asan       a build under ASan and UBSan (`make asan check` tests it)
#
# Optional libraries are found by scripts/probe.sh, which writes $(B)/config.mk and prints a table; what is missing
# leaves its feature out (HAVE_x = 0), never breaks the build. EDITLINE=libedit builds without GNU readline.

ifneq ($(filter asan tsan,$(MAKECMDGOALS)),)
  VARIANT := $(firstword $(filter asan tsan,$(MAKECMDGOALS)))
endif
VARIANT ?= release
B ?= build$(if $(filter-out release,$(VARIANT)),/$(VARIANT))
ifeq ($(origin CC),default)
  CC := gcc
endif
CCACHE := $(shell command -v ccache 2>/dev/null)
EDITLINE ?= readline
PREFIX ?= /usr/local
NPROC := $(shell nproc 2>/dev/null || echo 2)

# C17, read as gnu2x so that [[nodiscard]] makes a dropped status a warning.
CSTD := -std=gnu2x
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wwrite-strings -Wvla \
        -Wimplicit-fallthrough $(if $(WERROR),-Werror)
OPT_release := -O2 -g1
OPT_debug   := -O0 -g
OPT_fuzz    := -O1 -g -Wno-pass-failed -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=pointer-overflow -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# Resolvers of target_clones run before TSan is set up: its build has none.
OPT_tsan    := -O1 -g -fsanitize=thread -fno-omit-frame-pointer '-Dtarget_clones(...)=unused'
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CFLAGS  ?= $(OPT_$(VARIANT))
# No implicit multiply-add: the evaluator's results must not depend on the compiler's mood.
# Objects serve the program and the shared libraries alike; within a library nobody replaces a function of ours.
BASEFLAGS := $(CSTD) $(WARN) -D_GNU_SOURCE -I. -MMD -MP -fno-math-errno -ffp-contract=off -pthread -fPIC -fno-semantic-interposition
# Builds for finding faults: assertions trap, and the whole module is verified after every pass that changed it.
BASEFLAGS += $(if $(filter release tsan,$(VARIANT)),,-DHS_CHECKED=1)
LDFLAGS += $(if $(filter asan fuzz,$(VARIANT)),-fsanitize=address$(,)undefined) $(if $(filter tsan,$(VARIANT)),-fsanitize=thread) -pthread
, := ,

.DEFAULT_GOAL := all
.SECONDARY:
.PHONY: all help deps doctor demo check check-all check-built check-passes check-emulated check-gpu asan tsan bench peers fuzz install dist wheel clean format lint arrows unit fuzzers benches compile_commands.json

-include $(B)/config.mk
# Runtime kernels lean on the vectorizer and on fused multiply-add.
CFLAGS_backends_cpu_rt_ += $(if $(filter release,$(VARIANT)),-O3 -ffp-contract=fast)
$(B)/config.mk: scripts/probe.sh Makefile
	@mkdir -p $(B)
	@EDITLINE=$(EDITLINE) CC="$(CC)" sh scripts/probe.sh $@

SRC_core     := $(wildcard core/*.c core/*/*.c core/*/*/*.c)
SRC_passes   := $(wildcard passes/*.c passes/*/*.c)
SRC_backends := $(filter-out backends/emit/% backends/gpu/emu/%,$(wildcard backends/*.c backends/*/*.c backends/*/*/*.c)) $(if $(filter 1,$(HAVE_LLVM)),$(wildcard backends/emit/*.c backends/emit/*/*.c backends/gpu/emu/*.c))
SRC_profiler := $(wildcard profiler/*.c profiler/*/*.c)
SRC_viz      := $(wildcard viz/*.c viz/*/*.c)
SRC_repl     := $(filter-out repl/main.c,$(wildcard repl/*.c repl/*/*.c))
SRC_plugin   := $(wildcard plugin/*.c)
LIB_SRC := $(SRC_core) $(SRC_passes) $(SRC_backends) $(SRC_profiler) $(SRC_viz) $(SRC_repl)
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
DRIVERS := $(patsubst tests/drivers/%.c,%,$(wildcard tests/drivers/*.c))
BENCHES := $(patsubst bench/%.c,%,$(wildcard bench/*.c))
PLUGINS := $(patsubst tests/plugin/%.c,%,$(wildcard tests/plugin/*.c))
UNITS   := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*/*.c))
FUZZERS := $(filter-out replay,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

all: $(B)/hlosh $(B)/libhlosh.so $(B)/libpjrt_hlosh.so $(DRIVERS:%=$(B)/tests/%) $(PLUGINS:%=$(B)/tests/lib%.so)

$(B)/libhlosh.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^
# The library with its C interface (include/hlosh.h). It has threads, so it stays once it was loaded; so does the plug-in.
API_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard api/*.c))
$(B)/libhlosh.so: $(API_OBJ) $(B)/libhlosh.a api/exports.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libhlosh.so.1 -Wl,-z,nodelete -Wl,--gc-sections -Wl,--version-script=api/exports.map -o $@ $(API_OBJ) $(B)/libhlosh.a $(LIBS)
# hlosh as a PJRT plug-in: of the library only what it needs, and one symbol to the outside.
PLUGIN_OBJ := $(SRC_plugin:%.c=$(B)/%.o)
$(B)/libpjrt_hlosh.so: $(PLUGIN_OBJ) $(B)/libhlosh.a plugin/exports.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -Wl,--gc-sections -Wl,--version-script=plugin/exports.map -o $@ $(PLUGIN_OBJ) $(B)/libhlosh.a $(LIBS)
# The program starts with every command line and again as the worker, so it has LLVM within itself where there are archives.
$(B)/hlosh: LIBS := $(if $(and $(filter release,$(VARIANT)),$(LLVM_ARCHIVES)),$(patsubst -lLLVM%,$(LLVM_ARCHIVES),$(LIBS)),$(LIBS))
$(B)/hlosh: $(B)/repl/main.o $(B)/libhlosh.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(B)/libhlosh.a $(LIBS)
# What the test drivers share: the runner, XLA's test cases as data, random modules.
TESTLIB_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/harness/*.c tests/xla_cases/*.c tests/random/*.c))
$(B)/tests/libtests.a: $(TESTLIB_OBJ)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/tests/%: $(B)/tests/drivers/%.o $(B)/tests/libtests.a $(B)/libhlosh.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(B)/tests/libtests.a $(B)/libhlosh.a $(LIBS)
# Calls into the system go through tests/harness/faults.c, which makes them fail.
$(B)/tests/faultcheck: LDFLAGS += $(shell sed -n 's/^FAULT([A-Z]*\((n[^)]*)\)\?, *\([a-z0-9_]*\),.*/-Wl,--wrap=\2/p' tests/harness/faults.def)
# What the cpu backend compiles goes through it, which plants faults.
$(B)/tests/planted: LDFLAGS += -Wl,--wrap=cpu_lower
$(B)/bench/%: $(B)/bench/%.o $(B)/libhlosh.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(B)/libhlosh.a $(LIBS)
$(B)/unit/%: $(B)/tests/unit/%.o $(B)/tests/libtests.a $(B)/libhlosh.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $< $(B)/tests/libtests.a $(B)/libhlosh.a $(LIBS) $(LIBS_CMOCKA)
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(B)/tests/libtests.a $(B)/libhlosh.a $(if $(filter-out fuzz,$(VARIANT)),$(B)/tests/fuzz/replay.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(filter fuzz,$(VARIANT)),-fsanitize=fuzzer) -rdynamic -o $@ $(filter %.o,$^) $(B)/tests/libtests.a $(B)/libhlosh.a $(LIBS)
# Plug-ins for tests: they use the functions of the program that loads them.
$(B)/tests/lib%.so: tests/plugin/%.c $(B)/config.mk
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CCACHE) $(CC) $(BASEFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -shared -o $@ $<
# $(call compile,FILE.c): the command that compiles it; flags of its top folder and of its folder come last.
compile = $(CC) $(BASEFLAGS) $(CFLAGS) $(CONFIG_CFLAGS) $(CFLAGS_$(firstword $(subst /, ,$(1)))) $(CFLAGS_$(subst /,_,$(dir $(1)))) -c -o $(B)/$(1:.c=.o) $(1)
$(B)/%.o: %.c $(B)/config.mk
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CCACHE) $(call compile,$<)

# The backend embeds its Python program, the gallery its modules, the explorer's page its program.
$(B)/backends/jax/jax.o: backends/jax/child.py
$(B)/repl/shell/gallery.o: $(wildcard examples/*.hlo)
$(B)/viz/page/explore_write.o: $(wildcard viz/page/explorer*.js viz/page/explorer.css viz/page/explorer.html)

-include $(FUZZERS:%=$(B)/tests/fuzz/%.d) $(LIB_OBJ:.o=.d) $(PLUGIN_OBJ:.o=.d) $(API_OBJ:.o=.d) $(B)/repl/main.d $(DRIVERS:%=$(B)/tests/drivers/%.d) $(UNITS:%=$(B)/tests/unit/%.d) $(PLUGINS:%=$(B)/tests/lib%.d) $(TESTLIB_OBJ:.o=.d) $(BENCHES:%=$(B)/bench/%.d)

unit: $(UNITS:%=$(B)/unit/%) fuzzers
fuzzers: $(FUZZERS:%=$(B)/fuzz/%)

help:  ## this list
	@sed -n 's/^\([a-z_.-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22
deps:  ## installs the Debian packages that the build and the tests use (root or sudo)
	@sh scripts/deps.sh
doctor: $(B)/config.mk  ## what was found, and the fix for each gap
	@cat $(B)/config.txt
	@test -x $(B)/hlosh && $(B)/hlosh -c doctor || true
demo:  ## bare machine -> installed, built, and the main job on real input
	@sh scripts/demo.sh
check: | $(filter asan tsan,$(MAKECMDGOALS))  ## what a change needs, within 5 minutes; ends with "N passed, N failed, N skipped"
	@sh scripts/deps.sh --if-missing
	@$(MAKE) --no-print-directory -j$(NPROC) VARIANT=$(VARIANT) B=$(B) all unit benches
	@$(MAKE) --no-print-directory VARIANT=$(VARIANT) B=$(B) check-built
check-built: all unit benches
	@B=$(B) sh tests/run
check-all:  ## that and everything else, within an hour: whole data sets, sanitizers, clang, the recipes of HACKING.md
	@sh scripts/deps.sh --if-missing
	@$(MAKE) --no-print-directory -j$(NPROC) all unit benches
	@B=$(B) sh tests/run all
GENERATED ?= 10000
check-passes: all  ## every pass and pipeline on every module at hand and on GENERATED random ones: verified, same meaning, true claims
	@mkdir -p $(B)/passcheck
	@timeout 7200 $(B)/tests/passcheck -j $(NPROC) --generated $(GENERATED) --save $(B)/passcheck examples $(wildcard tests/hlo ../shared/suite)
	@test ! -d ../shared/corpus/unit_modules || timeout 7200 $(B)/tests/passcheck -j $(NPROC) ../shared/corpus/unit_modules
check-emulated: all  ## code for GPUs on the emulation: JAX's tests, XLA's recorded results, the suite
	@B=$(B) JOBS=$(NPROC) sh tests/emulated.sh ../shared all
GPU_SUITE ?= $(firstword $(wildcard ../shared/suite) examples)
check-gpu: $(B)/hlosh  ## on a machine with an NVIDIA GPU: results, bandwidth, launches and clocks, into build/check-gpu (8 minutes; GPU_SUITE: the modules)
	@mkdir -p $(B)/check-gpu
	@python3 scripts/check_gpu.py --hlosh $(B)/hlosh --suite $(GPU_SUITE) -o $(B)/check-gpu
asan:  ## builds (and with `make asan check`, tests) under ASan and UBSan
	@$(MAKE) --no-print-directory -j$(NPROC) VARIANT=asan B=build/asan all
tsan:  ## builds the library and the tests with threads under TSan, in build/tsan
	@$(MAKE) --no-print-directory -j$(NPROC) VARIANT=tsan B=build/tsan $(addprefix build/tsan/,unit/backends/threads unit/backends/par tests/entries libpjrt_hlosh.so)
fuzz:  ## fuzzes what is read and typed (tests/fuzz), FUZZ_SECONDS (1800) each
	@sh scripts/fuzz.sh
C_FILES = $(shell git ls-files '*.[ch]' 2>/dev/null || find core passes backends profiler viz repl plugin api tests bench -name '*.[ch]')
format:  ## clang-format 14 over all C
	@clang-format -i $(C_FILES)
lint:  ## include arrows, forbidden calls, headers that stand alone, format, sizes of folders and files
	@CC="$(CC)" sh scripts/lint.sh
arrows: all  ## the include arrows once more, as the linker sees them
	@sh scripts/arrows.sh $(B)
C_SOURCES = $(filter %.c,$(C_FILES))
json_text = $(subst ",\",$(subst \,\\,$(1)))
compile_commands.json: $(B)/config.mk  ## the compile commands of every file, for editors and clang-based tools
	$(file >$@,[)
	$(foreach f,$(C_SOURCES),$(file >>$@,{"directory": "$(CURDIR)"$(,) "file": "$(f)"$(,) "command": "$(call json_text,$(call compile,$(f)))"}$(if $(filter $(f),$(lastword $(C_SOURCES))),,$(,))))
	$(file >>$@,])
	@echo "$@: $(words $(C_SOURCES)) files"
benches: $(BENCHES:%=$(B)/bench/%)
bench: all benches  ## speed: of loading, beside real XLA when `make peers` was made
	@B=$(B) sh bench/run
peers:  ## real XLA (jaxlib and two PJRT plug-ins) into build/peers, to compare with
	@sh scripts/peers.sh
XLA_TOOLS = $(shell sed -n 's/^TOOL.[a-z_]*, "\([^"]*\)".*/\1/p' repl/compat/compat.def)
SHARE = $(DESTDIR)$(PREFIX)/share
install: $(B)/hlosh $(B)/libhlosh.so $(B)/libpjrt_hlosh.so  ## into $(DESTDIR)$(PREFIX): the program, links with the names of XLA's tools, manual page, completion, examples, libhlosh, the PJRT plug-in
	$(B)/hlosh -c 'help --man' > $(B)/hlosh.1
	install -D -m755 $(B)/hlosh $(DESTDIR)$(PREFIX)/bin/hlosh
	install -D -m644 $(B)/hlosh.1 $(SHARE)/man/man1/hlosh.1
	install -D -m644 repl/completion/hlosh.bash $(SHARE)/bash-completion/completions/hlosh
	install -D -m644 repl/completion/_hlosh $(SHARE)/zsh/site-functions/_hlosh
	for tool in $(XLA_TOOLS); do ln -sf hlosh $(DESTDIR)$(PREFIX)/bin/$$tool; done
	mkdir -p $(SHARE)/hlosh && cp -r examples $(SHARE)/hlosh/
	install -D -m755 $(B)/libhlosh.so $(DESTDIR)$(PREFIX)/lib/libhlosh.so.1
	ln -sf libhlosh.so.1 $(DESTDIR)$(PREFIX)/lib/libhlosh.so
	install -D -m755 $(B)/libpjrt_hlosh.so $(DESTDIR)$(PREFIX)/lib/libpjrt_hlosh.so
	install -D -m644 include/hlosh.h $(DESTDIR)$(PREFIX)/include/hlosh.h
	sed 's|@PREFIX@|$(PREFIX)|' api/libhlosh.pc.in > $(B)/libhlosh.pc
	install -D -m644 $(B)/libhlosh.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/libhlosh.pc
	for f in frontends/*/*.py frontends/*/*/*.py; do install -D -m644 $$f $(SHARE)/hlosh/python/$${f#frontends/}; done
dist: $(B)/hlosh $(B)/libhlosh.so $(B)/libpjrt_hlosh.so  ## a tree and an archive that run anywhere with this C library or a newer one, in build/dist
	@CC="$(CC)" B=$(B) LDFLAGS="$(LDFLAGS)" LIBS="$(LIBS)" TREE_ONLY=$(TREE_ONLY) sh scripts/dist.sh
wheel:  ## that tree with the Python packages of frontends/, for pip, in build/dist (docs/PYTHON.md)
	@$(MAKE) --no-print-directory VARIANT=$(VARIANT) B=$(B) dist TREE_ONLY=1
	@python3 scripts/wheel.py $(B)/dist/tree $$(cat $(B)/dist/version) $$(cat $(B)/dist/glibc) $(B)/dist $(XLA_TOOLS)
clean:  ## removes build/
	rm -rf build
