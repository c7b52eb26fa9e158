# Sourced by what runs sanitized programs: how the sanitizers should behave.

# Readable stacks need llvm-symbolizer, of the large llvm package, or addr2line,
# which every compiler brings.
symbolizer=
command -v llvm-symbolizer >/dev/null ||
    symbolizer=:external_symbolizer_path=$(command -v addr2line || true)
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1$symbolizer"
export UBSAN_OPTIONS="print_stacktrace=1$symbolizer"
export TSAN_OPTIONS="halt_on_error=1$symbolizer"

# calm_prefix address|thread DIR: prints what to put before a sanitized command, mostly
# nothing. Where the kernel spreads addresses widely, an older sanitizer runtime may
# find its shadow memory taken and give up; without the spreading the same program runs.
calm_prefix() {
    mkdir -p "$2"
    echo 'int main(void) { return 0; }' | clang "-fsanitize=$1" -x c -o "$2/probe" -
    for _ in 1 2 3 4 5; do # it fails by chance: ask more than once
        if ! "$2/probe" 2>/dev/null; then
            ! setarch -R "$2/probe" 2>/dev/null || echo "setarch -R"
            return
        fi
    done
}
