/* What all operators have: memory, a frame, a layer of parameters. */
#include "engine/op.h"

#include <stdio.h>
#include <string.h>

#include "math/inplace.h"
#include "os/pages.h"

enum { ALIGNMENT = 64 };

/* The block's own address is kept right in front of what is given out. */
float *op_floats(const struct mem *mem, size_t count)
{
    if (count > (SIZE_MAX - 2 * (size_t)PAGES_LARGE) / sizeof(float))
        return NULL;
    size_t bytes = count * sizeof(float);
    size_t align = bytes >= 2 * (size_t)PAGES_LARGE ? (size_t)PAGES_LARGE : (size_t)ALIGNMENT;
    char *block = mem->resize(mem->ctx, NULL, bytes + align + sizeof(void *));
    if (block == NULL)
        return NULL;
    uintptr_t at = (uintptr_t)block + sizeof(void *) + align - 1;
    float *floats = (float *)(at - at % align);
    pages_be_large(floats, bytes);
    memset(floats, 0, bytes);
    memcpy((char *)floats - sizeof(void *), &block, sizeof block);
    return floats;
}

void op_floats_free(const struct mem *mem, float *floats)
{
    if (floats == NULL)
        return;
    void *block;
    memcpy(&block, (const char *)floats - sizeof(void *), sizeof block);
    mem_free(mem, block);
}

struct op *op_new(const struct mem *mem, const struct op_kind *kind, const char *name,
                  uint32_t batch, struct op *const *in, size_t in_count, bool has_param)
{
    struct op *op = mem_array(mem, 1, sizeof *op);
    if (op == NULL || in_count > OP_INPUTS) {
        mem_free(mem, op);
        return NULL;
    }
    op->mem = mem;
    op->kind = kind;
    op->batch = batch;
    op->wants_diff = has_param;
    (void)snprintf(op->name, sizeof op->name, "%s", name);
    for (size_t i = 0; i < in_count; i++) {
        op->in[i] = in[i];
        in[i]->users++;
        op->wants_diff = op->wants_diff || in[i]->wants_diff;
    }
    op->in_count = in_count;
    return op;
}

bool op_make_plain(struct op *op, struct shape3 shape)
{
    size_t floats = op->batch * shape3_floats(shape);
    op->out = (struct tensor){.shape = shape, .data = op_floats(op->mem, floats)};
    op->diff = (struct tensor){.shape = shape};
    if (op->wants_diff)
        op->diff.data = op_floats(op->mem, floats);
    return op->out.data != NULL && (!op->wants_diff || op->diff.data != NULL);
}

void op_free_plain(struct op *op)
{
    op_floats_free(op->mem, op->out.data);
    op_floats_free(op->mem, op->diff.data);
    op->out.data = op->diff.data = NULL;
}

static void free_param(const struct mem *mem, struct param *param)
{
    if (param == NULL)
        return;
    op_floats_free(mem, param->own_weights);
    op_floats_free(mem, param->own_bias);
    op_floats_free(mem, param->dense);
    op_floats_free(mem, param->dense_bias);
    mem_free(mem, param);
}

void op_free(struct op *op)
{
    if (op == NULL)
        return;
    if (op->kind->free != NULL)
        op->kind->free(op);
    free_param(op->mem, op->param);
    mem_free(op->mem, op);
}

bool op_make_param(struct op *op, const struct param *like, bool bias, bool dense)
{
    struct param *param = mem_array(op->mem, 1, sizeof *param);
    if (param == NULL)
        return false;
    size_t weights = (size_t)like->rows * like->cols;
    *param = *like;
    param->weights = param->own_weights = op_floats(op->mem, weights);
    param->bias = param->own_bias = bias ? op_floats(op->mem, like->rows) : NULL;
    param->dense = dense ? op_floats(op->mem, weights) : NULL;
    param->dense_bias = dense && bias ? op_floats(op->mem, like->rows) : NULL;
    op->param = param;
    return param->weights != NULL && (!bias || param->bias != NULL) &&
           (!dense || (param->dense != NULL && (!bias || param->dense_bias != NULL)));
}

void op_use_weights(struct op *op, float *weights, float *bias)
{
    struct param *param = op->param;
    op_floats_free(op->mem, param->own_weights);
    op_floats_free(op->mem, param->own_bias);
    param->own_weights = param->own_bias = NULL;
    param->weights = weights;
    param->bias = param->bias != NULL ? bias : NULL;
}

void op_give_windows(struct op *op)
{
    struct param *param = op->param;
    if (param == NULL || param->window_floats == 0 || param->as_windows)
        return;
    op_floats_free(op->mem, param->dense);
    param->dense = NULL;
    param->factor_rows = op->batch;
    param->as_windows = true;
}

/* What weigh() left, in whichever of the three forms it has. (Who can leave windows learns by
 * itself.) */
static void step(const struct param *param, float alpha)
{
    const struct inplace_kernel *kernel = inplace_kernel_at(0);
    const size_t cols = param->cols;
    for (uint32_t i = 0; param->row_numbers != NULL && i < param->row_count; i++)
        inplace_add(kernel, alpha, param->row_values + i * cols,
                    param->weights + param->row_numbers[i] * cols, cols);
    for (uint32_t k = 0; k < param->factor_rows; k++) {
        const float *u = param->u + (size_t)k * param->rows, *v = param->v + k * cols;
        for (uint32_t m = 0; m < param->rows; m++)
            inplace_add(kernel, alpha * u[m], v, param->weights + m * cols, cols);
        if (param->bias != NULL)
            inplace_add(kernel, alpha, u, param->bias, param->rows);
    }
    if (param->dense != NULL)
        inplace_add(kernel, alpha, param->dense, param->weights, param->rows * cols);
    if (param->dense_bias != NULL)
        inplace_add(kernel, alpha, param->dense_bias, param->bias, param->rows);
}

void op_learn(struct op *op, float alpha)
{
    if (op->param != NULL && op->kind->learn != NULL) {
        op->kind->learn(op, &(const struct op_step){.alpha = alpha});
        return;
    }
    if (op->param != NULL)
        op->kind->weigh(op);
    if (op->kind->backward != NULL)
        op->kind->backward(op);
    if (op->param != NULL)
        step(op->param, alpha);
}
