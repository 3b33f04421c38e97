# Static checks; included by the Makefile.  A file is looked at again when it or a header changed.
HEADERS   := $(wildcard daemon/*.h $(LAYERS:%=daemon/%/*.h) $(CTL_ROOMS:%=ctl/%/*.h) $(BENCH_ROOMS:%=bench/%/*.h) $(LIB_ROOMS:%=lib/%/*.h))
TEST_SRC  := $(UNIT_SRC) $(FUZZ_SRC) $(BENCH_SRC)
C_FILES   := $(wildcard daemon/*.c $(LAYERS:%=daemon/%/*.c)) $(CTL_SRC) $(NBBENCH_SRC) $(LIB_SRC) $(HEADERS) $(wildcard tests/*/*.[ch] tests/unit/*/*.[ch])
SHELL_FILES = .ci/run $(wildcard tools/*.sh tests/*/*.sh tests/*/*.bash demo/*.sh ctl/*.bash-completion \
	      packaging/*.sh packaging/debian/*.p[or]* packaging/debian/tests/service)
PY_FILES    = $(wildcard tests/*/*.py tests/system/*/*.py tests/*.py tools/*.py)
TIDY      := $(patsubst %.c,$(BUILD)/lint/%.tidy,$(wildcard daemon/*.c) $(SRC) $(CTL_SRC) $(NBBENCH_SRC) $(LIB_SRC) \
	     $(TEST_SRC))
STAGE      = $(abspath $(BUILD)/lint/stage)

$(patsubst %.c,$(BUILD)/lint/%.tidy,$(wildcard daemon/*.c)): INC := $(INC_main)
$(BUILD)/lint/ctl/main.tidy: INC := $(INC_ctl_main)
$(BUILD)/lint/bench/main.tidy: INC := $(INC_bench_main)
$(foreach r,$(LIB_ROOMS),$(eval $(BUILD)/lint/lib/$(r)/%.tidy: INC := $(INC_lib/$(r))))
$(foreach r,$(BENCH_ROOMS),$(eval $(BUILD)/lint/bench/$(r)/%.tidy: INC := $(INC_bench/$(r))))
$(foreach r,$(CTL_ROOMS),$(eval $(BUILD)/lint/ctl/$(r)/%.tidy: INC := $(INC_ctl/$(r))))
$(BUILD)/lint/tests/%.tidy: INC := $(TEST_INC)
$(foreach l,$(LAYERS),$(eval $(BUILD)/lint/daemon/$(l)/%.tidy: INC := $(INC_$(l))))

# With clang's warnings, besides gcc's of the builds with WERROR=1.  The analyzer takes nearly all
# of the time: it has found nothing in tests, and following more paths of a function (its default is
# 225,000) takes four times as long and has found nothing more.
ANALYZER_NODES ?= 50000
TIDY_CHECKS = $(patsubst %,--extra-arg=%,-Xclang -analyzer-config -Xclang max-nodes=$(ANALYZER_NODES))
$(BUILD)/lint/tests/%.tidy: TIDY_CHECKS = --checks=-clang-analyzer-*
$(BUILD)/lint/%.tidy: %.c $(HEADERS) .clang-tidy
	@mkdir -p $(@D)
	$(call say,TIDY,$<)
	$(Q)clang-tidy --quiet $(TIDY_CHECKS) --warnings-as-errors='*' $< -- -std=gnu17 $(DEFINES) \
		$(WARNINGS) $(PKG_CFLAGS) $(INC) >$@.log 2>&1 || { grep -v 'warnings generated' $@.log; exit 1; }
	@touch $@

.PHONY: lint lint-run lint-c lint-cppcheck lint-format lint-circles lint-modules lint-man lint-unit lint-scripts lint-hardening
lint: ## static checks of sources, scripts, man pages, the unit and the programs
	@tools/deps.sh build test lint
	$(AGAIN) lint-format lint-scripts lint-man lint-unit
	$(AGAIN) $(JOBS) lint-hardening lint-circles lint-modules
	$(AGAIN) $(JOBS) -k lint-c lint-cppcheck
	@echo 'lint: clean'

lint-c: $(TIDY)

# Definitions from headers that it does not read; a `;` would end a definition.
CPPCHECK_DEFINES := -D__linux__ $(DEFINES) \
	'-Djson_object_foreach(object,key,value)=while ((key = next()) && (value = next()))' \
	'-Djson_array_foreach(array,index,value)=while ((index = next()) && (value = next()))'
# reason.c writes the reason, which callers need not fill.
# varlink.c: a handler may end its call, and clears call->method.
CPPCHECK_SUPPRESS := missingInclude missingIncludeSystem \
	ctuuninitvar:lib/base/reason.c \
	nullPointerRedundantCheck:daemon/varlink/varlink.c
lint-cppcheck: | packages
	$(call say,CHECK,cppcheck)
	@mkdir -p $(BUILD)/lint/cppcheck
	$(Q)cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
		$(CPPCHECK_SUPPRESS:%=--suppress=%) --error-exitcode=1 \
		--cppcheck-build-dir=$(BUILD)/lint/cppcheck $(CPPCHECK_DEFINES) \
		$(TEST_INC) -Idaemon/store $(RDMA_LEVELS:%=-Idaemon/%) daemon ctl bench lib

lint-format:
	$(call say,CHECK,clang-format)
	$(Q)clang-format --dry-run -Werror $(wildcard $(C_FILES))

.PHONY: format
format: ## put the C files into the form that lint wants
	$(Q)clang-format -i $(wildcard $(C_FILES))

lint-circles: $(OBJ) $(LIB_OBJ)
	$(call say,CHECK,circles)
	$(Q)$(PYTHON) -B tools/check_circles.py $(BUILD) $(OBJ) $(LIB_OBJ)
	$(Q)! grep -nE '"verdict\.h"|\bverdict_(of|interval|unknown|withdraw|least)[a-z_]*\(' $(filter-out bench/result/%,$(CTL_SRC) $(NBBENCH_SRC) $(LIB_SRC) $(HEADERS)) || \
		{ echo "only bench/result/ judges: others read struct result"; exit 1; }

# Names by their headers, and the sizes that only a commit of its own raises.
lint-modules:
	$(call say,CHECK,modules)
	$(Q)$(PYTHON) -B tools/check_modules.py
	$(Q)$(PYTHON) -B tools/check_budgets.py
	$(Q)$(PYTHON) -B tools/check_retried.py

lint-scripts:
	$(call say,CHECK,scripts)
	$(Q)shellcheck $(wildcard $(SHELL_FILES))
	$(Q)$(PYTHON) -B tools/check_names.py
	$(Q)$(PYTHON) -B -c 'import ast, sys; [ast.parse(open(f).read(), f) for f in sys.argv[1:]]' $(PY_FILES)

# mandoc for the language, man for what groff makes of it, check_man.py for the truth.
lint-man: all
	$(call say,CHECK,man)
	$(Q)! command -v mandoc >/dev/null || mandoc -Tlint -Wwarning $(MAN)
	$(Q)for page in $(MAN); do \
		warnings=$$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -Tutf8 -Z -l $$page 2>&1 >/dev/null); \
		[ -z "$$warnings" ] || { echo "$$page: $$warnings"; exit 1; }; \
	done
	$(Q)$(PYTHON) -B tools/check_man.py $(BUILD)
	$(Q)$(PYTHON) -B tools/draw_map.py

# Installed under another prefix, so that verify finds the daemon and its man page.
lint-unit: all
	$(call say,CHECK,units)
	$(Q)! command -v apparmor_parser >/dev/null || \
		said=$$(apparmor_parser --skip-kernel-load --skip-cache packaging/apparmor.nbserved 2>&1) || \
		{ echo "$$said"; exit 1; }
	$(AGAIN) install PREFIX=$(STAGE)/usr SYSCONFDIR=$(STAGE)/etc UNITDIR=$(STAGE)/unit >/dev/null
	$(Q)said=$$(MANPATH=$(STAGE)/usr/share/man systemd-analyze verify --recursive-errors=no \
		$(STAGE)/unit/*.service $(STAGE)/unit/*.socket 2>&1) && [ -z "$$said" ] || { echo "$$said"; exit 1; }
	$(Q)for unit in $(STAGE)/unit/*.service; do \
		said=$$(systemd-analyze security --offline=true --threshold=15 --no-pager $$unit) || \
			{ echo "$$said"; exit 1; }; echo "$$said" | tail -n 1; \
	done

# A program that knows neither the folder nor the time of its build is the same in another: that two are, to
# the byte, `make check-reproducible` says.
lint-hardening: all
	$(call say,CHECK,hardening)
	$(Q)tools/check_hardening.sh $(BUILD)/nbserved $(BUILD)/nbctl $(BUILD)/nbbench
	$(Q)! grep -nE '__(DATE|TIME|TIMESTAMP)__' -r daemon ctl bench lib
