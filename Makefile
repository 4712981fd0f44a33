# bailiff: one non-recursive Makefile.
#
#   make            build/bailiffd and build/bailiff          make check     everything that CI runs
#   make demo       a sandboxed command and its facts          make deps      install the Debian packages (root)
#   make MODE=asan  debug | asan | tsan | fuzz | release       make CC=clang  the other compiler
#
# Sources are found by folder: each folder is a layer and becomes one archive; tests/lint checks who includes whom.

MODE ?= debug
CC ?= gcc
BUILD ?= build$(if $(filter-out debug,$(MODE)),-$(MODE))
PKGS := libevent_core libevent_pthreads jansson lmdb libseccomp libcap libmd libxxhash
PYTHON ?= /usr/bin/python3

CPPFLAGS_ALL := -I. -D_GNU_SOURCE -DBAILIFF_VERSION='"$(VERSION)"' -include runtime/base/banned.h $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla \
	-Wno-unused-parameter -Wno-missing-field-initializers
CFLAGS_debug := -O1 -g
CFLAGS_release := -O2 -g -DNDEBUG -D_FORTIFY_SOURCE=2
CFLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer
CFLAGS_tsan := -O1 -g -fsanitize=thread
CFLAGS_fuzz := -O1 -g -fsanitize=address,undefined,fuzzer-no-link
HARDEN := -fstack-protector-strong -fPIE -fno-strict-aliasing
CFLAGS_ALL := -std=gnu11 $(CFLAGS_$(MODE)) $(HARDEN) $(WARN) $(CFLAGS)
LDFLAGS_ALL := -pie -Wl,-z,relro,-z,now $(filter -fsanitize=%,$(CFLAGS_$(MODE))) $(LDFLAGS)
LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lpthread
VERSION := 0.1.0

# Layers, upper ones first (the order in which archives are linked).
LAYERS := supervisor/cli supervisor/control supervisor/spawner supervisor/guard supervisor runtime/engine runtime/view \
	runtime/store runtime/event policy pty sandbox/steps sandbox runtime/base
MAINS := supervisor/main.c supervisor/cli/main.c

layer_sources = $(filter-out $(MAINS),$(wildcard $(1)/*.c))
layer_objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(call layer_sources,$(1)))
layer_archive = $(BUILD)/lib/$(subst /,_,$(1)).a
ARCHIVES := $(foreach l,$(LAYERS),$(if $(call layer_sources,$(l)),$(call layer_archive,$(l))))

.PHONY: all
all: $(BUILD)/bailiffd $(BUILD)/bailiff

$(BUILD)/bailiffd: $(BUILD)/obj/supervisor/main.o $(ARCHIVES)
	$(CC) $(LDFLAGS_ALL) -o $@ $< -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(LIBS)

$(BUILD)/bailiff: $(BUILD)/obj/supervisor/cli/main.o $(ARCHIVES)
	$(CC) $(LDFLAGS_ALL) -o $@ $< -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(LIBS)

define layer_rule
$(call layer_archive,$(1)): $(call layer_objects,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$(AR) rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(if $(call layer_sources,$(l)),$(eval $(call layer_rule,$(l)))))

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# Unit tests: tests/unit/<layer path>/test_<noun>.c, each a Check program.
UNIT_SOURCES := $(shell find tests/unit -name 'test_*.c' 2>/dev/null)
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))
CHECK_LIBS := $(shell pkg-config --libs check 2>/dev/null)
$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $< -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(LIBS) $(CHECK_LIBS)
.PHONY: unit
unit: $(UNIT_TESTS)

.PHONY: clean
clean:
	rm -rf build build-*

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
