# install and uninstall; included by the Makefile.
#
# The files in the tree are written for PREFIX=/usr and SYSCONFDIR=/etc; other values are put in
# while installing.
INSTALL    ?= install
BINDIR      = $(DESTDIR)$(PREFIX)/bin
SBINDIR     = $(DESTDIR)$(PREFIX)/sbin
MANDIR      = $(DESTDIR)$(PREFIX)/share/man
CONFDIR     = $(DESTDIR)$(SYSCONFDIR)/nbserved
SHAREDIR    = $(DESTDIR)$(PREFIX)/share/nbserved
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
# Debian's zsh looks for those of packages elsewhere.
ZSH_FOLDER  = $(if $(and $(wildcard /etc/debian_version),$(filter /usr,$(PREFIX))),vendor-completions,site-functions)
ZSH         = $(DESTDIR)$(PREFIX)/share/zsh/$(ZSH_FOLDER)/_nbctl
FISH        = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
SHELL_FILES_INSTALLED = $(ZSH) $(foreach c,nbctl nbbench nbserved,$(COMPLETIONS)/$(c) $(FISH)/$(c).fish)
MONITORING  = grafana-nbserved.json prometheus-nbserved.rules.yml
SYSUSERS    = $(DESTDIR)$(PREFIX)/lib/sysusers.d/nbserved.conf
TMPFILES    = $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/nbserved.conf

MAN        := $(wildcard man/*.[1-9])
MAN_FILES   = $(foreach m,$(MAN),$(MANDIR)/man$(subst .,,$(suffix $(m)))/$(notdir $(m)))
RELOCATE    = sed -e 's|/usr/sbin/nbserved|$(PREFIX)/sbin/nbserved|g' \
		  -e 's|/usr/bin/nbctl|$(PREFIX)/bin/nbctl|g' \
		  -e 's|/usr/bin/nbbench|$(PREFIX)/bin/nbbench|g' \
		  -e 's|/usr/share/bash-completion|$(PREFIX)/share/bash-completion|g' \
		  -e 's|/usr/share/nbserved|$(PREFIX)/share/nbserved|g' \
		  -e 's|/etc/nbserved|$(SYSCONFDIR)/nbserved|g'

# $(call place,FROM,TO): a text file with this installation's paths.
define place
$(Q)$(INSTALL) -d $(dir $(2))
$(Q)$(RELOCATE) $(1) >$(2) && chmod 644 $(2)

endef

.PHONY: install
install: all ## install below DESTDIR; a configuration that was edited stays
	$(Q)$(INSTALL) -d $(BINDIR) $(SBINDIR) $(CONFDIR)/conf.d $(SHAREDIR)
	$(Q)$(INSTALL) -m 755 $(BUILD)/nbctl $(BINDIR)/nbctl
	$(Q)$(INSTALL) -m 755 $(BUILD)/nbbench $(BINDIR)/nbbench
	$(Q)$(INSTALL) -m 755 $(BUILD)/nbserved $(SBINDIR)/nbserved
	$(call place,systemd/nbserved.service,$(DESTDIR)$(UNITDIR)/nbserved.service)
	$(call place,systemd/nbserved.socket,$(DESTDIR)$(UNITDIR)/nbserved.socket)
	$(call place,systemd/nbserved-metrics.service,$(DESTDIR)$(UNITDIR)/nbserved-metrics.service)
	$(call place,systemd/nbserved.sysusers,$(SYSUSERS))
	$(call place,systemd/nbserved.tmpfiles,$(TMPFILES))
	$(foreach m,$(MAN),$(call place,$(m),$(MANDIR)/man$(subst .,,$(suffix $(m)))/$(notdir $(m))))
	$(foreach c,nbctl nbbench nbserved,$(call place,ctl/nbctl.bash-completion,$(COMPLETIONS)/$(c)))
	$(call place,ctl/nbctl.zsh-completion,$(ZSH))
	$(foreach c,nbctl nbbench nbserved,$(call place,ctl/nbctl.fish-completion,$(FISH)/$(c).fish))
	$(Q)if $(PRISTINE); then $(RELOCATE) conf/nbserved.ini >$(CONFDIR)/nbserved.ini; else \
		echo "kept $(CONFDIR)/nbserved.ini: it was edited; $(SHAREDIR)/nbserved.ini is new"; fi
	$(call place,conf/nbserved.ini,$(SHAREDIR)/nbserved.ini)
	$(foreach f,$(MONITORING),$(call place,conf/$(f),$(SHAREDIR)/$(f)))
	$(call place,systemd/nbserved-rdma.conf,$(SHAREDIR)/nbserved-rdma.conf)
	$(call place,systemd/nbserved-xdp.conf,$(SHAREDIR)/nbserved-xdp.conf)
	$(call place,packaging/apparmor.nbserved,$(SHAREDIR)/apparmor.nbserved)
	$(if $(DESTDIR),,@echo "next: systemd-sysusers && systemd-tmpfiles --create nbserved.conf \
		&& systemctl daemon-reload && systemctl enable --now nbserved")

# The installed configuration is the default of the version that was installed with it, or missing.
PRISTINE = { [ ! -e $(CONFDIR)/nbserved.ini ] || \
	     cmp -s $(CONFDIR)/nbserved.ini $(SHAREDIR)/nbserved.ini; }

# Ends the units that are these files, and not those of a package.
UNITS_INSTALLED = nbserved.service nbserved.socket nbserved-metrics.service
END_UNITS = for unit in $(UNITS_INSTALLED); do \
	    [ ! "$$(systemctl show -P FragmentPath $$unit)" -ef $(UNITDIR)/$$unit ] || \
		systemctl disable --now --quiet $$unit; done

.PHONY: uninstall
uninstall: ## end the service, remove the installed files, but not an edited configuration
	$(if $(DESTDIR),,$(Q)! [ -d /run/systemd/system ] || { $(END_UNITS); })
	$(Q)if $(PRISTINE); then rm -f $(CONFDIR)/nbserved.ini; else \
		echo "kept $(CONFDIR)/nbserved.ini: it was edited"; fi
	$(Q)rm -f $(BINDIR)/nbctl $(BINDIR)/nbbench $(SBINDIR)/nbserved $(UNITS_INSTALLED:%=$(DESTDIR)$(UNITDIR)/%) $(SYSUSERS) $(TMPFILES) $(MAN_FILES) \
		$(SHELL_FILES_INSTALLED) $(SHAREDIR)/nbserved.ini $(MONITORING:%=$(SHAREDIR)/%) \
		$(SHAREDIR)/nbserved-rdma.conf $(SHAREDIR)/nbserved-xdp.conf $(SHAREDIR)/apparmor.nbserved
	$(Q)rmdir --ignore-fail-on-non-empty $(wildcard $(SHAREDIR) $(CONFDIR)/conf.d)
	$(Q)rmdir --ignore-fail-on-non-empty $(wildcard $(CONFDIR))
	$(if $(DESTDIR),,$(Q)! [ -d /run/systemd/system ] || systemctl daemon-reload)
