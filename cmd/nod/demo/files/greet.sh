#!/bin/sh
# Greets whoever is named, or the world.
echo "Helo, ${1:-world}!"
