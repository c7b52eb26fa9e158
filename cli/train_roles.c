/* Processes beside the learners: the server, and the one that cleans up after a dead launcher. */
#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/train_learners.h"
#include "os/clock.h"
#include "settings/settings.h"

static tri_status attach(struct cli *cli, uint32_t wait_ms, struct settings *settings,
                         struct local_job **out, tri_error *err)
{
    char name[LOCAL_NAME_BYTES];
    tri_status status = settings_read(NULL, false, settings, err);
    if (status != TRI_OK)
        return status;
    settings->log.role = "server";
    settings->log.job = settings->job;
    settings->log.rank = LOG_NO_RANK;
    shared_name(settings->job, name);
    struct local_options options = {.mem = cli->mem,
                                    .log = &settings->log,
                                    .name = name,
                                    .wait_ms = wait_ms > 0 ? wait_ms : settings->timeout_ms};
    return local_attach(&options, out, err);
}

tri_status train_serve(struct cli *cli, tri_error *err)
{
    struct settings settings;
    struct local_job *job = NULL;
    tri_status status = attach(cli, 0, &settings, &job, err);
    const struct local_serve_options options = {.threads = 1, .until_done = true};
    struct local_faults faults = {0};
    if (status == TRI_OK)
        status = local_faults_arm(job, LOCAL_ANY, settings.local_fault, &faults, err);
    if (status == TRI_OK)
        status = local_serve(job, &options, err);
    if (status != TRI_OK && job != NULL)
        local_stop(job); /* learners would wait for it */
    local_close(job);
    return status;
}

static bool is_there(struct cli *cli)
{
    struct settings settings;
    struct local_job *job = NULL;
    tri_status status = attach(cli, 1, &settings, &job, NULL);
    local_close(job);
    return status == TRI_OK;
}

/* The launcher has closed the pipe: it is at its end, or dead. Then all that it has started is
 * about to die, too, and nobody is left who would remove their region. */
tri_status train_sweep(struct cli *cli, tri_error *err)
{
    enum { TRIES = 500, ENOUGH = 30, PAUSE_US = 10000 };
    char byte;
    ssize_t got;
    (void)prctl(PR_SET_PDEATHSIG, 0); /* it is to outlive the launcher */
    do
        got = read(STDIN_FILENO, &byte, 1);
    while (got > 0 || (got < 0 && errno == EINTR));
    /* Others may leave something at the same time: what counts is that this job's is gone. */
    tri_status status = TRI_OK;
    bool gone = false;
    for (int i = 0; i < TRIES && status == TRI_OK && (i < ENOUGH || !gone); i++) {
        uint32_t removed;
        clock_sleep_us(PAUSE_US);
        status = local_sweep(NULL, cli->mem, NULL, &removed, err);
        gone = !is_there(cli);
    }
    return status;
}
