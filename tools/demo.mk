# The demonstration; included by the Makefile.
.PHONY: demo
demo: ## measure what I/O paths cost here, by four words of nbbench (under three minutes)
	@tools/deps.sh build demo
	$(AGAIN) $(JOBS) all
	$(Q)$(PYTHON) -B tools/demo.py $(BUILD)
