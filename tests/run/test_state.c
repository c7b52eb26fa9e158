/* run/state: what a job's checkpoint is made of, and how much of it travels. */
#include <dirent.h>

#include "core/ops.h"
#include "run/inside.h"
#include "run/nodes.h"

enum { CLOCKS = 9, LAYERS = 3 };
enum { NAMES = 20 }; /* bytes that those of a later job's nodes may be longer by */

struct way {
    const char *scheme, *optimizer;
    uint32_t workers, servers, colocated;
    bool busy; /* results wait in the stage */
};

static char folder[64];
static struct log silent;
static struct save *save;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/trident-state-XXXXXX");
    log_init(&silent, LOG_ERROR, NULL, NULL);
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static void remove_files(void)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[400];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path); /* fails for . and .. */
    }
    if (dir != NULL)
        (void)closedir(dir);
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    return rmdir(folder);
}

/* Rank 0 saves the last clock. */
static bool save_the_end(struct nodes_one *one, uint64_t clock)
{
    struct save_options with = {.mem = &mem_libc,
                                .log = &silent,
                                .folder = folder,
                                .job = "test",
                                .keep = 1,
                                .agreement = one->job->plan};
    if (one->number != 0 || clock != 0)
        return true;
    if (save_open(&with, &save, &one->err) != TRI_OK)
        return false;
    host_set_save(one->host, save);
    host_want_save(one->host, CLOCKS);
    return true;
}

static bool has_all(const struct host *host)
{
    return !save_gathers(host->save);
}

/* What travels to rank 0 has come. */
static void await_save(struct nodes_one *one)
{
    if (one->number != 0)
        return;
    pthread_mutex_lock(&one->host->lock);
    one->status = host_wait_until(one->host, has_all, 60000);
    pthread_mutex_unlock(&one->host->lock);
}

static void run_job(struct nodes *job, const struct way *way, bool saves)
{
    static const char *const names[LAYERS] = {"a", "b", "c"};
    static unsigned number = 100;
    memset(job, 0, sizeof *job);
    job->count = LAYERS;
    for (uint32_t i = 0; i < LAYERS; i++)
        job->layers[i] = (struct agree_layer){.name = names[i],
                                              .kind = TRI_FC,
                                              .rows = NET_MAX_WIDTH - 1,
                                              .cols = NET_MAX_WIDTH - 1,
                                              .bias = i != 1,
                                              .max_factor_rows = NET_MAX_BATCH};
    job->options = (struct agree_options){.workers = way->workers,
                                          .servers = way->servers,
                                          .colocated = way->colocated,
                                          .bits_s = 1e9,
                                          .flops_s = 1e9,
                                          .chunk_bytes = 100,
                                          .scheme = way->scheme,
                                          .optimizer = way->optimizer,
                                          .reproducible = true};
    job->clocks = CLOCKS;
    job->net = (struct toy){.seed = 7, .lr = 0.05f, .busy = way->busy};
    job->meddle = saves ? save_the_end : NULL;
    job->at_end = saves ? await_save : NULL;
    nodes_plan(job);
    job->transport = "inproc";
    (void)snprintf(job->name, sizeof job->name, "state-%u", number);
    (void)snprintf(job->coordinator, sizeof job->coordinator, "inproc:state%u", number++);
    nodes_run(job, 0);
    save_close(save);
    save = NULL;
    for (uint32_t n = 0; n < job->node_count; n++)
        if (job->nodes[n].status != TRI_OK)
            fail_msg("%s, %s: node %u: %s", way->scheme, way->optimizer, n, job->nodes[n].err.text);
}

static void check_saved(const struct nodes *job)
{
    struct checkpoint *saved = NULL;
    tri_error err = {0};
    if (checkpoint_newest(folder, &mem_libc, NULL, NULL, &saved, &err) != TRI_OK || saved == NULL) {
        fail_msg("nothing is saved: %s", err.text);
        return;
    }
    assert_int_equal(saved->clock, CLOCKS);
    for (uint32_t l = 0; l < LAYERS; l++) {
        size_t matrix = (size_t)job->layers[l].rows * job->layers[l].cols;
        struct sim_values params = nodes_params(&job->nodes[0], l);
        assert_memory_equal(saved->layers[l].values, params.weights, matrix * sizeof(float));
        if (params.bias != NULL)
            assert_memory_equal(saved->layers[l].values + matrix, params.bias,
                                job->layers[l].rows * sizeof(float));
        assert_int_equal(saved->layers[l].steps, CLOCKS);
    }
    checkpoint_free(saved, &mem_libc);
    remove_files();
}

/* What the servers on other nodes than rank 0's own. */
static uint64_t floats_elsewhere(const struct nodes *job)
{
    const struct layout *layout = job->plan->layout;
    uint64_t floats = 0;
    for (uint32_t i = 0; i < layout->unit_count; i++)
        if (layout->layers[layout->units[i].layer].home != TRI_HOME_WORKERS &&
            layout->server_node[layout->units[i].server] != 0)
            floats += layout->units[i].floats;
    return floats;
}

TEST(a_checkpoint_has_the_parameters_of_its_clock_and_only_states_travel)
{
    (void)state;
    static const struct way ways[] = {{"ps", "sgd", 2, 2, 2, false},
                                      {"ps", "momentum:0.9", 2, 2, 2, true},
                                      {"ps", "adam:0.9,0.999,0.1", 3, 2, 0, false},
                                      {"adam", "momentum:0.9", 2, 2, 2, false},
                                      {"sfb", "momentum:0.9", 2, 1, 1, true},
                                      {"ps", "sgd", 3, 1, 0, true}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        static struct nodes without, with;
        run_job(&without, &ways[i], false);
        run_job(&with, &ways[i], true);
        check_saved(&with);
        uint64_t states = with.plan->optim.ops->state_floats;
        uint64_t more = with.nodes[0].stats.received_bytes - without.nodes[0].stats.received_bytes;
        uint64_t expected = states * sizeof(float) * floats_elsewhere(&with);
        assert_in_range(more, expected, expected + NAMES);
        nodes_free(&without);
        nodes_free(&with);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_checkpoint_has_the_parameters_of_its_clock_and_only_states_travel, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("run/state", tests, NULL, NULL);
}
