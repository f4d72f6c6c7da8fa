#!/bin/sh
# Checks rules, their tests and routes with the tools that run them. Uses promtool and amtool where they are; else, with
# --fetch, unpacks Debian's packages below .payhook (nothing is installed, no service is started). What can't be had is
# said and passed over: tests/unit/deploy checks rules, dashboard and metric names everywhere.
set -eu
cd "$(dirname "$0")/.."
tools=.payhook/tools/prometheus

fetch() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    mkdir -p "$tools"
    (cd "$tools" && { apt-get download -q prometheus prometheus-alertmanager || { apt-get update -q && apt-get download -q prometheus prometheus-alertmanager; }; }) >"$tools.log" 2>&1 || return 1
    for package in "$tools"/*.deb; do dpkg-deb -x "$package" "$tools"; done
    rm -f "$tools"/*.deb
}

tool() {
    command -v "$1" 2>/dev/null || { [ -x "$tools/usr/bin/$1" ] && echo "$tools/usr/bin/$1"; } || true
}

if [ -z "$(tool promtool)" ] && [ "${1:-}" = --fetch ]; then
    fetch || echo "promtool can't be fetched here (see $tools.log)"
fi

promtool=$(tool promtool)
if [ -n "$promtool" ]; then
    "$promtool" check config deploy/prometheus/prometheus.yml deploy/prometheus/compose.yml
    "$promtool" test rules deploy/prometheus/tests/*.yml
else
    echo "passed over: Prometheus's rules aren't run, there is no promtool (Debian: apt-get install prometheus)"
fi

amtool=$(tool amtool)
if [ -n "$amtool" ]; then
    "$amtool" check-config deploy/alertmanager/alertmanager.yml
    grep -v '^#' deploy/alertmanager/routes.txt | while IFS=: read -r receivers labels; do
        # shellcheck disable=SC2086 # each label is a word of its own
        "$amtool" config routes test --config.file deploy/alertmanager/alertmanager.yml --verify.receivers="$receivers" $labels
    done
else
    echo "passed over: Alertmanager's routes aren't run, there is no amtool (Debian: apt-get install prometheus-alertmanager)"
fi
