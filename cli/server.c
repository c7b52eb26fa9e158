/* trident server: a node of a job that has no worker. */
#include "cli/cli.h"
#include "run/host.h"
#include "settings/settings.h"

struct server_settings {
    bool unused;
};

static tri_status server_run(struct cli *cli, const void *settings_,
                             const struct arguments *arguments, struct buf *out, tri_error *err)
{
    (void)settings_;
    (void)arguments;
    (void)out;
    struct settings settings;
    struct host *host = NULL;
    tri_status status = settings_read(NULL, true, &settings, err);
    if (status == TRI_OK && settings.node < settings.agree.workers) {
        fail(err, TRI_EINPUT, "TRIDENT_NODE is not that of a server");
        fail_next(err, "servers of their own have numbers from TRIDENT_WORKERS on; trident run "
                       "--colocate no starts them");
        return TRI_EINPUT;
    }
    if (status != TRI_OK)
        return status;
    settings.log.role = "server";
    settings.log.rank = (int32_t)(settings.node - settings.agree.workers);
    struct host_options options = settings_host(&settings);
    options.mem = cli->mem;
    options.log = settings.log;
    status = host_open(&options, &host, err);
    if (status == TRI_OK)
        status = host_serve(host, err);
    host_close(host);
    return status;
}

static const struct option_row server_options[] = {
    {.name = NULL},
};

extern const struct command command_server;
const struct command command_server = {
    .name = "server",
    .summary = "a node that only serves parameters, as trident run starts it",
    .arguments = "",
    .options = server_options,
    .settings_bytes = sizeof(struct server_settings),
    .run = server_run,
    .about = "Joins a job as a parameter server without a worker, takes the model and the plan "
             "from rank 0, and serves until the job is over. trident run --colocate no starts as "
             "many as --servers says; start it by hand where a job is started otherwise.\n\n"
             "All it needs is in the environment: TRIDENT_JOB, TRIDENT_COORDINATOR (host:port of "
             "rank 0), TRIDENT_WORKERS, TRIDENT_SERVERS, TRIDENT_COLOCATE=no and TRIDENT_NODE, its "
             "number: the first server is number TRIDENT_WORKERS.",
    .examples = "trident run -n 4 --servers 2 --colocate no -- ./train",
};
