/* HELLO to bytes and back. Data: two counts, the library, options, layers. */
#include "wire/hello.h"

#include <assert.h>

enum {
    ROLES = WIRE_ROLE_WORKER | WIRE_ROLE_SERVER | WIRE_ROLE_COORDINATOR,
    OPTION_LEAST = 1 + 1 + 1, /* bytes of the shortest option */
};

void wire_hello_encode(const struct wire_hello *hello, struct buf *head)
{
    wire_put_u32(head, hello->roles);
    wire_put_u32(head, hello->rank);
    wire_put_u64(head, hello->incarnation);
    wire_put_u16(head, hello->wire_min);
    wire_put_u16(head, hello->wire_max);
}

tri_status wire_hello_decode(const struct wire_header *header, const uint8_t *head,
                             const struct wire_limits *limits, struct wire_hello *out,
                             tri_error *err)
{
    assert(header->kind == WIRE_HELLO);
    struct wire_in in = wire_in_of(head, header->head_len);
    struct wire_hello hello;
    hello.roles = wire_get_u32(&in);
    hello.rank = wire_get_u32(&in);
    hello.incarnation = wire_get_u64(&in);
    hello.wire_min = wire_get_u16(&in);
    hello.wire_max = wire_get_u16(&in);
    if (hello.roles == 0 || (hello.roles & ~(uint32_t)ROLES) != 0)
        wire_refuse(&in, "it has no role, or an unknown one");
    /* The coordinator may know of fewer workers than servers. */
    if (hello.rank >= limits->nodes)
        wire_refuse(&in, "its rank is past the last one");
    if (hello.wire_min < 1 || hello.wire_min > WIRE_VERSION || hello.wire_max < WIRE_VERSION)
        wire_refuse(&in, "its versions leave out the one it is written in");
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = hello;
    return status;
}

tri_status wire_hello_begin(struct wire_hello_out *out, struct buf *data, const char *library,
                            tri_error *err)
{
    struct wire_text text = wire_text_of(library);
    if (!wire_text_fits(text))
        return fail(err, TRI_EARG, "the library version is too long or has control characters");
    *out = (struct wire_hello_out){.data = data, .at = data->len, .last = {.at = "", .len = 0}};
    wire_put_u32(data, 0);
    wire_put_u32(data, 0);
    wire_put_text(data, text);
    return TRI_OK;
}

tri_status wire_hello_option(struct wire_hello_out *out, const struct wire_option *option,
                             tri_error *err)
{
    if (!wire_text_fits(option->name) || !wire_text_fits(option->value))
        return fail(
            err, TRI_EARG, "option '%.*s' is longer than %d bytes or has control characters",
            option->name.len < 60 ? (int)option->name.len : 60, option->name.at, WIRE_TEXT_MAX);
    /* The empty name stands before all others, so this refuses it, too. */
    if (out->layers || wire_text_order(out->last, option->name) >= 0)
        return fail(err, TRI_EARG, "option '%.*s' is out of order", (int)option->name.len,
                    option->name.at);
    wire_put_text(out->data, option->name);
    wire_put_text(out->data, option->value);
    wire_raise(out->data, out->at);
    out->last = option->name;
    return TRI_OK;
}

tri_status wire_hello_layer(struct wire_hello_out *out, const struct wire_layer *layer,
                            tri_error *err)
{
    const char *wrong = wire_layer_wrong(layer);
    if (wrong != NULL)
        return fail(err, TRI_EARG, "%s", wrong);
    wire_put_layer(out->data, layer);
    wire_raise(out->data, out->at + 4);
    out->layers = true;
    return TRI_OK;
}

static struct wire_option get_option(struct wire_in *in)
{
    struct wire_option option;
    option.name = wire_get_text(in);
    option.value = wire_get_text(in);
    return option;
}

bool wire_option_next(struct wire_in *list, struct wire_option *out)
{
    if (list->p == list->end)
        return false;
    *out = get_option(list);
    return list->failed == NULL;
}

static void check_options(struct wire_in *in, uint32_t count)
{
    struct wire_text last = {.at = "", .len = 0};
    for (uint32_t i = 0; i < count && in->failed == NULL; i++) {
        struct wire_option option = get_option(in);
        if (wire_text_order(last, option.name) >= 0)
            wire_refuse(in, "options have no name or do not ascend");
        last = option.name;
    }
}

tri_status wire_hello_data_decode(const struct wire_header *header, const uint8_t *data,
                                  struct wire_hello_data *out, tri_error *err)
{
    assert(header->kind == WIRE_HELLO);
    struct wire_in in = wire_in_of(data, header->data_len);
    struct wire_hello_data hello;
    hello.option_count = wire_get_count(&in, OPTION_LEAST);
    hello.layer_count = wire_get_count(&in, WIRE_LAYER_LEAST);
    if (hello.layer_count > WIRE_MAX_LAYERS)
        wire_refuse(&in, "it has more than 1048576 layers");
    hello.library = wire_get_text(&in);
    hello.options.p = in.p;
    check_options(&in, hello.option_count);
    hello.layers.p = in.p;
    for (uint32_t i = 0; i < hello.layer_count && in.failed == NULL; i++)
        (void)wire_get_layer(&in);
    hello.options.end = hello.layers.p;
    hello.layers.end = in.p;
    hello.options.failed = hello.layers.failed = NULL;
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = hello;
    return status;
}
