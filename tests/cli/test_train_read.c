/* The options of trident train. */
#include <string.h>

#include "cli/train.h"
#include "lib/test.h"

enum { WORDS = 16 };

/* Reads "--data x --model lenet" and more words, which end with NULL. */
static tri_status read_words(struct train_request *request, tri_error *err, const char *const *more)
{
    const char *argv[WORDS] = {"--data", "x", "--model", "lenet"};
    int argc = 4;
    for (; *more != NULL && argc < WORDS; more++)
        argv[argc++] = *more;
    *err = (tri_error){0};
    return train_read(argc, argv, request, err);
}

#define READ(request, err, ...) read_words(request, err, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_model_alone_gets_its_defaults)
{
    (void)state;
    struct train_request request;
    tri_error err;
    const char *argv[] = {"--data", "fashion-mnist", "--model", "lenet"};
    assert_int_equal(train_read(4, argv, &request, &err), TRI_OK);
    assert_int_equal(request.options.batch, 64);
    assert_float_equal(request.options.lr, 0.05, 1e-12);
    assert_float_equal(request.options.epochs, 4, 1e-12);
    assert_string_equal(request.options.optimizer, "momentum:0.9");
    assert_int_equal(request.options.schedule, TRAIN_COSINE);
    assert_null(request.options.scheme);
    assert_string_equal(request.options.data.data, "fashion-mnist");
}

TEST(sizes_behind_a_model_do_not_change_its_defaults)
{
    (void)state;
    struct train_request request;
    tri_error err;
    const char *argv[] = {"--data", "x", "--model", "cifar10_quick:2"};
    assert_int_equal(train_read(4, argv, &request, &err), TRI_OK);
    assert_int_equal(request.options.batch, 100);
    assert_string_equal(request.options.model, "cifar10_quick:2");
}

TEST(every_model_has_defaults_that_can_be_read)
{
    (void)state;
    const struct net_model *model;
    for (size_t i = 0; (model = net_model_at(i)) != NULL; i++) {
        struct train_request request;
        tri_error err = {0};
        const char *argv[] = {"--data", "x", "--model", model->name};
        if (train_read(4, argv, &request, &err) != TRI_OK)
            fail_msg("%s: %s", model->name, err.text);
        assert_true(request.options.batch > 0);
        assert_true(request.options.lr > 0);
    }
}

TEST(options_replace_the_defaults)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--batch", "7", "--lr", "0.5", "--epochs", "2.5",
                          "--schedule", "step:3:0.5"),
                     TRI_OK);
    const struct train_options *options = &request.options;
    assert_int_equal(options->batch, 7);
    assert_float_equal(options->lr, 0.5, 1e-12);
    assert_float_equal(options->epochs, 2.5, 1e-12);
    assert_int_equal(options->schedule, TRAIN_STEP);
    assert_float_equal(options->every, 3, 1e-12);
    assert_float_equal(options->gamma, 0.5, 1e-12);
}

TEST(a_table_is_read_as_asked_for)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--lr", "1"), TRI_OK);
    assert_int_equal(request.options.data.header, DATA_HEADER_AUTO);
    assert_int_equal(READ(&request, &err, "--header", "yes"), TRI_OK);
    assert_int_equal(request.options.data.header, DATA_HEADER_YES);
    assert_int_equal(READ(&request, &err, "--header", "no"), TRI_OK);
    assert_int_equal(request.options.data.header, DATA_HEADER_NO);
    assert_int_equal(READ(&request, &err, "--header", "perhaps"), TRI_EINPUT);
}

TEST(help_names_the_sizes_of_every_model)
{
    (void)state;
    const struct command *command = command_find("train");
    const struct net_model *model;
    assert_non_null(command);
    for (size_t i = 0; (model = net_model_at(i)) != NULL; i++)
        if (strstr(command->about, model->sizes) == NULL)
            fail_msg("'%s' of %s is not in\n%s", model->sizes, model->name, command->about);
}

TEST(momentum_joins_the_optimizer)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--momentum", "0.8"), TRI_OK);
    assert_string_equal(request.options.optimizer, "momentum:0.8");
    assert_int_equal(READ(&request, &err, "--momentum", "0.7", "--optimizer", "nesterov"), TRI_OK);
    assert_string_equal(request.options.optimizer, "nesterov:0.7");
    assert_int_equal(READ(&request, &err, "--momentum", "0"), TRI_OK);
    assert_string_equal(request.options.optimizer, "sgd");
    assert_int_equal(READ(&request, &err, "--momentum", "0.9", "--optimizer", "adam"), TRI_EINPUT);
    assert_non_null(strstr(err.text, "do not go together"));
}

TEST(the_rate_follows_the_optimizer)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--optimizer", "adam"), TRI_OK);
    assert_float_equal(request.options.lr, 0.001, 1e-12);
    assert_int_equal(READ(&request, &err, "--optimizer", "momentum:0.5"), TRI_OK);
    assert_float_equal(request.options.lr, 0.05, 1e-12);
    assert_int_equal(READ(&request, &err, "--optimizer", "adam", "--lr", "0.3"), TRI_OK);
    assert_float_equal(request.options.lr, 0.3, 1e-12);
}

TEST(what_cannot_be_is_refused_by_name)
{
    (void)state;
    static const char *const cases[][3] = {
        {"--lr", "0", "lr"},
        {"--lr", "fast", "lr"},
        {"--epochs", "0", "epochs"},
        {"--momentum", "1", "momentum"},
        {"--schedule", "step:0:0.1", "schedule"},
        {"--schedule", "step:5", "schedule"},
        {"--schedule", "step:5:2", "schedule"},
        {"--schedule", "stepwise", "schedule"},
        {"--scheme", "sbf", "scheme"},
        {"--consistency", "ssp", "consistency"},
        {"--placement", "hush", "placement"},
        {"--optimizer", "adm", "optimizer"},
        {"--batch", "0", "batch"},
        {"--seed", "-1", "seed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct train_request request;
        tri_error err;
        if (READ(&request, &err, cases[i][0], cases[i][1]) != TRI_EINPUT)
            fail_msg("%s %s was taken", cases[i][0], cases[i][1]);
        if (strstr(err.text, cases[i][2]) == NULL || err.next[0] == '\0')
            fail_msg("%s %s: '%s' '%s'", cases[i][0], cases[i][1], err.text, err.next);
    }
}

TEST(epochs_and_iterations_exclude_each_other)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--epochs", "2", "--iterations", "5"), TRI_EINPUT);
    assert_int_equal(READ(&request, &err, "--iterations", "5"), TRI_OK);
    assert_int_equal(request.options.iterations, 5);
}

TEST(options_of_later_versions_are_named)
{
    (void)state;
    static const char *const words[] = {"--codec"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct train_request request;
        tri_error err;
        assert_int_equal(READ(&request, &err, words[i], "x"), TRI_EINPUT);
        if (strstr(err.text, "does not work yet") == NULL)
            fail_msg("%s: %s", words[i], err.text);
    }
}

TEST(learners_step_directly_with_sgd_and_by_a_server_else)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--learners", "3", "--optimizer", "sgd"), TRI_OK);
    assert_string_equal(request.local, "direct");
    assert_int_equal(READ(&request, &err, "--learners", "3", "--optimizer", "adam"), TRI_OK);
    assert_string_equal(request.local, "server");
    assert_int_equal(READ(&request, &err, "--learners", "3", "--local", "sync"), TRI_OK);
    assert_string_equal(request.local, "sync");
    assert_int_equal(request.settings.restarts, 3);
}

/* With both, training diverges: lateness adds to momentum. */
TEST(learners_at_their_own_pace_do_without_momentum_unless_asked)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--learners", "2"), TRI_OK);
    assert_string_equal(request.options.optimizer, "sgd");
    assert_float_equal(request.options.lr, 0.05, 1e-12);
    assert_string_equal(request.local, "direct");
    assert_int_equal(READ(&request, &err, "--learners", "2", "--local", "sync"), TRI_OK);
    assert_string_equal(request.options.optimizer, "momentum:0.9");
    assert_int_equal(READ(&request, &err, "--learners", "2", "--momentum", "0.5"), TRI_OK);
    assert_string_equal(request.options.optimizer, "momentum:0.5");
    assert_string_equal(request.local, "server");
}

/* The setting `local` of the environment, and these words. */
static tri_status read_beside(const char *local, struct train_request *request, tri_error *err,
                              const char *const *words)
{
    struct train_elsewhere elsewhere = {.local_from = "TRIDENT_LOCAL"};
    while (strcmp(train_locals[elsewhere.local], local) != 0)
        elsewhere.local++;
    int argc = 0;
    while (words[argc] != NULL)
        argc++;
    *err = (tri_error){0};
    return train_read_with(argc, words, &elsewhere, request, err);
}

#define BESIDE(local, ...)                                                                         \
    read_beside(local, &request, &err,                                                             \
                (const char *const[]){"--data", "x", "--model", "lenet", __VA_ARGS__, NULL})

TEST(what_is_said_elsewhere_of_local_holds_unless_an_option_does)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(BESIDE("sync", "--learners", "2"), TRI_OK);
    assert_string_equal(request.local, "sync");
    assert_string_equal(request.options.optimizer, "momentum:0.9"); /* as with --local sync */
    assert_int_equal(BESIDE("sync", "--learners", "2", "--local=server"), TRI_OK);
    assert_string_equal(request.local, "server");
    assert_int_equal(BESIDE("sync", "--learners", "2", "--local", "auto"), TRI_OK);
    assert_string_equal(request.local, "direct");
    assert_int_equal(BESIDE("replicas", "--workers", "2"), TRI_OK); /* it is not for workers */
    assert_int_equal(BESIDE("replicas", "--learners", "2", "--optimizer", "adam"), TRI_EINPUT);
    assert_string_equal(err.where, "TRIDENT_LOCAL");
    assert_int_equal(
        BESIDE("server", "--learners", "2", "--local", "replicas", "--optimizer", "adam"),
        TRI_EINPUT);
    assert_string_equal(err.where, "");
}

TEST(learners_do_not_go_with_what_is_for_workers)
{
    (void)state;
    static const char *const words[][2] = {
        {"--workers", "2"}, {"--servers", "1"}, {"--scheme", "ps"}, {"--consistency", "asp"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct train_request request;
        tri_error err;
        assert_int_equal(READ(&request, &err, "--learners", "2", words[i][0], words[i][1]),
                         TRI_EINPUT);
        if (strstr(err.text, words[i][0]) == NULL)
            fail_msg("%s: %s", words[i][0], err.text);
    }
}

TEST(what_needs_learners_is_refused_with_a_command_that_can_be_read)
{
    (void)state;
    static const char *const cases[][6] = {
        {"--local", "direct"},
        {"--local", "replicas", "--locked", "--exchange-every", "4"},
        {"--local", "replicas", "--model", "textcnn"}, /* its optimiser is adam */
        {"--local", "sync", "--exchange-every", "4"},  /* and in rounds lenet's is momentum */
        {"--workers", "900", "--locked"},
        {"--learner-restarts", "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct train_request request;
        tri_error err, again = {0};
        const char *words[WORDS] = {"", ""};
        char *rest = NULL;
        int count = 0;
        assert_int_equal(read_words(&request, &err, cases[i]), TRI_EINPUT);
        for (char *word = strtok_r(err.next, " ", &rest); word != NULL && count < WORDS;
             word = strtok_r(NULL, " ", &rest))
            words[count++] = word;
        assert_true(count > 2);
        assert_string_equal(words[0], "trident");
        assert_string_equal(words[1], "train");
        if (train_read(count - 2, words + 2, &request, &again) != TRI_OK)
            fail_msg("case %zu: %s", i, again.text);
    }
    struct train_request request; /* no room for it */
    tri_error err;
    char path[400];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(READ(&request, &err, "--locked", "--test", path), TRI_EINPUT);
    assert_string_equal(err.next, "say how many learners: --learners 2");
}

TEST(only_learners_with_sgd_exchange_seldom)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--exchange-every", "8", "--optimizer", "sgd"),
                     TRI_EINPUT);
    assert_non_null(strstr(err.text, "needs '--learners'"));
    assert_int_equal(
        READ(&request, &err, "--exchange-every", "8", "--learners", "2", "--optimizer", "adam"),
        TRI_EINPUT);
    assert_non_null(strstr(err.text, "'--optimizer adam'"));
    assert_int_equal(
        READ(&request, &err, "--exchange-every", "8", "--learners", "2", "--optimizer", "sgd"),
        TRI_OK);
    assert_int_equal(request.options.exchange_every, 8);
    assert_int_equal(READ(&request, &err, "--learners", "2", "--optimizer", "adam"), TRI_OK);
    assert_int_equal(request.options.exchange_every, 1);
}

TEST(a_recipe_is_for_its_model_and_flags_win)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--recipe", "service"), TRI_EINPUT);
    assert_int_equal(READ(&request, &err, "--recipe", "service", "--model", "textcnn"), TRI_OK);
    assert_string_equal(request.optimizer, "sgd");
    assert_int_equal(request.options.batch, 0); /* by the number of samples */
    assert_true(request.options.epochs > 199 && request.options.lr < 0.011);
    assert_int_equal(READ(&request, &err, "--recipe", "service", "--model", "textcnn", "--batch",
                          "7", "--lr", "0.5"),
                     TRI_OK);
    assert_int_equal(request.options.batch, 7);
    assert_true(request.options.lr > 0.4);
}

TEST(checkpoints_need_a_folder)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--resume"), TRI_EINPUT);
    assert_non_null(strstr(err.text, "--checkpoint"));
    assert_int_equal(READ(&request, &err, "--checkpoint-every", "5"), TRI_EINPUT);
    assert_int_equal(
        READ(&request, &err, "--checkpoint", "there", "--checkpoint-every", "5", "--resume"),
        TRI_OK);
    assert_string_equal(request.options.checkpoint, "there");
    assert_true(request.options.checkpoint_every == 5 && request.options.resume);
}

TEST(help_wins_over_everything)
{
    (void)state;
    struct train_request request;
    tri_error err;
    assert_int_equal(READ(&request, &err, "--resume", "--lr", "-h"), TRI_OK);
    assert_true(request.help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_alone_gets_its_defaults),
        cmocka_unit_test(sizes_behind_a_model_do_not_change_its_defaults),
        cmocka_unit_test(every_model_has_defaults_that_can_be_read),
        cmocka_unit_test(options_replace_the_defaults),
        cmocka_unit_test(a_table_is_read_as_asked_for),
        cmocka_unit_test(help_names_the_sizes_of_every_model),
        cmocka_unit_test(momentum_joins_the_optimizer),
        cmocka_unit_test(the_rate_follows_the_optimizer),
        cmocka_unit_test(what_cannot_be_is_refused_by_name),
        cmocka_unit_test(epochs_and_iterations_exclude_each_other),
        cmocka_unit_test(options_of_later_versions_are_named),
        cmocka_unit_test(learners_step_directly_with_sgd_and_by_a_server_else),
        cmocka_unit_test(learners_at_their_own_pace_do_without_momentum_unless_asked),
        cmocka_unit_test(what_is_said_elsewhere_of_local_holds_unless_an_option_does),
        cmocka_unit_test(learners_do_not_go_with_what_is_for_workers),
        cmocka_unit_test(what_needs_learners_is_refused_with_a_command_that_can_be_read),
        cmocka_unit_test(only_learners_with_sgd_exchange_seldom),
        cmocka_unit_test(a_recipe_is_for_its_model_and_flags_win),
        cmocka_unit_test(checkpoints_need_a_folder),
        cmocka_unit_test(help_wins_over_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
