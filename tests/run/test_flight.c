/* run/flight: what is kept, when it is written, and what the file says. */
#include "run/flight.h"

#include <dirent.h>

#include "base/json.h"
#include "os/file.h"
#include "run/nodes.h"

/* ---- the ring ---- */

static void note_clock(struct flight *flight, uint64_t clock, const char *text)
{
    flight_note(
        flight,
        (struct flight_event){
            .kind = FLIGHT_CLOCK, .node = FLIGHT_NONE, .layer = 7, .clock = clock, .text = text});
}

TEST(the_ring_keeps_the_newest_oldest_first)
{
    (void)state;
    static const uint64_t counts[] = {
        0, 1, 5, FLIGHT_EVENTS, FLIGHT_EVENTS + 1, 3 * FLIGHT_EVENTS + 17};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        struct flight *flight = flight_new(&mem_libc);
        assert_non_null(flight);
        for (uint64_t i = 0; i < counts[c]; i++)
            note_clock(flight, i, NULL);
        uint32_t kept = flight_kept(flight);
        assert_int_equal(flight_total(flight), counts[c]);
        assert_int_equal(kept, counts[c] < FLIGHT_EVENTS ? counts[c] : FLIGHT_EVENTS);
        uint64_t before = 0;
        for (uint32_t i = 0; i < kept; i++) {
            struct flight_event event = flight_at(flight, i);
            assert_int_equal(event.clock, counts[c] - kept + i);
            assert_int_equal(event.layer, 7);
            assert_null(event.text);
            assert_true(event.t_us >= before);
            before = event.t_us;
        }
        flight_free(flight);
    }
}

TEST(a_text_is_its_events_until_newer_ones_take_its_place)
{
    (void)state;
    enum { NOTED = 70000 }; /* their numbers go round */
    struct flight *flight = flight_new(&mem_libc);
    assert_non_null(flight);
    for (uint64_t i = 0; i < NOTED; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "text %llu %0150d", (unsigned long long)i, 0);
        note_clock(flight, i, text);
        struct flight_event event = flight_at(flight, flight_kept(flight) - 1);
        assert_non_null(event.text);
        assert_memory_equal(event.text, text, FLIGHT_TEXT - 1);
        assert_int_equal(strlen(event.text), FLIGHT_TEXT - 1);
    }
    unsigned with = 0;
    for (uint32_t i = 0; i < flight_kept(flight); i++) {
        struct flight_event event = flight_at(flight, i);
        char text[40];
        (void)snprintf(text, sizeof text, "text %llu ", (unsigned long long)event.clock);
        if (event.text == NULL)
            continue;
        with++;
        assert_memory_equal(event.text, text, strlen(text));
    }
    assert_int_equal(with, FLIGHT_TEXTS);
    flight_free(flight);
}

TEST(every_kind_has_a_name_of_its_own)
{
    (void)state;
    for (unsigned a = 0; a < FLIGHT_KINDS; a++) {
        assert_non_null(flight_kind_name((enum flight_kind)a));
        for (unsigned b = 0; b < a; b++)
            assert_string_not_equal(flight_kind_name((enum flight_kind)a),
                                    flight_kind_name((enum flight_kind)b));
    }
    assert_string_equal(flight_kind_name(FLIGHT_KINDS), "?");
}

TEST(without_memory_there_is_none)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct flight *flight = flight_new(&fault.mem);
        if (flight != NULL)
            note_clock(flight, 1, "a text");
        flight_free(flight);
    }
    note_clock(NULL, 1, "nobody listens");
}

/* ---- files ---- */

static struct {
    char path[64];
} folder;

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder.path, sizeof folder.path, "/tmp/trident-flight-XXXXXX");
    return mkdtemp(folder.path) != NULL ? 0 : -1;
}

/* How many files there are; all are removed. */
static unsigned empty_folder(void)
{
    unsigned count = 0;
    DIR *dir = opendir(folder.path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') {
            char path[400];
            (void)snprintf(path, sizeof path, "%s/%s", folder.path, entry->d_name);
            (void)unlink(path);
            count++;
        }
    (void)closedir(dir);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)empty_folder();
    return rmdir(folder.path);
}

struct document {
    char status[40], text[240], node[40], phase[40];
    unsigned layers, waiting, peers, events, kinds; /* kinds: bits of enum flight_kind */
    char last[40];                                  /* event */
};

static void read_text(struct json *json, char *out, size_t size)
{
    struct buf text;
    buf_init(&text, &mem_libc);
    json_string(json, &text);
    (void)snprintf(out, size, "%s", buf_string(&text));
    buf_fini(&text);
}

static void read_failure(struct json *json, struct document *out)
{
    for (json_object(json); json_member(json);)
        if (strcmp(json->key, "status") == 0)
            read_text(json, out->status, sizeof out->status);
        else if (strcmp(json->key, "text") == 0)
            read_text(json, out->text, sizeof out->text);
        else
            json_skip(json);
}

static void read_layers(struct json *json, struct document *out)
{
    for (json_array(json); json_element(json); out->layers++)
        for (json_object(json); json_member(json);)
            if (strcmp(json->key, "waits_for") == 0)
                for (json_array(json); json_element(json); out->waiting++)
                    json_skip(json);
            else
                json_skip(json);
}

static void read_events(struct json *json, struct document *out)
{
    for (json_array(json); json_element(json); out->events++)
        for (json_object(json); json_member(json);)
            if (strcmp(json->key, "event") == 0) {
                read_text(json, out->last, sizeof out->last);
                for (unsigned k = 0; k < FLIGHT_KINDS; k++)
                    if (strcmp(out->last, flight_kind_name((enum flight_kind)k)) == 0)
                        out->kinds |= 1u << k;
            } else {
                json_skip(json);
            }
}

static struct document read_document(const char *name)
{
    struct document out = {.layers = 0};
    struct json json;
    struct buf text;
    tri_error err = {0};
    char path[200];
    buf_init(&text, &mem_libc);
    (void)snprintf(path, sizeof path, "%s/%s", folder.path, name);
    if (file_read(path, 1 << 24, &text, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
    json_open(&json, name, text.data, text.len, &err);
    for (json_object(&json); json_member(&json);)
        if (strcmp(json.key, "failure") == 0)
            read_failure(&json, &out);
        else if (strcmp(json.key, "layers") == 0)
            read_layers(&json, &out);
        else if (strcmp(json.key, "events") == 0)
            read_events(&json, &out);
        else if (strcmp(json.key, "node") == 0)
            read_text(&json, out.node, sizeof out.node);
        else if (strcmp(json.key, "phase") == 0)
            read_text(&json, out.phase, sizeof out.phase);
        else if (strcmp(json.key, "peers") == 0)
            for (json_array(&json); json_element(&json); out.peers++)
                json_skip(&json);
        else
            json_skip(&json);
    json_end(&json);
    if (json.status != TRI_OK)
        fail_msg("%s at %s", err.text, err.where);
    buf_fini(&text);
    return out;
}

/* ---- jobs ---- */

static void plain(struct nodes *job, uint32_t workers, const char *scheme)
{
    memset(job, 0, sizeof *job);
    job->flight = folder.path;
    job->count = 2;
    job->layers[0] = (struct agree_layer){
        .name = "one", .kind = TRI_FC, .rows = 5, .cols = 4, .max_factor_rows = NET_MAX_BATCH};
    job->layers[1] = (struct agree_layer){
        .name = "two", .kind = TRI_FC, .rows = 3, .cols = 5, .max_factor_rows = NET_MAX_BATCH};
    job->options = (struct agree_options){.workers = workers,
                                          .servers = 1,
                                          .bits_s = 1e9,
                                          .latency_s = 5e-5,
                                          .message_s = 5e-6,
                                          .flops_s = 1e9,
                                          .reproducible = true,
                                          .rule = PLAN_TIME,
                                          .scheme = scheme};
    job->clocks = 6;
    job->net = (struct toy){.seed = 3, .lr = 0.05f};
    nodes_plan(job);
}

/* An update twice, which is refused, and changes nothing. */
static bool give_twice(struct nodes_one *one, uint64_t clock)
{
    struct update update = {.dense = one->gradient[0].weights,
                            .dense_bias = one->gradient[0].bias,
                            .count = 0,
                            .lr = 1};
    tri_error err = {0};
    if (clock == 2 && one->number == 0)
        assert_int_equal(host_update(one->host, 0, &update, &err), TRI_EARG);
    return true;
}

TEST(a_job_that_ends_well_leaves_nothing_and_neither_does_a_bad_argument)
{
    (void)state;
    static struct nodes job;
    plain(&job, 3, "ps");
    job.meddle = give_twice;
    nodes_meet(&job, "tcp");
    nodes_run(&job, 0);
    for (uint32_t n = 0; n < job.node_count; n++)
        assert_int_equal(job.nodes[n].status, TRI_OK);
    nodes_free(&job);
    assert_int_equal(empty_folder(), 0);
}

static bool last_leaves(struct nodes_one *one, uint64_t clock)
{
    return one->number + 1 != one->job->options.workers || clock < 3;
}

TEST(an_evicted_rank_writes_what_it_did_last)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb"};
    for (size_t i = 0; i < 2; i++) {
        static struct nodes job;
        plain(&job, 3, schemes[i]);
        job.meddle = last_leaves;
        nodes_meet(&job, "tcp");
        nodes_run(&job, 0);
        struct document file = read_document("trident-flight-2.json");
        assert_string_equal(file.status, "TRI_EEVICTED");
        assert_non_null(strstr(file.text, "rank 2 is out of the job: closed at clock 3"));
        assert_string_equal(file.node, "rank 2");
        assert_string_equal(file.phase, "running");
        assert_int_equal(file.layers, 2);
        assert_int_equal(file.peers, 3);
        unsigned wanted = 1u << FLIGHT_UPDATE | 1u << FLIGHT_SYNCED | 1u << FLIGHT_CLOCK |
                          1u << FLIGHT_SEND | 1u << FLIGHT_RECEIVED | 1u << FLIGHT_UP |
                          1u << FLIGHT_VIEW | 1u << FLIGHT_PHASE | 1u << FLIGHT_FAILURE;
        assert_int_equal(file.kinds & wanted, wanted);
        nodes_free(&job);
        assert_int_equal(empty_folder(), 1); /* of the one that failed */
    }
}

/* Too long for the others, and not dead: they wait for it, tell it and give up. */
static bool sleep_late(struct nodes_one *one, uint64_t clock)
{
    if (one->number == 1 && clock == 2)
        (void)usleep(1600000);
    return true;
}

TEST(a_wait_in_vain_is_written_with_who_is_missing)
{
    (void)state;
    static struct nodes job;
    plain(&job, 2, "sfb");
    job.meddle = sleep_late;
    job.timeout_ms = 800;
    job.heartbeat_ms = 2000; /* nobody is given up, however busy the machine is */
    nodes_meet(&job, "tcp");
    nodes_run(&job, 0);
    const tri_error *err = &job.nodes[0].err;
    assert_int_equal(job.nodes[0].status, TRI_ETIMEOUT);
    assert_non_null(strstr(err->text, "layer 'one' at clock 3"));
    assert_non_null(strstr(err->why, "worker 1"));
    assert_non_null(strstr(err->where, "rank 1 is at 127.0.0.1:"));
    assert_non_null(strstr(err->next, "TRIDENT_TIMEOUT_MS"));
    assert_non_null(strstr(err->next, "/trident-flight-0.json"));
    struct document file = read_document("trident-flight-0.json");
    assert_string_equal(file.node, "rank 0");
    assert_true(file.waiting > 0);
    assert_int_equal(file.kinds >> FLIGHT_WAIT & 1, 1);
    nodes_free(&job);
    (void)empty_folder();
}

TEST(a_server_has_a_file_of_its_own)
{
    (void)state;
    static struct nodes job;
    plain(&job, 2, "ps");
    job.timeout_ms = 300;
    nodes_meet(&job, "tcp");
    nodes_run(&job, 2); /* rank 1 never comes */
    struct document file = read_document("trident-flight-s0.json");
    assert_string_equal(file.node, "server 0");
    assert_string_equal(file.phase, "meeting the others");
    assert_int_equal(file.layers, 0);
    assert_non_null(strstr(job.nodes[2].err.next, "/trident-flight-s0.json"));
    nodes_free(&job);
    assert_int_equal(empty_folder(), 2);
}

TEST(a_folder_that_is_not_there_is_no_reason_to_fail_otherwise)
{
    (void)state;
    static const char *const folders[] = {"/nowhere/at/all", "off"};
    for (size_t i = 0; i < 2; i++) {
        static struct nodes job;
        plain(&job, 2, "ps");
        job.flight = folders[i];
        job.timeout_ms = 300;
        nodes_meet(&job, "tcp");
        nodes_run(&job, 2);
        assert_true(job.nodes[0].status == TRI_ETIMEOUT || job.nodes[0].status == TRI_EPEER);
        const char *next = job.nodes[0].err.next;
        if (i == 0)
            assert_non_null(strstr(next, "the last events are not in /nowhere/at/all/trident-flight"
                                         "-0.json: No such file or directory"));
        else
            assert_null(strstr(next, "trident-flight"));
        nodes_free(&job);
    }
}

/* ---- memory ---- */

static struct fault fault;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

static void *locked_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    (void)pthread_mutex_lock(&fault_lock);
    void *now = fault.mem.resize(fault.mem.ctx, ptr, bytes);
    (void)pthread_mutex_unlock(&fault_lock);
    return now;
}

static const struct mem locked = {.resize = locked_resize};

TEST(memory_that_is_refused_once_or_for_ever_leaves_a_file_or_none_and_no_leak)
{
    (void)state;
    unsigned written[2] = {0};
    for (int i = 0; i < 2; i++) {
        fault = (struct fault){0};
        FAULT_WALK(&fault)
        {
            static struct nodes job;
            plain(&job, 1, "ps");
            job.options.colocated = 1;
            job.clocks = 2;
            job.mem = &locked;
            agree_free(job.plan);
            nodes_plan(&job);
            nodes_meet(&job, "inproc");
            fault.repeat = i == 1;
            nodes_run(&job, 0);
            tri_status status = job.nodes[0].status;
            if (fault.hit && status != TRI_OK && status != TRI_ENOMEM)
                fail_msg("allocation %zu: %s", fault.run, job.nodes[0].err.text);
            nodes_free(&job);
            written[i] += empty_folder();
        }
    }
    assert_true(written[0] > 0);
    assert_int_equal(written[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ring_keeps_the_newest_oldest_first),
        cmocka_unit_test(a_text_is_its_events_until_newer_ones_take_its_place),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
        cmocka_unit_test(without_memory_there_is_none),
        cmocka_unit_test(a_job_that_ends_well_leaves_nothing_and_neither_does_a_bad_argument),
        cmocka_unit_test(an_evicted_rank_writes_what_it_did_last),
        cmocka_unit_test(a_wait_in_vain_is_written_with_who_is_missing),
        cmocka_unit_test(a_server_has_a_file_of_its_own),
        cmocka_unit_test(a_folder_that_is_not_there_is_no_reason_to_fail_otherwise),
        cmocka_unit_test(memory_that_is_refused_once_or_for_ever_leaves_a_file_or_none_and_no_leak),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
