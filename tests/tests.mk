# How the tests are built and run: a part of Makefile.in.

tests/libsupport.a: $(TEST_SUPPORT_OBJS)
	$(call say,AR,$@)rm -f $@ && $(AR) qcs $@ $(TEST_SUPPORT_OBJS)

RUN_TESTS = $(PYTHON) $(srcdir)/tests/run $(TEST_ARGS) .

ifeq ($(CRITERION_LIBS),)
$(TEST_PROGRAMS:=.o) $(UNIT_PARTS) $(TEST_SUPPORT_OBJS) $(HTTP_STAGE): no-criterion
.PHONY: no-criterion
no-criterion:
	@echo "make: the tests and benchmarks need Criterion: install libcriterion-dev (Debian), criterion-dev (Alpine)" \
		"or criterion-devel (Fedora), then run configure again" >&2; false
endif

# A program links LINKED, too. A test says it in its first line, "/* LINK: … */"; its objects and archives are made first.
# "parts" are the files of its folder that are not named test_NAME.c.
define link_also
$(if $(1),$(1): $$(filter %.o %.a,$(2))
$(1): LINKED += $(2))
endef
bar_to_space = $(subst |, ,$(1))
parts_of = $(foreach part,$(UNIT_PARTS),$(if $(filter $(dir $(1)),$(dir $(part))),$(part)))
words_of = $(foreach word,$(wordlist 2,99,$(1)),$(if $(filter parts,$(word)),$(call parts_of,$(firstword $(1))),$(word)))
link_line = $(call link_also,$(firstword $(1)),$(call words_of,$(1)))
LINK_LINES := $(shell cd $(srcdir) && grep -rom1 '^/\* LINK: .* \*/' tests/unit tests/registry tests/fuzz --include=*.c | \
	sed 's|\.c:/\* LINK:||; s|tests/fuzz/fuzz_|tests/fuzz/replay_|; s| \*/$$||; s/ /|/g')
$(foreach line,$(LINK_LINES),$(eval $(call link_line,$(call bar_to_space,$(line)))))
# Tests in which calls fail on purpose; this object takes the place of the calls.
FAILING_PROGRAMS := $(basename $(shell cd $(srcdir) && grep -rlE '^#include "tests/(support/failing|failures/points)\.h"' tests/unit tests/registry \
	--include=test_*.c))
$(eval $(call link_also,$(FAILING_PROGRAMS),tests/failures/points.o))
$(eval $(call link_also,$(filter-out %/test_queue,$(filter tests/unit/agent/api/% tests/unit/agent/http/%,$(UNIT_PROGRAMS))),$(HTTP_STAGE)))
# Calls of other folders that these tests answer themselves: tests/unit/agent/registration/seams.h.
REGISTRATION_WRAPPED = registry_open registry_reauthenticate tcp_ports_read api_agent_changed api_follows_changed api_drain_saved \
	shared_on_registry_state cache_on_registry_state bridge_on_registry_state
$(eval $(call link_also,$(filter tests/unit/agent/registration/%,$(UNIT_PROGRAMS)),$(REGISTRATION_WRAPPED:%=-Wl,--wrap=%)))
$(eval $(call link_also,$(filter tests/unit/xds/%,$(UNIT_PROGRAMS)),libxds.a libberth-all.a $(XDS_LIBS)))
# Each with one part of the worker, and with functions of its own in place of the client library's.
$(foreach program,$(WORKER_PROGRAMS),$(eval $(call link_also,$(program),$(program:tests/unit/lib/registry/zookeeper/test_%=lib/registry/zookeeper/worker/%.o) \
	libberth-all.a $(ZOOKEEPER_LIBS))))

TEST_LIBRARIES = tests/libsupport.a libagent.a libberth-all.a
# Of Criterion they have the macros; tests/support/one_test.h says what takes the place of its library.
$(TEST_PROGRAMS) $(PLAIN_PROGRAMS): %: %.o $(TEST_LIBRARIES)
	$(call say,LINK,$@)$(LINK) -pthread -o $@ $< $(LINKED) $(TEST_LIBRARIES) $(AGENT_LIBS) $(LIBS)
$(REPLAY_PROGRAMS): tests/fuzz/replay_%: tests/fuzz/fuzz_%.o tests/fuzz/replay.o $(TEST_LIBRARIES)
	$(call say,LINK,$@)$(LINK) -o $@ $< tests/fuzz/replay.o $(LINKED) $(TEST_LIBRARIES) $(AGENT_LIBS) $(LIBS)

# Its own commands, clock and randomness take the place of the agent's and of libc's.
# All of the agent as one object, whose variables lie in a section of their own (tests/sim/agent.ld);
# tests/sim/net_agent.c takes the place of the backend's worker process.
SIM_AGENT = tests/sim/berthd.o
SIM_WRAPPED = address_news_start own_addresses_finish own_addresses_read file_child_start command_spawn command_orphans_kill command_orphans_may_claim fork late_close syscall
SIM_AGENT_OBJS = $(filter-out agent/bridge/looker.o,$(AGENT_OBJS)) tests/sim/looker.o \
	$(filter-out looker/main.o lib/sandbox/%,$(LOOKER_OBJS)) $(filter-out lib/registry/zookeeper/worker_process.o lib/client/%,$(LIB_OBJS))
$(SIM_AGENT): $(SIM_AGENT_OBJS) tests/sim/agent.ld
	$(call say,LINK,$@)$(CC) -r -nostdlib -o $@ -Wl,-T,$(srcdir)/tests/sim/agent.ld \
		$(SIM_WRAPPED:%=-Wl,--wrap=%) $(SIM_AGENT_OBJS) -l:libev.a -l:libjansson.a
$(SIM): $(SIM_OBJS) $(SIM_AGENT)
	$(call say,LINK,$@)$(LINK) -o $@ $(filter-out tests/sim/looker.o,$(SIM_OBJS)) $(SIM_AGENT) $(INIH_LIBS) $(IDN2_LIBS) $(RESOLV_LIBS) -lm $(LIBS)

# Beside a sanitizer, not under it; vfork() has to leave no frame behind.
tests/failures/points.o: $(srcdir)/tests/failures/points.c $(srcdir)/tests/failures/points.h config.mk
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) -std=gnu11 $(DEFINES) -iquote $(srcdir) -O2 -g -fPIC -Wall -Wextra -Wno-nonnull-compare -c -o $@ $<
tests/failures/points.so: tests/failures/points.o
	$(call say,LINK,$@)$(CC) -shared -o $@ $<
tests/failures/library: tests/failures/library.o tests/failures/points.o libberth-all.a
	$(call say,LINK,$@)$(LINK) -o $@ tests/failures/library.o tests/failures/points.o libberth-all.a $(LIB_LIBS) $(IDN2_LIBS) $(LIBS)

$(WRITER): $(WRITER).o libberth-all.a
	$(call say,LINK,$@)$(LINK) -o $@ $< libberth-all.a $(LIB_LIBS) $(LIBS)

# The simulation has an allocator and stacks of its own, which a sanitizer does not know.
check-tools: all $(TEST_TOOLS) $(if $(SANITIZER),,$(SIM)) $(POINTS) $(WRITER)
check-build: check-tools $(TEST_PROGRAMS) $(REPLAY_PROGRAMS)

TEST_GROUPS = lint unit fuzz faults registry e2e world
check: check-build
	@$(RUN_TESTS) $(TEST_GROUPS)
check-unit: $(UNIT_PROGRAMS)
	@$(RUN_TESTS) unit
check-registry: all $(TEST_TOOLS) $(REGISTRY_PROGRAMS)
	@$(RUN_TESTS) registry
check-e2e: all $(TEST_TOOLS)
	@$(RUN_TESTS) e2e
check-world: all $(TEST_TOOLS)
	@$(RUN_TESTS) world
check-faults: all $(TEST_TOOLS) $(SIM) $(POINTS) $(WRITER)
	@$(RUN_TESTS) faults
check-more: all $(TEST_TOOLS)
	@$(RUN_TESTS) more analyze
check-fuzz: $(REPLAY_PROGRAMS)
	@$(RUN_TESTS) fuzz
# With the analyzer that ./quickstart check-more leaves out; what was found good before is not looked at again.
analyze: $(PAGE)
	@BERTH_ANALYZE=all $(RUN_TESTS) analyze
attack: all $(TEST_TOOLS)
	@$(RUN_TESTS) attack
soak: all $(TEST_TOOLS) tests/registry/test_zookeeper
	@$(RUN_TESTS) soak
# Every row of the promise table, or those that ROWS names; the figures go into docs/RELIABILITY.md.
reliability: all $(TEST_TOOLS) $(SIM) $(WRITER)
	@$(srcdir)/tests/reliability/table . $(ROWS)
# The part of it that make check holds, RUNS times, half of them under load: does any test need
# luck?
RUNS = 20
reliability-again: all $(TEST_TOOLS) $(SIM) $(POINTS) $(WRITER)
	@$(srcdir)/tests/reliability/table --repeat $(RUNS) . $(ROWS)
# All that reads the sources. `make check` runs the scripts alone: the analyzers take minutes.
lint: libberth.a libberth.so $(PAGE)
	@BERTH_ANALYZE=all $(RUN_TESTS) lint analyze
# Seeds of the simulation, HOURS of virtual time each.
SEEDS = 1000
HOURS = 1
sim: $(SIM)
	@$(SIM) --seeds=$(SEEDS) --hours=$(HOURS) --jobs=$$(nproc)
# Bugs planted one at a time, each looked for with seeds for at most ten minutes.
sim-planted: $(SIM)
	@$(PYTHON) $(srcdir)/tests/sim/planted/run . --jobs=$$(nproc)
# Histories of clients on real ZooKeeper, one for each kind of fault, SECONDS each; a SEED chooses the faults.
SECONDS = 120
histories: all $(TEST_TOOLS) $(WRITER)
	@BERTH_BUILD_DIR=$(CURDIR) BERTH_SRC_DIR=$(abspath $(srcdir)) $(PYTHON) $(srcdir)/tests/histories/run \
		--seconds $(SECONDS) $(if $(filter command% environment%,$(origin SEED)),--seed $(SEED)) $(HISTORIES_ARGS)
# Mutants of the sources FILE, a sample of all sources of FOLDER, or one of each of the core's: COUNT, chosen by SEED.
# DRIVE=1: what unit tests leave meets the tests that drive the programs.
FILE =
FOLDER =
SEED = 1
COUNT =
DRIVE =
mutants: check-tools $(TEST_PROGRAMS) $(SIM)
	@$(PYTHON) $(srcdir)/tests/mutants/run . $(FILE:%=--file=%) $(FOLDER:%=--folder=%) --seed=$(SEED) $(COUNT:%=--count=%) $(DRIVE:%=--drive)
# A build of its own counts the branches that these parts take: groups of tests, the simulation, failing calls. After an
# interruption coverage-more goes on with the part that did not end.
COVERAGE_PARTS = unit fuzz registry e2e faults sim failures
COVERAGE_SRC = $(abspath $(srcdir))
coverage:
	@mkdir -p build-coverage
	$(CC) $(DEFINES) -O1 -g -fPIC -c -o build-coverage/ending.o $(srcdir)/tests/coverage/ending.c
	cd build-coverage && CC="$(CC)" CFLAGS="-O0 --coverage -fprofile-update=atomic -fdata-sections" LDFLAGS="--coverage $(CURDIR)/build-coverage/ending.o" \
		$(COVERAGE_SRC)/configure --disable-hardening --without-sandbox >/dev/null
	+@$(MAKE) --no-print-directory -s -C build-coverage check-build
	@# Each run counts anew, and processes that gave up privileges count too. No folder may be writable for others: the agent
	@# would not trust a state directory below it.
	rm -f build-coverage/counted; chmod -R go-w build-coverage; find build-coverage -name '*.gcda' -delete
	find build-coverage -name '*.gcno' | sed 's/gcno$$/gcda/' | xargs -I{} install -m 666 /dev/null {}
	+@$(MAKE) --no-print-directory coverage-more
coverage-more:
	+@cd build-coverage && touch counted && for part in $(COVERAGE_PARTS); do \
		if grep -q "^$$part " counted; then continue; fi; \
		case $$part in \
		sim) tests/sim/sim --seeds=50 --hours=0.5 --jobs=2 --quiet ;; \
		failures) $(MAKE) --no-print-directory failures FAILURES_ARGS="--sample=100 --library-every=5" ;; \
		*) $(PYTHON) $(COVERAGE_SRC)/tests/run $(TEST_ARGS) . $$part ;; \
		esac; \
		result=$$?; if [ $$result -gt 2 ]; then exit $$result; fi; echo "$$part $$result" >>counted; \
	done
	@$(PYTHON) $(srcdir)/tests/coverage/report build-coverage
# Every call fails once; FAILURES_ARGS='--every 10': a sample.
failures: all $(POINTS) $(TEST_TOOLS)
	@BERTH_BUILD_DIR=$(CURDIR) BERTH_SRC_DIR=$(abspath $(srcdir)) $(PYTHON) $(srcdir)/tests/failures/run $(FAILURES_ARGS)
bench: all $(BENCH_PROGRAMS) $(LOAD) $(LOOK_UP) $(PROBE)
	@BERTH_BUILD_DIR=$(CURDIR) BERTH_SRC_DIR=$(abspath $(srcdir)) BERTH_LIBEXECDIR=$(CURDIR) \
		exec $(PYTHON) $(srcdir)/tests/bench/run $(BENCH_ARGS)

# The fuzzers are built apart, by clang, with all code instrumented; tests/fuzz/run says what was run and covered.
FUZZ_SECONDS = 60
FUZZ_JOBS = 2
FUZZ_COMPILE = $(FUZZ_CC) -std=gnu11 $(DEFINES) -iquote $(srcdir) -iquote . $(CPPFLAGS) -O1 -g -MMD -MP \
	-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
	-fprofile-instr-generate -fcoverage-mapping
fuzz/%.o: %.c config.mk
	@mkdir -p $(@D)
	$(call say,FUZZ-CC,$@)$(FUZZ_COMPILE) -c -o $@ $<
fuzz/fuzz_%.o: tests/fuzz/fuzz_%.c config.mk
	@mkdir -p $(@D)
	$(call say,FUZZ-CC,$@)$(FUZZ_COMPILE) -c -o $@ $<
fuzz/libfuzzed.a: $(FUZZ_OBJS)
	$(call say,AR,$@)rm -f $@ && $(AR) qcs $@ $(FUZZ_OBJS)
$(FUZZ_PROGRAMS): %: %.o fuzz/libfuzzed.a
	$(call say,LINK,$@)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -fprofile-instr-generate -o $@ $< fuzz/libfuzzed.a \
		$(AGENT_LIBS) $(LIBS)
fuzz: $(FUZZ_PROGRAMS)
	@$(PYTHON) $(srcdir)/tests/fuzz/run --seconds=$(FUZZ_SECONDS) --jobs=$(FUZZ_JOBS) --compiler="$(FUZZ_CC)" \
		$(FUZZ_ARGS) . $(FUZZ_TARGETS)

format:
	cd $(srcdir) && clang-format -i $$(find agent cli lib looker nss probe runtime tests xds -name '*.[ch]')
