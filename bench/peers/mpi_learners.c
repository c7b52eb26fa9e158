/* Two learners and a parameter server that exchange messages by MPI, as Downpour and mpiT do.
 *
 *     mpirun -n 3 mpi_learners NET BATCH WARM_UP SECONDS NAP_US
 *
 * Rank 0 serves; with NAP_US it sleeps so long when nothing has come, else it lets others run. A
 * learner sends the whole gradient of each layer as soon as its backward pass has it; the server
 * steps the layer with it and sends the layer's weights back, from where they lie; a layer's
 * forward pass waits for them. Nobody waits for the other learner. The net, its samples and its
 * kernels are those of `trident bench learners`, which starts this program.
 *
 * The server steps weights that are on their way to the other learner, who then gets some from
 * before the step and some from after: Hogwild, as with GaDei's server. MPI does not promise that,
 * but it spares the server a copy of the weights for each gradient.
 *
 * Prints samples/s of both learners together. Ends with 1, and a line, when a gradient is missing
 * in the weights. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/gradient.h"
#include "bench/lesson.h"
#include "local/update.h"

enum { SERVER, LEARNERS = 2, RANKS = LEARNERS + 1, LAYERS_MAX = 16, TAG_END = LAYERS_MAX };

/* What a learner tells at its end. */
struct report {
    double samples_per_s, steps;
};
enum { REPORT_DOUBLES = sizeof(struct report) / sizeof(double) };

struct layers {
    int count;
    int floats[LAYERS_MAX];
    size_t offset[LAYERS_MAX];
};

static tri_status measure_layers(const struct lesson *lesson, struct layers *out, tri_error *err)
{
    const size_t count = net_params(lesson->net);
    if (count > LAYERS_MAX)
        return fail(err, TRI_EARG, "the net has more than %d layers", LAYERS_MAX);
    out->count = (int)count;
    for (size_t i = 0; i < count; i++) {
        const struct param *param = net_param(lesson->net, i);
        out->offset[i] = lesson_offset(lesson, i);
        out->floats[i] = (int)(param->rows * (param->cols + (param->bias != NULL ? (size_t)1 : 0)));
    }
    return TRI_OK;
}

/* ---- the server ---- */

struct server {
    const struct lesson *lesson;
    struct layers layers;
    float *weights, *gradients;                             /* gradients: of each learner */
    MPI_Request receives[LEARNERS * LAYERS_MAX + LEARNERS]; /* the last: reports */
    MPI_Request sends[LEARNERS * LAYERS_MAX];
    struct report reports[LEARNERS];
    int left; /* learners that have not ended */
};

static void start_server(struct server *s)
{
    const size_t all = lesson_floats(s->lesson);
    const int count = s->layers.count;
    for (int l = 0; l < LEARNERS; l++)
        for (int p = 0; p < count; p++) {
            float *to = s->gradients + (size_t)l * all + s->layers.offset[p];
            s->sends[l * count + p] = MPI_REQUEST_NULL;
            MPI_Recv_init(to, s->layers.floats[p], MPI_FLOAT, l + 1, p, MPI_COMM_WORLD,
                          &s->receives[l * count + p]);
            MPI_Start(&s->receives[l * count + p]);
        }
    for (int l = 0; l < LEARNERS; l++)
        MPI_Irecv(&s->reports[l], REPORT_DOUBLES, MPI_DOUBLE, l + 1, TAG_END, MPI_COMM_WORLD,
                  &s->receives[LEARNERS * count + l]);
    s->left = LEARNERS;
}

/* Its receiver has the weights that it was sent before, or it would not have sent a gradient. */
static void take(struct server *s, int i)
{
    const int count = s->layers.count, l = i / count, p = i % count;
    const size_t at = s->layers.offset[p];
    const float *gradient = s->gradients + (size_t)l * lesson_floats(s->lesson) + at;
    if (i >= LEARNERS * count) {
        s->left--;
        return;
    }
    update_kernel_at(0)->sgd(s->weights + at, gradient, (size_t)s->layers.floats[p],
                             LESSON_LR / (float)s->lesson->batch);
    MPI_Start(&s->receives[i]);
    MPI_Wait(&s->sends[i], MPI_STATUS_IGNORE);
    MPI_Isend(s->weights + at, s->layers.floats[p], MPI_FLOAT, l + 1, p, MPI_COMM_WORLD,
              &s->sends[i]);
}

static tri_status sum_up(const struct server *s, tri_error *err)
{
    double rate = 0, steps = 0;
    for (int l = 0; l < LEARNERS; l++) {
        rate += s->reports[l].samples_per_s;
        steps += s->reports[l].steps;
    }
    if (fabs((double)lesson_count(s->lesson) - steps) > 1e-3 * steps)
        return fail(err, TRI_EIO, "%.0f gradients were sent, and %.0f are in the weights", steps,
                    (double)lesson_count(s->lesson));
    (void)printf("%g\n", rate);
    return TRI_OK;
}

static int await_some(struct server *s, useconds_t nap_us, int *done)
{
    const int count = LEARNERS * s->layers.count + LEARNERS;
    int n = 0;
    if (nap_us == 0)
        MPI_Waitsome(count, s->receives, &n, done, MPI_STATUSES_IGNORE);
    else
        MPI_Testsome(count, s->receives, &n, done, MPI_STATUSES_IGNORE);
    if (n == 0)
        (void)usleep(nap_us);
    return n;
}

/* Nobody sends any more. */
static void stop_server(struct server *s)
{
    const int count = LEARNERS * s->layers.count;
    MPI_Waitall(count, s->sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        MPI_Cancel(&s->receives[i]);
        MPI_Wait(&s->receives[i], MPI_STATUS_IGNORE);
        MPI_Request_free(&s->receives[i]);
    }
}

static tri_status serve(struct lesson *lesson, useconds_t nap_us, tri_error *err)
{
    const size_t all = lesson_floats(lesson);
    struct server s = {.lesson = lesson,
                       .weights = op_floats(&mem_libc, all),
                       .gradients = op_floats(&mem_libc, LEARNERS * all)};
    int done[LEARNERS * LAYERS_MAX + LEARNERS];
    tri_status status = measure_layers(lesson, &s.layers, err);
    if (s.weights == NULL || s.gradients == NULL)
        status = fail_nomem(err, "weights");
    if (status == TRI_OK) {
        lesson_move(lesson, s.weights);
        start_server(&s);
        while (s.left > 0)
            for (int n = await_some(&s, nap_us, done), i = 0; i < n; i++)
                take(&s, done[i]);
        stop_server(&s);
        status = sum_up(&s, err);
    }
    op_floats_free(&mem_libc, s.weights);
    op_floats_free(&mem_libc, s.gradients);
    return status;
}

/* ---- a learner ---- */

struct learner {
    struct lesson *lesson;
    struct gradient_maker maker;
    struct layers layers;
    float *weights, *gradients;
    MPI_Request sends[LAYERS_MAX], receives[LAYERS_MAX];
    double steps;
};

static bool before(void *ctx, size_t p)
{
    struct learner *l = ctx;
    MPI_Wait(&l->receives[p], MPI_STATUS_IGNORE);
    return true;
}

static bool ready(void *ctx, size_t p)
{
    struct learner *l = ctx;
    const struct param *param = net_param(l->lesson->net, p);
    float *to = l->gradients + l->layers.offset[p];
    MPI_Wait(&l->sends[p], MPI_STATUS_IGNORE);
    gradient_put(&l->maker, param, to);
    lesson_mark(l->lesson, param, to);
    MPI_Isend(to, l->layers.floats[p], MPI_FLOAT, SERVER, (int)p, MPI_COMM_WORLD, &l->sends[p]);
    return true;
}

/* Weights are received when the backward pass has read the old ones. */
static void step(struct learner *l)
{
    const struct net_calls calls = {.ctx = l, .before = before, .ready = ready};
    lesson_next(l->lesson);
    (void)net_forward(l->lesson->net, true, 0, &calls);
    lesson_note(l->lesson);
    (void)net_backward(l->lesson->net, &calls);
    for (int p = 0; p < l->layers.count; p++)
        MPI_Irecv(l->weights + l->layers.offset[p], l->layers.floats[p], MPI_FLOAT, SERVER, p,
                  MPI_COMM_WORLD, &l->receives[p]);
    l->steps++;
}

static void train(struct learner *l, MPI_Comm learners, long warm_up, double seconds)
{
    for (long i = 0; i < warm_up; i++)
        step(l);
    MPI_Barrier(learners);
    const double start = MPI_Wtime(), before_it = l->steps;
    double took = 0;
    while (l->steps < before_it + 2 || took < seconds) {
        step(l);
        took = MPI_Wtime() - start;
    }
    struct report report = {(l->steps - before_it) * l->lesson->batch / took, l->steps};
    MPI_Waitall(l->layers.count, l->receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(l->layers.count, l->sends, MPI_STATUSES_IGNORE);
    MPI_Send(&report, REPORT_DOUBLES, MPI_DOUBLE, SERVER, TAG_END, MPI_COMM_WORLD);
}

static tri_status learn(struct lesson *lesson, MPI_Comm learners, long warm_up, double seconds,
                        tri_error *err)
{
    const size_t all = lesson_floats(lesson);
    struct learner l = {.lesson = lesson,
                        .weights = op_floats(&mem_libc, all),
                        .gradients = op_floats(&mem_libc, all)};
    for (size_t i = 0; i < LAYERS_MAX; i++)
        l.sends[i] = l.receives[i] = MPI_REQUEST_NULL;
    tri_status status = measure_layers(lesson, &l.layers, err);
    if (status == TRI_OK)
        status = gradient_open(&l.maker, lesson->batch * lesson->what->data.length, err);
    if (l.weights == NULL || l.gradients == NULL)
        status = fail_nomem(err, "weights");
    if (status == TRI_OK) {
        lesson_move(lesson, l.weights);
        train(&l, learners, warm_up, seconds);
        status = lesson_check(lesson, err);
    }
    gradient_close(&l.maker);
    op_floats_free(&mem_libc, l.weights);
    op_floats_free(&mem_libc, l.gradients);
    return status;
}

/* ---- the program ---- */

static const struct learner_net *find(const char *name)
{
    const struct learner_net *net = NULL;
    for (size_t i = 0; (net = lesson_text(i)) != NULL && strcmp(net->name, name) != 0;)
        i++;
    return net;
}

static tri_status be(int rank, char **arguments, tri_error *err)
{
    const struct learner_net *net = find(arguments[0]);
    const long batch = strtol(arguments[1], NULL, 10), warm_up = strtol(arguments[2], NULL, 10);
    const double seconds = strtod(arguments[3], NULL);
    const useconds_t nap_us = (useconds_t)strtoul(arguments[4], NULL, 10);
    const uint32_t number = rank == SERVER ? 0 : (uint32_t)rank - 1;
    struct lesson lesson = {0};
    MPI_Comm learners;
    if (net == NULL || batch < 1 || batch > 4096)
        return fail(err, TRI_EINPUT, "there is no net '%.40s', or no batch of %ld", arguments[0],
                    batch);
    MPI_Comm_split(MPI_COMM_WORLD, rank != SERVER, rank, &learners);
    tri_status status = lesson_open(&lesson, net, (uint32_t)batch, LEARNERS, number, err);
    if (status == TRI_OK)
        status = rank == SERVER ? serve(&lesson, nap_us, err)
                                : learn(&lesson, learners, warm_up, seconds, err);
    lesson_close(&lesson);
    MPI_Comm_free(&learners);
    return status;
}

int main(int argc, char **argv)
{
    tri_error err = {.status = TRI_OK};
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 6 || ranks != RANKS)
        (void)fail(&err, TRI_EINPUT, "usage: mpirun -n %d %.80s NET BATCH WARM_UP SECONDS NAP_US",
                   RANKS, argv[0]);
    else
        (void)be(rank, argv + 1, &err);
    if (err.status != TRI_OK) {
        (void)fprintf(stderr, "mpi_learners: %s\n", err.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
