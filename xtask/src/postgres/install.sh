# Installs Debian's packages named as arguments. Runs as root. No service of theirs is started and no default
# cluster is created: xtask brings its own.
set -eu
export DEBIAN_FRONTEND=noninteractive

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

apt-get update
for package in "$@"; do
    if [ "$package" = postgresql ]; then
        # The server package creates a cluster unless its common part already says not to.
        apt-get install -y --no-install-recommends postgresql-common
        mkdir -p /etc/postgresql-common/createcluster.d
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/durable-xtask.conf
        # Debian 12's version where there is a choice; what the release has elsewhere.
        if apt-cache show postgresql-15 >/dev/null 2>&1; then
            package=postgresql-15
        fi
    fi
    apt-get install -y --no-install-recommends "$package"
done
