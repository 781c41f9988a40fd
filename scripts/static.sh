# Shared by what makes packages. To be sourced in the repository's root.
say() { printf '\033[1m%s\033[0m\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# libelf is built from its sources.
for tool in autoreconf autopoint flex bison gawk; do
    command -v "$tool" >/dev/null ||
        fail "$tool is missing; on Debian: apt-get install autoconf automake autopoint bison flex gawk libtool"
done

glibc_version() { getconf GNU_LIBC_VERSION | cut -d' ' -f2; }

# The daemon without debug information and names of compilers, at $1.
static_daemon() {
    cargo build --release --locked --quiet -p wiresum-node --features static
    mkdir -p "$(dirname "$1")"
    strip --remove-section=.comment -o "$1" target/release/wiresum-node
}

version() { sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml; }

# The oldest glibc that the binary $1 runs on.
needed_glibc() { objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | cut -d_ -f2; }
