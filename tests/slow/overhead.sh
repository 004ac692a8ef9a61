#!/usr/bin/env bash
# 1,000 trials of one epoch on 1,000 examples: less than 5 % of the time goes by outside the backend. How that is
# measured, and why it does not depend on what else the machine does, stands in tests/plain/plain_overhead.c.
# shellcheck source=tests/slow/common.bash
. "$(dirname "$0")/common.bash"

if ! ${MAKE:-make} -s plain-programs; then
    bad "tests/plain builds"
    summary
fi
check "less than 5 % of the time is spent outside the backend" build/tests/plain/plain_overhead 1000 5
summary
