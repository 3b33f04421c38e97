# The demonstration; included by the Makefile.
.PHONY: demo
demo: ## measure a handful of the words of `nbserved --bench` (2 minutes)
	@tools/deps.sh build demo
	$(AGAIN) $(JOBS) all
	$(Q)$(PYTHON) -B tools/demo.py $(BUILD)
