#!/bin/sh
# Runs PROGRAM, a unit test, and once more if a test of it fails; for .ci/run, as pytest's --reruns.
# A crash and a sanitizer's report fail at once.
#
#   usage: tests/unit/twice.sh PROGRAM
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
{ "$1" 2>&1; echo $? >"$log.status"; } | tee "$log"
read -r status <"$log.status"
rm -f "$log.status"
[ "$status" != 0 ] || exit 0
if [ "$status" -ge 128 ] || grep -qE 'Sanitizer|runtime error:' "$log"; then
	exit "$status"
fi
echo "== $1 failed with $status: once more"
file=$(cd "$(dirname "$0")/../.." && echo tests/unit/*/"${1##*/}".c)
sed -n "s|^\[  FAILED  \] \([a-z_0-9]*\)\$|add to tests/retried.txt: $(date +%F) $file::\1 status $status|p" "$log" | sort -u
exec "$1"
