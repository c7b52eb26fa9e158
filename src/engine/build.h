/* Building a net: one call per operator, in the order of the forward pass. For nets.c. */
#ifndef TRIDENT_ENGINE_BUILD_H
#define TRIDENT_ENGINE_BUILD_H

#include "engine/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first failure is remembered, and every call after it does nothing and gives NULL. An input
 * that is NULL means the last operator. */
struct build {
    struct net *net;
    const struct net_data *data;
    uint64_t seed;
    tri_status status;
    tri_error *err;
};

struct op *build_image(struct build *build);
struct op *build_tokens(struct build *build);
struct op *build_conv(struct build *build, const char *name, struct op *in,
                      const struct op_conv *conv);
struct op *build_pool(struct build *build, const char *name, const struct op_pool *pool);
struct op *build_norm(struct build *build, const char *name, bool relu);
struct op *build_add(struct build *build, const char *name, struct op *a, struct op *b, bool relu);
struct op *build_fc(struct build *build, const char *name, uint32_t outputs, bool relu);
struct op *build_dropout(struct build *build, const char *name, float drop);
struct op *build_embed(struct build *build, const char *name, uint32_t width);
struct op *build_textconv(struct build *build, const char *name, struct op *in, uint32_t filters,
                          uint32_t window);
struct op *build_concat(struct build *build, const char *name, struct op *const *in, size_t count);
void build_loss(struct build *build); /* the last one */

/* nets.c: TRI_EINPUT for a model that is none, or data it cannot take. */
tri_status nets_build(struct build *build, const char *model);

#ifdef __cplusplus
}
#endif

#endif
