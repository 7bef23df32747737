# What .ci/run installs: under target at pinned versions, and Firefox, npm and valgrind as packages of the system. It is read by
# .ci/run, whose variable `ci` and function `note` it uses, and for `install_cyclonedx` by infra/release/run.
# shellcheck shell=bash disable=SC2154

install_tools() {
    local list=infra/ci/requirements.txt
    if ! cmp -s "$list" "$ci/venv/installed.txt"; then
        rm -rf "$ci/venv"
        python3 -m venv "$ci/venv"
        "$ci/venv/bin/pip" install --quiet --require-hashes --only-binary :all: --no-deps -r "$list"
        cp "$list" "$ci/venv/installed.txt"
    fi
}

# Installs a package of the system: needs apt-get, the network, and root or sudo without a password.
install_package() {
    local as_root=()
    if ((EUID)); then
        as_root=(sudo --non-interactive)
    fi
    export DEBIAN_FRONTEND=noninteractive
    command -v apt-get && "${as_root[@]}" apt-get update &&
        "${as_root[@]}" apt-get install --yes --no-install-recommends "$1"
}

# has_npm FUNCTION: npm with Node.js 20 or newer; installs it if it is missing, and notes that the step is skipped where it cannot.
has_npm() {
    command -v npm || install_package npm || ! note "$1" 'skipped: npm is missing, and apt-get could not install it' || return 1
    (($(node -p 'process.versions.node.split(".")[0]') >= 20)) || ! note "$1" 'skipped: Node.js is older than version 20'
}

install_npm() {
    has_npm "${FUNCNAME[0]}" || return 0
    install_npm_tools
}

# From the lock alone, and without the packages' own scripts.
install_npm_tools() {
    local list=infra/ci/npm/package-lock.json
    if ! cmp -s "$list" "$ci/npm/installed.json"; then
        rm -rf "$ci/npm"
        mkdir -p "$ci/npm"
        cp infra/ci/npm/package.json infra/ci/npm/.npmrc "$list" "$ci/npm"
        npm ci --prefix "$ci/npm" --ignore-scripts --no-audit --no-fund
        cp "$list" "$ci/npm/installed.json"
    fi
}

# About 80 MB. Without Firefox the browser tests would be skipped; here they must run.
install_firefox() {
    local browser
    for browser in "${FIREFOX:-}" firefox-esr firefox; do
        if [[ -n $browser ]] && command -v "$browser"; then
            return
        fi
    done
    if ! install_package firefox-esr; then
        printf 'Firefox is missing, and apt-get could not install firefox-esr (it needs the network, and root or sudo without a password):\n'
        printf 'install Firefox, or set FIREFOX=/path/to/firefox\n'
        return 1
    fi
}

# Installs the tools first if they are missing or outdated, so that every step runs alone.
with_tools() {
    install_tools
    PATH="$ci/venv/bin:$PATH" "$@"
}

# What lists what an executable consists of. The release has it in its files, and the step `release` checks the lists.
install_cyclonedx() {
    local cyclonedx=0.5.9
    export PATH="$PWD/target/release-tools/bin:$PATH"
    if [[ $(cargo-cyclonedx cyclonedx --version 2>/dev/null) != *" $cyclonedx"* ]]; then
        # For its own version of Rust or newer; a quick build, because it runs for a second.
        cargo install cargo-cyclonedx --debug --version "$cyclonedx" --locked --root target/release-tools
    fi
}

# has_valgrind FUNCTION: installs it if it is missing; notes that the step is skipped where it cannot.
has_valgrind() {
    command -v valgrind || install_package valgrind ||
        ! note "$1" 'skipped: valgrind is missing, and apt-get could not install it'
}
