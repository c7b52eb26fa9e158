/* engine/embed: rows of words, and none of padding. */
#include "engine/check.h"

enum { BATCH = 3, LENGTH = 4, WORDS = 6, WIDTH = 5 };

/* Padding at the end, in the middle, all of a sample; a word twice; a number that no word has. */
static const uint32_t texts[BATCH * LENGTH] = {2, 0, 5, 2, 0, 0, 0, 0, 1, 3, WORDS, 0};

static struct op *tokens_of(void)
{
    const struct op_frame frame = check_frame(&mem_libc, BATCH);
    struct op *op = NULL;
    assert_int_equal(op_tokens_new(&frame, LENGTH, &op, NULL), TRI_OK);
    memcpy(op_tokens(op), texts, sizeof texts);
    assert_false(op->wants_diff);
    return op;
}

static struct op *embed_of(struct op *tokens)
{
    const struct op_frame frame = check_frame(&mem_libc, BATCH);
    struct op *op = NULL;
    assert_int_equal(op_embed_new(&frame, tokens, WORDS, WIDTH, &op, NULL), TRI_OK);
    check_fill_param(op->param, 1);
    return op;
}

TEST(words_become_their_rows_and_padding_zero)
{
    (void)state;
    struct op *tokens = tokens_of(), *op = embed_of(tokens);
    check_fill(op->out.data, check_values(op), 9);
    op->kind->forward(op, true);
    assert_int_equal(op->out.shape.channels, LENGTH);
    assert_int_equal(op->out.shape.width, WIDTH);
    for (size_t i = 0; i < (size_t)BATCH * LENGTH; i++)
        for (size_t d = 0; d < WIDTH; d++) {
            bool word = texts[i] > 0 && texts[i] < WORDS;
            float want = word ? op->param->weights[(size_t)texts[i] * WIDTH + d] : 0;
            assert_float_equal(op->out.data[i * WIDTH + d], want, 0);
        }
    op_free(op);
    op_free(tokens);
}

TEST(the_rows_of_words_are_given_in_order)
{
    (void)state;
    static const uint32_t want[] = {2, 5, 2, 1, 3};
    struct op *tokens = tokens_of(), *op = embed_of(tokens);
    check_pass(op, 3);
    assert_int_equal(op->param->row_count, 5);
    assert_memory_equal(op->param->row_numbers, want, sizeof want);
    assert_null(op->param->dense);
    float sums[WORDS * WIDTH] = {0};
    for (size_t i = 0; i < (size_t)op->param->row_count * WIDTH; i++)
        sums[(size_t)want[i / WIDTH] * WIDTH + i % WIDTH] += op->param->row_values[i];
    check_slope(op, op->param->weights, sums, sizeof sums / sizeof sums[0], 3);
    op_free(op);
    op_free(tokens);
}

TEST(shapes_that_do_not_fit_are_refused)
{
    (void)state;
    const struct op_frame frame = check_frame(&mem_libc, BATCH), other = check_frame(&mem_libc, 1);
    struct op *tokens = tokens_of(), *in = check_source(BATCH, (struct shape3){4, 1, 1}, 1);
    struct op *op = NULL;
    assert_int_equal(op_embed_new(&frame, in, WORDS, WIDTH, &op, NULL), TRI_EARG);
    assert_int_equal(op_embed_new(&other, tokens, WORDS, WIDTH, &op, NULL), TRI_EARG);
    assert_int_equal(op_embed_new(&frame, tokens, 0, WIDTH, &op, NULL), TRI_EARG);
    assert_int_equal(op_embed_new(&frame, tokens, WORDS, 0, &op, NULL), TRI_EARG);
    assert_int_equal(op_tokens_new(&frame, 0, &op, NULL), TRI_EARG);
    assert_null(op);
    op_free(in);
    op_free(tokens);
}

TEST(refused_memory_leaves_nothing_behind)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = check_frame(&fault.mem, BATCH);
        struct op *tokens = NULL, *op = NULL;
        tri_status status = op_tokens_new(&frame, LENGTH, &tokens, NULL);
        if (tokens != NULL)
            status = op_embed_new(&frame, tokens, WORDS, WIDTH, &op, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
        op_free(tokens);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_become_their_rows_and_padding_zero),
        cmocka_unit_test(the_rows_of_words_are_given_in_order),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
