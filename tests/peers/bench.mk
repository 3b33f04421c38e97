# Benchmarks; included by the Makefile.  `make bench BENCH='nbd tls'` picks some.
BENCH_SRC := $(wildcard tests/peers/*.c tests/cost/*.c)
BENCH_PROGRAMS = $(patsubst %.c,$(BUILD)/bench/%,$(notdir $(BENCH_SRC)))
BENCH_SERVICES = iperf3 nbd netperf tls udp
BENCH_PARTS = $(if $(findstring command,$(origin BENCH)),$(BENCH),$(BENCH_SERVICES))

vpath %.c tests/peers tests/cost
$(BUILD)/bench/%: %.c $(BUILD)/libnbserved.a $(BUILD)/libnb.a $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(INC_base) $(LDFLAGS_ALL) -o $@ $< $(filter %.a,$^) $(PKG_LIBS) -lm

# This one is nbbench's judging.
$(BUILD)/bench/verdict: tests/peers/verdict.c $(BUILD)/bench/result/verdict.o $(BUILD)/bench/rows/numbers.o $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -Ibench/result $(LDFLAGS_ALL) -o $@ $< $(filter %.o,$^) -lm

.PHONY: claims claims-doc
claims: ## which of the published claims hold on this host (some 45 minutes): build/claims.md and .html
	@tools/deps.sh build bench demo
	$(AGAIN) $(JOBS) all $(BUILD)/bench/verdict
	$(Q)$(PYTHON) -B tests/peers/claims.py --build $(BUILD)
claims-doc: $(BUILD)/bench/verdict ## put what `make claims` and `make bench-vm` have measured into doc/internals/claims.md
	$(Q)$(PYTHON) -B tests/peers/claims.py --build $(BUILD) --judge --page doc/internals/claims.md

.PHONY: bench-equal
bench-equal: ## how often compare calls two equal listeners different (6 minutes)
	@tools/deps.sh build bench demo
	$(AGAIN) $(JOBS) all
	$(Q)$(PYTHON) -B tests/peers/equal.py --build $(BUILD)

.PHONY: bench bench-programs
bench-programs: $(BENCH_PROGRAMS)
bench: ## CPU time and rates beside the servers that others use (BENCH='nbd tls': of these services)
	@tools/deps.sh build bench
	$(AGAIN) $(JOBS) all bench-programs
	$(if $(filter-out $(BENCH_SERVICES),$(BENCH_PARTS)),$(error BENCH=$(BENCH): there are $(BENCH_SERVICES)))
	$(Q)set -e; for service in $(BENCH_PARTS); do \
		$(PYTHON) tests/peers/$$service.py --build $(BUILD); done

# Counts, not times: see check.py.  Only of a build that is shipped.
.PHONY: bench-check bench-check-run
bench-check-run: $(BUILD)/bench/steps $(BUILD)/bench/verdict all
	$(Q)$(PYTHON) -B tests/cost/check.py --build $(BUILD)
	$(Q)$(PYTEST) -q tests/cost/test_check.py tests/peers/test_claims.py
bench-check: ## instructions and system calls of an operation, beside those that are kept in the repository
	@tools/deps.sh build test
	$(AGAIN) $(JOBS) bench-check-run
