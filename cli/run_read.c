/* Reading the command line of trident run. */
#include <string.h>

#include "base/units.h"
#include "cli/run.h"

#define FIELD(name) .offset = offsetof(struct run_settings, name)

static const char *const colocate_choices[] = {"yes", "no", NULL};
static const char *const failure_choices[] = {"continue", "stop", NULL};

/* Also read here, before the table is: -n, which is --workers, and --env, which adds up. */
const struct option_row run_rows[] = {
    {.name = "workers",
     .value = "N",
     .type = OPTION_COUNT,
     FIELD(workers),
     .min = 1,
     .max = RUN_MAX,
     .required = true,
     .help = "number of processes, ranks 0 to N-1; -n N is the same"},
    {.name = "servers",
     .value = "Q",
     .otherwise = "the program's",
     .type = OPTION_COUNT,
     FIELD(servers),
     .min = 1,
     .max = RUN_MAX,
     .help = "number of parameter servers"},
    {.name = "colocate",
     .value = "yes|no",
     .otherwise = "the program's",
     .type = OPTION_CHOICE,
     FIELD(colocate),
     .choices = colocate_choices,
     .help = "servers inside the workers, or Q more processes, as many as workers if --servers is "
             "not given"},
    {.name = "env",
     .value = "K=V",
     .otherwise = "as here",
     .type = OPTION_TEXT,
     FIELD(env),
     .help = "a variable for the environment of every process; may be given again"},
    {.name = "on-failure",
     .value = "continue|stop",
     .otherwise = "continue",
     .type = OPTION_CHOICE,
     FIELD(on_failure),
     .choices = failure_choices,
     .help = "when a process fails, the others go on, or are stopped"},
    {.name = "timeout",
     .value = "T",
     .otherwise = "none",
     .type = OPTION_TIME,
     FIELD(timeout_s),
     .min = 1e-3,
     .max = 1e7,
     .help = "stop the job after this time, such as 3600s"},
    {.name = "hosts",
     .value = "FILE|LIST",
     .otherwise = "this machine",
     .type = OPTION_TEXT,
     FIELD(hosts),
     .help = "where to start them: a file with lines \"host slots=N\", or h1:2,h2"},
    {.name = "ssh",
     .value = "COMMAND",
     .otherwise = "TRIDENT_SSH, or ssh that asks nothing",
     .type = OPTION_TEXT,
     FIELD(ssh),
     .help = "how to reach the hosts, for instance \"ssh -p 2222\"; then also for this machine"},
    {.name = NULL},
};

/* The words before "--", as the table is to see them. */
struct words {
    const char **at;
    int count;
};

static tri_status take_workers(const char *value, struct words *words, tri_error *err)
{
    uint64_t count = 0;
    if (value == NULL) {
        fail(err, TRI_EINPUT, "option '-n' needs a value");
        fail_next(err, "write -n N, the number of processes");
        return TRI_EINPUT;
    }
    if (!units_count(value, &count) || count < 1 || count > RUN_MAX) {
        fail(err, TRI_EINPUT, "option '-n' cannot be '%.60s'", value);
        fail_next(err, "give a whole number from 1 to %d", RUN_MAX);
        return TRI_EINPUT;
    }
    words->at[words->count++] = "--workers";
    words->at[words->count++] = value;
    return TRI_OK;
}

static tri_status take_variable(const char *value, struct run_request *request, tri_error *err)
{
    const char *equals = value != NULL ? strchr(value, '=') : NULL;
    if (value == NULL)
        fail(err, TRI_EINPUT, "option '--env' needs a value");
    else if (equals == NULL || equals == value)
        fail(err, TRI_EINPUT, "option '--env' cannot be '%.60s'", value);
    if (equals == NULL || equals == value) {
        fail_next(err, "write --env NAME=VALUE, once for each");
        return TRI_EINPUT;
    }
    request->variables[request->variable_count++] = value;
    return TRI_OK;
}

/* Sorts one word, and the one behind it if that is its value; *i moves past them. */
static tri_status take_word(int argc, const char *const *argv, int *i, struct words *words,
                            struct run_request *request, tri_error *err)
{
    const char *word = argv[(*i)++];
    if (strcmp(word, "-np") == 0) /* as mpirun has it */
        word = "-n";
    bool apart = strcmp(word, "-n") == 0 || strcmp(word, "--env") == 0;
    const char *next = apart && *i < argc ? argv[(*i)++] : NULL;
    if (strcmp(word, "--env") == 0 || strncmp(word, "--env=", 6) == 0)
        return take_variable(apart ? next : word + 6, request, err);
    if (word[0] == '-' && word[1] == 'n')
        return take_workers(apart ? next : word + 2, words, err);
    words->at[words->count++] = word;
    return TRI_OK;
}

static tri_status check_ssh(const struct run_settings *settings, tri_error *err)
{
    if (settings->ssh == NULL || settings->hosts != NULL)
        return TRI_OK;
    fail(err, TRI_EINPUT, "option '--ssh' needs '--hosts'");
    fail_next(err, "say where to start: --hosts h1:2,h2");
    return TRI_EINPUT;
}

/* Servers inside workers are one in each at most; nobody would start the others. */
static tri_status check_servers(const struct run_settings *settings, tri_error *err)
{
    if (settings->colocate == 1 || settings->servers <= settings->workers)
        return TRI_OK;
    fail(err, TRI_EINPUT, "option '--servers' is %llu, and there are only %llu workers",
         (unsigned long long)settings->servers, (unsigned long long)settings->workers);
    fail_next(err, "give them processes of their own with --colocate no, or take %llu or fewer",
              (unsigned long long)settings->workers);
    return TRI_EINPUT;
}

static tri_status read_words(int end, const char *const *argv, struct words *words,
                             struct run_request *request, tri_error *err)
{
    tri_status status = TRI_OK;
    for (int i = 0; i < end && status == TRI_OK;)
        status = take_word(end, argv, &i, words, request, err);
    struct arguments none;
    if (status == TRI_OK)
        status =
            options_parse(run_rows, 0, words->count, words->at, &request->settings, &none, err);
    return status;
}

static bool asks_help(int end, const char *const *argv)
{
    for (int i = 0; i < end; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

tri_status run_read(int argc, const char *const *argv, struct run_request *request,
                    const struct mem *mem, tri_error *err)
{
    *request =
        (struct run_request){.settings = {.colocate = RUN_NOT_GIVEN, .on_failure = RUN_NOT_GIVEN}};
    int end = 0;
    while (end < argc && strcmp(argv[end], "--") != 0)
        end++;
    request->program = argv + end + 1;
    request->program_count = end < argc ? (size_t)(argc - end - 1) : 0;
    request->help = asks_help(end, argv);
    if (request->help)
        return TRI_OK;
    if (request->program_count == 0) {
        fail(err, TRI_EINPUT, "no program was given");
        fail_next(err, "write it behind two dashes: trident run -n 4 -- PROGRAM ARGS...");
        return TRI_EINPUT;
    }
    /* "-n4" becomes two words. */
    struct words words = {.at = mem_array(mem, 2 * (size_t)argc, sizeof *words.at)};
    if (words.at == NULL)
        return fail_nomem(err, "the options");
    tri_status status = TRI_ENOMEM;
    request->variables = mem_array(mem, (size_t)argc, sizeof *request->variables);
    if (request->variables == NULL)
        fail_nomem(err, "the options");
    else
        status = read_words(end, argv, &words, request, err);
    if (status == TRI_OK)
        status = check_ssh(&request->settings, err);
    if (status == TRI_OK)
        status = check_servers(&request->settings, err);
    mem_free(mem, words.at);
    return status;
}

void run_request_free(struct run_request *request, const struct mem *mem)
{
    mem_free(mem, request->variables);
}
