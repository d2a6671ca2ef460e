#!/bin/sh
# Checks what greet.sh says.
set -e
test "$(sh greet.sh)" = "Hello, world!"
test "$(sh greet.sh Ada)" = "Hello, Ada!"
echo "2 passed, 0 failed"
