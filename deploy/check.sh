#!/bin/sh
# Checks rules, their tests and routes, and the chart, with the tools that run them. Uses promtool, amtool and helm where
# they are; else, with --fetch, unpacks Debian's packages below .payhook and builds helm there (nothing is installed, no
# service is started). What can't be had is said and passed over: tests/unit/deploy checks rules, dashboard and metric
# names everywhere, and what the chart renders where there is a helm.
set -eu
cd "$(dirname "$0")/.."
tools=.payhook/tools/prometheus
programs=.payhook/tools/bin
helm_version=v3.16.4

fetch() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    mkdir -p "$tools"
    (cd "$tools" && { apt-get download -q prometheus prometheus-alertmanager || { apt-get update -q && apt-get download -q prometheus prometheus-alertmanager; }; }) >"$tools.log" 2>&1 || return 1
    for package in "$tools"/*.deb; do dpkg-deb -x "$package" "$tools"; done
    rm -f "$tools"/*.deb
}

fetch_helm() {
    command -v go >/dev/null || return 1
    mkdir -p "$programs"
    GOBIN="$PWD/$programs" nice go install "helm.sh/helm/v3/cmd/helm@$helm_version" >"$programs/helm.log" 2>&1
}

tool() {
    command -v "$1" 2>/dev/null ||
        { [ -x "$tools/usr/bin/$1" ] && echo "$tools/usr/bin/$1"; } ||
        { [ -x "$programs/$1" ] && echo "$programs/$1"; } || true
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

if [ -z "$(tool helm)" ] && [ "${1:-}" = --fetch ]; then
    fetch_helm || echo "helm can't be built here (see $programs/helm.log)"
fi
helm=$(tool helm)
if [ -n "$helm" ]; then
    for values in deploy/chart/ci/*.yaml; do "$helm" lint --quiet --strict deploy/chart --values "$values"; done
    echo "the chart is as helm wants it"
else
    echo "passed over: the chart isn't rendered, there is no helm (a Go compiler builds it: deploy/check.sh --fetch)"
fi
