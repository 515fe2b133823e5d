# shellcheck shell=bash disable=SC2034
# What the scripts share; sourced by them, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
else
    bold='' red='' green='' plain=''
fi

say() { printf '%s\n' "${bold}==>${plain} $*"; }
die() { printf '%s\n' "${red}${0##*/}: $*${plain}" >&2; exit 1; }

# A directory that goes away with the script, whatever ends it.
scratch_dir() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/etls-${0##*/}.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
}

# The application and, by its pre-hook, the daemon.
build_application() { (cd "$root" && rebar3 compile); }

# compile_erlang OUT FILE...: plain modules beside the application, for the demo and the benchmark.
compile_erlang() {
    local out=$1
    shift
    mkdir -p "$out"
    erlc -Wall -Werror +debug_info -pa "$root/_build/default/lib/etls/ebin" -o "$out" "$@"
}

# A VM as a user starts it, with etls on its path: run_erlang EBIN MODULE [ARG...] calls MODULE:main(Args).
run_erlang() {
    local ebin=$1 module=$2
    shift 2
    ERL_CRASH_DUMP_SECONDS=0 erl -noinput -pa "$root/_build/default/lib/etls/ebin" -pa "$ebin" \
        -s "$module" main -extra "$@"
}
