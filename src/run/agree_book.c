/* Agreements to books and back. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "run/agree_inside.h"
#include "wire/book.h"

static struct wire_book wire_book_of(const struct agreement *agreement)
{
    const struct agree_options *options = &agreement->options;
    struct wire_book book = {.workers = options->workers,
                             .servers = options->servers,
                             .colocated = options->colocated,
                             .batch = 1,
                             .bits_s = options->bits_s,
                             .latency_s = options->latency_s,
                             .message_s = options->message_s,
                             .flops_s = options->flops_s,
                             .chunk_bytes = options->chunk_bytes,
                             .server_bytes = options->server_bytes,
                             .grid_rows = options->grid_rows,
                             .grid_cols = options->grid_cols,
                             .rule = options->rule == PLAN_TIME ? WIRE_RULE_TIME : WIRE_RULE_BYTES,
                             .reproducible = options->reproducible,
                             .aggregate = options->aggregate,
                             .replicated = options->replicated,
                             .forced = wire_text_of(options->scheme),
                             .placement = wire_text_of(options->placement),
                             .optimizer = wire_text_of(options->optimizer),
                             .consistency = wire_text_of(options->consistency),
                             .layer_count = agreement->count};
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        if ((options->schemes >> i & 1) != 0)
            book.schemes[book.scheme_count++] = wire_text_of(scheme_at(i)->name);
    return book;
}

tri_status agree_encode(const struct agreement *agreement, struct buf *data, tri_error *err)
{
    struct wire_book book = wire_book_of(agreement);
    struct wire_layer *layers = mem_array(agreement->mem, agreement->count, sizeof *layers);
    if (layers == NULL)
        return fail_nomem(err, "a book");
    for (uint32_t i = 0; i < agreement->count; i++)
        layers[i] = wire_layer_of(&agreement->layers[i]);
    tri_status status = wire_book_encode(&book, agreement->options.home, layers, data, err);
    mem_free(agreement->mem, layers);
    return status == TRI_OK && !buf_ok(data) ? fail_nomem(err, "a book") : status;
}

/* Strings made from texts of a message, each with its NUL. */
struct decoded {
    struct agree_options options;
    struct agree_layer *layers;
    uint32_t *home;
    char *texts;
};

static const char *string_of(char **at, struct wire_text text)
{
    const char *string = *at;
    if (text.len > 0)
        memcpy(*at, text.at, text.len);
    (*at)[text.len] = '\0';
    *at += text.len + 1;
    return string;
}

/* The order of the list decides among equals, and here that is the registry's. */
static tri_status read_schemes(const struct wire_book *book, uint32_t *schemes, tri_error *err)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < book->scheme_count; i++) {
        struct wire_text name = book->schemes[i];
        size_t index = 0;
        while (scheme_at(index) != NULL &&
               !wire_text_equal(name, wire_text_of(scheme_at(index)->name)))
            index++;
        if (scheme_at(index) == NULL || found >> index != 0) {
            fail(err, TRI_EMISMATCH, "node 0 plans with scheme '%.*s', which is %s here",
                 name.len < 60 ? (int)name.len : 60, name.at,
                 scheme_at(index) == NULL ? "not known" : "in another order");
            fail_next(err, "run the same version of trident on all nodes");
            return TRI_EMISMATCH;
        }
        found |= UINT32_C(1) << index;
    }
    *schemes = found;
    return TRI_OK;
}

static void read_options(const struct wire_book *book, struct decoded *decoded, char **at)
{
    struct agree_options *options = &decoded->options;
    options->workers = book->workers;
    options->servers = book->servers;
    options->colocated = book->colocated;
    options->home = decoded->home;
    options->bits_s = book->bits_s;
    options->latency_s = book->latency_s;
    options->message_s = book->message_s;
    options->flops_s = book->flops_s;
    options->chunk_bytes = book->chunk_bytes;
    options->server_bytes = book->server_bytes;
    options->grid_rows = book->grid_rows;
    options->grid_cols = book->grid_cols;
    options->reproducible = book->reproducible;
    options->aggregate = book->aggregate;
    options->replicated = book->replicated;
    options->rule = book->rule == WIRE_RULE_TIME ? PLAN_TIME : PLAN_BYTES;
    options->scheme = string_of(at, book->forced);
    options->placement = string_of(at, book->placement);
    options->optimizer = string_of(at, book->optimizer);
    options->consistency = string_of(at, book->consistency);
}

static void read_lists(const struct wire_book *book, struct decoded *decoded, char **at)
{
    struct wire_in homes = book->homes, layers = book->layers;
    struct wire_layer layer;
    for (uint32_t i = 0; wire_home_next(&homes, &decoded->home[i]); i++)
        ;
    for (uint32_t i = 0; wire_layer_next(&layers, &layer); i++)
        decoded->layers[i] = (struct agree_layer){.name = string_of(at, layer.name),
                                                  .kind = (tri_kind)layer.kind,
                                                  .rows = layer.rows,
                                                  .cols = layer.cols,
                                                  .bias = layer.bias != 0,
                                                  .max_factor_rows = layer.max_factor_rows};
}

static tri_status make_decoded(const struct wire_book *book, struct decoded *decoded,
                               const struct mem *mem, struct agreement **out, tri_error *err)
{
    char *at = decoded->texts;
    read_options(book, decoded, &at);
    read_lists(book, decoded, &at);
    tri_status status = read_schemes(book, &decoded->options.schemes, err);
    if (status == TRI_OK)
        status = agree_make(decoded->layers, book->layer_count, &decoded->options, mem, out, err);
    if (status == TRI_EARG && err != NULL) /* numbers that came from outside */
        err->status = TRI_EINPUT;
    return status == TRI_EARG ? TRI_EINPUT : status;
}

tri_status agree_decode(const struct wire_header *header, const uint8_t *data,
                        const struct mem *mem, struct agreement **out, tri_error *err)
{
    struct wire_book book;
    struct decoded decoded = {0};
    tri_status status = wire_book_decode(header, data, &book, err);
    if (status != TRI_OK)
        return status;
    if (book.batch != 1)
        return fail(err, TRI_EINPUT,
                    "the book of node 0 is not that of a job: its batch is "
                    "%" PRIu64 " instead of 1",
                    book.batch);
    /* Every text has a byte for its length there and for its NUL here. */
    decoded.texts = mem_array(mem, header->data_len, 1);
    decoded.layers = mem_array(mem, book.layer_count, sizeof *decoded.layers);
    /* One more: the walk writes before it knows that it has come to the end. */
    decoded.home = mem_array(mem, (size_t)book.colocated + 1, sizeof *decoded.home);
    if (decoded.texts == NULL || decoded.layers == NULL || decoded.home == NULL)
        status = fail_nomem(err, "the book of node 0");
    else
        status = make_decoded(&book, &decoded, mem, out, err);
    mem_free(mem, decoded.texts);
    mem_free(mem, decoded.layers);
    mem_free(mem, decoded.home);
    return status;
}
