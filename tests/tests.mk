# Tests, fuzz targets and benchmarks; included by the Makefile.
TEST_INC := $(INC_core) -Idaemon/server -Ictl

$(BUILD)/unit/%: tests/unit/%.c $(BUILD)/libnbserved.a
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(TEST_INC) $(LDFLAGS_ALL) -o $@ $< $(filter %.o,$^) \
		$(BUILD)/libnbserved.a $(PKG_LIBS) -lcmocka -lm

.PHONY: units
units: $(UNIT) ## run the unit tests
	@set -e; for t in $(UNIT); do echo "== $$t"; $$t; done
