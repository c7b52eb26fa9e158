/* From what a program described to the plan, the same on every node.
 *
 * A program has layers and options; an agreement is these and all that follows from them: profile,
 * book, plan, layout, rules, optimiser and the numbers by which nodes tell whether they agree. A
 * node that has no program, a server, makes its agreement from the BOOK of node 0. Pure; no
 * globals, so any thread may make one. */
#ifndef TRIDENT_RUN_AGREE_H
#define TRIDENT_RUN_AGREE_H

#include "base/buf.h"
#include "core/core.h"
#include "core/layout.h"
#include "mod/optim.h"
#include "plan/plan.h"
#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

struct agree_layer {
    const char *name; /* not empty, different from all others */
    tri_kind kind;
    uint32_t rows, cols; /* at least 1 each */
    bool bias;
    uint32_t max_factor_rows;         /* K; 0: never gives factors, and is planned like TRI_OTHER */
    uint32_t max_rows, window_floats; /* as in tri_layer_info; not looked at by the plan */
    bool reads_pending;               /* likewise */
};

/* What must be alike on all nodes. Zeroed but for workers, servers and the rates is a good start.
 */
struct agree_options {
    uint32_t workers, servers, colocated; /* as in a book */
    const uint32_t *home;                 /* [colocated] nodes of the servers; NULL: 0, 1, 2, ... */
    double bits_s, latency_s, message_s, flops_s;
    uint64_t chunk_bytes;  /* 0: from the link */
    uint64_t server_bytes; /* 0: no limit */
    uint32_t grid_rows, grid_cols;
    bool reproducible;
    bool aggregate, replicated; /* not both */
    enum plan_rule rule;
    uint32_t schemes;        /* bit i: scheme_at(i) may be chosen; 0: all. Of these, the ones that
                                a job can run and that go with the consistency are taken */
    const char *scheme;      /* for every layer; NULL or "": choose */
    const char *placement;   /* NULL: "hash" */
    const char *optimizer;   /* NULL: "sgd" */
    const char *consistency; /* NULL: "bsp" */
};

struct agreement {
    const struct mem *mem;
    struct agree_options options; /* as they were understood; its pointers are the agreement's */
    struct agree_layer *layers;   /* names are the agreement's, too */
    uint32_t count;
    struct profile profile; /* not for profile_free() */
    struct book book;
    const tri_scheme_ops **forced_for; /* of the book */
    struct plan *plan;
    struct layout *layout; /* layer i of it is layers[i] */
    struct core_rules rules;
    struct optim optim;
    struct buf hello;     /* data of HELLO, without head: for struct convert */
    uint64_t layers_hash; /* of options and layers, as convert_hello_hash() finds it in HELLO */
    uint64_t plan_hash;   /* of layout, rules and optimiser */
    char *texts;          /* what all names and options lie in */
};

/* Plans. TRI_EINPUT names the layer or option that cannot be, and why; TRI_EARG for numbers that no
 * option can have. On success *out belongs to the caller until agree_free(). Nothing given is
 * needed after it but mem. */
tri_status agree_make(const struct agree_layer *layers, uint32_t count,
                      const struct agree_options *options, const struct mem *mem,
                      struct agreement **out, tri_error *err);
void agree_free(struct agreement *agreement); /* NULL is fine */

/* Appends the data of BOOK; told by the status. */
tri_status agree_encode(const struct agreement *agreement, struct buf *data, tri_error *err);

/* The agreement that node 0 has, from its BOOK: header decoded, data with its data_len bytes. As
 * agree_make() otherwise; TRI_EMISMATCH for parts that are not known here by name. */
tri_status agree_decode(const struct wire_header *header, const uint8_t *data,
                        const struct mem *mem, struct agreement **out, tri_error *err);

/* The name of a layer's scheme; static storage. And Poseidon's Query: see plan/query.h. */
const char *agree_scheme(const struct agreement *agreement, uint32_t layer);
tri_status agree_query(const struct agreement *agreement, const char *name, char *out, size_t cap,
                       tri_error *err);

/* What another rank says in HELLO: its data, which convert_decode_data() has found to be right. */
struct agree_hello {
    uint32_t rank;
    const uint8_t *data;
    size_t len;
};

/* On rank 0: the first difference between another rank and this one, for a person; false, and text
 * is "", if there is none. */
bool agree_differ(const struct agreement *own, const struct agree_hello *other, char *text,
                  size_t size);

#ifdef __cplusplus
}
#endif

#endif
