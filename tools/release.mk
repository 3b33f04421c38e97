# The files of a release; included by the Makefile.
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

# ---- Debian: packaging/debian, with a changelog that is made of VERSION ---------------------------
DEB       = $(BUILD)/deb
DEB_TREE  = $(DEB)/$(NAME)
AT_RELEASE = sed -e 's/@VERSION@/$(VERSION)/' -e "s/@DATE@/$$(LC_ALL=C date -u -d '$(RELEASED)' '+$(strip $(1))')/"
DEB_DATE  := %a, %d %b %Y %T %z
# $(call with_packages,OPTION,FIELD): @FIELD@ becomes what deps.sh prints of the group `build`.
with_packages = RDMA= ISAL= TLS= tools/deps.sh $(1) build | sed -e '/^@$(2)@$$/{r /dev/stdin' -e 'd}'

.PHONY: deb-source deb check-deb
deb-source: dist
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB)
	$(Q)cp $(TARBALL).gz $(DEB)/nbserved_$(VERSION).orig.tar.gz
	$(Q)tar xzf $(TARBALL).gz -C $(DEB) && cp -r $(DEB_TREE)/packaging/debian $(DEB_TREE)/debian
	$(Q)$(call AT_RELEASE,$(DEB_DATE)) packaging/debian/changelog.in >$(DEB_TREE)/debian/changelog
	$(Q)$(call with_packages,--deb,BUILD_DEPENDS) packaging/debian/control.in >$(DEB_TREE)/debian/control
	$(Q)rm $(DEB_TREE)/debian/*.in
deb: ## Debian packages, in $(BUILD)/deb
	@tools/deps.sh build test deb
	$(AGAIN) deb-source
	$(Q)cd $(DEB_TREE) && MAKEFLAGS= dpkg-buildpackage -us -uc >../log 2>&1 || { tail -n 40 ../log; exit 1; }
	@ls -l $(DEB)/*.deb

check-deb: ## as root: the packages built in a minimal Debian, and installed, upgraded and purged in another
	@tools/deps.sh build systemd check-deb
	$(AGAIN) deb-source
	$(Q)packaging/check_deb.sh $(DEB) $(VERSION)

# ---- README's first commands in a new minimal Debian: 12 as root, 13 as a user -------------------
.PHONY: check-newcomer newcomer-bookworm newcomer-trixie
check-newcomer: newcomer-bookworm newcomer-trixie ## as root: README's first commands in new minimal Debians, 12 as root, 13 as a user
newcomer-bookworm newcomer-trixie: export TEST_JOBS := $(TEST_JOBS)
newcomer-bookworm:
	$(Q)packaging/check_newcomer.sh bookworm
newcomer-trixie:
	$(Q)packaging/check_newcomer.sh trixie newcomer

# ---- Other compilers, options and machines: the table in packaging/check_cross.sh -----------------
CROSS     = $(BUILD)/cross
.PHONY: check-cross
check-cross: ## as root: units by trixie's gcc and clang, with -flto, and for s390x and ARM (ONLY=NAME for one)
	@tools/deps.sh build systemd check-deb
	$(AGAIN) dist
	$(Q)rm -rf $(CROSS) && mkdir -p $(CROSS)/tree && tar xzf $(TARBALL).gz -C $(CROSS)/tree --strip-components=1
	$(Q)packaging/check_cross.sh $(CROSS) $(ONLY)

# ---- RPM: packaging/nbserved.spec.in; elsewhere than on Fedora rpm lacks what systemd brings there ----
RPM       = $(abspath $(BUILD)/rpm)
SPEC      = $(RPM)/nbserved.spec
RPM_DEFINES = --define '_topdir $(RPM)' $(if $(shell rpm --eval '%{?_unitdir}'),,--nodeps $(FOREIGN_DEFINES))
FOREIGN_DEFINES := --define '_unitdir /usr/lib/systemd/system' --define '_sysusersdir /usr/lib/sysusers.d' \
	--define '_tmpfilesdir /usr/lib/tmpfiles.d' --define 'systemd_post() %{nil}' \
	--define 'systemd_preun() %{nil}' --define 'systemd_postun_with_restart() %{nil}'

.PHONY: rpm
rpm: dist ## RPM packages, in $(BUILD)/rpm
	@tools/deps.sh build test rpm
	$(Q)rm -rf $(RPM) && mkdir -p $(RPM)/SOURCES && cp $(TARBALL).gz $(RPM)/SOURCES
	$(Q)$(call with_packages,--rpm,BUILD_REQUIRES) packaging/nbserved.spec.in | $(call AT_RELEASE,%a %b %d %Y) >$(SPEC)
	$(Q)rpmlint --config packaging/rpmlint.toml $(SPEC)
	$(Q)MAKEFLAGS= rpmbuild $(RPM_DEFINES) -ba $(SPEC) >$(RPM)/log 2>&1 || { tail -n 40 $(RPM)/log; exit 1; }
	$(Q)rpmlint --config packaging/rpmlint.toml $(RPM)/SRPMS/*.rpm $(RPM)/RPMS/*/*.rpm
	@ls -l $(RPM)/RPMS/*/*.rpm

# ---- A container: from docker.io's Debian, or from BASE ------------------------------------------
IMAGE    ?= nbserved:$(VERSION)
BASE     ?=
.PHONY: image check-image
image: dist ## a container image, by buildah or podman (BASE=IMAGE to build from another Debian 12)
	$(Q)rm -rf $(BUILD)/image && mkdir -p $(BUILD)/image && tar xzf $(TARBALL).gz -C $(BUILD)/image
	$(Q)tool=$$(command -v buildah podman | head -n 1); \
		[ -n "$$tool" ] || { echo 'image: install buildah or podman' >&2; exit 1; }; \
		$$tool build $(BASE:%=--build-arg BASE=%) --timestamp $$(date -u -d '$(RELEASED)' +%s) \
			--file packaging/Containerfile --tag $(IMAGE) $(BUILD)/image/$(NAME)
check-image: image ## as root: the image's daemon under a seccomp filter that refuses io_uring
	$(Q)packaging/check_image.sh $(IMAGE)
