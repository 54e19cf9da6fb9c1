#!/bin/sh
# Park the mount and close the shutter; called by the weather watch.
# Exit code 3 means that the mount did not reach the park position within 90 seconds.
set -eu
control mount park --timeout 90 || exit 3
control shutter close
control fans off
logger "mount parked, shutter closed, fans off"
