# What is released; included by the Makefile.
#
# The tarball has the files that git knows, as they are; where there is no git, as in an unpacked
# tarball, all files.  So it makes itself again, and the same files make the same bytes: their times
# are the date that CHANGELOG.md gives the release.
NAME      = nbserved-$(VERSION)
TARBALL   = $(BUILD)/$(NAME).tar
RELEASED  = $(shell sed -n 's/^\#\# $(subst .,\.,$(VERSION)) (\([0-9-]*\))$$/\1/p' CHANGELOG.md)
DIST_LIST = if [ -e .git ]; then git ls-files -z; else find . -path './build*' -prune -o \
	    -name .pytest_cache -prune -o -name __pycache__ -prune -o ! -type d -printf '%P\0'; fi

.PHONY: dist
dist: ## a tarball of the sources; the same files make the same bytes
	@[ -n '$(RELEASED)' ] || { echo "CHANGELOG.md has no line '## $(VERSION) (YYYY-MM-DD)'" >&2; exit 1; }
	@mkdir -p $(BUILD)
	$(Q)$(DIST_LIST) >$(TARBALL).files
	$(Q)LC_ALL=C sort -z $(TARBALL).files | tar --create --file $(TARBALL) --null --files-from=- --format=ustar \
		--hard-dereference --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		--mtime='$(RELEASED) 00:00:00 UTC' --transform='s,^,$(NAME)/,rSH'
	$(Q)gzip --no-name --force -9 $(TARBALL)
	$(call say,DIST,$(TARBALL).gz)
