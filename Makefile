# bailiff: one non-recursive Makefile.
#
#   make             build/bailiffd and build/bailiff         make check      everything that CI runs
#   make demo        run a command, see the facts it left     make deps       install the Debian packages (as root)
#   make MODE=asan   debug | asan | tsan | fuzz | coverage | release | static             make CC=clang   the other compiler
#   make unit lint blackbox crash                             parts of check  (crash: N=kills GUARD_N=kills SEED=n)
#   make fuzz        FUZZ_S=seconds for each target           make bench      the figures of docs/performance.md
#   make coverage   lines that the unit tests execute        (IN=folder: per file)
#   make differential   the policy parser against bash and dash  (COUNT=scripts SEED=n)
#   make simulate    the engine in a made-up world            (SIM_STEPS=1000000 SEED=n)
#   make docs        regenerate what comes out of tables      make install    release build; PREFIX=/usr/local DESTDIR=
#   make release     an optimised, hardened build             make deb        build/deb/bailiff_VERSION_ARCH.deb  (ARCH=amd64)
#   make tarball     static programs, build/dist/…tar.gz      make reproducible   two builds are the same, byte for byte
#
# Each folder is a layer and becomes one archive; tests/lint/layers.py checks who includes whom. `make demo` and `make
# check` work as the only command on a bare Debian machine: they install what is missing and then call make again, because
# the variables below ask pkg-config when the Makefile is read.

VERSION := 0.1.0
MODE ?= debug
ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build$(if $(filter-out debug,$(MODE)),-$(MODE))$(if $(filter %clang,$(CC)),$(if $(filter-out fuzz,$(MODE)),-clang))
# MODE=static: what the static tarball holds. libcurl cannot be linked statically on Debian (Kerberos has no static library), so the
# three programs that use it are left out; bailiffd says so where they are needed.
STATIC := $(filter static,$(MODE))
PKGS := libevent_core libevent_extra libevent_pthreads jansson lmdb libseccomp libcap libmd libxxhash vterm libcrypto $(if $(STATIC),,libcurl)
PYTHON ?= /usr/bin/python3
PKG_CONFIG ?= pkg-config
# The fleet's bus. Without libnats, and in the static build (Debian has no static library), the two programs of the fleet are left out; bailiffd and bailiff say so.
NATS_LIBS := $(if $(STATIC),,$(shell $(PKG_CONFIG) --libs libnats 2>/dev/null))

# What `bailiff version` says of this build: the same for the same commit and options, regardless of the builder, place and time. Without
# git, in an unpacked tarball, the packager gives BUILD_ID and SOURCE_DATE_EPOCH.
BUILD_TYPE ?= $(MODE)
BUILD_ID ?= $(or $(if $(wildcard .git),$(shell git describe --always --dirty --abbrev=12 2>/dev/null)),unknown)
SOURCE_DATE_EPOCH ?= $(if $(wildcard .git),$(shell git log -1 --format=%ct 2>/dev/null))
BUILD_DATE := $(if $(SOURCE_DATE_EPOCH),$(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ 2>/dev/null))
BUILD_STAMP := -DBAILIFF_BUILD_ID='"$(BUILD_ID)"' -DBAILIFF_BUILD_DATE='"$(BUILD_DATE)"' -DBAILIFF_BUILD_TYPE='"$(BUILD_TYPE)"'

CPPFLAGS_ALL := -I. -D_GNU_SOURCE -DBAILIFF_VERSION='"$(VERSION)"' -include runtime/base/banned.h $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null) $(CPPFLAGS)
WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla \
	-Wno-unused-parameter -Wno-missing-field-initializers
CFLAGS_debug := -O1 -g
# What this compiler has of the release build's hardening; asked only where a release is built. CET is x86's, BTI and PAC are ARM's.
cc_option = $(shell $(CC) -Werror $(1) -x c -c /dev/null -o /dev/null 2>/dev/null && echo '$(1)')
fortify = $(shell echo '\#include <features.h>' | $(CC) -Werror -O2 -D_FORTIFY_SOURCE=3 -x c -c - -o /dev/null 2>/dev/null && echo 3 || echo 2)
ifneq ($(filter release static,$(MODE)),)
PROTECTION := $(call cc_option,-fstack-clash-protection) $(call cc_option,-fcf-protection=full) $(call cc_option,-mbranch-protection=standard)
CFLAGS_release := -O2 -g -DNDEBUG -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(fortify) $(PROTECTION)
CFLAGS_static := $(CFLAGS_release)
endif
# gcc guesses wrongly about lengths and initialisation in code that its sanitizers have rewritten.
SANITIZED := $(if $(findstring clang,$(CC)),,-Wno-format-truncation -Wno-maybe-uninitialized)
# Not optimised: compiling takes less than half of the CPU time, which is more than the tests then take longer.
CFLAGS_asan := $(SANITIZED) -O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CFLAGS_tsan := $(SANITIZED) -O1 -g -fsanitize=thread
# gcov needs the lines as they are written; every program that ends normally adds its counts to build-coverage.
CFLAGS_coverage := -O0 -g --coverage -fprofile-update=atomic
CFLAGS_fuzz := -O2 -g -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -fsanitize-coverage-ignorelist=tests/fuzz/coverage_ignore.txt
# Paths of this machine stay out of the files that are built: two builds are the same wherever they were made.
HARDEN := -fstack-protector-strong -fPIE -fno-strict-aliasing -ffile-prefix-map=$(CURDIR)=.
CFLAGS_ALL := -std=gnu11 $(HARDEN) $(WARN) $(CFLAGS_$(MODE)) $(CFLAGS)
# Hundreds of test programs: lld, if the compiler finds it, links them in half of the time.
LINKER := $(if $(filter asan debug,$(MODE)),$(shell $(CC) -fuse-ld=lld -Wl,--version >/dev/null 2>&1 && echo -fuse-ld=lld))
LDFLAGS_ALL := $(if $(STATIC),-static-pie,-pie) -Wl,-z,relro,-z,now -Wl,--as-needed $(filter -fsanitize=% --coverage,$(CFLAGS_$(MODE))) $(LINKER) $(LDFLAGS)
CPPFLAGS_ALL += $(if $(STATIC),-DBAILIFF_STATIC)
LIBS := $(shell $(PKG_CONFIG) $(if $(STATIC),--static) --libs $(PKGS) 2>/dev/null) -lm -lpthread
CHECK_LIBS := $(shell $(PKG_CONFIG) --libs check 2>/dev/null)

# Layers, upper ones first (the order in which archives are linked).
LAYERS := supervisor/daemon supervisor/runtime supervisor/fleet/client supervisor/cli supervisor/gateway/program supervisor/gateway/http supervisor/gateway/codex supervisor/gateway/acp supervisor/gateway/mcp supervisor/gateway/common supervisor/client supervisor/tool supervisor/control supervisor/spawner supervisor/proxy supervisor/otlp supervisor/webhook supervisor/model supervisor/fleet supervisor/host supervisor/guard supervisor/common runtime/evidence \
	runtime/engine runtime/engine/channel runtime/engine/loop runtime/engine/model runtime/engine/work runtime/engine/turn runtime/engine/call runtime/engine/start runtime/engine/permission runtime/engine/hook runtime/engine/action runtime/engine/sandbox runtime/engine/process runtime/engine/tool runtime/engine/session runtime/engine/policy runtime/engine/core \
	runtime/view runtime/store runtime/event runtime/dialect policy policy/shell pty sandbox/steps sandbox runtime/loop runtime/base
MAINS := supervisor/daemon/main.c supervisor/cli/main.c supervisor/gateway/program/main.c supervisor/tool/main.c supervisor/spawner/main.c supervisor/otlp/main.c supervisor/webhook/main.c supervisor/model/main.c supervisor/fleet/main.c supervisor/fleet/client/main.c
# Sources that need a library which this build does not have.
OMITTED := $(if $(NATS_LIBS),,supervisor/fleet/fleet_nats.c supervisor/fleet/nats_connection.c supervisor/fleet/bucket.c supervisor/fleet/bus_streams.c supervisor/fleet/queue_consumer.c)

layer_sources = $(filter-out $(MAINS) $(OMITTED),$(sort $(wildcard $(1)/*.c)))
layer_objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(call layer_sources,$(1)))
layer_archive = $(BUILD)/lib/$(subst /,_,$(1)).a
ARCHIVES := $(foreach l,$(LAYERS),$(if $(call layer_sources,$(l)),$(call layer_archive,$(l))))
# V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)
ASAN_OPTIONS_O := $(if $(filter asan,$(MODE)),$(BUILD)/obj/tests/asan_options.o)
NAME_SERVICE_O := $(if $(STATIC),$(BUILD)/obj/runtime/base/name_service.o)
ARCHIVES += $(ASAN_OPTIONS_O) $(NAME_SERVICE_O)
LINK = $(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(LIBS)

# Under sanitizers bailiffd is its own spawner. SPAWNER_LIBS='-lseccomp -lcap -lmd -lxxhash' takes the shared libraries.
SPAWNER := $(if $(filter debug release static,$(MODE)),$(BUILD)/bailiff-spawner)
SPAWNER_LIBS ?= -Wl,-Bstatic -lseccomp -lcap -lmd -lxxhash $(if $(STATIC),,-Wl,-Bdynamic)

.PHONY: all
all: $(BUILD)/bailiffd $(BUILD)/bailiff $(BUILD)/bailiff-gateway $(BUILD)/bailiff-tool $(SPAWNER) $(if $(STATIC),,$(BUILD)/bailiff-otlp $(BUILD)/bailiff-webhook $(BUILD)/bailiff-model) $(if $(NATS_LIBS),$(BUILD)/bailiff-fleet $(BUILD)/bailiff-fleet-client)

$(BUILD)/bailiffd: $(BUILD)/obj/supervisor/daemon/main.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)
SPAWNER_ARCHIVES := $(foreach l,supervisor/spawner supervisor/guard supervisor/common sandbox/steps sandbox pty runtime/base,$(call layer_archive,$(l))) $(NAME_SERVICE_O)
$(BUILD)/bailiff-spawner: $(BUILD)/obj/supervisor/spawner/main.o $(SPAWNER_ARCHIVES)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< -Wl,--start-group $(SPAWNER_ARCHIVES) -Wl,--end-group $(SPAWNER_LIBS)
$(BUILD)/bailiff-otlp: $(BUILD)/obj/supervisor/otlp/main.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)
$(BUILD)/bailiff-webhook: $(BUILD)/obj/supervisor/webhook/main.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)
$(BUILD)/bailiff-model: $(BUILD)/obj/supervisor/model/main.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)
$(BUILD)/bailiff-fleet: $(BUILD)/obj/supervisor/fleet/main.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK) $(NATS_LIBS)
$(BUILD)/bailiff-fleet-client: $(BUILD)/obj/supervisor/fleet/client/main.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK) $(NATS_LIBS)
# bailiff is started for every command, and loading its libraries took longer than what it does: it has the small ones inside and loads
# libcrypto only to sign (supervisor/cli/signature.c). CLI_LIBS= takes the shared libraries.
CLI_LIBS ?= $(if $(STATIC),,-Wl,-Bstatic -ljansson -llmdb -lmd -lxxhash -Wl,-Bdynamic)
$(BUILD)/bailiff: $(BUILD)/obj/supervisor/cli/main.o $(ARCHIVES)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(CLI_LIBS) $(LIBS)
$(BUILD)/bailiff-gateway: $(BUILD)/obj/supervisor/gateway/program/main.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)

# Static, and not instrumented: it runs inside of sandboxes, where none of our libraries need be.
TOOL_SOURCES := $(sort $(wildcard supervisor/tool/*.c)) $(addprefix runtime/base/,buf.c err.c fd.c jscan.c jw.c mem.c path.c text.c)
$(BUILD)/bailiff-tool: $(TOOL_SOURCES) $(wildcard supervisor/tool/*.h runtime/base/*.h)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -std=gnu11 $(HARDEN) $(WARN) -D_GNU_SOURCE -DBAILIFF_VERSION='"$(VERSION)"' -include runtime/base/banned.h -I. $(CPPFLAGS) \
		$(or $(CFLAGS_release),-O2 -g) $(CFLAGS) -static-pie -Wl,-z,relro,-z,now $(LDFLAGS) -o $@ $(TOOL_SOURCES)

# Archives are made again when a source was added, removed or left out.
LAYER_OBJECTS := $(foreach l,$(LAYERS),$(call layer_objects,$(l)))
$(BUILD)/lib/objects: always
	@mkdir -p $(@D)
	@printf '%s\n' $(LAYER_OBJECTS) | cmp -s - $@ || printf '%s\n' $(LAYER_OBJECTS) >$@
define layer_rule
$(call layer_archive,$(1)): $(call layer_objects,$(1)) $(BUILD)/lib/objects
	@rm -f $$@
	$(Q)$(AR) rcsD $$@ $$(filter %.o,$$^)
endef
$(foreach l,$(LAYERS),$(if $(call layer_sources,$(l)),$(eval $(call layer_rule,$(l)))))

# The files of the console, for supervisor/gateway/http/console_files.c. The folders are there because a file may have been removed.
CONSOLE_FILES := $(shell find supervisor/console -name node_modules -prune -o -print)
$(BUILD)/gen/console_files.inc: $(CONSOLE_FILES)
	@mkdir -p $(@D)
	$(Q)$(PYTHON) supervisor/console/embed.py supervisor/console $@
$(BUILD)/obj/supervisor/gateway/http/console_files.o: $(BUILD)/gen/console_files.inc
$(BUILD)/obj/supervisor/gateway/http/console_files.o: CPPFLAGS_ALL += -I$(BUILD)/gen

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# Reports of comparisons took a fifth of the time of fuzz_screen, and help little to find sequences of a terminal.
$(BUILD)/obj/pty/%.o: CFLAGS_ALL += $(if $(filter fuzz,$(MODE)),-fno-sanitize-coverage=trace-cmp)

# A test runs little code of its own.
$(BUILD)/obj/tests/unit/%.o: CFLAGS_ALL += $(if $(filter debug,$(MODE)),-O0)

# The stamp is in the programs' main files only, and these are compiled again only if it has changed.
STAMPED := $(BUILD)/obj/supervisor/daemon/main.o $(BUILD)/obj/supervisor/cli/main.o
$(STAMPED): CPPFLAGS_ALL += $(BUILD_STAMP)
$(STAMPED): $(BUILD)/build-stamp
$(BUILD)/build-stamp: always
	@mkdir -p $(@D)
	@printf '%s\n' "$(subst ",,$(BUILD_STAMP))" | cmp -s - $@ || printf '%s\n' "$(subst ",,$(BUILD_STAMP))" > $@
.PHONY: always

# ---- what is missing on this machine ----

.PHONY: deps deps-browser
deps:
	@packaging/deps.sh check
deps-browser:
	@packaging/deps.sh browser

# Updates supervisor/console/vendor/ from the versions in its package.json; needs npm, which nothing else does.
.PHONY: ui
ui:
	@supervisor/console/update.sh $(CURDIR)/$(BUILD)/ui

# `make demo` and `make check` call make again after deps; JOBS only where the caller gave no -j.
JOBS = $(if $(findstring -j,$(MAKEFLAGS))$(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: demo
demo:
	@packaging/deps.sh build
	+@$(MAKE) --no-print-directory -s $(JOBS) all
	@packaging/demo.sh $(BUILD)

# ---- tests: tests/run prints a line for each and the summary; logs are in build/test-logs/ ----

UNIT_SOURCES := $(filter-out $(if $(NATS_LIBS),,%/test_fleet_nats.c),$(sort $(shell find tests/unit -name 'test_*.c' 2>/dev/null)))
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))
# What several tests of a folder share (fakes): every other source below tests/unit, in one archive.
UNIT_SHARED := $(patsubst %.c,$(BUILD)/obj/%.o,$(sort $(shell find tests/unit -name '*.c' ! -name 'test_*.c' 2>/dev/null)))
$(BUILD)/lib/tests_unit.a: $(UNIT_SHARED)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/lib/tests_unit.a $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(subst $<,$< $(BUILD)/lib/tests_unit.a,$(LINK)) $(CHECK_LIBS)

# Tests of the control socket bring an engine of their own (fake_engine.h): they are linked without the real one, except for two files
# that only read parameters.
ENGINE_READERS := $(BUILD)/lib/engine_readers.a
$(ENGINE_READERS): $(foreach l,$(LAYERS),$(filter %/start_spec.o %/tool_paths.o,$(call layer_objects,$(l))))
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcsD $@ $^
WITHOUT_ENGINE = $(filter-out $(BUILD)/lib/runtime_engine%.a,$(ARCHIVES)) $(ENGINE_READERS)
LINK_WITHOUT_ENGINE = $(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< -Wl,--start-group $(WITHOUT_ENGINE) -Wl,--end-group $(LIBS)
FAKE_ENGINE_PROGRAMS := $(filter $(BUILD)/unit/supervisor/control/%,$(UNIT_TESTS)) $(BUILD)/fuzz/fuzz_params $(BUILD)/fuzz/fuzz_rpc_frame
$(FAKE_ENGINE_PROGRAMS): $(ENGINE_READERS)
$(FAKE_ENGINE_PROGRAMS): LINK = $(LINK_WITHOUT_ENGINE)
$(BUILD)/unit/supervisor/fleet/%: LIBS += $(NATS_LIBS)
# This one answers two reports of the engine itself.
$(BUILD)/unit/supervisor/host/test_process_io: LDFLAGS_ALL += -Wl,--wrap=engine_on_ready,--wrap=engine_on_gone
# This one plays what surrounds a search.
$(BUILD)/unit/supervisor/host/test_git_search: LDFLAGS_ALL += -Wl,--wrap=engine_on_policy,--wrap=clock_boot_ns,--wrap=clock_real_us \
	-Wl,--wrap=workspace_search,--wrap=workspace_git_cached,--wrap=peer_files_link_new,--wrap=peer_files_link_free

# Crash and bench programs that work on the layers directly, and the small programs that the Python tests run.
CRASH_PROGRAMS := $(patsubst tests/crash/%.c,$(BUILD)/crash/%,$(wildcard tests/crash/crash_*.c))
BENCH_PROGRAMS := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))
$(CRASH_PROGRAMS): $(BUILD)/crash/%: $(BUILD)/obj/tests/crash/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(LINK) $(CHECK_LIBS)
$(BENCH_PROGRAMS): $(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(LINK)
$(BUILD)/talker: $(BUILD)/obj/tests/crash/talker.o
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $<

# The two ends of tests/fuzz/shell_differential.py: the policy parser as a filter, and what scripts run as commands.
$(BUILD)/shell_reader: $(BUILD)/obj/tests/fuzz/shell_reader.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)
$(BUILD)/shell_stub: tests/fuzz/shell_stub.c
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -std=gnu11 -O2 -g -D_GNU_SOURCE $(WARN) -static -o $@ $<

# The dialects of model providers as a filter, for tests/blackbox/test_dialects.py.
$(BUILD)/dialect_filter: $(BUILD)/obj/tests/fakes/dialect_filter.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)

# Static, and not instrumented: it runs where none of our libraries are.
PROBE_SOURCES := $(wildcard tests/escape/probe*.c)
$(BUILD)/probe: $(PROBE_SOURCES) tests/escape/probe.h
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -std=gnu11 -O1 -g -D_GNU_SOURCE -I. $(WARN) -static -o $@ $(PROBE_SOURCES) -lpthread

# System calls that fail on demand, for the black-box tests.
$(BUILD)/faults.so: tests/faults/faults.c
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -std=gnu11 -O1 -g -D_GNU_SOURCE $(WARN) -shared -fPIC -o $@ $< -ldl

# System calls that fail, are delayed or kill, for tests/prove.
$(BUILD)/nth: tests/prove/nth.c
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -std=gnu11 -O2 -g -D_GNU_SOURCE $(WARN) -o $@ $< -lseccomp
# Records what the daemon writes, and checks what power cuts leave of it, for tests/prove/power_cut.py.
$(BUILD)/recorder.so: tests/prove/recorder.c tests/prove/recorder.h
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) -std=gnu11 -O1 -g -D_GNU_SOURCE -I. $(WARN) -shared -fPIC -o $@ $< -ldl
$(BUILD)/power_states $(BUILD)/scale_fill: $(BUILD)/%: $(BUILD)/obj/tests/prove/%.o $(ARCHIVES)
	$(call say,LINK)
	$(LINK)

# The gateway with what MCP's conformance suite calls.
CONFORMANCE_O := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/conformance/*.c))
$(BUILD)/conformance-gateway: $(CONFORMANCE_O) $(ARCHIVES)
	$(call say,LINK)
	$(subst $<,$(CONFORMANCE_O),$(LINK))
FIXTURES_O := $(filter-out %/conformance_gateway.o,$(CONFORMANCE_O))
$(BUILD)/fuzz/fuzz_mcp: $(FIXTURES_O)
$(BUILD)/fuzz/fuzz_mcp: LDFLAGS_ALL += $(FIXTURES_O)

# Another terminal emulator to compare with. Without it the target says so, and is skipped.
$(BUILD)/fuzz/fuzz_screen_reference: LIBS += $(shell $(PKG_CONFIG) --libs libtsm 2>/dev/null)

# Fuzz targets: tests/fuzz/fuzz_<parser>.c. MODE=fuzz makes libFuzzer programs; the other modes replay the corpus.
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_TARGETS := $(addprefix $(BUILD)/fuzz/,$(FUZZ_NAMES))
TRACE_CMP := $(BUILD)/obj/tests/fuzz/trace_cmp.o $(foreach f,cmp1 cmp2 cmp8 const_cmp1 const_cmp2 const_cmp4 const_cmp8,-Wl,--wrap=__sanitizer_cov_trace_$(f))
$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/tests/fuzz/$(if $(filter fuzz,$(MODE)),trace_cmp,replay).o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(LINK) $(if $(filter fuzz,$(MODE)),-fsanitize=fuzzer $(TRACE_CMP),$(BUILD)/obj/tests/fuzz/replay.o)

TEST_PROGRAMS := $(UNIT_TESTS) $(CRASH_PROGRAMS) $(FUZZ_TARGETS) $(BUILD)/talker $(BUILD)/probe $(BUILD)/faults.so $(BUILD)/nth $(BUILD)/dialect_filter $(BUILD)/conformance-gateway $(BUILD)/shell_reader $(BUILD)/shell_stub $(BUILD)/recorder.so $(BUILD)/power_states $(BUILD)/scale_fill
.PHONY: programs unit-tests unit-programs objects
programs: all $(TEST_PROGRAMS) $(BENCH_PROGRAMS) event-doc
unit-tests: $(UNIT_TESTS)
unit-programs: $(UNIT_TESTS) $(FUZZ_TARGETS)
# Everything that has a .c, compiled only: what the other compiler thinks of the tree.
objects: $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(OMITTED),$(foreach l,$(LAYERS) runtime/event/gen,$(wildcard $(l)/*.c))) $(UNIT_SOURCES) \
	$(wildcard tests/crash/*.c tests/bench/*.c tests/fuzz/*.c tests/conformance/*.c tests/fakes/*.c tests/prove/power_*.c tests/prove/scale_*.c)) $(UNIT_SHARED)

export N GUARD_N SEED COUNT AS K FUZZ_S LEAKS SIM_STEPS
TEST_RUN = $(PYTHON) tests/run --build $(BUILD) --make '$(MAKE) --no-print-directory -s'

.PHONY: check unit lint blackbox crash
check:
	@packaging/deps.sh check
	+@$(TEST_RUN) build lint unit asan fuzz blackbox crash prove
unit:
	+@$(MAKE) --no-print-directory -s $(JOBS) unit-programs
	@$(TEST_RUN) unit
lint:
	+@$(MAKE) --no-print-directory -s $(JOBS) all event-doc
	+@$(TEST_RUN) lint
blackbox:
	+@$(MAKE) --no-print-directory -s $(JOBS) all $(BUILD)/talker $(BUILD)/probe $(BUILD)/faults.so $(BUILD)/nth $(BUILD)/dialect_filter $(BUILD)/conformance-gateway
	@$(TEST_RUN) blackbox
crash:
	+@$(MAKE) --no-print-directory -s $(JOBS) all $(CRASH_PROGRAMS) $(BUILD)/talker
	@$(TEST_RUN) crash

.PHONY: simulate
simulate:
	+@$(MAKE) --no-print-directory -s $(JOBS) MODE=release BUILD=build-release build-release/crash/crash_engine
	@SIM_STEPS=$(or $(SIM_STEPS),1000000) SIM_JOBS=$(or $(SIM_JOBS),$(shell nproc)) build-release/crash/crash_engine

# Every proof against its goal (docs/proof.md): HOURS=n for all of them, SEED=n, K=word for some.
.PHONY: prove
prove:
	+@HOURS='$(HOURS)' $(PYTHON) tests/prove/run --make '$(MAKE) --no-print-directory -s'

# Line coverage per folder by the unit tests and the fuzz targets' corpora; IN=policy prints one row per file of that folder.
.PHONY: coverage
coverage:
	+@$(MAKE) --no-print-directory -s $(JOBS) MODE=coverage CC=gcc BUILD=build-coverage unit-programs
	@find build-coverage -name '*.gcda' -delete
	@$(PYTHON) tests/run --build build-coverage unit corpus || echo 'coverage: some tests failed; the figures are without them'
	@$(PYTHON) tests/coverage.py build-coverage $(IN)

# Which event types the black-box tests cause: docs/event-coverage.md.
.PHONY: event-coverage
event-coverage:
	+@$(MAKE) --no-print-directory -s $(JOBS) all $(BUILD)/talker $(BUILD)/probe $(BUILD)/dialect_filter $(BUILD)/conformance-gateway
	@rm -rf $(BUILD)/event-coverage && mkdir -p $(BUILD)/event-coverage
	@AS=root BAILIFF_EVENT_COVERAGE=$(CURDIR)/$(BUILD)/event-coverage $(TEST_RUN) blackbox
	@$(PYTHON) docs/generate.py --coverage $(BUILD)/event-coverage

.PHONY: fuzz
fuzz:
	+@$(MAKE) --no-print-directory -s $(JOBS) MODE=fuzz CC=clang BUILD=build-fuzz fuzz-programs event-doc
	@build-fuzz/gen/event_doc fuzz-dict >build-fuzz/events.dict
	@tests/fuzz/run build-fuzz/fuzz
# Whatever bash and dash execute the policy parser must have seen: COUNT scripts from SEED.
.PHONY: differential
differential:
	+@$(MAKE) --no-print-directory -s $(JOBS) $(BUILD)/shell_reader $(BUILD)/shell_stub
	@BUILD=$(BUILD) $(PYTHON) tests/fuzz/shell_differential.py --count $(or $(COUNT),100000)
.PHONY: fuzz-programs
fuzz-programs: $(FUZZ_TARGETS)

.PHONY: bench
bench:
	+@$(MAKE) --no-print-directory -s $(JOBS) MODE=release BUILD=build-release all build-release/talker bench-programs
	@$(PYTHON) tests/bench/bench.py build-release
.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS)

# ---- documents that come out of tables ----

EVENT_DOC := $(BUILD)/gen/event_doc
$(EVENT_DOC): $(BUILD)/obj/runtime/event/gen/event_doc.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(LINK)
.PHONY: event-doc docs
event-doc: $(EVENT_DOC)
docs: all $(EVENT_DOC)
	@$(PYTHON) docs/generate.py --build $(BUILD) --write

# ---- installation ----

ARCH ?= $(shell dpkg --print-architecture 2>/dev/null || uname -m)

# What is installed or packed is a release build in a folder of its own, unless MODE says otherwise.
INSTALLED := $(if $(filter undefined file,$(origin MODE)),release,$(MODE))
INSTALL_BUILD := $(if $(filter file,$(origin BUILD)),build$(if $(filter-out debug,$(INSTALLED)),-$(INSTALLED)),$(BUILD))

# PREFIX, DESTDIR and SETS of the command line or the environment reach packaging/install.sh, which has the defaults.
.PHONY: release install uninstall deb tarball reproducible package-test
release:
	+@$(MAKE) --no-print-directory -s $(JOBS) MODE=$(INSTALLED) BUILD=$(INSTALL_BUILD) all
install: release
	@packaging/install.sh install $(INSTALL_BUILD)
uninstall:
	@packaging/install.sh uninstall $(INSTALL_BUILD)
deb:
	@BUILD_ID='$(BUILD_ID)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' packaging/deb.sh build $(VERSION) $(ARCH)
ifneq ($(DEB_ROOT),)
tarball:
	@BUILD_ID='$(BUILD_ID)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' packaging/cross_tarball.sh build/dist $(VERSION) $(ARCH)
else
tarball:
	+@$(MAKE) --no-print-directory -s $(JOBS) MODE=static BUILD=$(if $(filter file,$(origin BUILD)),build-static,$(BUILD)) all
	@SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' packaging/tarball.sh $(if $(filter file,$(origin BUILD)),build-static,$(BUILD)) build/dist $(VERSION)
endif
# Two builds, in other folders and at other times, are compared; tests of the packages in a clean root filesystem (both take minutes).
reproducible:
	@tests/package/reproducible
package-test:
	@tests/package/run

# ---- care ----

SOURCES = $(shell git ls-files '*.c' '*.h')
# For clangd and other tools: the commands that compile every object, from make itself.
compile_commands.json: $(wildcard $(addsuffix /*.c,$(LAYERS))) Makefile
	@$(MAKE) -Bnk V=1 all unit-programs | $(PYTHON) tests/compile_commands.py >$@
.PHONY: format tidy clean
format: # twice: clang-format 14 needs a second pass for a few macros
	clang-format -i $(SOURCES)
	clang-format -i $(SOURCES)
tidy:
	clang-tidy --quiet $(filter %.c,$(SOURCES)) -- $(CPPFLAGS_ALL) -std=gnu11
clean:
	rm -rf build build-*

# Objects are kept. Not .SECONDARY: for that a missing archive or object would be no reason to make anything again.
.PRECIOUS: $(BUILD)/obj/%.o
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
