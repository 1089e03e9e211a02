# Releases and packages: a part of Makefile.in.

DIST = berth-$(VERSION)

# The time in everything that a package holds, so that two builds of one version are the same to the byte.
SOURCE_DATE_EPOCH ?= $(shell date -u +%s -d "$$(sed -n 's/^ -- .*>  //p' $(srcdir)/packaging/debian/changelog | head -n 1)")

# In a checkout git knows what belongs to it, in an unpacked release MANIFEST does; else everything
# but builds belongs to it.
dist:
	rm -rf $(DIST) && mkdir $(DIST)
	@cd $(srcdir) && if [ -e .git ] && command -v git >/dev/null; then git -c safe.directory='*' ls-files; \
		elif [ -e MANIFEST ]; then cat MANIFEST; \
		else find . -type f ! -path './.git/*' ! -path './build*/*' ! -name '*.[oad]' | sed 's|^\./||' | sort; fi | \
		grep -vx MANIFEST >$(CURDIR)/$(DIST)/MANIFEST
	tar -C $(srcdir) -cf - -T $(DIST)/MANIFEST | tar -C $(DIST) -xf -
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime=@$(SOURCE_DATE_EPOCH) -cf - $(DIST) | \
		gzip -9n >$(DIST).tar.gz
	rm -rf $(DIST)

# A release builds from read-only sources, installs, and takes all of it away again.
distcheck: dist
	rm -rf distcheck && mkdir -p distcheck/build
	tar -C distcheck -xzf $(DIST).tar.gz && chmod -R a-w distcheck/$(DIST)
	cd distcheck/build && ../$(DIST)/configure --prefix=/usr && $(MAKE) all lint check-unit
	cd distcheck/build && $(MAKE) install DESTDIR=$(CURDIR)/distcheck/root && \
		$(MAKE) uninstall DESTDIR=$(CURDIR)/distcheck/root
	@left=$$(find distcheck/root ! -type d); [ -z "$$left" ] || \
		{ echo "uninstall left $$left" >&2; exit 1; }
	cd distcheck/build && $(MAKE) dist && $(MAKE) distclean
	@left=$$(find distcheck/build ! -type d); [ -z "$$left" ] || \
		{ echo "distclean left $$left" >&2; exit 1; }
	chmod -R u+w distcheck && rm -rf distcheck
	@echo "$(DIST).tar.gz is good"

# Packages are built from a release, by the tools of their distribution; packaging/ says what belongs to which.
PACKAGE_ENV = env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH)

sbom: all
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) CC="$(CC)" $(PYTHON) $(srcdir)/packaging/sbom . $(VERSION) >berth.spdx.json.new && \
		mv berth.spdx.json.new berth.spdx.json

DEB_FOLDER = packages/deb
deb: dist
	rm -rf $(DEB_FOLDER) && mkdir -p $(DEB_FOLDER)
	tar -C $(DEB_FOLDER) -xzf $(DIST).tar.gz
	cp -R $(DEB_FOLDER)/$(DIST)/packaging/debian $(DEB_FOLDER)/$(DIST)/debian
	cd $(DEB_FOLDER)/$(DIST) && $(PACKAGE_ENV) dpkg-buildpackage --build=binary --unsigned-source --unsigned-changes $(DEB_FLAGS)
	rm -rf $(DEB_FOLDER)/$(DIST)

# The same for arm64, by Debian's cross compiler (gcc-aarch64-linux-gnu), with Debian's libraries for it in a folder here.
ARM64_ROOT = $(CURDIR)/machines/arm64/root
deb-arm64:
	$(srcdir)/packaging/sysroot arm64 $(ARM64_ROOT)
	BERTH_SYSROOT=$(ARM64_ROOT) $(MAKE) deb DEB_FOLDER=packages/deb-arm64 \
		DEB_FLAGS="--host-arch=arm64 --no-check-builddeps"

# RPM_FLAGS: --nodeps where the libraries are there, and were not installed by rpm.
rpm: dist
	rm -rf packages/rpm && mkdir -p packages/rpm/SOURCES packages/rpm/SPECS
	mv $(DIST).tar.gz packages/rpm/SOURCES/
	sed 's/@VERSION@/$(VERSION)/' $(srcdir)/packaging/rpm/berth.spec >packages/rpm/SPECS/berth.spec
	$(PACKAGE_ENV) rpmbuild -ba --define "_topdir $(CURDIR)/packages/rpm" $(RPM_FLAGS) packages/rpm/SPECS/berth.spec

# A folder for abuild.
apk: dist
	rm -rf packages/apk && mkdir -p packages/apk
	mv $(DIST).tar.gz packages/apk/
	sed 's/@VERSION@/$(VERSION)/' $(srcdir)/packaging/alpine/APKBUILD >packages/apk/APKBUILD
	cp $(srcdir)/packaging/alpine/berth.post-upgrade packages/apk/
	@echo "now: cd packages/apk && abuild checksum && abuild -r"

# All of a release, in release/, signed by RELEASE_KEY; docs/RELEASING.md. Each of the packages begins with a tarball of its own.
RELEASE_KEY =
release:
	@$(PYTHON) $(srcdir)/packaging/release "$(RELEASE_KEY)"
	$(MAKE) deb
	$(MAKE) rpm
	$(MAKE) apk
	$(MAKE) dist
	$(MAKE) sbom
	@$(PYTHON) $(srcdir)/packaging/release "$(RELEASE_KEY)" . $(VERSION)
