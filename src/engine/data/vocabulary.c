/* Names in one run of bytes, found by a hash table of their numbers. */
#include "engine/data/vocabulary.h"

#include <string.h>

/* number + 1 of a name, 0: empty; and its hash, so that few other names are looked at. */
struct slot {
    uint32_t taken, hash;
};

struct vocabulary {
    const struct mem *mem;
    char *text; /* each name with a NUL behind it */
    size_t text_len, text_cap;
    size_t *starts;
    size_t count, starts_cap;
    struct slot *slots; /* at most half of them are taken */
    size_t slot_count;
};

enum { FIRST_SLOTS = 64 };

struct vocabulary *vocabulary_new(const struct mem *mem)
{
    struct vocabulary *v = mem_array(mem, 1, sizeof *v);
    if (v == NULL)
        return NULL;
    v->mem = mem;
    v->slot_count = FIRST_SLOTS;
    v->slots = mem_array(mem, v->slot_count, sizeof *v->slots);
    if (v->slots == NULL) {
        mem_free(mem, v);
        return NULL;
    }
    return v;
}

void vocabulary_free(struct vocabulary *v)
{
    if (v == NULL)
        return;
    mem_free(v->mem, v->text);
    mem_free(v->mem, v->starts);
    mem_free(v->mem, v->slots);
    mem_free(v->mem, v);
}

size_t vocabulary_size(const struct vocabulary *v)
{
    return v != NULL ? v->count : 0;
}

const char *vocabulary_at(const struct vocabulary *v, uint32_t number)
{
    return number < vocabulary_size(v) ? v->text + v->starts[number] : "";
}

/* FNV-1a, its halves folded together. */
static uint32_t hash_of(const char *name, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    return (uint32_t)(h ^ h >> 32);
}

static bool is_name(const struct vocabulary *v, uint32_t number, const char *name, size_t len)
{
    const char *at = v->text + v->starts[number];
    size_t next = number + 1 < v->count ? v->starts[number + 1] : v->text_len;
    return next - v->starts[number] == len + 1 && memcmp(at, name, len) == 0;
}

/* The slot that holds the name, or the empty one where it belongs. */
static struct slot *slot_of(const struct vocabulary *v, uint32_t hash, const char *name, size_t len)
{
    size_t mask = v->slot_count - 1, at = hash & mask;
    while (v->slots[at].taken != 0 &&
           (v->slots[at].hash != hash || !is_name(v, v->slots[at].taken - 1, name, len)))
        at = (at + 1) & mask;
    return &v->slots[at];
}

uint32_t vocabulary_find(const struct vocabulary *v, const char *name, size_t len)
{
    if (v == NULL)
        return VOCABULARY_NONE;
    const struct slot *slot = slot_of(v, hash_of(name, len), name, len);
    return slot->taken != 0 ? slot->taken - 1 : VOCABULARY_NONE;
}

static bool more_slots(struct vocabulary *v)
{
    size_t count = v->slot_count * 2;
    struct slot *slots = mem_array(v->mem, count, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < v->slot_count; i++) {
        size_t at = v->slots[i].hash & (count - 1);
        if (v->slots[i].taken == 0)
            continue;
        while (slots[at].taken != 0)
            at = (at + 1) & (count - 1);
        slots[at] = v->slots[i];
    }
    mem_free(v->mem, v->slots);
    v->slots = slots;
    v->slot_count = count;
    return true;
}

static bool make_room(struct vocabulary *v, size_t len)
{
    void *text = v->text, *starts = v->starts;
    if (mem_grow(v->mem, &text, &v->text_cap, v->text_len + len + 1, 1) == NULL)
        return false;
    v->text = text;
    if (mem_grow(v->mem, &starts, &v->starts_cap, v->count + 1, sizeof *v->starts) == NULL)
        return false;
    v->starts = starts;
    return v->count * 2 < v->slot_count || more_slots(v);
}

uint32_t vocabulary_add(struct vocabulary *v, const char *name, size_t len)
{
    uint32_t found = vocabulary_find(v, name, len);
    if (found != VOCABULARY_NONE || v->count >= VOCABULARY_NONE - 1 || !make_room(v, len))
        return found;
    uint32_t number = (uint32_t)v->count, hash = hash_of(name, len);
    *slot_of(v, hash, name, len) = (struct slot){.taken = number + 1, .hash = hash};
    if (len > 0)
        memcpy(v->text + v->text_len, name, len);
    v->text[v->text_len + len] = '\0';
    v->starts[number] = v->text_len;
    v->text_len += len + 1;
    v->count++;
    return number;
}

static tri_status add_all(struct vocabulary *v, const char *const *names, size_t count,
                          tri_error *err)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t number = vocabulary_add(v, names[i], strlen(names[i]));
        if (number == VOCABULARY_NONE)
            return fail_nomem(err, "a vocabulary");
        if (number != i)
            return fail(err, TRI_EINPUT, "the name '%.100s' is there twice: as %u and as %zu",
                        names[i], number, i);
    }
    return TRI_OK;
}

tri_status vocabulary_of(const char *const *names, size_t count, const struct mem *mem,
                         struct vocabulary **out, tri_error *err)
{
    struct vocabulary *v = vocabulary_new(mem);
    tri_status status = v != NULL ? add_all(v, names, count, err) : fail_nomem(err, "a vocabulary");
    if (status == TRI_OK)
        *out = v;
    else
        vocabulary_free(v);
    return status;
}
