# The demonstration; included by the Makefile.
.PHONY: demo
demo: ## serve on loopback, drive it with the usual generators, compare the engines (2 minutes)
	@tools/deps.sh build demo
	$(AGAIN) $(JOBS) all
	$(Q)$(PYTHON) -B tools/demo.py $(BUILD)
