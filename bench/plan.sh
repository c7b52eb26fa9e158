#!/bin/sh
# How long does a plan take? Prints the median of some runs of `trident plan` for
# the slowest of the committed profiles, and for 1,000 and 10,000 layers at 1,024
# workers, whose ratio shows that cost grows with the layers and no faster.
#   usage: bench/plan.sh TRIDENT      RUNS=N repeats each N times (default 11)
set -eu
cd "$(dirname "$0")/.."
trident=${1:-$(command -v trident || echo build/bin/trident)}
runs=${RUNS:-${TRIDENT_QUICK:+3}}
runs=${runs:-11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Milliseconds of the median of `runs` runs of a command.
median_ms() {
    i=0
    while [ $i -lt "$runs" ]; do
        start=$(date +%s%N)
        "$@" >"$work/out"
        echo $(($(date +%s%N) - start))
        i=$((i + 1))
    done | sort -n | awk '{ t[NR] = $1 } END { printf "%.2f", t[int((NR + 1) / 2)] / 1e6 }'
}

# A profile of n layers of the sizes a deep net has.
layers() {
    awk -v n="$1" 'BEGIN {
        printf "{\"format\": \"layer-profile/1\", \"name\": \"deep\", \"layers\": ["
        for (i = 0; i < n; i++)
            printf "%s\n{\"name\": \"layer%d\", \"type\": \"%s\", \"M\": %d, \"N\": %d, \"bias\": %d}",
                i ? "," : "", i, i % 4 ? "CONV" : "FC", 64 + i % 512, 1024 + i % 97, 64 + i % 512
        print "]}"
    }'
}

echo "plan: how long does a plan take, process start included? (ms, median of $runs runs)"
worst=0
for profile in models/*.json; do
    ms=$(median_ms "$trident" plan --model "$profile" --workers 16 --json)
    worst=$(printf '%s %s\n%s\n' "$ms" "$profile" "$worst" | sort -rn | head -n 1)
done
echo "slowest of $(ls models/*.json | wc -l) profiles: $worst"
layers 1000 >"$work/1000.json"
layers 10000 >"$work/10000.json"
thousand=$(median_ms "$trident" plan --model "$work/1000.json" --batch 32 --workers 1024 --json)
ten=$(median_ms "$trident" plan --model "$work/10000.json" --batch 32 --workers 1024 --json)
echo "1,000 layers at 1,024 workers: $thousand"
echo "10,000 layers at 1,024 workers: $ten"
echo "ratio: $(echo "$ten $thousand" | awk '{ printf "%.2f", $1 / $2 }') for 10 times the layers"
