# SPDX-License-Identifier: BSD-2-Clause
# Thin: nginx's own configure builds the module, g++ the unit tests, prove runs t/.
#
#   make build     build/ngx_http_durable_module.so, for the nginx installed here
#   make demo      build, then serve the demo on http://127.0.0.1:8080/ until Ctrl-C
#   make test      every check and test; parts: check test-core test-nginx
#   make bench     the benchmark
#   make install   copy the module to nginx's module folder (DESTDIR is respected)
#   make deps      install the Debian packages that are missing
#   make clean     remove build/
#   make build-static, make build-asan    nginx from source with the module linked in
#   make test-asan    the nginx tests on the latter

BUILD        ?= $(CURDIR)/build
SHELL        := /bin/bash

NGINX_BINARY ?= $(shell PATH="$$PATH:/usr/sbin" command -v nginx)
NGINX_DEV    ?= /usr/share/nginx/src
JOBS         ?= $(shell nproc)
MODULE       := $(BUILD)/ngx_http_durable_module.so

BUILD_PACKAGES := nginx nginx-dev g++ make libcjson-dev libsimdjson-dev libsqlite3-dev \
                  libevent-dev libssl-dev libpcre2-dev zlib1g-dev curl
# PACKAGE/COMMAND is not missing where the command is there, from wherever it came.
TEST_PACKAGES  := perl libcppunit-dev libtest-base-perl libtest-longstring-perl \
                  libio-socket-ssl-perl openssl nghttp2-client chromium sqlite3 python3 php-fpm \
                  nodejs/node npm/npm
PACKAGES       := $(BUILD_PACKAGES) $(TEST_PACKAGES)

# Debian's nginx was built with these, but nginx-dev does not record them.
CC_OPT := -g -O2 -fPIC -fstack-protector-strong -Wformat -Werror=format-security \
          -Wdate-time -D_FORTIFY_SOURCE=2
LD_OPT := -Wl,-z,relro -Wl,-z,now -fPIC

# NGX_DEBUG_PALLOC gives each pool allocation a block of its own, which ASan can
# guard; NGX_DEBUG_MALLOC overwrites what a shared zone's slab frees.
ASAN_CC_OPT := -g -O1 -fsanitize=address -fno-omit-frame-pointer \
               -DNGX_DEBUG_PALLOC=1 -DNGX_DEBUG_MALLOC=1
ASAN_LD_OPT := -fsanitize=address,undefined

# A sub-make that is not told otherwise uses all processors.
SUBMAKE = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))

.DELETE_ON_ERROR:
.PHONY: all deps build demo test bench install clean FORCE \
        need-build-packages need-test-packages check check-core check-types check-symbols \
        check-registered check-format format test-core test-nginx test-asan \
        build-static build-asan

all: build

# ---------------------------------------------------------------- packages

# $(call missing,PACKAGES): a shell command that prints those not installed.
missing = for p in $(1); do \
            case $$p in */*) command -v $${p\#*/} >/dev/null && continue; p=$${p%/*} ;; esac; \
            dpkg-query -W -f='$${db:Status-Status}' "$$p" 2>/dev/null \
                | grep -q '^installed' || printf '%s ' "$$p"; done

define install_packages
	@missing=`$(call missing,$(1))`; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	echo "These Debian packages are missing and will be installed: $$missing"; \
	if [ `id -u` = 0 ]; then as_root=; \
	elif command -v sudo >/dev/null; then as_root="sudo"; \
	else echo "Installing needs root: become root, or install sudo, or ask your" \
	          "administrator for these packages." >&2; exit 1; fi; \
	$$as_root apt-get update -q && \
	$$as_root env DEBIAN_FRONTEND=noninteractive \
	    apt-get install -q -y --no-install-recommends $$missing
endef

deps:
	$(call install_packages,$(PACKAGES))
	@echo "All packages for building and testing are installed."

need-build-packages:
	$(call install_packages,$(BUILD_PACKAGES))

need-test-packages:
	$(call install_packages,$(PACKAGES))

# ------------------------------------------------------------------- build

# nginx's configure writes a Makefile beside itself, so it runs in a folder of ours.
define configure_nginx
	@mkdir -p $(BUILD)/nginx-dev $(BUILD)/nginx-objs
	@ln -sfn $(NGINX_DEV)/auto $(NGINX_DEV)/src $(NGINX_DEV)/configure \
	    $(NGINX_DEV)/conf_flags $(BUILD)/nginx-dev/
	cd $(BUILD)/nginx-dev && bash -c '. ./conf_flags && ./configure \
	    --with-cc-opt="$(CC_OPT)" --with-ld-opt="$(LD_OPT)" "$${NGX_CONF_FLAGS[@]}" \
	    --builddir=$(BUILD)/nginx-objs --add-dynamic-module=$(CURDIR)' \
	    > $(BUILD)/configure.log || { tail -n 20 $(BUILD)/configure.log; exit 1; }
endef

build: need-build-packages
	@mkdir -p $(BUILD)
	@exec 9> $(BUILD)/lock && flock 9 && $(SUBMAKE) $(MODULE) 9>&-

# Rewritten only when a file comes or goes: then nginx must be configured anew.
$(BUILD)/sources: FORCE
	@mkdir -p $(BUILD)
	@echo core/*.cpp core/*.h ngx_module/*.cpp ngx_module/*.h | cmp -s - $@ || \
	    echo core/*.cpp core/*.h ngx_module/*.cpp ngx_module/*.h > $@

# A header that did not change keeps its time, so that not all is compiled again.
$(BUILD)/nginx-objs/Makefile: $(BUILD)/sources config config.make Makefile
	@mkdir -p $(BUILD)/nginx-objs
	@for f in config headers; do cp -p $(BUILD)/nginx-objs/ngx_auto_$$f.h \
	    $(BUILD)/auto_$$f.h 2>/dev/null || true; done
	$(configure_nginx)
	@for f in config headers; do \
	    cmp -s $(BUILD)/auto_$$f.h $(BUILD)/nginx-objs/ngx_auto_$$f.h && \
	    cp -p $(BUILD)/auto_$$f.h $(BUILD)/nginx-objs/ngx_auto_$$f.h || true; done

# install(1) makes a new file: a running nginx keeps the one it has mapped.
$(MODULE): $(BUILD)/nginx-objs/Makefile ngx_module/exports.map FORCE
	@if [ ngx_module/exports.map -nt $(BUILD)/nginx-objs/$(@F) ]; then \
	    rm -f $(BUILD)/nginx-objs/$(@F); fi
	@$(MAKE) --no-print-directory -C $(BUILD)/nginx-dev \
	    -f $(BUILD)/nginx-objs/Makefile modules
	@cmp -s $(BUILD)/nginx-objs/$(@F) $@ || install -m 644 $(BUILD)/nginx-objs/$(@F) $@

install: build
	install -d $(DESTDIR)/usr/lib/nginx/modules
	install -m 644 $(MODULE) $(DESTDIR)/usr/lib/nginx/modules/

clean:
	rm -rf $(BUILD)

# ------------------------------------------------ nginx with the module in it

# nginx-dev has headers only. The source comes from Debian, by lists of our own so
# that the system's stay as they are; NGINX_TARBALL=FILE uses one that you have.
$(BUILD)/nginx-source/configure:
	@mkdir -p $(BUILD)/apt/parts $(BUILD)/apt/lists/partial $(@D)
	@if [ -n "$(NGINX_TARBALL)" ]; then cp "$(NGINX_TARBALL)" $(BUILD)/apt/; exit 0; fi; \
	cp /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
	    $(BUILD)/apt/parts/ 2>/dev/null; \
	cp /etc/apt/sources.list $(BUILD)/apt/parts/main.list 2>/dev/null; \
	sed -i -e 's/^Types:.*/Types: deb-src/' -e 's/^deb /deb-src /' $(BUILD)/apt/parts/*; \
	apt="apt-get -q -o APT::Sandbox::User=root -o Dir::Etc::SourceList=/dev/null \
	    -o Dir::Etc::SourceParts=$(BUILD)/apt/parts -o Dir::State::Lists=$(BUILD)/apt/lists"; \
	cd $(BUILD)/apt && $$apt update && $$apt source --tar-only nginx
	tar xf $(BUILD)/apt/nginx*.tar.gz --strip-components=1 -C $(@D)

# $(call nginx_with_module,FOLDER,CC_OPT,LD_OPT,FLAGS OF OUR OBJECTS)
define nginx_with_module
	@mkdir -p $(1) && cp -r $(BUILD)/nginx-source $(1)/source.new && \
	    rm -rf $(1)/source && mv $(1)/source.new $(1)/source
	cd $(1)/source && DURABLE_CXXFLAGS="$(4)" bash -c '. $(NGINX_DEV)/conf_flags && \
	    ./configure --with-cc-opt="$(2)" --with-ld-opt="$(3)" "$${NGX_CONF_FLAGS[@]}" \
	    --builddir=$(1)/objs --add-module=$(CURDIR)' \
	    > $(1)/configure.log || { tail -n 20 $(1)/configure.log; exit 1; }
endef

$(BUILD)/static/objs/Makefile: $(BUILD)/nginx-source/configure $(BUILD)/sources config \
                               config.make Makefile
	$(call nginx_with_module,$(BUILD)/static,$(CC_OPT),$(LD_OPT),)

$(BUILD)/asan/objs/Makefile: $(BUILD)/nginx-source/configure $(BUILD)/sources config \
                             config.make Makefile
	$(call nginx_with_module,$(BUILD)/asan,$(ASAN_CC_OPT),$(ASAN_LD_OPT),\
	    -fsanitize=undefined -fno-sanitize-recover=undefined)

$(BUILD)/static/nginx $(BUILD)/asan/nginx: %/nginx: %/objs/Makefile FORCE
	@$(MAKE) --no-print-directory -C $*/source -f $*/objs/Makefile binary
	@cmp -s $*/objs/nginx $@ || install -m 755 $*/objs/nginx $@

build-static build-asan: build-%: need-build-packages
	@mkdir -p $(BUILD)
	@exec 9> $(BUILD)/lock && flock 9 && $(SUBMAKE) $(BUILD)/$*/nginx 9>&-

# -------------------------------------------------------------------- tests

# The quick ones first. CppUnit's summary is shown again, so that both end the output.
test: need-test-packages
	$(MAKE) --no-print-directory check
	$(MAKE) --no-print-directory test-core
	$(MAKE) --no-print-directory test-nginx
	@echo "CppUnit: `tail -n 1 $(BUILD)/core-tests/output`"

check: check-core check-types check-registered check-symbols

check-core:
	@! grep -rn 'ngx_' core/ || { echo "core/ must not know nginx" >&2; exit 1; }
	@echo "core/ knows no nginx"

# One namespace, so a name used twice is two types of which the linker takes either; it
# says nothing, and with inlining it may even work.
TYPE_NAME := s/^(struct|class|enum class|enum) +([A-Za-z_]+)( final)?( *:[^;]*)? *[{].*/\2/p

check-types:
	@twice=`for more in ngx_module core/tests; do \
	    sed -nE '$(TYPE_NAME)' core/*.h $$more/*.h | sort | uniq -d; done | sort -u | xargs`; \
	if [ -n "$$twice" ]; then \
	    echo "types defined in two headers: $$twice" >&2; exit 1; fi
	@echo "each type is defined once"

check-registered:
	@core/tests/check_registered core/tests/*_test.cpp

check-symbols: build
	@nm -D --defined-only $(MODULE) | awk '{ print $$3 }' | sort > $(BUILD)/symbols
	@printf '%s\n' ngx_module_names ngx_module_order ngx_modules | diff - $(BUILD)/symbols || \
	    { echo "the module must export nginx's three symbols only" >&2; exit 1; }
	@echo "the module exports nginx's three symbols only"

FORMATTED := core/*.cpp core/*.h core/tests/*.cpp core/tests/*.h ngx_module/*.cpp ngx_module/*.h

check-format:
	clang-format --dry-run -Werror $(wildcard $(FORMATTED))

format:
	clang-format -i $(wildcard $(FORMATTED))

CORE_SOURCES := $(wildcard core/*.cpp core/tests/*.cpp)
CORE_OBJECTS := $(CORE_SOURCES:%.cpp=$(BUILD)/core-tests/%.o)
# The tests are compiled without -O, which takes a third of the time; core with it, since
# some tests run it one instruction at a time.
CORE_FLAGS   := -std=c++17 -g -W -Wall -Wpointer-arith -Wno-unused-parameter -Werror \
                -fsanitize=address,undefined -fno-sanitize-recover=all \
                -fno-omit-frame-pointer -I.
CORE_LIBS    := -lcppunit -lcjson -lsimdjson -lsqlite3 -levent_core -levent_extra \
                -levent_openssl -levent_pthreads -lssl -lcrypto -pthread

$(BUILD)/core-tests/core/%.o: OPTIMIZE = -O1
$(BUILD)/core-tests/core/tests/%.o: OPTIMIZE =
$(BUILD)/core-tests/%.o: %.cpp Makefile
	@mkdir -p $(@D)
	$(CXX) $(CORE_FLAGS) $(OPTIMIZE) -MMD -MP -c $< -o $@

$(BUILD)/core-tests/run: $(CORE_OBJECTS)
	$(CXX) $(CORE_FLAGS) $^ -o $@ $(CORE_LIBS)

-include $(CORE_OBJECTS:.o=.d)

# CORE_TESTS="ChannelTest LineTest::a_dead_worker" runs these only.
test-core: need-test-packages
	@mkdir -p $(BUILD)
	@exec 9> $(BUILD)/lock-core && flock 9 && $(SUBMAKE) $(BUILD)/core-tests/run 9>&-
	@set -o pipefail; $(BUILD)/core-tests/run $(CORE_TESTS) 2>&1 | tee $(BUILD)/core-tests/output

# TESTS="t/a.t t/b.t" runs these only.
TESTS        ?= t

test-nginx: need-test-packages build
	TEST_NGINX_BINARY=$(NGINX_BINARY) TEST_NGINX_LOAD_MODULES=$(MODULE) \
	    prove -j $(JOBS) -I t/lib -r $(TESTS)

# The same tests on an nginx in which ASan watches each allocation, and UBSan our code.
# nginx leaves memory to the process's end, so leaks are not counted.
test-asan: need-test-packages build-asan
	TEST_NGINX_BINARY=$(BUILD)/asan/nginx TEST_NGINX_LOAD_MODULES= \
	    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	    prove -j $(JOBS) -I t/lib -r $(TESTS)

# ----------------------------------------------------------- demo and benchmark

demo: build
	@NGINX_BINARY=$(NGINX_BINARY) MODULE=$(MODULE) BUILD=$(BUILD) exec conf-examples/run-demo

bench: build
	@NGINX_BINARY=$(NGINX_BINARY) MODULE=$(MODULE) BUILD=$(BUILD) exec bench/run
	$(if $(filter-out quick full,$(BENCH)),,@NGINX_BINARY=$(NGINX_BINARY) MODULE=$(MODULE) exec bench/events_bench)
