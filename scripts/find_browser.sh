#!/usr/bin/env bash
# Finds the browser that the page is tested with, or installs it where that can be done without asking.
# Prints what to set for the tests: nothing, or REFDESK_NO_BROWSER=1 with the reason on standard error.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing chromium …" >&2
    if apt-get update >/dev/null 2>&1 && apt-get install -y --no-install-recommends chromium >/dev/null 2>&1; then
        command -v chromium >/dev/null && exit 0
    fi
fi
echo "no browser was found and none could be installed (apt install chromium): the page is not tested" >&2
echo "REFDESK_NO_BROWSER=1"
