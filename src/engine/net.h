/* Nets: operators in order, from the input to the loss. */
#ifndef TRIDENT_ENGINE_NET_H
#define TRIDENT_ENGINE_NET_H

#include "engine/op.h"

#ifdef __cplusplus
extern "C" {
#endif

struct net;

/* What data asks of a net. */
struct net_data {
    struct shape3 image; /* of a sample; all 0: text */
    uint32_t length;     /* text: tokens of a sample, padded */
    uint32_t words;      /* text: tokens there are, 0 (padding) and 1 (unknown) among them */
    uint32_t classes;
};

/* "mlp:4096x4", "lenet", "cifar10-quick", "resnet20", "textcnn:300,hidden=900": a name and sizes.
 * TRI_EINPUT for a name or a size that is none (with the names there are), and for data the net
 * cannot take. The net has batch samples at a time. seed: of initial values and dropout. */
tri_status net_new(const char *model, const struct net_data *data, uint32_t batch, uint64_t seed,
                   const struct mem *mem, struct net **out, tri_error *err);
void net_free(struct net *net); /* NULL is fine */

/* The nets there are; NULL past the end. */
struct net_model {
    const char *name, *summary, *sizes; /* sizes: how they are written, "" if there are none */
    bool text;                          /* takes text, not images */
};
const struct net_model *net_model_at(size_t i);

/* Layers of parameters, in the order of the forward pass. */
size_t net_params(const struct net *net);
struct param *net_param(struct net *net, size_t i);

/* Layer `param` lies elsewhere from now on: in memory that several processes share, say. weights
 * are rows x cols floats, row behind row, at any address; bias rows floats, not looked at where the
 * layer has none. They are the caller's, and must outlive the net's use of them. The net's own
 * memory for them is given back, and its values with it: copy them first. Any layer of any net. */
void net_use_weights(struct net *net, size_t param, float *weights, float *bias);

/* From now on weigh() leaves the gradients of layers that have such a form (filters over text) as
 * windows of tri_update_info: nothing is multiplied out. For good. */
void net_give_windows(struct net *net);

/* Buffers that belong to a model and are no parameters: running statistics. */
struct net_buffer {
    char name[OP_NAME + 20]; /* "bn1.running_mean" */
    float *at;
    size_t floats;
};
size_t net_buffers(const struct net *net);
struct net_buffer net_buffer(struct net *net, size_t i);

/* Where the batch goes: plain images, or tokens (the other is NULL), and labels. */
struct net_batch {
    float *images;    /* batch x channels x height x width */
    uint32_t *tokens; /* batch x length */
    uint32_t *labels;
};
struct net_batch net_batch(struct net *net);
uint32_t net_batch_size(const struct net *net);

/* What the caller does between operators; a NULL call does nothing. Return false to stop. */
struct net_calls {
    void *ctx;
    bool (*before)(void *ctx, size_t param); /* its forward: parameters are about to be read */
    /* Instead of that, for who brings parameters up to date as they are read, while a cache has
     * them: the first `rows` rows of the layer (and of its bias) are about to be. They may change
     * in the call, and stay as they are until the next net_forward(). Ascending; the last call is
     * for all rows, and for layers that are not read row by row it is the only one. False: the
     * operator ends its pass, and net_forward() returns. Not with net_avoid(). */
    bool (*rows)(void *ctx, size_t param, size_t rows);
    /* Beside rows, and instead of it for fully connected layers of few samples: steps that are
     * still to be made, with which this forward pass and the backward pass behind it reckon. Not
     * without rows. */
    bool (*pending)(void *ctx, size_t param, struct op_pending *out);
    bool (*ready)(void *ctx, size_t param); /* its gradient is there; backward-data still reads */
    /* Instead of ready, of net_backward() and of layers that can: *here says whether the net is to
     * make this step itself, while its backward pass goes over the layer. It is false before. */
    bool (*learns)(void *ctx, size_t param, bool *here, struct op_step *step);
    bool (*done)(void *ctx, size_t param); /* backward-data has read, too; not of net_learn() */
};

/* first_sample: number of the batch's first sample in the stream of all, for dropout. False: a
 * call of the caller's stopped it. */
bool net_forward(struct net *net, bool training, uint64_t first_sample,
                 const struct net_calls *calls);
bool net_backward(struct net *net, const struct net_calls *calls);

/* Instead of net_backward(): learns in place. Each layer is stepped right behind its part of the
 * backward pass, parameters += alpha * gradient of the sum of the losses; plain SGD is an alpha of
 * -lr / samples. With parameters that others step at the same time it is Hogwild: nobody waits,
 * each layer's gradient is of the values that it finds. ready: the layer has been stepped, and is
 * not read again. What weigh() would leave in struct param is not there. */
bool net_learn(struct net *net, float alpha, const struct net_calls *calls);

/* Learners that work on the same rows at the same moment slow each other down a lot, and once they
 * do they go on together. So from now on each pass begins each layer somewhere else: rows drawn
 * from the seed, which must differ from learner to learner. Sums over rows then begin there, too:
 * other roundings. */
void net_avoid(struct net *net, uint64_t seed);

/* Of the first `samples` of the batch of the last forward. */
void net_loss(const struct net *net, uint32_t samples, double *loss, uint32_t *right);
const float *net_probabilities(const struct net *net); /* batch x classes */

/* Time spent in each operator since net_time(net, clock), without the caller's calls: for tables.
 * Off by default. */
struct net_times {
    const char *name, *kind;
    double forward_s, weigh_s, backward_s;
};
void net_time(struct net *net, double (*clock)(void));
size_t net_ops(const struct net *net);
struct net_times net_times(const struct net *net, size_t op);

#ifdef __cplusplus
}
#endif

#endif
