# Tests and fuzz targets; included by the Makefile.  tests/peers/bench.mk has the benchmarks.
#
# Packages may be installed by a target's first line, and pkg-config is asked when a makefile is
# read: so what needs them is built by a second make.
ifneq ($(STATS),1)
ifneq ($(filter units system check check-% bench-check%,$(MAKECMDGOALS)),)
$(error STATS=$(STATS): the tests look at statistics, which this build does without: use STATS=1 and another BUILD)
endif
endif

TEST_INC := -Itests/unit $(INC_main) $(sort $(INC_engine/rdma) -Idaemon/engine/rdma -Idaemon/ring -Idaemon/store -Idaemon/service -Idaemon/service/block) $(INC_lib) $(CTL_ROOMS:%=-Ictl/%) $(BENCH_ROOMS:%=-Ibench/%)
JOBS      = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
AGAIN     = +$(Q)$(MAKE) --no-print-directory
PYTEST    = NBSERVED_BUILD=$(abspath $(BUILD)) NBSERVED_ENGINES='$(TEST_ENGINES)' $(PYTHON) -B -m pytest -p no:cacheprovider
# The tests wait most of the time: so TEST_JOBS files of them at once, where pytest-xdist is there.
TEST_JOBS ?= $(shell echo $$((3 * $$(nproc))))
ABREAST   = $$($(PYTHON) -c 'import xdist' 2>/dev/null && printf -- '-n %s --dist loadfile' $(TEST_JOBS))

# What the programs are made of, but for their main().
LIBRARIES_TESTED := $(BUILD)/libnbserved.a $(BUILD)/libctl.a $(BUILD)/libbench.a $(BUILD)/libnb.a
$(BUILD)/libctl.a: $(filter-out %/ctl/main.o,$(CTL_OBJ))
$(BUILD)/libbench.a: $(filter-out %/bench/main.o,$(NBBENCH_OBJ))

vpath test_%.c $(wildcard tests/unit/*/)
$(BUILD)/unit/test_%: test_%.c $(LIBRARIES_TESTED)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(TEST_INC) $(LDFLAGS_ALL) -o $@ $< $(filter %.o,$^) \
		$(LIBRARIES_TESTED) $(PKG_LIBS) -lcmocka -lm

$(patsubst %,$(BUILD)/unit/test_%,conn iperf3 pressure_check services tls tls_kernel): $(BUILD)/tests/unit/daemon/fake_engine.o
$(BUILD)/tests/unit/%.o: INC := $(TEST_INC)

# Several may run at a time (make -j), so each prints its output when it has ended.
UNITS := %
UNIT  := $(filter $(addprefix $(BUILD)/unit/test_,$(UNITS)),$(UNIT))
$(if $(or $(UNIT),$(findstring %,$(UNITS))),,$(error UNITS=$(UNITS): there is no such unit test in tests/unit))
UNIT_RUNS := $(UNIT:%=%.run)
.PHONY: units $(UNIT_RUNS)
$(UNIT_RUNS): %.run: %
	@rm -f $*.failed; $(RUN) $* >$*.log 2>&1 || touch $*.failed
	@flock $(BUILD)/unit sh -c 'echo "== $*"; cat $*.log'
units: $(UNIT_RUNS) ## run the unit tests (UNITS='ini worker%': of these names; RUN=EMULATOR for those of another machine)
	@failed=; for t in $(UNIT); do [ ! -e $$t.failed ] || failed="$$failed $$t"; done; \
		[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

# The files of tests by their names, in whichever folder.
system_files = $(foreach name,$(1),$(or $(wildcard tests/system/test_$(name).py tests/system/*/test_$(name).py),$(error no test_$(name).py in tests/system)))

.PHONY: system
system: all ## run the system tests (TESTS=FILE for one of them)
	$(Q)NBSERVED_UNIT_LOGS='$(abspath $(UNIT_LOGS))' $(PYTEST) $(if $(TESTS),$(TESTS),$(ABREAST) $(addprefix --ignore=,$(call system_files,$(TEST_SKIP))) tests/system)

.PHONY: check-fast
check-fast: ## units, and the system tests of what differs from HEAD (or BASE=COMMIT): under 2 minutes
	@tools/deps.sh build test
	$(AGAIN) $(JOBS) all units >$(BUILD)/check-fast.log 2>&1 || { tail -n 40 $(BUILD)/check-fast.log; exit 1; }
	@tests=$$($(PYTHON) -B tests/fast.py $(BASE)) && echo "units passed; system tests:" $${tests:-none changed} && \
		{ [ -z "$$tests" ] || $(PYTEST) $(ABREAST) $$tests; }

# ---- RDMA, in a VM with software devices ----------------------------------------------------------
VM_CLIENTS := $(patsubst tests/vm/%.c,$(BUILD)/vm/%,$(wildcard tests/vm/*.c))
$(VM_CLIENTS): $(BUILD)/vm/%: tests/vm/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(INC) $(LDFLAGS_ALL) -o $@ $< -lrdmacm -libverbs

# The daemon once more, with verbs that fail when a test says so.
$(BUILD)/tests/vm/faults/faults.o: INC :=
$(BUILD)/vm/nbserved_faults: $(MAIN_OBJ) $(BUILD)/tests/vm/faults/faults.o $(BUILD)/libnbserved.a $(BUILD)/libnb.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $$(nm $(filter %/faults.o,$^) | sed -n 's/.* T __wrap_/-Wl,--wrap=/p') \
		-o $@ $^ $(PKG_LIBS) -lm

.PHONY: check-vm vm-client bench-vm
vm-client: $(if $(RDMA_FOUND),$(VM_CLIENTS) $(BUILD)/vm/nbserved_faults)
check-vm: ## as root: RDMA, NVMe and other clients of the kernel in VMs, the service under a real systemd
	@tools/deps.sh build test systemd $(if $(filter no,$(RDMA)),,vm)
	$(AGAIN) $(JOBS) all vm-client
	$(Q)$(PYTEST) $(ABREAST) tests/vm

# One after the other: each tells what it can even if those before could not.
BENCH_VM ?= one_cpu claims nvme
bench_vm_one_cpu = -i
bench_vm_claims = -i
bench_vm_nvme = -i
bench_vm_scaling = -i -p 4
bench_vm_bypass = -i -n
# Linux 6.12 has no zero-copy AF_XDP for virtio's cards.
bench_vm_suite_bypass = NBSERVED_VM_SUITE=trixie-backports
bench_vm = $(bench_vm_suite_$(1)) tests/vm/vm.sh -t 1800 $(bench_vm_$(1)) $(BUILD)/vm/speed env NBSERVED_BUILD=$(abspath $(BUILD)) $(PYTHON) -B -m \
	pytest -p no:cacheprovider -s -q --no-header --tb=short $(addprefix tests/vm/inside_,speed.py claims.py nvme_speed.py scaling.py bypass.py) -k $(1)
bench-vm: ## as root: RDMA beside the servers of rping, fio and perftest, NVMe/TCP beside the kernel's, and some published claims, in VMs (BENCH_VM=bypass: UDP beside AF_XDP and DPDK)
	@tools/deps.sh build test vm $(filter bypass,$(BENCH_VM))
	$(AGAIN) $(JOBS) all vm-client bench-programs
	@mkdir -p $(BUILD)/vm/speed
	$(Q)status=0; $(foreach vm,$(BENCH_VM),$(call bench_vm,$(vm)) || status=1;) exit $$status

# Releases of Debian whose kernels the VM can have: Linux 6.1, 6.12, 7.3.
BENCH_KERNELS ?= bookworm bookworm-backports trixie-backports
.PHONY: bench-kernels
bench-kernels: ## as root: echo, NBD and UDP by instructions and system calls on Linux 6.1, 6.12 and 7.3, in VMs: build/kernels.html
	@tools/deps.sh build demo test vm
	$(AGAIN) $(JOBS) all $(BUILD)/bench/udp_load
	@rm -rf $(BUILD)/vm/kernels && mkdir -p $(BUILD)/vm/kernels
	$(Q)set -e; for suite in $(BENCH_KERNELS); do \
		NBSERVED_VM_SUITE=$$suite tests/vm/vm.sh -t 1800 -i $(BUILD)/vm/kernels env NBSERVED_BUILD=$(abspath $(BUILD)) \
			$(PYTHON) -B -m pytest -p no:cacheprovider -s -q --no-header --tb=short tests/vm/inside_kernels.py; done
	$(Q)cd $(BUILD)/vm/kernels && for rows in *.jsonl; do \
		sed "s/^{\"label\":\"[^\"]*/&, Linux $${rows%.jsonl}/" "$$rows"; done >../kernels.jsonl
	$(Q)$(BUILD)/nbbench show $(BUILD)/vm/kernels.jsonl --html $(BUILD)/kernels.html >/dev/null
	@echo "the rows of all kernels on one page: $(BUILD)/kernels.html"

# Under load for long, in statistics, between three hosts, with packages that start servers, or of whole
# commands of measuring and completing: not for each change.
LONG_TESTS := bench builds completion container disk_model lab monitoring pairs reload_load reload_random verdict
.PHONY: check check-long check-all
check: ## unit tests and system tests but the longest: under five minutes on two CPUs, with the build
	@tools/deps.sh build test
	$(AGAIN) $(JOBS) all units
	$(AGAIN) TEST_SKIP='$(LONG_TESTS)' UNIT_LOGS='$(UNIT:%=%.log)' system
check-long: ## the system tests that `check` leaves out
	@tools/deps.sh build test long
	$(AGAIN) $(JOBS) all
	$(Q)$(PYTEST) $(ABREAST) $(call system_files,$(LONG_TESTS))
# One after the other: each installs packages of its own.
check-all: check check-long ## as root: besides bench-check, check-reproducible, check-vm and check-cross
	$(AGAIN) bench-check check-reproducible
	$(AGAIN) check-vm
	$(AGAIN) check-cross

# Two builds of the same sources in different folders are the same to the byte.
.PHONY: check-reproducible
ELSEWHERE = $(abspath $(BUILD)/elsewhere)
check-reproducible: all ## another build in another folder, compared with this one
	$(Q)rm -rf $(ELSEWHERE) && mkdir -p $(ELSEWHERE) && \
		cp -r --parents Makefile VERSION daemon ctl bench lib tools $(wildcard tests/*.mk tests/*/*.mk) $(ELSEWHERE)
	$(AGAIN) $(JOBS) -s -C $(ELSEWHERE) BUILD=build all >/dev/null
	$(Q)for program in nbserved nbctl nbbench; do \
		cmp $(BUILD)/$$program $(ELSEWHERE)/build/$$program || exit 1; done

# ---- The same on sanitized builds ----------------------------------------------------------------
ASAN := BUILD=$(BUILD)/asan OPT=-O1 SANITIZE=address,undefined
TSAN := BUILD=$(BUILD)/tsan OPT=-O1 SANITIZE=thread
# TSan of gcc 12 does not know the address space that a high vm.mmap_rnd_bits makes.
TSAN_RUN = $(shell setarch -R true 2>/dev/null && echo setarch -R)

check-asan check-vm-asan check-vm-many check-tsan: export ASAN_OPTIONS := detect_stack_use_after_return=1:strict_string_checks=1
check-asan check-vm-asan check-vm-many check-tsan: export UBSAN_OPTIONS := print_stacktrace=1
check-asan check-vm-asan check-vm-many check-tsan: export TSAN_OPTIONS := halt_on_error=1:second_deadlock_stack=1

.PHONY: check-asan check-vm-asan check-vm-many check-vm-zcrx check-apparmor check-tsan
# A test over all engines runs over one under each sanitizer: services and core are the same code on each
# engine.  Left out are tests of scripts, of nbctl's texts, of load that only takes time there, and between three
# hosts (`remote` has the bridge on this one); under TSan all of nbctl, and what one worker does alone: protocols.
check-asan: TEST_ENGINES := io_uring
check-asan: TEST_SKIP := bench builds completion container install interrupt lab monitoring notify options oracle reload_load report run sweep verdict
check-asan: ## unit and system tests under AddressSanitizer and UBSan
	@tools/deps.sh build test
	$(AGAIN) $(JOBS) $(ASAN) all units
	$(AGAIN) $(ASAN) TEST_SKIP='$(TEST_SKIP)' TEST_ENGINES='$(TEST_ENGINES)' system
check-vm-asan: ## as root: RDMA in a VM under AddressSanitizer and UBSan (too long for .ci/run)
	$(AGAIN) $(ASAN) check-vm
check-vm-many: ## as root: many RDMA clients in a VM under AddressSanitizer (too long for .ci/run)
	@tools/deps.sh build test vm
	$(AGAIN) $(JOBS) $(ASAN) all vm-client
	@mkdir -p $(BUILD)/asan/vm/many
	$(Q)tests/vm/vm.sh -t 1800 -m 4096 $(BUILD)/asan/vm/many env NBSERVED_BUILD=$(abspath $(BUILD))/asan \
		ASAN_OPTIONS="$$ASAN_OPTIONS" $(PYTHON) -B -m pytest -p no:cacheprovider -q tests/vm/inside_many.py
check-vm-zcrx: ## as root: zero-copy receive on Linux 7.3 in a VM (.ci/run's kernels have none)
	@tools/deps.sh build test vm
	$(AGAIN) $(JOBS) all
	@mkdir -p $(BUILD)/vm/zcrx
	$(Q)NBSERVED_VM_SUITE=trixie-backports tests/vm/vm.sh -t 1800 $(BUILD)/vm/zcrx env ZCRX_MUST=1 \
		NBSERVED_BUILD=$(abspath $(BUILD)) $(PYTHON) -B -m pytest -p no:cacheprovider -q --durations=8 \
		tests/system/daemon/test_zero_copy_receive.py
check-apparmor: ## as root: the installed service, and some system tests, under the AppArmor profile in a VM
	@tools/deps.sh build test systemd vm
	$(AGAIN) $(JOBS) all
	@mkdir -p $(BUILD)/vm/apparmor
	$(Q)tests/vm/vm.sh -S -t 3600 -k 'apparmor=1 security=apparmor audit=1' $(BUILD)/vm/apparmor \
		env NBSERVED_BUILD=$(abspath $(BUILD)) $(PYTHON) -B tests/vm/inside_apparmor.py
check-tsan: TEST_ENGINES := epoll
check-tsan: TEST_SKIP := bench builds clients completion config container disk_model generator_rows halves http install interrupt lab \
	log metrics monitoring nbctl nbctl_compare nbctl_stats nbd_errors nbd_tls netperf nvme_bad options oracle pairs readme reload_random \
	remote report run sockperf sweep tls_psk top verdict
# The unit tests that have more than one thread.
check-tsan: UNITS := admission conn% iperf3 notify pressure% proc ring_short services session store tls% uring worker%
check-tsan: ## unit and system tests with threads under ThreadSanitizer
	@tools/deps.sh build test
	$(Q)$(TSAN_RUN) $(MAKE) --no-print-directory $(JOBS) $(TSAN) UNITS='$(UNITS)' all units
	$(Q)$(TSAN_RUN) $(MAKE) --no-print-directory $(TSAN) TEST_SKIP='$(TEST_SKIP)' TEST_ENGINES='$(TEST_ENGINES)' system

# ---- Fuzzing: clang's libFuzzer, the corpus is kept in $(BUILD)/fuzz/corpus -----------------------
FUZZ_SECONDS ?= 20

$(BUILD)/fuzz/%: tests/fuzz/%.c $(LIBRARIES_TESTED)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(TEST_INC) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $< \
		$(LIBRARIES_TESTED) $(PKG_LIBS) -lm

.PHONY: fuzz fuzz-run
fuzz: ## fuzz each of tests/fuzz for FUZZ_SECONDS (20)
	@tools/deps.sh build fuzz
	$(AGAIN) $(JOBS) BUILD=$(BUILD)/fuzz CC=clang OPT=-O1 SANITIZE=fuzzer-no-link,address,undefined \
		fuzz-run

# A crash fails the run; its input stays beside the corpus.  As many at a time as there are CPUs.
fuzz-run: $(FUZZ)
	@printf '%s\n' $(FUZZ) | xargs -P $$(nproc) -n 1 sh -c ' \
		name=$${0##*/}; corpus=$(BUILD)/corpus/$$name; log=$(BUILD)/$$name.log; \
		seeds=tests/fuzz/corpus/$$name; [ -d "$$seeds" ] || seeds=; mkdir -p "$$corpus"; \
		"$$0" -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
			-print_final_stats=1 -artifact_prefix="$$corpus-" "$$corpus" $$seeds \
			>"$$log" 2>&1 || { tail -n 60 "$$log"; echo "$$name failed: $$log"; exit 1; }; \
		echo "$$name: $$(sed -n "s/.*number_of_executed_units: *//p" "$$log") inputs," \
			"$$(ls "$$corpus" | wc -l) kept"'