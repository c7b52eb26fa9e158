/* What other launchers say, in their variables and by way of PMIx. */
#include "settings/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "os/interfaces.h"
#include "os/pmix.h"
#include "os/random.h"

/* ---- variables ---- */

static const struct row {
    const char *name;
    const char *rank, *size, *local;
} rows[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    /* Not SLURM_NTASKS alone: sbatch sets that for its script, too, which is no task of a step. */
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL},
};

static const char *variable(const char *name)
{
    const char *text = name != NULL ? getenv(name) : NULL;
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static tri_status read_number(const char *name, struct launcher_number *out, tri_error *err)
{
    const char *text = variable(name);
    uint64_t value = 0;
    if (text == NULL)
        return TRI_OK;
    if (!units_count(text, &value) || value > UINT32_MAX) {
        fail(err, TRI_EINPUT, "%s cannot be '%.60s'", name, text);
        fail_next(err, "give a whole number");
        return TRI_EINPUT;
    }
    out->given = true;
    out->value = (uint32_t)value;
    (void)snprintf(out->origin, sizeof out->origin, "%s", name);
    return TRI_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The entry of a node in a list such as "2(x3),1": three nodes of 2 and one of 1. */
bool launcher_tasks(const char *list, uint32_t node, uint32_t *out)
{
    while (is_digit(list[0])) {
        char *end;
        unsigned long tasks = strtoul(list, &end, 10), times = 1;
        if (end[0] == '(' && end[1] == 'x' && end[2] >= '1' && end[2] <= '9') {
            times = strtoul(end + 2, &end, 10);
            if (*end++ != ')')
                return false;
        }
        if (node < times) {
            *out = (uint32_t)tasks;
            return tasks > 0 && tasks <= UINT32_MAX;
        }
        node -= (uint32_t)times;
        if (*end != ',')
            return false;
        list = end + 1;
    }
    return false;
}

/* Best left unknown if it is not what it should be: it only shares out this machine's cores. */
static void read_slurm_local(struct launcher_number *out)
{
    static const char *const names[] = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
    struct launcher_number node = {.given = false};
    for (size_t i = 0; i < 2 && !out->given; i++) {
        const char *list = variable(names[i]);
        if (list == NULL || read_number("SLURM_NODEID", &node, NULL) != TRI_OK || !node.given)
            continue;
        out->given = launcher_tasks(list, node.value, &out->value);
        (void)snprintf(out->origin, sizeof out->origin, "%s", names[i]);
    }
}

static tri_status read_row(const struct row *row, struct launcher *out, tri_error *err)
{
    out->name = row->name;
    tri_status status = read_number(row->rank, &out->rank, err);
    if (status == TRI_OK)
        status = read_number(row->size, &out->workers, err);
    if (status == TRI_OK && row->local != NULL)
        status = read_number(row->local, &out->local_workers, err);
    return status;
}

tri_status launcher_find(struct launcher *out, tri_error *err)
{
    *out = (struct launcher){.name = NULL};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct launcher found = {.name = NULL};
        bool slurm = rows[i].local == NULL;
        const char *size = variable(rows[i].size);
        if (variable(rows[i].rank) == NULL || size == NULL || (slurm && strcmp(size, "1") == 0))
            continue;
        tri_status status = read_row(&rows[i], &found, err);
        if (status != TRI_OK)
            return status;
        if (slurm)
            read_slurm_local(&found.local_workers);
        *out = found;
        return TRI_OK;
    }
    return TRI_OK;
}

/* ---- Slurm's list of nodes ---- */

/* Copies the first number of "1-3,7]", and returns what is behind the bracket; NULL: not so. */
static const char *first_number(const char *at, char *out, size_t *len, size_t size)
{
    if (!is_digit(*at))
        return NULL;
    for (; is_digit(*at); at++) {
        if (*len + 1 >= size)
            return NULL;
        out[(*len)++] = *at;
    }
    at += strspn(at, "0123456789,-");
    return *at == ']' ? at + 1 : NULL;
}

bool launcher_first_host(const char *list, char *out, size_t size)
{
    size_t len = 0;
    while (*list != '\0' && *list != ',') {
        if (*list == '[') {
            list = first_number(list + 1, out, &len, size);
            if (list == NULL)
                return false;
            continue;
        }
        bool letter = (*list >= 'a' && *list <= 'z') || (*list >= 'A' && *list <= 'Z');
        if ((!letter && !is_digit(*list) && strchr("._-", *list) == NULL) || len + 1 >= size)
            return false;
        out[len++] = *list++;
    }
    if (len == 0)
        return false;
    out[len] = '\0';
    return true;
}

/* The same on all nodes, another one for the next job; below those that the kernel gives to
 * connections. */
static unsigned slurm_port(void)
{
    enum { LOWEST = 10240, PORTS = 20480 };
    const char *names[] = {"SLURM_JOB_ID", "SLURM_STEP_ID"};
    uint64_t sum = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *text = variable(names[i]);
        uint64_t value = 0;
        if (text != NULL && units_count(text, &value))
            sum = (sum + value) * 31;
    }
    return LOWEST + (unsigned)(sum % PORTS);
}

bool launcher_slurm_address(char out[LAUNCHER_ADDRESS])
{
    char host[256];
    const char *list = variable("SLURM_STEP_NODELIST");
    if (list == NULL)
        list = variable("SLURM_JOB_NODELIST");
    if (list == NULL || !launcher_first_host(list, host, sizeof host))
        return false;
    (void)snprintf(out, LAUNCHER_ADDRESS, "%s:%u", host, slurm_port());
    return true;
}

/* ---- where rank 0 listens ---- */

/* One of this machine's addresses that its own name stands for. Debian's own name is 127.0.1.1,
 * where nobody else finds it. */
static bool named_address(const struct interface *all, size_t count, char out[NET_TEXT])
{
    char host[256], text[NET_TEXT];
    struct net_address found[NET_ADDRESSES];
    size_t names = 0;
    if (gethostname(host, sizeof host - 2) != 0)
        return false;
    host[sizeof host - 3] = '\0';
    (void)snprintf(host + strlen(host), 3, ":0");
    if (net_resolve(host, found, &names, NULL) != TRI_OK)
        return false;
    for (size_t i = 0; i < names; i++) {
        net_text(&found[i], text);
        for (size_t k = 0; k < count; k++) {
            net_text(&all[k].address, out);
            if (strcmp(text, out) == 0 && all[k].up && !interfaces_is_loopback(text))
                return true;
        }
    }
    return false;
}

tri_status launcher_own_address(char out[NET_TEXT], tri_error *err)
{
    struct interface all[INTERFACES_MOST];
    size_t count = 0;
    const char *wanted = variable("TRIDENT_INTERFACE");
    tri_status status = interfaces_list(all, &count, err);
    if (status != TRI_OK)
        return status;
    if (wanted != NULL) {
        status = interfaces_pick(wanted, all, count, false, out, err);
        if (status != TRI_OK)
            fail_where(err, "TRIDENT_INTERFACE=%.200s", wanted);
        return status;
    }
    if (named_address(all, count, out) ||
        interfaces_pick("^docker0,^virbr0", all, count, false, out, NULL) == TRI_OK)
        return TRI_OK;
    (void)snprintf(out, NET_TEXT, "127.0.0.1:0"); /* no network: all there is, is this machine */
    return TRI_OK;
}

/* Of the ports that the kernel does not give to connections, one that is free now. */
static tri_status add_port(char address[NET_TEXT], char out[LAUNCHER_ADDRESS], tri_error *err)
{
    enum { LOWEST = 10240, PORTS = 20480, TRIES = 100 };
    tri_status status = TRI_EIO;
    *strrchr(address, ':') = '\0';
    for (int i = 0; i < TRIES; i++) {
        uint16_t draw = 0;
        char got[NET_TEXT];
        int fd = -1;
        status = random_bytes(&draw, sizeof draw, err);
        if (status != TRI_OK)
            return status;
        (void)snprintf(out, LAUNCHER_ADDRESS, "%s:%u", address, LOWEST + (unsigned)draw % PORTS);
        status = net_listen(out, &fd, got, err);
        if (status == TRI_OK) {
            net_close(fd);
            return TRI_OK;
        }
    }
    return status;
}

static tri_status choose(bool spans, struct launcher_meeting *out, tri_error *err)
{
    unsigned char bytes[(LAUNCHER_TOKEN - 1) / 2];
    char address[NET_TEXT] = "127.0.0.1:0";
    tri_status status = spans ? launcher_own_address(address, err) : TRI_OK;
    if (status == TRI_OK)
        status = add_port(address, out->coordinator, err);
    if (status == TRI_OK)
        status = random_bytes(bytes, sizeof bytes, err);
    for (size_t i = 0; i < sizeof bytes && status == TRI_OK; i++)
        (void)snprintf(out->token + 2 * i, 3, "%02x", bytes[i]);
    return status;
}

/* ---- the meeting ---- */

static const char coordinator_key[] = "trident.coordinator", token_key[] = "trident.token";

static tri_status say(struct pmix_room *room, uint32_t workers, struct launcher_meeting *meeting,
                      tri_error *err)
{
    uint32_t size = pmix_room_size(room), here = pmix_room_here(room);
    tri_status status = choose(here == 0 || here < (size > 0 ? size : workers), meeting, err);
    if (status == TRI_OK)
        status = pmix_room_put(room, coordinator_key, meeting->coordinator, err);
    return status == TRI_OK ? pmix_room_put(room, token_key, meeting->token, err) : status;
}

static tri_status hear(struct pmix_room *room, struct launcher_meeting *meeting, tri_error *err)
{
    tri_status status = pmix_room_get(room, 0, coordinator_key, meeting->coordinator,
                                      sizeof meeting->coordinator, err);
    return status == TRI_OK
               ? pmix_room_get(room, 0, token_key, meeting->token, sizeof meeting->token, err)
               : status;
}

tri_status launcher_meet(uint32_t rank, uint32_t workers, uint32_t timeout_ms,
                         struct launcher_meeting *out, bool *found, tri_error *err)
{
    struct launcher_meeting meeting = {.token = ""};
    struct pmix_room *room = NULL;
    *found = false;
    tri_status status = pmix_room_open(&room, err);
    if (status == TRI_OK && room == NULL)
        return TRI_OK;
    if (status == TRI_OK && rank == 0)
        status = say(room, workers, &meeting, err);
    if (status == TRI_OK)
        status = pmix_room_wait(room, timeout_ms, err);
    if (status == TRI_OK && rank > 0)
        status = hear(room, &meeting, err);
    pmix_room_close(room);
    if (status == TRI_EIO)
        fail_next(err, "set TRIDENT_COORDINATOR and TRIDENT_TOKEN, or start with trident run");
    *found = status == TRI_OK;
    if (*found)
        *out = meeting;
    return status;
}
