# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016 # $(SITE) is apt's own variable
# Where this machine gets its Debian release from; sourced by setup and build.sh.

# Guest and build machine run the same release, so that a binary built here
# finds its shared libraries there.
release=bookworm

# The base URL of the mirror that apt uses for the release.
mirror() {
    local site
    site=$(apt-get indextargets --format '$(SITE)' "Codename: $release" | sed -n 1p)
    if [ -z "$site" ]; then
        apt-get update -qq >&2
        site=$(apt-get indextargets --format '$(SITE)' "Codename: $release" | sed -n 1p)
    fi
    [ -n "$site" ] || { echo "no apt source for Debian $release" >&2; return 1; }
    echo "$site"
}
