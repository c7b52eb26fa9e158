/* The book to bytes and back. One set of rules serves both directions, so what
 * was written can be read. */
#include "wire/book.h"

#include <assert.h>
#include <math.h>

/* A name of a part: never empty. */
static bool named(struct wire_text text)
{
    return text.len > 0 && wire_text_fits(text);
}

static const char *wrong_numbers(const struct wire_book *book)
{
    if (book->workers < 1 || book->workers > WIRE_MAX_RANKS || book->servers < 1 ||
        book->servers > WIRE_MAX_RANKS)
        return "workers or servers are not within 1 and 65536";
    if (book->colocated > book->workers || book->colocated > book->servers)
        return "more servers share a node with a worker than there are";
    if (book->batch < 1)
        return "the batch is 0";
    if (!isfinite(book->bits_s) || book->bits_s <= 0 || !isfinite(book->flops_s) ||
        book->flops_s <= 0)
        return "a rate is not a positive number";
    /* signbit: -0 would be a second way to write 0, and another hash. */
    if (!isfinite(book->latency_s) || signbit(book->latency_s) || !isfinite(book->message_s) ||
        signbit(book->message_s))
        return "a time is negative or not a number";
    if (book->rule > WIRE_RULE_TIME)
        return "the rule is unknown";
    if (book->aggregate && book->replicated)
        return "it is aggregate and replicated at once";
    return NULL;
}

static const char *wrong_count(uint32_t layers)
{
    return layers < 1 || layers > WIRE_MAX_LAYERS ? "layers are not within 1 and 1048576" : NULL;
}

static const char *wrong_names(const struct wire_book *book)
{
    if (book->scheme_count < 1 || book->scheme_count > WIRE_MAX_SCHEMES)
        return "schemes are not within 1 and 32";
    for (uint32_t i = 0; i < book->scheme_count; i++) {
        if (!named(book->schemes[i]))
            return "a scheme has no name, or an impossible one";
        for (uint32_t k = 0; k < i; k++)
            if (wire_text_equal(book->schemes[i], book->schemes[k]))
                return "a scheme is named twice";
    }
    if (!wire_text_fits(book->forced) || !named(book->placement) || !named(book->optimizer) ||
        !named(book->consistency))
        return "a part has no name, or an impossible one";
    return NULL;
}

/* Remembers who has a server already: a bit per worker. */
struct taken {
    uint8_t bits[WIRE_MAX_RANKS / 8];
};

static const char *wrong_home(struct taken *taken, uint32_t workers, uint32_t node)
{
    if (node >= workers)
        return "a server is at home on no worker's node";
    if ((taken->bits[node / 8] >> node % 8 & 1) != 0)
        return "two servers are at home on one node";
    taken->bits[node / 8] |= (uint8_t)(1u << node % 8);
    return NULL;
}

static const char *wrong_lists(const struct wire_book *book, const uint32_t *homes,
                               const struct wire_layer *layers)
{
    struct taken taken = {{0}};
    const char *wrong = wrong_count(book->layer_count);
    for (uint32_t i = 0; homes != NULL && i < book->colocated && wrong == NULL; i++)
        wrong = wrong_home(&taken, book->workers, homes[i]);
    for (uint32_t i = 0; i < book->layer_count && wrong == NULL; i++)
        wrong = wire_layer_wrong(&layers[i]);
    return wrong;
}

static void put_fields(const struct wire_book *book, struct buf *data)
{
    wire_put_u32(data, book->workers);
    wire_put_u32(data, book->servers);
    wire_put_u32(data, book->colocated);
    wire_put_u64(data, book->batch);
    wire_put_f64(data, book->bits_s);
    wire_put_f64(data, book->latency_s);
    wire_put_f64(data, book->message_s);
    wire_put_f64(data, book->flops_s);
    wire_put_u64(data, book->chunk_bytes);
    wire_put_u64(data, book->server_bytes);
    wire_put_u32(data, book->grid_rows);
    wire_put_u32(data, book->grid_cols);
    wire_put_u8(data, book->rule);
    wire_put_u8(data, book->reproducible);
    wire_put_u8(data, book->aggregate);
    wire_put_u8(data, book->replicated);
    wire_put_u8(data, (uint8_t)book->scheme_count);
    for (uint32_t i = 0; i < book->scheme_count; i++)
        wire_put_text(data, book->schemes[i]);
    wire_put_text(data, book->forced);
    wire_put_text(data, book->placement);
    wire_put_text(data, book->optimizer);
    wire_put_text(data, book->consistency);
}

tri_status wire_book_encode(const struct wire_book *book, const uint32_t *homes,
                            const struct wire_layer *layers, struct buf *data, tri_error *err)
{
    const char *wrong = wrong_numbers(book);
    if (wrong == NULL)
        wrong = wrong_names(book);
    if (wrong == NULL)
        wrong = wrong_lists(book, homes, layers);
    if (wrong != NULL)
        return fail(err, TRI_EARG, "the book cannot be sent: %s", wrong);
    put_fields(book, data);
    for (uint32_t i = 0; i < book->colocated; i++)
        wire_put_u32(data, homes != NULL ? homes[i] : i);
    wire_put_u32(data, book->layer_count);
    for (uint32_t i = 0; i < book->layer_count; i++)
        wire_put_layer(data, &layers[i]);
    return TRI_OK;
}

static void get_fields(struct wire_in *in, struct wire_book *book)
{
    book->workers = wire_get_u32(in);
    book->servers = wire_get_u32(in);
    book->colocated = wire_get_u32(in);
    book->batch = wire_get_u64(in);
    book->bits_s = wire_get_f64(in);
    book->latency_s = wire_get_f64(in);
    book->message_s = wire_get_f64(in);
    book->flops_s = wire_get_f64(in);
    book->chunk_bytes = wire_get_u64(in);
    book->server_bytes = wire_get_u64(in);
    book->grid_rows = wire_get_u32(in);
    book->grid_cols = wire_get_u32(in);
    book->rule = wire_get_u8(in);
    book->reproducible = wire_get_bool(in);
    book->aggregate = wire_get_bool(in);
    book->replicated = wire_get_bool(in);
    book->scheme_count = wire_get_u8(in);
    /* More than there is room for is refused by the rules; here they are not stored. */
    for (uint32_t i = 0; i < book->scheme_count && i < WIRE_MAX_SCHEMES; i++)
        book->schemes[i] = wire_get_text(in);
    book->forced = wire_get_text(in);
    book->placement = wire_get_text(in);
    book->optimizer = wire_get_text(in);
    book->consistency = wire_get_text(in);
}

static void get_homes(struct wire_in *in, const struct wire_book *book)
{
    struct taken taken = {{0}};
    for (uint32_t i = 0; i < book->colocated && in->failed == NULL; i++) {
        const char *wrong = wrong_home(&taken, book->workers, wire_get_u32(in));
        if (wrong != NULL)
            wire_refuse(in, wrong);
    }
}

static void get_lists(struct wire_in *in, struct wire_book *book)
{
    book->homes.p = in->p;
    get_homes(in, book);
    book->homes.end = in->p;
    book->layer_count = wire_get_count(in, WIRE_LAYER_LEAST);
    const char *wrong = wrong_count(book->layer_count);
    if (wrong != NULL)
        wire_refuse(in, wrong);
    book->layers.p = in->p;
    for (uint32_t i = 0; i < book->layer_count && in->failed == NULL; i++)
        (void)wire_get_layer(in);
    book->layers.end = in->p;
}

tri_status wire_book_decode(const struct wire_header *header, const uint8_t *data,
                            struct wire_book *out, tri_error *err)
{
    assert(header->kind == WIRE_BOOK);
    struct wire_in in = wire_in_of(data, header->data_len);
    struct wire_book book = {0};
    get_fields(&in, &book);
    const char *wrong = wrong_numbers(&book);
    if (wrong == NULL)
        wrong = wrong_names(&book);
    if (wrong != NULL)
        wire_refuse(&in, wrong);
    get_lists(&in, &book); /* which counts on workers being in bounds */
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = book;
    return status;
}

bool wire_home_next(struct wire_in *list, uint32_t *node)
{
    if (list->p == list->end)
        return false;
    *node = wire_get_u32(list);
    return list->failed == NULL;
}
