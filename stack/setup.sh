# Finds a Python that will do and hands over to stack/setup.py. Only what every POSIX shell has built in.
cd "${0%/*}/.." || exit 1
for candidate in python3.11 python3.12 python3.13 python3.14 python3 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        exec "$candidate" -m stack.setup "$@"
    fi
done
echo "no Python 3.11 or newer found: payhook needs one on PATH (Debian, Ubuntu: apt-get install python3 python3-venv;" \
    "Fedora: dnf install python3.11; macOS: brew install python@3.11)" >&2
exit 1
