/* run/convert: all that the core says in random jobs comes out of the bytes as it went in. */
#include "run/convert.h"

#include "base/rng.h"
#include "core/bits.h"
#include "core/node.h"
#include "run/travel.h"

enum { LAYERS = 4, MAX_OPS = 4096 };

/* ---- a job ---- */

static const char *const layer_names[LAYERS] = {"conv1", "fc6", "fc7", "norm"};

static void draw_layers(struct rng *rng, struct agree_layer layers[LAYERS])
{
    static const tri_kind kinds[] = {TRI_FC, TRI_FC, TRI_FC, TRI_CONV, TRI_NORM};
    for (uint32_t i = 0; i < LAYERS; i++)
        layers[i] = (struct agree_layer){.name = layer_names[i],
                                         .kind = kinds[rng_below(rng, 5)],
                                         .rows = 1 + (uint32_t)rng_below(rng, 20),
                                         .cols = 1 + (uint32_t)rng_below(rng, 20),
                                         .bias = rng_below(rng, 2) == 0,
                                         .max_factor_rows = (uint32_t)rng_below(rng, 9)};
}

static struct agree_options draw_options(struct rng *rng)
{
    static const char *const consistencies[] = {"bsp", "bsp", "ssp:1", "asp"};
    uint32_t workers = 1 + (uint32_t)rng_below(rng, 5), servers = 1 + (uint32_t)rng_below(rng, 4);
    uint32_t least = workers < servers ? workers : servers;
    struct agree_options options = {
        .workers = workers,
        .servers = servers,
        .colocated = (uint32_t)rng_below(rng, least + 1),
        .bits_s = 1e6 * (1 + rng_unit(rng)),
        .flops_s = 1e9,
        .chunk_bytes = 4 * (1 + rng_below(rng, 60)),
        .reproducible = rng_below(rng, 2) == 0,
        .schemes = (uint32_t)rng_below(rng, 3) == 0 ? 1 : 0,
        .rule = PLAN_TIME,
        .placement = placement_at((size_t)rng_below(rng, 6))->name,
        .consistency = consistencies[rng_below(rng, 4)],
    };
    if (strcmp(options.consistency, "bsp") == 0) {
        options.aggregate = rng_below(rng, 4) == 0;
        options.replicated = !options.aggregate && rng_below(rng, 4) == 0;
    }
    return options;
}

static struct agreement *draw(struct rng *rng)
{
    struct agree_layer layers[LAYERS];
    struct agreement *agreement = NULL;
    tri_error err = {0};
    draw_layers(rng, layers);
    struct agree_options options = draw_options(rng);
    if (agree_make(layers, 1 + (uint32_t)rng_below(rng, LAYERS), &options, &mem_libc, &agreement,
                   &err) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.why);
    return agreement;
}

#define SAME(field)                                                                                \
    if (a->field != b->field)                                                                      \
    fail_msg("%s: " #field " was %llu and is %llu", wire_kind_name(a->kind),                       \
             (unsigned long long)a->field, (unsigned long long)b->field)

static void same(const struct message *a, const struct message *b, const struct layout *layout)
{
    unsigned uses = wire_kind_at(a->kind)->uses;
    SAME(kind);
    SAME(role);
    SAME(from);
    if ((uses & WIRE_USE_VIEW) != 0)
        SAME(view);
    SAME(layer);
    SAME(part);
    SAME(clock);
    SAME(rank);
    SAME(rows);
    SAME(parts);
    SAME(count);
    SAME(version);
    if (!a->unchanged)
        SAME(lr_bits);
    SAME(crc);
    SAME(hash);
    SAME(incarnation);
    SAME(owner);
    SAME(mark);
    if (a->kind == WIRE_FAILED)
        SAME(status);
    SAME(unchanged);
    SAME(left_out);
    SAME(accepted);
    SAME(last);
    assert_true((a->set == NULL) == (b->set == NULL));
    uint32_t members = a->kind == WIRE_RESULT ? layout->workers : layout->nodes;
    for (uint32_t i = 0; a->set != NULL && b->set != NULL && i < members; i++)
        assert_true(bits_has(a->set, i) == bits_has(b->set, i));
    if (a->bytes != NULL) {
        assert_int_equal(a->len, b->len);
        assert_memory_equal(a->bytes, b->bytes, a->len);
    }
}

/* ---- a cluster that passes bytes around ---- */

struct mini;

struct mini_node {
    struct mini *mini;
    uint32_t number;
    struct node node;
    struct convert ctx;
    bool dead, slow, asked, closed;
    uint32_t layer; /* the next to be synced */
    struct core_op ops[MAX_OPS];
    uint32_t op_count;
};

struct mini {
    struct agreement *agreement, *other;
    struct rng rng;
    struct mini_node *nodes;
    uint32_t count;
    struct parcel *mail;
    size_t mail_count, mail_cap;
    struct buf out, book;
    uint64_t now;
    unsigned *seen;
};

static void post(struct mini *mini, uint32_t from, uint32_t to, const struct message *message)
{
    void *mail = mini->mail;
    assert_non_null(
        mem_grow(&mem_libc, &mail, &mini->mail_cap, mini->mail_count + 1, sizeof *mini->mail));
    mini->mail = mail;
    struct parcel *parcel = &mini->mail[mini->mail_count++];
    *parcel = (struct parcel){0};
    travel(&mini->nodes[from].ctx, &mini->nodes[to].ctx, message, &mini->out, parcel);
    same(message, &parcel->message, mini->agreement->layout);
    mini->seen[message->kind]++;
}

static void emit(void *ctx, const struct core_action *action)
{
    struct mini_node *self = ctx;
    if (action->kind == CORE_SEND) {
        post(self->mini, self->number, action->to, &action->message);
    } else if (action->kind == CORE_OP) {
        assert_true(self->op_count < MAX_OPS);
        self->ops[self->op_count++] = action->op;
    } else if (action->kind == CORE_FAIL) {
        self->dead = true;
    }
}

static struct core_out out_of(struct mini_node *self)
{
    return (struct core_out){.emit = emit, .ctx = self};
}

static void work(struct mini_node *self)
{
    struct core_out out = out_of(self);
    while (self->op_count > 0) {
        uint32_t i = (uint32_t)rng_below(&self->mini->rng, self->op_count);
        struct core_op op = self->ops[i];
        self->ops[i] = self->ops[--self->op_count];
        node_done(&self->node, &op, &out);
    }
}

static void give_updates(struct mini_node *self)
{
    struct core_out out = out_of(self);
    const struct layout *layout = self->mini->agreement->layout;
    struct rng *rng = &self->mini->rng;
    for (uint32_t i = layout->layer_count; i-- > 0;) {
        const struct layout_layer *layer = &layout->layers[i];
        struct worker_update update = {.count = 1 + rng_below(rng, 40), .lr = 0.25f};
        tri_error err = {0};
        if (layer->form == TRI_FORM_FACTORS)
            update.rows = 1 + (uint32_t)rng_below(rng, layer->factor_rows);
        update.params_busy = rng_below(rng, 3) == 0;
        if (rng_below(rng, 5) > 0 && node_update(&self->node, i, &update, &out, &err) != TRI_OK)
            fail_msg("%s", err.text);
    }
}

/* What a caller of the library does, as far as it gets. */
static void act(struct mini_node *self, uint64_t clocks)
{
    struct core_out out = out_of(self);
    struct worker *worker = &self->node.worker;
    if (self->dead || !self->node.has_worker || !self->node.member.started || self->closed)
        return;
    if (self->number == 0 && !self->asked)
        node_start(&self->node, &out);
    self->asked = true;
    if (!worker_started(worker))
        return;
    while (self->layer < self->mini->agreement->count) {
        if (!node_sync(&self->node, self->layer, &out))
            return;
        self->layer++;
    }
    node_checksum(&self->node, 77, &out);
    if (worker->clock >= clocks) {
        self->closed = true;
        node_close(&self->node, &out);
        return;
    }
    give_updates(self);
    node_clock(&self->node, &out);
    self->layer = 0;
}

static void deliver(struct mini *mini)
{
    size_t at = (size_t)rng_below(&mini->rng, mini->mail_count);
    for (size_t i = 0; i < at; i++) /* what was sent before between the two comes before */
        if (mini->mail[i].message.from == mini->mail[at].message.from &&
            mini->mail[i].to == mini->mail[at].to)
            at = i;
    struct parcel parcel = mini->mail[at];
    memmove(&mini->mail[at], &mini->mail[at + 1], (--mini->mail_count - at) * sizeof *mini->mail);
    struct mini_node *self = &mini->nodes[parcel.to];
    struct message *message = &parcel.message;
    if (message->set != NULL)
        message->set = parcel.set;
    if (!self->dead) {
        struct core_out out = out_of(self);
        struct core_ref ref = node_landing(&self->node, message);
        message->landed = ref.space != CORE_NOWHERE;
        if (ref.space == CORE_ADD)
            (void)node_adds(&self->node, message);
        node_message(&self->node, mini->now, message, &out);
        work(self);
    }
    free(parcel.bytes);
}

/* What happens to a run beside its loop. */
struct plot {
    bool odd;      /* the last node has other layers */
    bool backup;   /* a clock closes without the slowest */
    bool late;     /* a process comes in the place of node 1 */
    bool mark;     /* a checkpoint is wanted */
    uint32_t kill; /* dies in round 12; 0: nobody */
};

static void open_mini(struct mini *mini, uint64_t seed, const struct plot *plot, unsigned *seen)
{
    tri_error err = {0};
    *mini = (struct mini){.seen = seen, .now = 1000};
    rng_init(&mini->rng, seed);
    mini->agreement = draw(&mini->rng);
    mini->other = draw(&mini->rng);
    buf_init(&mini->out, &mem_libc);
    buf_init(&mini->book, &mem_libc);
    assert_int_equal(agree_encode(mini->agreement, &mini->book, &err), TRI_OK);
    mini->count = mini->agreement->layout->nodes;
    mini->nodes = mem_array(&mem_libc, mini->count, sizeof *mini->nodes);
    assert_non_null(mini->nodes);
    for (uint32_t n = 0; n < mini->count; n++) {
        struct mini_node *self = &mini->nodes[n];
        const struct agreement *own =
            plot->odd && n + 1 == mini->count ? mini->other : mini->agreement;
        struct node_options options = {.layout = mini->agreement->layout,
                                       .rules = mini->agreement->rules,
                                       .times = {.heartbeat = 8000, .warn = 1u << 30},
                                       .number = n,
                                       .layers_hash = own->layers_hash,
                                       .plan_hash = mini->agreement->plan_hash,
                                       .incarnation = 5 + n};
        options.rules.backup = plot->backup;
        if (plot->backup && node_check(options.layout, &options.rules, NULL) != TRI_OK)
            options.rules.backup = 0;
        self->mini = mini;
        self->number = n;
        self->slow = plot->backup && n == 1;
        self->ctx = context(mini->agreement, n, &mini->book);
        self->ctx.hello = (struct convert_data){(const uint8_t *)own->hello.data, own->hello.len};
        if (node_init(&self->node, &options, &mem_libc, &err) != TRI_OK)
            fail_msg("%s", err.text);
    }
}

static void close_mini(struct mini *mini)
{
    for (uint32_t n = 0; n < mini->count; n++)
        node_fini(&mini->nodes[n].node);
    for (size_t i = 0; i < mini->mail_count; i++)
        free(mini->mail[i].bytes);
    mem_free(&mem_libc, mini->mail);
    mem_free(&mem_libc, mini->nodes);
    buf_fini(&mini->out);
    buf_fini(&mini->book);
    agree_free(mini->agreement);
    agree_free(mini->other);
}

static void stir(struct mini *mini, unsigned round, const struct plot *plot)
{
    struct core_out out = out_of(&mini->nodes[0]);
    if (round == 12 && plot->kill < mini->count && plot->kill > 0)
        mini->nodes[plot->kill].dead = true;
    if (round == 10 && plot->late && mini->count > 1)
        post(mini, 1, 0,
             &(struct message){.kind = WIRE_HELLO,
                               .role = CORE_COORDINATOR,
                               .from = 1,
                               .hash = mini->nodes[1].node.member.layers_hash,
                               .incarnation = 99});
    if (round == 8 && plot->mark && !mini->nodes[0].dead)
        node_mark(&mini->nodes[0].node, 0, &out);
}

static bool is_quiet(const struct plot *plot)
{
    return !plot->odd && !plot->backup && !plot->late && plot->kill == 0;
}

static void run(uint64_t seed, const struct plot *plot, unsigned *seen)
{
    struct mini mini;
    open_mini(&mini, seed, plot, seen);
    for (uint32_t n = 0; n < mini.count; n++) {
        struct core_out out = out_of(&mini.nodes[n]);
        node_join(&mini.nodes[n].node, mini.now, &out);
    }
    for (unsigned round = 0; round < 200; round++) {
        stir(&mini, round, plot);
        for (size_t i = mini.mail_count; i > 0 && mini.mail_count > 0; i--)
            deliver(&mini);
        bool going = false;
        mini.now += 1000;
        for (uint32_t n = 0; n < mini.count; n++) {
            struct mini_node *self = &mini.nodes[n];
            struct core_out out = out_of(self);
            if (!self->slow || round % 16 == 0)
                act(self, 6);
            work(self);
            if (!self->dead && !self->node.member.ended)
                node_tick(&self->node, mini.now, &out);
            going = going || (!self->dead && !self->node.member.ended);
        }
        if (!going)
            break;
    }
    for (uint32_t n = 0; n < mini.count && is_quiet(plot); n++)
        if (!mini.nodes[n].node.member.ended)
            fail_msg("seed %llu: node %u does not come to its end", (unsigned long long)seed, n);
    close_mini(&mini);
}

TEST(every_message_of_random_jobs_comes_back_as_it_was)
{
    (void)state;
    unsigned seen[WIRE_KINDS] = {0};
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct plot plot = {.odd = seed % 16 == 3,
                            .backup = seed % 3 == 0,
                            .late = seed % 8 == 1,
                            .mark = seed % 2 == 0,
                            .kill = seed % 4 == 2 ? 1 + (uint32_t)(seed / 4 % 6) : 0};
        run(seed, &plot, seen);
    }
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++)
        if (kind != WIRE_ROWS && kind != WIRE_PULL && kind != WIRE_PEERS && kind != WIRE_RESUME &&
            kind != WIRE_STATE && seen[kind] == 0)
            fail_msg("no job sent %s", wire_kind_name(kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_of_random_jobs_comes_back_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
