/* From the options of trident train to what a worker is run with. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "cli/train.h"
#include "mod/consistency.h"
#include "mod/optim.h"
#include "mod/placement.h"
#include "mod/scheme.h"

/* ---- what does not exist yet ---- */

static const struct {
    const char *name, *next;
} not_yet[] = {
    {"codec", "leave it out: updates travel as they are"},
};

static bool is_option(const char *word, const char *name)
{
    size_t len = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, len) == 0 &&
           (word[2 + len] == '\0' || word[2 + len] == '=');
}

static tri_status refuse_not_yet(int argc, const char *const *argv, tri_error *err)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < sizeof not_yet / sizeof not_yet[0]; k++)
            if (is_option(argv[i], not_yet[k].name)) {
                fail(err, TRI_EINPUT, "option '--%s' does not work yet", not_yet[k].name);
                fail_why(err, "this version of trident train does without it");
                fail_next(err, "%s", not_yet[k].next);
                return TRI_EINPUT;
            }
    return TRI_OK;
}

/* ---- defaults ---- */

struct defaults {
    const char *model, *epochs, *batch, *lr, *optimizer, *schedule;
};

#define AS_ROW(...) {__VA_ARGS__},
static const struct defaults by_model[] = {TRAIN_DEFAULTS(AS_ROW)};
static const struct defaults of_others = {NULL, "10", "64", "0.01", "momentum:0.9", "constant"};

/* GaDei's Table 3: small batches, a small rate and many epochs, so that nobody has to tune. The
 * batch follows from the number of samples: train_options.batch 0. */
static const struct {
    const char *name, *model;
    struct defaults defaults;
} recipes[] = {{"service", "textcnn", {NULL, "200", "0", "0.01", "sgd", "constant"}}};

static const struct {
    const char *optimizer, *lr;
} lr_by_optimizer[] = {
    {"sgd", "0.05"},     {"momentum", "0.01"}, {"nesterov", "0.01"},
    {"adagrad", "0.01"}, {"adam", "0.001"},
};

/* Is this the name in front of the sizes or numbers in the text? */
static bool is_of(const char *text, const char *name)
{
    char head[64];
    (void)snprintf(head, sizeof head, "%.*s", (int)strcspn(text, ":"), text);
    return names_equal(head, name);
}

static const struct defaults *defaults_of(const char *model)
{
    for (size_t i = 0; i < sizeof by_model / sizeof by_model[0]; i++)
        if (is_of(model, by_model[i].model))
            return &by_model[i];
    return &of_others;
}

/* The model's rate is for the model's optimiser. */
static const char *default_lr(const struct defaults *defaults, const char *optimizer)
{
    char own[TRAIN_OPTIMIZER];
    (void)snprintf(own, sizeof own, "%.*s", (int)strcspn(defaults->optimizer, ":"),
                   defaults->optimizer);
    if (is_of(optimizer, own))
        return defaults->lr;
    for (size_t i = 0; i < sizeof lr_by_optimizer / sizeof lr_by_optimizer[0]; i++)
        if (is_of(optimizer, lr_by_optimizer[i].optimizer))
            return lr_by_optimizer[i].lr;
    return defaults->lr;
}

static const char *recipe_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < sizeof recipes / sizeof recipes[0] ? recipes[i].name : NULL;
}

static tri_status find_defaults(const struct train_settings *settings, const struct defaults **out,
                                tri_error *err)
{
    *out = defaults_of(settings->model);
    if (settings->recipe == NULL)
        return TRI_OK;
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        if (!names_equal(settings->recipe, recipes[i].name))
            continue;
        *out = &recipes[i].defaults;
        if (is_of(settings->model, recipes[i].model))
            return TRI_OK;
        fail(err, TRI_EINPUT, "recipe '%s' is for model %s, not for '%.60s'", recipes[i].name,
             recipes[i].model, settings->model);
        fail_next(err, "leave it out: the model has defaults of its own");
        return TRI_EINPUT;
    }
    char next[NAMES_TEXT];
    names_advise(settings->recipe, recipe_candidate, NULL, next);
    fail(err, TRI_EINPUT, "option '--recipe' does not know '%.60s'", settings->recipe);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

/* ---- numbers ---- */

struct range {
    const char *option, *example;
    double min, max; /* min itself is not allowed if it is 0 and positive is set */
    bool positive;
};

static const struct range epochs_range = {"epochs", "10", 0, 1e6, true};
static const struct range lr_range = {"lr", "0.01", 0, 1e3, true};
static const struct range momentum_range = {"momentum", "0.9", 0, 0.9999, false};

static tri_status read_number(const struct range *range, const char *text, double *out,
                              tri_error *err)
{
    double value = 0;
    if (units_number(text, &value) && value <= range->max &&
        (range->positive ? value > range->min : value >= range->min)) {
        *out = value;
        return TRI_OK;
    }
    fail(err, TRI_EINPUT, "option '--%s' cannot be '%.60s'", range->option, text);
    fail_next(err, "give a number %s %g%s %g, such as %s", range->positive ? "above" : "from",
              range->min, range->positive ? ", at most" : " to", range->max, range->example);
    return TRI_EINPUT;
}

static tri_status read_steps(const char *text, struct train_options *options)
{
    char every[32], gamma[32];
    const char *colon = strchr(text, ':'), *second = NULL;
    if (colon != NULL)
        second = strchr(colon + 1, ':');
    if (second == NULL)
        return TRI_EINPUT;
    (void)snprintf(every, sizeof every, "%.*s", (int)(second - colon - 1), colon + 1);
    (void)snprintf(gamma, sizeof gamma, "%s", second + 1);
    bool ok = units_number(every, &options->every) && options->every > 0 &&
              units_number(gamma, &options->gamma) && options->gamma > 0 && options->gamma <= 1;
    return ok ? TRI_OK : TRI_EINPUT;
}

static tri_status read_schedule(const char *text, struct train_options *options, tri_error *err)
{
    tri_status status = TRI_OK;
    if (names_equal(text, "constant")) {
        options->schedule = TRAIN_CONSTANT;
    } else if (names_equal(text, "cosine")) {
        options->schedule = TRAIN_COSINE;
    } else {
        options->schedule = TRAIN_STEP;
        status = is_of(text, "step") ? read_steps(text, options) : TRI_EINPUT;
    }
    if (status == TRI_OK)
        return TRI_OK;
    fail(err, TRI_EINPUT, "option '--schedule' cannot be '%.60s'", text);
    fail_next(err, "give constant, cosine or step:EVERY:GAMMA, such as step:5:0.1 for a tenth "
                   "of the rate after each 5 epochs");
    return TRI_EINPUT;
}

/* ---- names ---- */

static const char *model_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return net_model_at(i) != NULL ? net_model_at(i)->name : NULL;
}

static const char *scheme_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return scheme_at(i) != NULL ? scheme_at(i)->name : NULL;
}

static const char *placement_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return placement_at(i) != NULL ? placement_at(i)->name : NULL;
}

static tri_status check_name(const char *option, const char *typed, names_candidate *candidate,
                             tri_error *err)
{
    const char *name;
    for (size_t i = 0; (name = candidate(NULL, i)) != NULL; i++)
        if (names_equal(typed, name))
            return TRI_OK;
    char next[NAMES_TEXT];
    names_advise(typed, candidate, NULL, next);
    fail(err, TRI_EINPUT, "option '--%s' does not know '%.60s'", option, typed);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

/* Sizes behind the name are looked at with the data, which they must fit. */
static tri_status check_model(const char *model, tri_error *err)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(model, ":"), model);
    return check_name("model", name, model_candidate, err);
}

static bool is_auto(const char *scheme)
{
    return scheme == NULL || names_equal(scheme, "auto");
}

static tri_status check_scheme(const char *scheme, tri_error *err)
{
    tri_status status = check_name("scheme", scheme, scheme_candidate, err);
    size_t index = 0;
    const tri_scheme_ops *ops = status == TRI_OK ? scheme_find(scheme, &index) : NULL;
    if (ops == NULL || ops->runs)
        return status;
    fail(err, TRI_EINPUT, "option '--scheme' cannot be '%s': no job can carry it out yet",
         ops->name);
    fail_next(err, "give one of those that trident modules scheme shows to run, or leave it out");
    return TRI_EINPUT;
}

static tri_status check_names(const struct train_settings *settings, tri_error *err)
{
    const tri_consistency_ops *consistency = NULL;
    uint32_t bound = 0;
    tri_status status = check_model(settings->model, err);
    if (status == TRI_OK && !is_auto(settings->scheme))
        status = check_scheme(settings->scheme, err);
    if (status == TRI_OK)
        status = consistency_read(settings->consistency, &consistency, &bound, err);
    if (status == TRI_OK)
        status = check_name("placement", settings->placement, placement_candidate, err);
    return status;
}

/* ---- the optimiser ---- */

static tri_status join_momentum(const struct train_settings *settings, bool none,
                                struct train_request *request, tri_error *err)
{
    const char *optimizer = settings->optimizer != NULL ? settings->optimizer : "momentum";
    size_t size = sizeof request->optimizer;
    if (settings->optimizer == NULL && none) {
        (void)snprintf(request->optimizer, size, "sgd");
        return TRI_OK;
    }
    if (names_equal(optimizer, "momentum") || names_equal(optimizer, "nesterov")) {
        (void)snprintf(request->optimizer, size, "%.20s:%s", optimizer, settings->momentum);
        return TRI_OK;
    }
    fail(err, TRI_EINPUT, "options '--momentum' and '--optimizer %.60s' do not go together",
         optimizer);
    fail_next(err, "leave one of them out");
    return TRI_EINPUT;
}

/* Learners that do not wait for each other step with gradients of older parameters. That is
 * momentum of its own kind: with 0.9 on top, what one worker trains well with diverges. */
static const char *default_optimizer(const struct defaults *defaults,
                                     const struct train_settings *settings)
{
    bool at_own_pace = settings->learners > 0 && strcmp(train_locals[settings->local], "sync") != 0;
    return at_own_pace && is_of(defaults->optimizer, "momentum") ? "sgd" : defaults->optimizer;
}

static tri_status read_optimizer(const struct defaults *defaults, struct train_request *request,
                                 tri_error *err)
{
    const struct train_settings *settings = &request->settings;
    const char *text =
        settings->optimizer != NULL ? settings->optimizer : default_optimizer(defaults, settings);
    double momentum = 0;
    tri_status status = TRI_OK;
    (void)snprintf(request->optimizer, sizeof request->optimizer, "%s", text);
    if (settings->momentum != NULL) {
        status = read_number(&momentum_range, settings->momentum, &momentum, err);
        if (status == TRI_OK)
            status = join_momentum(settings, !(momentum > 0), request, err);
    }
    struct optim optim;
    if (status == TRI_OK)
        status = optim_read(request->optimizer, &optim, err);
    return status;
}

/* ---- all of it ---- */

static const char *given(const char *text, const char *fallback)
{
    return text != NULL ? text : fallback;
}

static tri_status read_numbers(const struct defaults *defaults, struct train_request *request,
                               tri_error *err)
{
    const struct train_settings *settings = &request->settings;
    struct train_options *options = &request->options;
    uint64_t batch = settings->batch;
    if (batch == 0)
        (void)units_count(defaults->batch, &batch);
    options->batch = (uint32_t)batch;
    tri_status status = read_number(&epochs_range, given(settings->epochs, defaults->epochs),
                                    &options->epochs, err);
    if (status == TRI_OK)
        status = read_optimizer(defaults, request, err);
    if (status == TRI_OK)
        status =
            read_number(&lr_range, given(settings->lr, default_lr(defaults, request->optimizer)),
                        &options->lr, err);
    if (status == TRI_OK)
        status = read_schedule(given(settings->schedule, defaults->schedule), options, err);
    return status;
}

/* A command that works as it stands, if there is room for it. */
static void advise_learners(const struct train_settings *settings, tri_error *err)
{
    const char *optimizer = defaults_of(settings->model)->optimizer;
    bool needs =
        strcmp(train_locals[settings->local], "replicas") == 0 || settings->exchange_every > 1;
    bool has = is_of(optimizer, "sgd") ||
               (is_of(optimizer, "momentum") && strcmp(train_locals[settings->local], "sync") != 0);
    struct buf line;
    buf_init(&line, &mem_libc);
    train_next_learners(settings, needs && !has, &line);
    if (buf_ok(&line) && line.len < sizeof err->next)
        fail_next(err, "%s", buf_string(&line));
    else
        fail_next(err, "say how many learners: --learners 2");
    buf_fini(&line);
}

/* Options of one way to train together with those of the other. */
static tri_status check_learners(const struct train_settings *settings, tri_error *err)
{
    bool given = settings->learners > 0;
    const char *with = !given                                      ? NULL
                       : settings->workers > 0                     ? "workers"
                       : settings->servers > 0                     ? "servers"
                       : !is_auto(settings->scheme)                ? "scheme"
                       : strcmp(settings->consistency, "bsp") != 0 ? "consistency"
                                                                   : NULL;
    const char *without = given                                  ? NULL
                          : settings->local > 0                  ? "local"
                          : settings->locked                     ? "locked"
                          : settings->restarts != TRAIN_RESTARTS ? "learner-restarts"
                          : settings->exchange_every > 1         ? "exchange-every"
                                                                 : NULL;
    if (with != NULL) {
        fail(err, TRI_EINPUT, "options '--learners' and '--%s' do not go together", with);
        fail_why(err, "learners share memory; --local says how");
        fail_next(err, "leave one of them out");
    } else if (without != NULL) {
        fail(err, TRI_EINPUT, "option '--%s' needs '--learners'", without);
        advise_learners(settings, err);
    } else {
        return TRI_OK;
    }
    return TRI_EINPUT;
}

/* Both of its values would be passed over. */
static tri_status refuse_on_failure(tri_error *err)
{
    fail(err, TRI_EINPUT, "options '--learners' and '--on-failure' do not go together");
    fail_why(err, "a learner that has died is started again, or the others go on without it");
    fail_next(err, "say how often it is started again: --learner-restarts R");
    return TRI_EINPUT;
}

static tri_status check_pairs(const struct train_settings *settings, bool on_failure,
                              tri_error *err)
{
    tri_status status = check_learners(settings, err);
    if (status != TRI_OK)
        return status;
    if (settings->learners > 0 && on_failure)
        return refuse_on_failure(err);
    if (settings->checkpoint == NULL && (settings->resume || settings->checkpoint_every > 0)) {
        fail(err, TRI_EINPUT, "option '--%s' needs '--checkpoint'",
             settings->resume ? "resume" : "checkpoint-every");
        fail_next(err, "say where checkpoints are: --checkpoint DIR");
        return TRI_EINPUT;
    }
    if (settings->epochs == NULL || settings->iterations == 0)
        return TRI_OK;
    fail(err, TRI_EINPUT, "options '--epochs' and '--iterations' do not go together");
    fail_next(err, "leave one of them out");
    return TRI_EINPUT;
}

/* Learners with copies of their own: see shared_check() for why. */
static tri_status check_replicas(const struct train_request *request, tri_error *err)
{
    const struct train_settings *settings = &request->settings;
    const bool is_sgd = strcmp(request->optimizer, "sgd") == 0;
    if (settings->learners == 0 || strcmp(train_locals[settings->local], "replicas") != 0 ||
        (is_sgd && settings->exchange_every <= 1 && !settings->locked))
        return TRI_OK;
    if (!is_sgd && settings->optimizer == NULL) {
        fail(err, TRI_EINPUT, "option '--local replicas' needs sgd, and the optimizer is %.40s",
             request->optimizer);
        fail_next(err, "say --optimizer sgd and a rate, as --lr 0.05, and no --momentum");
        return TRI_EINPUT;
    }
    fail(err, TRI_EINPUT, "options '--local replicas' and '%s%.60s' do not go together",
         !is_sgd                        ? "--optimizer "
         : settings->exchange_every > 1 ? "--exchange-every"
                                        : "--locked",
         is_sgd ? "" : request->optimizer);
    fail_why(err, "%s",
             is_sgd ? "every learner takes every gradient, and reads its own copy only"
                    : "only sgd comes to the same in whatever order gradients come");
    fail_next(err, "%s",
              is_sgd ? "leave one of them out" : "take --optimizer sgd, or --local server");
    return TRI_EINPUT;
}

/* Steps add up to one only if each is no more than its gradient. */
static tri_status check_exchange(const struct train_request *request, tri_error *err)
{
    if (request->settings.exchange_every <= 1 || strcmp(request->optimizer, "sgd") == 0)
        return TRI_OK;
    fail(err, TRI_EINPUT, "options '--exchange-every' and '--optimizer %.60s' do not go together",
         request->optimizer);
    fail_why(err, "what an optimiser remembers is with the shared parameters, not with a learner");
    fail_next(err, "take --optimizer sgd, or leave out --exchange-every");
    return TRI_EINPUT;
}

static void fill(struct train_request *request)
{
    const struct train_settings *settings = &request->settings;
    struct train_options *options = &request->options;
    options->data = (struct data_options){
        .data = settings->data,
        .test = settings->test,
        .label_column = (uint32_t)settings->label_column,
        .text_column = (uint32_t)settings->text_column,
        .header = (enum data_header)settings->header,
        .max_length = (uint32_t)settings->max_length,
        .seed = settings->seed,
    };
    options->model = settings->model;
    options->iterations = settings->iterations;
    options->optimizer = request->optimizer;
    options->scheme = is_auto(settings->scheme) ? NULL : settings->scheme;
    options->consistency = settings->consistency;
    options->placement = settings->placement;
    options->servers = (uint32_t)settings->servers;
    options->seed = settings->seed;
    options->evaluate_every = (uint32_t)settings->evaluate_every;
    options->out = settings->out;
    options->checkpoint = settings->checkpoint;
    options->checkpoint_every = settings->checkpoint_every;
    options->resume = settings->resume;
    options->time_ops = settings->profile;
    options->exchange_every = (uint32_t)settings->exchange_every;
    bool direct = strcmp(request->optimizer, "sgd") == 0;
    request->local = settings->local > 0 ? train_locals[settings->local]
                     : direct            ? "direct"
                                         : "server";
}

static bool has_option(int argc, const char *const *argv, const char *name)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_option(argv[i], name))
            return true;
    return false;
}

tri_status train_read(int argc, const char *const *argv, struct train_request *request,
                      tri_error *err)
{
    static const struct train_elsewhere nothing = {.local = 0};
    return train_read_with(argc, argv, &nothing, request, err);
}

tri_status train_read_with(int argc, const char *const *argv,
                           const struct train_elsewhere *elsewhere, struct train_request *request,
                           tri_error *err)
{
    *request = (struct train_request){.help = false};
    struct arguments arguments = {.help = false};
    for (int i = 0; i < argc && !arguments.help; i++)
        arguments.help = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    tri_status status = arguments.help ? TRI_OK : refuse_not_yet(argc, argv, err);
    if (status == TRI_OK)
        status = options_parse(train_rows, 0, argc, argv, &request->settings, &arguments, err);
    request->help = arguments.help;
    if (status != TRI_OK || arguments.help)
        return status;
    status = check_pairs(&request->settings, has_option(argc, argv, "on-failure"), err);
    if (status == TRI_OK)
        status = check_names(&request->settings, err);
    /* Not without learners: it may be there for other programs. */
    bool local_elsewhere =
        request->settings.learners > 0 && elsewhere->local > 0 && !has_option(argc, argv, "local");
    if (local_elsewhere)
        request->settings.local = elsewhere->local;
    const struct defaults *defaults = NULL;
    if (status == TRI_OK)
        status = find_defaults(&request->settings, &defaults, err);
    if (status == TRI_OK)
        status = read_numbers(defaults, request, err);
    if (status == TRI_OK)
        status = check_exchange(request, err);
    if (status == TRI_OK) {
        status = check_replicas(request, err);
        if (status != TRI_OK && local_elsewhere)
            fail_where(err, "%s", elsewhere->local_from);
    }
    fill(request);
    return status;
}
