/* A bit for each number, and a bit for each 64 of them, so that an empty set of many costs nothing.
 *
 * Who adds sets the lower bit first; who takes clears the upper bit first. So a lower bit without
 * its upper bit has somebody on the way to set it. */
#include "os/marks.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

struct marks {
    const struct mem *mem;
    uint32_t count;
    size_t tops; /* words of upper bits; 64 times as many words of lower bits follow them */
    _Atomic uint64_t words[];
};

struct marks *marks_new(const struct mem *mem, uint32_t count)
{
    size_t tops = (size_t)count / 4096 + 1;
    struct marks *marks =
        mem_array(mem, 1, sizeof *marks + (tops + tops * 64) * sizeof marks->words[0]);
    if (marks == NULL)
        return NULL;
    marks->mem = mem;
    marks->count = count;
    marks->tops = tops;
    return marks;
}

void marks_free(struct marks *marks)
{
    if (marks != NULL)
        mem_free(marks->mem, marks);
}

void marks_add(struct marks *marks, uint32_t number)
{
    assert(number < marks->count);
    size_t word = number / 64;
    atomic_fetch_or(&marks->words[marks->tops + word], UINT64_C(1) << (number % 64));
    atomic_fetch_or(&marks->words[word / 64], UINT64_C(1) << (word % 64));
}

static void take_word(struct marks *marks, size_t word, void (*each)(void *ctx, uint32_t number),
                      void *ctx)
{
    uint64_t bits = atomic_exchange(&marks->words[marks->tops + word], 0);
    for (; bits != 0; bits &= bits - 1)
        each(ctx, (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(bits));
}

void marks_take(struct marks *marks, void (*each)(void *ctx, uint32_t number), void *ctx)
{
    for (size_t top = 0; top < marks->tops; top++) {
        if (atomic_load(&marks->words[top]) == 0)
            continue;
        uint64_t bits = atomic_exchange(&marks->words[top], 0);
        for (; bits != 0; bits &= bits - 1)
            take_word(marks, top * 64 + (size_t)__builtin_ctzll(bits), each, ctx);
    }
}
