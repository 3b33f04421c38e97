# nbserved: hand-written GNU make, out of tree.  `make help` lists the targets.
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

BUILD    ?= build
CC       ?= gcc
ifeq ($(origin CC),default)
CC       := gcc
endif
ifeq ($(origin AR),default)
AR       := $(shell $(CC) -print-prog-name=ar 2>/dev/null)
endif
PREFIX   ?= /usr
SYSCONFDIR ?= /etc
UNITDIR  ?= $(PREFIX)/lib/systemd/system
PYTHON   ?= /usr/bin/python3
RDMA     ?= yes
SANITIZE ?=
STATS    ?= 1
WERROR   ?=
V        ?=
VERSION  := $(file <VERSION)
Q        := $(if $(V),,@)

PACKAGES := liburing libsystemd inih jansson
CTL_PACKAGES := jansson ncursesw
RDMA_PACKAGES := librdmacm libibverbs

# A build without a part is asked for: RDMA=no, ISAL=no (it makes NVMe's digests fast, where there is one
# for the machine), TLS=no.  tools/deps.sh has the one list of libraries and packages.
ifeq ($(filter yes no,$(RDMA)),)
$(error RDMA=$(RDMA): expected yes or no)
endif
ifneq ($(filter-out deps help clean uninstall dist,$(or $(MAKECMDGOALS),all)),)
LIBRARIES := $(shell RDMA=$(RDMA) ISAL=$(ISAL) TLS=$(TLS) tools/deps.sh --libraries build)
MISSING   := $(shell command -v $(CC) >/dev/null && pkg-config --exists '$(LIBRARIES)' 2>/dev/null || echo yes)
endif
RDMA_FOUND := $(if $(filter librdmacm,$(LIBRARIES)),1)
ISAL_FOUND := $(if $(filter libisal,$(LIBRARIES)),1)
TLS_FOUND := $(if $(filter openssl%,$(LIBRARIES)),openssl)

# ---- Flags ---------------------------------------------------------------------------------------
OPT      ?= -O2
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wconversion \
	    -Wno-sign-conversion -Wno-enum-float-conversion $(if $(WERROR),-Werror)
DEFINES  := -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DNB_VERSION=\"$(VERSION)\" -DNB_STATS=$(STATS)
CFLAGS_ALL = -std=gnu17 $(OPT) -g -fno-strict-aliasing $(DEFINES) \
	     $(RDMA_FOUND:%=-DNB_RDMA=%) $(ISAL_FOUND:%=-DNB_ISAL=%) $(WARNINGS) -MMD -MP \
	     -pthread $(HARDEN_FLAGS) $(SANITIZE_FLAGS) $(PKG_CFLAGS) $(CFLAGS)
LDFLAGS_ALL = -pthread -pie -Wl,-z,relro,-z,now,-z,noexecstack $(SANITIZE_FLAGS) $(LDFLAGS)
SANITIZE_FLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer \
		  -fno-sanitize-recover=all)
# gcc warns of fences, which TSan does not model: ours are between a worker and the kernel.
ifeq ($(SANITIZE)$(findstring clang,$(CC)),thread)
SANITIZE_FLAGS += -Wno-tsan
endif
ifeq ($(filter-out deps help clean uninstall dist,$(or $(MAKECMDGOALS),all)),)
else
# Hardening, where this compiler has it for this machine; `make lint-hardening` looks at the result.
# The sanitizers watch the same calls that _FORTIFY_SOURCE replaces.
accepts = $(shell for flag in $(1); do $(CC) -Werror $$flag -S -x c -o - /dev/null >/dev/null 2>&1 && echo $$flag; done)
HARDEN_FLAGS := -fPIE -ffile-prefix-map=$(CURDIR)=. -fstack-protector-strong \
		$(call accepts,-fstack-clash-protection -fcf-protection -mbranch-protection=standard)
ifeq ($(SANITIZE)$(filter -O0,$(OPT) $(CFLAGS))$(findstring _FORTIFY_SOURCE,$(CFLAGS)),)
HARDEN_FLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
endif
PKG_CFLAGS := $(shell pkg-config --cflags $(PACKAGES) $(CTL_PACKAGES) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PACKAGES) $(if $(RDMA_FOUND),$(RDMA_PACKAGES)) $(if $(ISAL_FOUND),libisal) $(TLS_FOUND) 2>/dev/null)
CTL_LIBS   := $(shell pkg-config --libs $(CTL_PACKAGES) 2>/dev/null)
NBBENCH_LIBS := $(shell pkg-config --libs jansson 2>/dev/null)
endif

# ---- Sources: a folder may include only what stands before it ------------------------------------
# tools/draw_map.py draws these in ARCHITECTURE.md, with the text behind `##`.
RDMA_LEVELS := engine/rdma/verbs engine/rdma
SERVICES := simple http block nbd nvme/wire nvme iperf netperf sockperf rping fio perftest
LAYERS   := base host core ring engine engine/udp engine/udp/xdp $(RDMA_LEVELS) store $(SERVICES:%=service/%) tls registry config varlink export server control
LIB_ROOMS   := base show rows client
INC_lib/base   := -Ilib/base ## parsing of values, text, histogram, processes, frames of Varlink, the schema of statistics: knows only libc
INC_lib/show   := $(INC_lib/base) -Ilib/show ## tables, numbers, fields of JSON documents: knows no daemon
INC_lib/rows   := $(INC_lib/show) -Ilib/rows ## rows: the interval of two documents, and their figures
INC_lib/client := $(INC_lib/show) -Ilib/client ## command lines, what each command sees (ctl.h), the Varlink client, also over ssh
INC_lib        := $(INC_lib/rows) -Ilib/client
INC_base    := $(INC_lib/base) -Idaemon/base ## log, mailbox, Unix sockets: knows only libc
INC_core    := $(INC_base) -Idaemon/core ## pool, bufq, conn, worker, stats, and the contracts service.h, engine.h, store.h, op.h
INC_ring    := $(INC_core) ## a worker's io_uring, which engines and stores share
INC_engine  := $(INC_core) -Idaemon/ring ## how bytes move over TCP: epoll, uring*, uring_poll; readiness.c is shared by the reactors
INC_engine/udp := $(INC_engine) -Idaemon/engine ## transport udp on the three engines over sockets
INC_engine/udp/xdp := $(INC_engine/udp) -Idaemon/engine/udp ## the engine af_xdp: frames of a card's queue beside the sockets of transport udp
INC_engine/rdma/verbs := $(INC_core) ## devices, their registered memory, queue pairs, one-sided operations, the connection manager
INC_engine/rdma     := $(INC_engine/rdma/verbs) -Idaemon/engine/rdma/verbs -Idaemon/engine ## the engine rdma: connections, pairs agreed on over sockets, hot plug, its doctor
INC_store   := $(INC_core) -Idaemon/ring ## how an export reaches its bytes: a file each
INC_service/simple    := $(INC_core) ## echo, discard, chargen
INC_service/http      := $(INC_core) ## HTTP/1.1: one answer for every request
INC_service/block     := $(INC_core) ## what NBD and NVMe share: the parts of a read or write, their memory and ends
INC_service/nbd       := $(INC_service/block) -Idaemon/service/block ## disks for NBD clients: handshake, requests, their I/O
INC_service/nvme/wire := $(INC_core) ## NVMe's commands, PDUs and identify data as bytes: pure functions
INC_service/nvme      := $(INC_service/block) -Idaemon/service/block ## disks for NVMe hosts: controllers, commands, TCP and RDMA
INC_service/iperf     := $(INC_core) ## an iperf3 server
INC_service/netperf   := $(INC_core) ## a netserver
INC_service/sockperf  := $(INC_core) ## a sockperf server
INC_service/rping     := $(INC_core) ## RDMA: the server of rping
INC_service/fio       := $(INC_core) ## RDMA: the server of fio's engine rdma
INC_service/perftest  := $(INC_core) ## RDMA: the servers of perftest's tools
INC_tls := $(INC_core) -Idaemon/host ## the stage around a service that opens and seals its records, with OpenSSL; certificates and shared keys
INC_registry := $(INC_core) ## the tables of all services, engines and stores
INC_config  := $(INC_core) -Idaemon/registry -Idaemon/tls ## the INI file: the table of keys, parsing, checks, differences, dump
INC_varlink := $(INC_base) ## a Varlink server on sd-event; knows nothing of what it serves
INC_host    := $(INC_base) ## /proc, the service manager, its watchdog, threads that may hang
INC_export  := $(INC_config) -Idaemon/config -Idaemon/host ## exports: opened, locked, kept while listeners serve them
INC_server  := $(INC_export) -Idaemon/export ## the configuration in force: listeners with their sockets, workers and limits; start, reload, drain
INC_control := $(INC_server) -Idaemon/ring -Idaemon/server -Idaemon/varlink ## the control socket: methods, documents, the doctor
INC_main    := $(INC_control) -Idaemon/control ## options, start, signals, the main thread's event loop; run.c: --run
CTL_ROOMS   := metrics state top
INC_ctl/metrics := $(INC_lib) ## OpenMetrics, and the HTTP server of `nbctl metrics`
INC_ctl/state   := $(INC_ctl/metrics) -Ictl/metrics ## commands that show or change the daemon's state: a file each
INC_ctl/top     := $(INC_lib) ## `nbctl top`
INC_ctl_main    := $(INC_lib) ## nbctl: the table of its commands
BENCH_ROOMS := rows generator host result print report bridge run
INC_bench/rows      := $(INC_lib/rows) -Ibench/rows ## rows of a measurement: their visits, the files of saved rows, the hosts of a generator
INC_bench/generator := $(INC_bench/rows) ## the output of load generators; how full a network interface was
INC_bench/host      := $(INC_bench/generator) -Ibench/generator ## this host: its CPU time, its description, a command that runs on it; the daemon of a measurement
INC_bench/result    := $(INC_bench/generator) -Ibench/generator ## groups of rows, the verdicts on them, warnings, what a run ends in: found once, for all that show it
INC_bench/print     := $(INC_bench/result) -Ibench/result ## a result as tables, sentences and JSON
INC_bench/report    := $(INC_bench/print) -Ibench/print ## the HTML page of saved rows, its pictures as SVG
INC_bench/bridge    := $(INC_lib) -Ibench/rows -Ibench/generator -Ibench/host ## `nbbench bridge`: the far end of -H and --on
INC_bench/run       := $(INC_lib) -Ibench/rows -Ibench/generator -Ibench/host -Ibench/result -Ibench/print -Ibench/report ## the commands: starts daemons and generators, visits listeners, saves and shows rows
INC_bench_main      := $(INC_lib) -Ibench/run ## nbbench: the table of its commands

TLS_LEFT := $(addprefix daemon/tls/,$(if $(TLS_FOUND),no_openssl.c,openssl.c psk.c nvme_key.c))
NO_RDMA  := daemon/engine/rdma/no_rdma.c
RDMA_SRC := $(filter-out $(NO_RDMA),$(wildcard $(RDMA_LEVELS:%=daemon/%/*.c)))
SRC      := $(filter-out $(if $(RDMA_FOUND),$(NO_RDMA),$(RDMA_SRC)) $(TLS_LEFT),$(foreach l,$(LAYERS),$(wildcard daemon/$(l)/*.c)))
OBJ      := $(SRC:%.c=$(BUILD)/%.o)
MAIN_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard daemon/*.c))
CTL_SRC  := $(wildcard ctl/*.c $(CTL_ROOMS:%=ctl/%/*.c))
CTL_OBJ  := $(CTL_SRC:%.c=$(BUILD)/%.o)
NBBENCH_SRC := $(wildcard bench/*.c $(BENCH_ROOMS:%=bench/%/*.c))
NBBENCH_OBJ := $(NBBENCH_SRC:%.c=$(BUILD)/%.o)
LIB_SRC  := $(wildcard $(LIB_ROOMS:%=lib/%/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
UNIT_SRC := $(filter-out $(if $(RDMA_FOUND),,tests/unit/daemon/test_rdma_%) $(if $(TLS_FOUND),,$(addprefix tests/unit/daemon/,test_nvme_key.c test_psk.c test_tls.c test_tls_kernel.c)),$(wildcard tests/unit/*/test_*.c))
UNIT     := $(patsubst %.c,$(BUILD)/unit/%,$(notdir $(UNIT_SRC)))
FUZZ_SRC := $(filter-out $(if $(TLS_FOUND),,tests/fuzz/fuzz_psk.c tests/fuzz/fuzz_tls.c),$(wildcard tests/fuzz/fuzz_*.c))
FUZZ     := $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/fuzz/%)

include tests/tests.mk
-include tests/peers/bench.mk
-include tools/demo.mk
include tools/install.mk
include tools/release.mk
include tools/lint.mk

# ---- Build ---------------------------------------------------------------------------------------
.PHONY: all
ifeq ($(MISSING)$(filter no,$(NB_DEPS)),yes)
all: ## build nbserved, nbctl and nbbench (the default)
	@tools/deps.sh build
	$(AGAIN) NB_DEPS=no all
else
all: $(BUILD)/nbserved $(BUILD)/nbctl $(BUILD)/nbbench
	$(if $(LEFT_OUT),@echo 'left out of this build: $(LEFT_OUT)')
endif
LEFT_OUT := $(strip $(if $(RDMA_FOUND),,RDMA) $(if $(ISAL_FOUND),,ISA-L) $(if $(TLS_FOUND),,TLS))

$(BUILD)/nbserved: $(MAIN_OBJ) $(BUILD)/libnbserved.a $(BUILD)/libnb.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS) -lm

$(BUILD)/nbctl: $(CTL_OBJ) $(BUILD)/libnb.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(CTL_LIBS) -lm

$(BUILD)/nbbench: $(NBBENCH_OBJ) $(BUILD)/libnb.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(NBBENCH_LIBS) -lm

$(BUILD)/libnbserved.a: $(OBJ)
$(BUILD)/libnb.a: $(LIB_OBJ)
$(BUILD)/lib%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) qcs $@ $^

$(MAIN_OBJ): INC := $(INC_main)
$(BUILD)/ctl/main.o: INC := $(INC_ctl_main)
$(BUILD)/bench/main.o: INC := $(INC_bench_main)
$(foreach r,$(LIB_ROOMS),$(eval $(BUILD)/lib/$(r)/%.o: INC := $(INC_lib/$(r))))
$(foreach r,$(BENCH_ROOMS),$(eval $(BUILD)/bench/$(r)/%.o: INC := $(INC_bench/$(r))))
$(foreach r,$(CTL_ROOMS),$(eval $(BUILD)/ctl/$(r)/%.o: INC := $(INC_ctl/$(r))))
$(foreach l,$(LAYERS),$(eval $(BUILD)/daemon/$(l)/%.o: INC := $(INC_$(l))))

$(BUILD)/%.o: %.c $(BUILD)/flags | packages
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(INC) -c -o $@ $<

# Its text is assembled into the object.
$(BUILD)/daemon/control/control_idl.o: daemon/control/org.nbserved.Control.varlink

# A change of compiler or flags rebuilds everything.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL)' | cmp -s - $@ || \
		echo '$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL)' >$@
FORCE:

.PHONY: packages
packages:
	$(if $(MISSING),@tools/deps.sh --commands build || exit 1; echo 'packages: $(CC) is missing' >&2; exit 1)

say = @printf '  %-5s %s\n' $(1) $(2:$(BUILD)/%=%)

# Other targets ask for what they need; `make deps DEPS='lint fuzz bench'` does so beforehand.
export RDMA ISAL TLS
DEPS ?= build demo test
.PHONY: deps
deps: ## install the packages that are missing, or say how
	@tools/deps.sh $(DEPS)

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD)

.PHONY: help
help: ## this list
	@echo 'Targets:'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | \
		sed -E 's/^([a-z-]+):.*## (.*)/  \1|\2/' | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'
	@echo 'Variables: BUILD CC CFLAGS SANITIZE=address,undefined|thread STATS=0|1 RDMA=no ISAL=no TLS=no'
	@echo '           WERROR=1 V=1 DESTDIR PREFIX SYSCONFDIR UNITDIR PYTHON DEPS TESTS FUZZ_SECONDS'

-include $(shell test -d $(BUILD) && find $(BUILD) -name '*.d' -type f)
