/* Deaths on purpose that are asked for by a text. */
#include "local/rig.h"

TEST(a_text_names_who_dies_where_and_when)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 2);
    options.locked = true;
    struct local_job *job = rig_create(&options);
    struct local_faults faults = {0};
    const char *text = "0:taken:1,server:half-step:4,1:reading:3";
    assert_int_equal(local_faults_arm(job, 1, text, &faults, NULL), TRI_OK);
    assert_int_equal(faults.at, LOCAL_AT_READING);
    assert_int_equal(faults.nth, 2);
    assert_int_equal(local_faults_arm(job, LOCAL_ANY, text, &faults, NULL), TRI_OK);
    assert_int_equal(faults.at, LOCAL_AT_HALF_STEP);
    assert_int_equal(faults.nth, 3);
    local_set_faults(job, NULL);
    rig_remove(job);
}

TEST(other_texts_are_refused)
{
    (void)state;
    static const char *const texts[] = {"x",           "1:writing",   "1:writing:0",  "1:nowhere:1",
                                        "1:nothing:1", "-1:taken:1",  ":taken:1",     "1:taken:1:1",
                                        "1:taken:x",   "1:taken:1,x", "clerk:taken:1"};
    struct local_options options = rig_options(LOCAL_DIRECT, 2);
    struct local_job *job = rig_create(&options);
    struct local_faults faults;
    tri_error err;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (local_faults_arm(job, 1, texts[i], &faults, &err) != TRI_EINPUT)
            fail_msg("'%s' is taken", texts[i]);
    assert_int_equal(local_faults_arm(job, 1, NULL, &faults, &err), TRI_OK);
    assert_int_equal(local_faults_arm(job, 1, "", &faults, &err), TRI_OK);
    local_set_faults(job, NULL);
    rig_remove(job);
}

TEST(who_and_what_a_job_does_not_have_is_refused)
{
    (void)state;
    static const struct {
        enum local_mode mode;
        bool locked;
        const char *text, *why;
    } cases[] = {
        {LOCAL_SERVER, true, "0:taken:1,2:taken:1", "there is no learner 2: this job has 2"},
        {LOCAL_DIRECT, true, "server:marked:1", "no server"},
        {LOCAL_REPLICAS, false, "server:half-step:1", "no server"},
        {LOCAL_DIRECT, false, "1:writing:3", "nothing is locked"},
        {LOCAL_SERVER, false, "0:reading:3", "nothing is locked"},
        {LOCAL_SERVER, false, "server:round:2", "sync"},
        {LOCAL_DIRECT, false, "1:set:1", "replicas"},
        {LOCAL_REPLICAS, false, "1:set:1", "no layer lies there once"},
        {LOCAL_DIRECT, false, "1:taken:3", "only to pull, marked, half-step, stepped, seats"},
        {LOCAL_DIRECT, true, "1:published:3",
         "only to pull, marked, half-step, stepped, reading, writing, seats"},
        {LOCAL_DIRECT, false, "1:held:1", "local = direct a learner comes only to"},
        {LOCAL_SERVER, false, "1:marked:3", "taken, half-full, published, pull, seats"},
        {LOCAL_SERVER, false, "server:taken:1", "the server comes only to marked, half-step"},
        {LOCAL_SERVER, true, "1:writing:1", "local = server a learner comes only to"},
        {LOCAL_SYNC, false, "server:committed:1", "local = sync the server comes only to"},
        {LOCAL_SYNC, true, "1:reading:1", "local = sync a learner comes only to"},
        {LOCAL_REPLICAS, false, "1:pull:1", "local = replicas a learner comes only to"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct local_options options = rig_options(cases[i].mode, 2);
        options.locked = cases[i].locked;
        struct local_job *job = rig_create(&options);
        struct local_faults faults = {0};
        tri_error err = {0};
        if (local_faults_arm(job, 0, cases[i].text, &faults, &err) != TRI_EINPUT ||
            strstr(err.why, cases[i].why) == NULL)
            fail_msg("'%s': %s (%s)", cases[i].text, err.text, err.why);
        local_set_faults(job, NULL);
        rig_remove(job);
    }
}

static int learn(struct local_job *job, void *arg)
{
    struct local_learner_options wish = {.seat = 1};
    struct local_learner *learner;
    static struct local_faults faults;
    if (local_faults_arm(job, 1, arg, &faults, NULL) != TRI_OK ||
        local_join(job, &wish, &learner, NULL) != TRI_OK)
        return 1;
    for (int i = 0; i < 5; i++)
        if (!rig_push(job, learner, 1, -1))
            return 2;
    local_leave(learner);
    return 0;
}

TEST(the_first_of_a_seat_dies_and_the_next_lives)
{
    (void)state;
    static char texts[][16] = {"1:stepped:3", "1:seats:1"};
    for (int i = 0; i < 2; i++) {
        struct local_options options = rig_options(LOCAL_DIRECT, 2);
        struct local_job *job = rig_create(&options);
        struct local_seat_stats seat;
        assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, texts[i])),
                         -SIGKILL);
        assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, texts[i])), 0);
        local_seat_stats(job, 1, &seat);
        assert_int_equal(seat.counts.pushed, i == 0 ? 2 + 5 : 5);
        assert_int_equal(seat.counts.partial, i == 0 ? 1 : 0);
        rig_remove(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_names_who_dies_where_and_when),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(who_and_what_a_job_does_not_have_is_refused),
        cmocka_unit_test(the_first_of_a_seat_dies_and_the_next_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
