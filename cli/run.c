/* trident run: starts the processes of a job, here or on several hosts, and watches over them. */
#include "cli/run.h"

#include <string.h>

#include "cli/run_hosts.h"

static tri_status check_apart(const struct cli *cli, const struct run_request *request,
                              tri_error *err)
{
    tri_status status = run_check_apart(request, cli->mem, err);
    if (status != TRI_OK)
        fail_next(err, "have them started with --colocate no (and --servers Q), or set "
                       "TRIDENT_COLOCATE to on");
    return status;
}

/* How long a pipe with hosts may be silent. */
static int hosts_limit_ms(const struct run_settings *settings)
{
    double limit_ms = 1e3 * settings->timeout_s; /* at least 1 */
    return settings->timeout_s > 0 && limit_ms < RUN_HOSTS_LIMIT_MS ? (int)limit_ms
                                                                    : RUN_HOSTS_LIMIT_MS;
}

static tri_status launch(struct cli *cli, struct run_request *request, tri_error *err)
{
    struct run_job job = {0};
    struct run_hosts hosts;
    struct buf path;
    buf_init(&path, cli->mem);
    run_hosts_init(&hosts, cli->mem);
    const char *given = request->settings.hosts;
    tri_status status = TRI_OK;
    if (given == NULL) { /* the hosts look for it themselves */
        status = process_find(request->program[0], &path, err);
    } else { /* before signals are caught: Ctrl-C ends a wait for a pipe */
        status = run_hosts_read(given, hosts_limit_ms(&request->settings), &hosts, err);
        request->hosts = &hosts;
    }
    if (status == TRI_OK)
        status = run_job_init(&job, request, err);
    if (status == TRI_OK)
        status = run_watch(cli, request, &job, buf_string(&path), err);
    request->hosts = NULL;
    run_hosts_fini(&hosts);
    buf_fini(&path);
    return status;
}

extern const struct command command_run;

tri_status run_main(struct cli *cli, int argc, const char *const *argv, struct buf *out,
                    tri_error *err)
{
    struct run_request request;
    if (argc == 1 && strcmp(argv[0], "--deputy") == 0)
        return run_deputy_main(cli, err);
    tri_status status = run_read(argc, argv, &request, cli->mem, err);
    if (status == TRI_OK && request.help)
        help_command(&command_run, out);
    else if (status == TRI_OK && (status = check_apart(cli, &request, err)) == TRI_OK)
        status = launch(cli, &request, err);
    run_request_free(&request, cli->mem);
    return status;
}

/* Without .run: the words behind "--" are not ours to parse, so commands.c hands all of them
 * to run_main(). */
const struct command command_run = {
    .name = "run",
    .summary = "start the processes of a job, here or on several hosts, and watch over them",
    .arguments = "-- PROGRAM ARGS...",
    .options = run_rows,
    .settings_bytes = sizeof(struct run_settings),
    .about =
        "Starts N times the same program, each with its rank and where the ranks meet in its "
        "environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
        "as torchrun sets them, and TRIDENT_ variables. docs/launch.md in the source tree lists "
        "them.\n\n"
        "What a process prints is passed on line by line with [rank] in front, or [s0] for "
        "servers in processes of their own; with one process, as it comes. Rank 0 reads standard "
        "input unless that is a terminal; the others read nothing.\n\n"
        "A process that fails is named at once, with its exit code or signal and the last line "
        "it wrote to standard error. The exit code is 0 if every process exited with 0, and 1 if "
        "one failed, even if the others went on and finished. Ctrl-C, SIGTERM and SIGHUP are "
        "passed on to all; who has not ended 5 seconds later is killed, and at once when asked "
        "again. No process outlives the command.\n\n"
        "With --hosts, ranks go to the hosts in order, as many to each as it has slots; servers of "
        "their own take the slots that are left, then one host after the other. Every host needs "
        "this folder, the program, and trident at the same path or in the PATH that commands of "
        "ssh have; and ssh must get there without a question. Processes have the environment of "
        "their host, and of this one the TRIDENT_ variables. None reads standard input.",
    .examples = "trident run -n 4 -- ./train --epochs 3\n"
                "trident run -n 4 --on-failure stop --timeout 3600s -- python3 train.py\n"
                "trident run -n 8 --hosts h1:4,h2:4 -- ./train\n"
                "trident run -n 2 --env OMP_NUM_THREADS=1 -- ./train",
};
