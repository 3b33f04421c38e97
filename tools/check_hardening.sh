#!/usr/bin/env bash
# check_hardening.sh PROGRAM...: is each hardened as the Makefile means it to be?  By what binutils
# see, as hardening-check and checksec do, without their packages.
set -euo pipefail

status=0

must() { # PROGRAM WHAT yes|no PATTERN TEXT: has the text a line like that?
	local found=no
	! grep -qE -- "$4" <<<"$5" || found=yes
	[ "$found" = "$3" ] || {
		echo "$1: $2"
		status=1
	}
}

for program; do
	header=$(LC_ALL=C readelf -Wh -l "$program")
	dynamic=$(LC_ALL=C readelf -Wd "$program")
	symbols=$(LC_ALL=C readelf -W --dyn-syms "$program")
	must "$program" 'is not position independent (PIE)' yes 'FLAGS_1.*\bPIE\b' "$dynamic"
	must "$program" 'its relocations stay writable (RELRO)' yes '\bGNU_RELRO\b' "$header"
	must "$program" 'its functions are bound late (not full RELRO)' yes '\bNOW\b|BIND_NOW' "$dynamic"
	must "$program" 'its stack is executable' yes 'GNU_STACK .* RW +0x' "$header"
	must "$program" 'has a segment to write and execute' no 'LOAD .* RWE ' "$header"
	must "$program" 'has no stack protector' yes '__stack_chk_fail' "$symbols"
	must "$program" 'has no fortified calls (_FORTIFY_SOURCE)' yes '__[a-z]+_chk\b.*' \
		"$(grep -v __stack_chk_fail <<<"$symbols")"
	must "$program" 'looks for libraries in a folder of its own (RUNPATH)' no 'R(UN)?PATH' "$dynamic"
	! grep -qF -- "$PWD" "$program" || {
		echo "$program: knows the folder that it was built in, $PWD"
		status=1
	}
done
exit $status
