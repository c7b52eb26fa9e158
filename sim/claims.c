/* The papers' rows. */
#include "sim/claims.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define POSEIDON(id_, what_, paper_, value_, model_, system_, nodes_, gbit_)                       \
    .id = (id_), .what = (what_), .paper = (paper_), .value = (value_), .nodes = (nodes_),         \
    .gbit = (gbit_), .ours = {.model = (model_), .system = (system_)}
#define THESIS(id_, what_, paper_, value_)                                                         \
    .id = (id_), .what = (what_), .paper = (paper_), .value = (value_), .nodes = 4, .gbit = 1
#define SCALED(nodes_)                                                                             \
    .id = "T019", .what = "all", .paper = "near-linear", .value = (nodes_), .nodes = (nodes_),     \
    .gbit = 1, .test = CLAIM_LINEAR,                                                               \
    .ours = {.model = RESNET, .system = "wfbp", SSP, .top_1 = true}
#define PLACED(id_, what_, paper_, model_, placement_)                                             \
    .id = (id_), .what = (what_), .paper = (paper_), .value = NAN, .nodes = 4, .kind = CLAIM_LOAD, \
    .ours = {.model = (model_), .system = "ps", .placement = (placement_)}
#define V3     "inception_v3_aux"
#define V4     "inception_v4_slim"
#define RESNET "resnet110_cifar10"
#define SSP    .consistency = "ssp:5"

static const char whole_tensors[] =
    "whole tensors alone do not explain it: the paper's servers moved less than 0.9 GB/s";
static const char gpus[] =
    "gradients are added up inside a node first; a K80 is taken as a Titan X, which computes "
    "faster; a node's factors are those of one GPU";
static const char without_hybcomm[] =
    "limited rates are those of section 5.2, which compares with and without HybComm: without it, "
    "its system is wfbp";
static const char whose_ssp[] =
    "its SSP pushes and pulls only when the bound is reached, one step in six (Code 4.4); ours "
    "sends "
    "every step, and so the link holds ResNet back. With a sixth of the bytes SSP is ahead for "
    "ResNet, and there is no clear winner for Inception-v4";
static const char whose_layers[] = "it says that other placements leave the servers of "
                                   "Inception-v4 uneven; the heuristic does not "
                                   "do so here (T011), and sends fewer messages";

static const struct claim claims[] = {
    {POSEIDON("P001", "Poseidon", "15.5x", 15.5, "vgg19_22k", "poseidon", 16, 10)},
    {POSEIDON("P002", "Poseidon", "31.5x", 31.5, V3, "poseidon", 32, 40)},
    {POSEIDON("P003", "stock TF", "20x", 20, V3, "tensor-ps", 32, 40)},
    {POSEIDON("P004", "Poseidon", "1.5 times", 1.5, V3, "poseidon", 32, 40), .over = "stock TF",
     .against = {.model = V3, .system = "tensor-ps"}},
    {POSEIDON("P005", "stock TF", "below 1", NAN, "vgg19_22k", "tensor-ps", 32, 40),
     .test = CLAIM_BELOW, .note = whole_tensors},
    {POSEIDON("P006", "PS", "8x", 8, "vgg19_22k", "ps", 16, 40),
     .other = {.model = "vgg19_22k", .system = "wfbp"},
     .note = "the introduction names section 5.1, whose Caffe+PS does not overlap; Caffe+WFBP, "
             "21.5x on 32 nodes, cannot be 8x on 16"},
    {POSEIDON("P007", "Poseidon", "30x", 30, "vgg19_22k", "poseidon", 32, 40)},
    {POSEIDON("P008", "PS", "4x", 4, "vgg19_22k", "wfbp", 16, 10),
     .other = {.model = "vgg19_22k", .system = "ps"}, .note = without_hybcomm},
    {POSEIDON("P043", "Caffe+WFBP", "almost linear", 32, "googlenet_aux", "wfbp", 32, 40),
     .test = CLAIM_LINEAR},
    {POSEIDON("P043", "Caffe+WFBP", "almost linear", 32, "vgg19", "wfbp", 32, 40),
     .test = CLAIM_LINEAR},
    {POSEIDON("P044", "Caffe+WFBP", "21.5x", 21.5, "vgg19_22k", "wfbp", 32, 40)},
    {POSEIDON("P045", "Poseidon", "29.5x", 29.5, "vgg19_22k", "poseidon", 32, 40)},
    {POSEIDON("P047", "stock TF", "10x", 10, V3, "tensor-ps", 32, 40),
     .note = "section 5.1; the abstract says 20x for the same case (P003)"},
    {POSEIDON("P048", "stock TF", "fails to scale", NAN, "vgg19", "tensor-ps", 32, 40),
     .test = CLAIM_FLAT},
    {POSEIDON("P048", "stock TF", "fails to scale", NAN, "vgg19_22k", "tensor-ps", 32, 40),
     .test = CLAIM_FLAT},
    {POSEIDON("P049", "Poseidon", "almost linear", 32, V3, "poseidon", 32, 40),
     .test = CLAIM_LINEAR},
    {POSEIDON("P049", "Poseidon", "almost linear", 32, "vgg19", "poseidon", 32, 40),
     .test = CLAIM_LINEAR},
    {POSEIDON("P049", "Poseidon", "almost linear", 32, "vgg19_22k", "poseidon", 32, 40),
     .test = CLAIM_LINEAR,
     .note = "30x in P050, 29.5x in P045; the simulation is a little below these"},
    {POSEIDON("P050", "TF+WFBP", "22x", 22, "vgg19_22k", "wfbp", 32, 40)},
    {POSEIDON("P050", "Poseidon", "30x", 30, "vgg19_22k", "poseidon", 32, 40)},
    {POSEIDON("P054", "Poseidon", "32x", 32, "googlenet_aux", "poseidon", 4, 10), .times = 8,
     .note = gpus},
    {POSEIDON("P054", "Poseidon", "28x", 28, "vgg19", "poseidon", 4, 10), .times = 8, .note = gpus},
    {POSEIDON("P055", "Poseidon", "31x", 31, "resnet152", "poseidon", 32, 40)},
    {POSEIDON("P057", "PS", "8x", 8, "vgg19", "wfbp", 16, 10),
     .other = {.model = "vgg19", .system = "ps"},
     .note = "section 5.2, as P008; the bytes of an iteration take 1.7 s at 10 Gbit/s and begin "
             "after the forward pass, which leaves about 7x at best; full duplex at 60 % of the "
             "rate would make it fit, and P008 and P061 not"},
    {POSEIDON("P058", "Poseidon", "near-linear", 16, "vgg19", "poseidon", 16, 10),
     .test = CLAIM_LINEAR},
    {POSEIDON("P058", "Poseidon", "near-linear", 16, "vgg19_22k", "poseidon", 16, 10),
     .test = CLAIM_LINEAR},
    {POSEIDON("P059", "PS", "30 or more", 30, "vgg19", "wfbp", 16, 0), .kind = CLAIM_RATE,
     .test = CLAIM_LEAST, .note = "\"an optimized PS\" (section 5.2) is wfbp; in Gbit/s"},
    {POSEIDON("P059", "PS", "30 or more", 30, "vgg19_22k", "wfbp", 16, 0), .kind = CLAIM_RATE,
     .test = CLAIM_LEAST, .note = "\"an optimized PS\" (section 5.2) is wfbp; in Gbit/s"},
    {POSEIDON("P061", "Adam", "5x", 5, "vgg19", "adam", 8, 40)},
    {POSEIDON("P062", "Adam", "imbalanced", NAN, "vgg19", "adam", 8, 40), .kind = CLAIM_BALANCE,
     .test = CLAIM_UNEVEN},
    {POSEIDON("P062", "TF+WFBP", "even", NAN, "vgg19", "wfbp", 8, 40), .kind = CLAIM_BALANCE,
     .test = CLAIM_EVEN},
    {POSEIDON("P062", "Poseidon", "even", NAN, "vgg19", "poseidon", 8, 40), .kind = CLAIM_BALANCE,
     .test = CLAIM_EVEN},
    {POSEIDON("P065", "CNTK 1-bit", "5.8x", 5.8, "vgg19", "onebit", 8, 40)},
    {POSEIDON("P065", "CNTK 1-bit", "11x", 11, "vgg19", "onebit", 16, 40)},
    {POSEIDON("P065", "CNTK 1-bit", "20x", 20, "vgg19", "onebit", 32, 40),
     .note = "CNTK's own overheads are not known; the time to pack and unpack is not charged"},

    {THESIS("T004", "stock TF", "below 1", NAN), .test = CLAIM_BELOW,
     .ours = {.model = V4, .system = "tensor-ps"}},
    {THESIS("T005", "stock TF", "above 1", NAN), .test = CLAIM_ABOVE, .over = "ResNet",
     .ours = {.model = "densenet_cifar10", .system = "tensor-ps"},
     .against = {.model = RESNET, .system = "tensor-ps"}},
    {THESIS("T010", "heuristic", "above 1", NAN), .test = CLAIM_ABOVE, .over = "uniform split",
     .ours = {.model = RESNET, .system = "wfbp", .placement = "lpt"},
     .against = {.model = RESNET, .system = "wfbp", .placement = "uniform"}},
    {THESIS("T010", "roundrobin", "above 1", NAN), .test = CLAIM_ABOVE, .over = "uniform split",
     .ours = {.model = RESNET, .system = "wfbp", .placement = "round-robin"},
     .against = {.model = RESNET, .system = "wfbp", .placement = "uniform"}},
    {THESIS("T010", "uniform", "above 1", NAN), .test = CLAIM_ABOVE, .over = "round-robin",
     .ours = {.model = V4, .system = "wfbp", .placement = "uniform"},
     .against = {.model = V4, .system = "wfbp", .placement = "round-robin"}},
    {THESIS("T010", "uniform", "above 1", NAN), .test = CLAIM_ABOVE, .over = "heuristic",
     .ours = {.model = V4, .system = "wfbp", .placement = "uniform"},
     .against = {.model = V4, .system = "wfbp", .placement = "lpt"}, .note = whose_layers},
    {PLACED("T011", "roundrobin", "high", "googlenet", "round-robin"), .test = CLAIM_HIGH},
    {PLACED("T011", "roundrobin", "above 1", "googlenet", "round-robin"), .test = CLAIM_ABOVE,
     .over = "ResNet", .against = {.model = RESNET, .system = "ps", .placement = "round-robin"}},
    {PLACED("T011", "roundrobin", "above 1", "googlenet", "round-robin"), .test = CLAIM_ABOVE,
     .over = "Inception-v4", .against = {.model = V4, .system = "ps", .placement = "round-robin"}},
    {PLACED("T011", "heuristic", "low", "googlenet", "lpt"), .test = CLAIM_LOW},
    {PLACED("T011", "heuristic", "low", RESNET, "lpt"), .test = CLAIM_LOW},
    {PLACED("T011", "heuristic", "low", V4, "lpt"), .test = CLAIM_LOW},
    {PLACED("T011", "uniform", "none", RESNET, "uniform"), .test = CLAIM_NONE},
    {.id = "T012",
     .what = "uniform",
     .over = "heuristic",
     .paper = "4 times",
     .value = 4,
     .kind = CLAIM_PIECES,
     .nodes = 4,
     .ours = {.model = RESNET, .system = "ps", .placement = "uniform"},
     .against = {.model = RESNET, .system = "ps", .placement = "lpt"}},
    {THESIS("T013", "WFBP", "1.54 times", 1.54), .over = "traditional",
     .ours = {.model = RESNET, .system = "wfbp"}, .against = {.model = RESNET, .system = "ps"}},
    {THESIS("T014", "WFBP", "1.29 times", 1.29), .over = "traditional",
     .ours = {.model = V4, .system = "wfbp"}, .against = {.model = V4, .system = "ps"}},
    {THESIS("T017", "SSP", "above 1", NAN), .test = CLAIM_ABOVE, .over = "top-1 %",
     .ours = {.model = RESNET, .system = "wfbp", SSP},
     .against = {.model = RESNET, .system = "wfbp", .top_1 = true},
     .other = {.model = RESNET, .system = "wfbp", SSP, .every = 6}, .note = whose_ssp},
    {THESIS("T017", "top-1 %", "above 1", NAN), .test = CLAIM_ABOVE, .over = "SSP",
     .ours = {.model = V4, .system = "wfbp", .top_1 = true},
     .against = {.model = V4, .system = "wfbp", SSP}, .note = whose_ssp},
    {THESIS("T018", "all", "3.91x", 3.91),
     .ours = {.model = RESNET, .system = "wfbp", SSP, .top_1 = true}},
    {THESIS("T018", "all", "3.78x", 3.78),
     .ours = {.model = V4, .system = "wfbp", SSP, .top_1 = true}},
    {SCALED(2)},
    {SCALED(3)},
    {SCALED(4)},
    {THESIS("T019", "all", "above 1", NAN), .test = CLAIM_ABOVE, .over = "stock TF",
     .ours = {.model = RESNET, .system = "wfbp", SSP, .top_1 = true},
     .against = {.model = RESNET, .system = "tensor-ps"}},
    {THESIS("T020", "WFBP", "above 1", NAN), .kind = CLAIM_USE, .test = CLAIM_ABOVE,
     .over = "traditional", .ours = {.model = RESNET, .system = "wfbp"},
     .against = {.model = RESNET, .system = "ps"}},
    {THESIS("T020", "top-1 %", "below 1", NAN), .kind = CLAIM_USE, .test = CLAIM_BELOW,
     .over = "WFBP", .ours = {.model = RESNET, .system = "wfbp", .top_1 = true},
     .against = {.model = RESNET, .system = "wfbp"}},
    {THESIS("T020", "SSP", "above 1", NAN), .kind = CLAIM_USE, .test = CLAIM_ABOVE,
     .over = "top-1 %", .ours = {.model = RESNET, .system = "wfbp", SSP},
     .against = {.model = RESNET, .system = "wfbp", .top_1 = true}},
};

static const struct claim_paper papers[] = {
    {.name = "Poseidon (Zhang et al., USENIX ATC 2017)",
     .letter = 'P',
     .shared = true,
     .message_s = 0.3e-3,
     .placement = "hash",
     .iterations = 5,
     .reason = "Shared, because the paper counts in and out together (Table 1); 10 Gbit/s each way "
               "would make P008 and P057 much faster than it says. 0.3 ms is 2 MiB at 7 GB/s, "
               "about one copy by one thread; it is fitted, but 0.2 to 0.4 ms leave the same six "
               "of the seven rows within 15 %. 2 MiB are its KV pairs (section 4.1), and a hash "
               "deals them out evenly. No copies: with those that it measured on one node "
               "(Caffe+PS) P006 would be slower than it says."},
    {.name = "the thesis (P.-Y. Wu, modularized parameter server, NTU 2018)",
     .letter = 'T',
     .message_s = 0.05e-3,
     .jitter = 0.1,
     .placement = "lpt",
     .iterations = 20,
     .reason = "Full duplex, because its Ethernet is, and its gains of WFBP need it. A message "
               "costs something, because many small partitions did (Fig. 5.1): 0.05 ms is the "
               "order of a system call and an interrupt. Jitter, because SSP is for workers that "
               "vary. lpt is its heuristic, which it uses after the first experiment."},
};

const struct claim *claim_at(size_t i)
{
    return i < sizeof claims / sizeof claims[0] ? &claims[i] : NULL;
}

const struct claim_paper *claim_paper_at(size_t i)
{
    return i < sizeof papers / sizeof papers[0] ? &papers[i] : NULL;
}

const struct claim_paper *claim_paper_of(const struct claim *claim)
{
    return &papers[claim->id[0] == papers[0].letter ? 0 : 1];
}

/* ---- in words ---- */

static const char *const model_names[][2] = {
    {"vgg19", "VGG19"},
    {"vgg19_22k", "VGG19-22K"},
    {"googlenet", "GoogLeNet"},
    {"googlenet_aux", "GoogLeNet"},
    {V3, "Inception-V3"},
    {V4, "Inception-v4"},
    {"resnet152", "ResNet-152"},
    {RESNET, "ResNet-110"},
    {"densenet_cifar10", "DenseNet"},
};

const char *claim_model_name(const char *model)
{
    for (size_t i = 0; i < sizeof model_names / sizeof model_names[0]; i++)
        if (strcmp(model_names[i][0], model) == 0)
            return model_names[i][1];
    return model;
}

/* Appends, as far as there is room; a comma goes before all but the first. */
__attribute__((format(printf, 2, 3))) static void add(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    bool bare = used == 0 || text[used - 1] == ' ';
    va_list arguments;
    va_start(arguments, format);
    if (!bare)
        (void)snprintf(text + used, CLAIM_TEXT - used, ", ");
    used = strlen(text);
    (void)vsnprintf(text + used, CLAIM_TEXT - used, format, arguments);
    va_end(arguments);
}

const char *claim_settings(const struct claim_paper *paper, char *text)
{
    text[0] = '\0';
    add(text, "%s", paper->shared ? "in and out share the rate" : "full duplex");
    add(text,
        "efficiency 1, %g ms a message, copies and sums on servers take no time, "
        "chunks of 2 MiB",
        paper->message_s * 1e3);
    add(text, "placement %s, no latency", paper->placement);
    if (paper->jitter > 0)
        add(text, "jitter %g %%", paper->jitter * 100);
    else
        add(text, "no jitter");
    add(text, "%u iterations", (unsigned)paper->iterations);
    return text;
}

const char *claim_sentence(const struct claim *claim, char *text)
{
    text[0] = '\0';
    add(text, "%s, %s%s%s", claim_model_name(claim->ours.model), claim->what,
        claim->over != NULL ? " over " : "", claim->over != NULL ? claim->over : "");
    if (claim->kind == CLAIM_BALANCE)
        add(text, "bytes of the busiest node over the mean");
    if (claim->kind == CLAIM_USE)
        add(text, "bytes a second");
    if (claim->kind == CLAIM_LOAD)
        add(text, "variation of the servers' load");
    if (claim->kind == CLAIM_PIECES)
        add(text, "pieces");
    if (claim->kind == CLAIM_RATE)
        add(text, "Gbit/s for a near-linear speed-up");
    add(text, "%u nodes", (unsigned)claim->nodes);
    if (claim->times > 0)
        add(text, "%u GPUs each", (unsigned)claim->times);
    if (claim->gbit > 0)
        add(text, "%g Gbit/s", claim->gbit);
    return text;
}

static void add_case(const struct claim_case *one, char *text)
{
    if (one->placement != NULL)
        add(text, "placement %s", one->placement);
    if (one->consistency != NULL)
        add(text, "%s", one->consistency);
    if (one->every > 0)
        add(text, "one step in %u sent", (unsigned)one->every);
    if (one->top_1)
        add(text, "topk 1 %%");
}

const char *claim_own_settings(const struct claim *claim, char *text)
{
    text[0] = '\0';
    add_case(&claim->ours, text);
    if (claim->times > 0)
        add(text, "%u GPUs a node", (unsigned)claim->times);
    if (claim->kind == CLAIM_RATE)
        add(text, "the least of 1 to 128 Gbit/s");
    if (claim->kind == CLAIM_BALANCE)
        add(text, "busiest node over the mean");
    if (claim->kind == CLAIM_USE)
        add(text, "bytes a second");
    if (claim->kind == CLAIM_LOAD)
        add(text, "variation of the servers' bytes");
    if (claim->kind == CLAIM_PIECES)
        add(text, "pieces on servers");
    if (claim->over == NULL)
        return text;
    size_t before = strlen(text);
    (void)snprintf(text + before, CLAIM_TEXT - before, "%sover ", before > 0 ? "; " : "");
    size_t bare = strlen(text);
    if (strcmp(claim->against.model, claim->ours.model) != 0)
        add(text, "%s", claim_model_name(claim->against.model));
    if (strcmp(claim->against.system, claim->ours.system) != 0)
        add(text, "%s", claim->against.system);
    add_case(&claim->against, text);
    if (strlen(text) == bare)
        add(text, "%s", claim->against.system);
    return text;
}

const char *claim_other_settings(const struct claim *claim, char *text)
{
    text[0] = '\0';
    if (claim->other.model == NULL)
        return text;
    if (strcmp(claim->other.system, claim->ours.system) != 0)
        add(text, "%s", claim->other.system);
    add_case(&claim->other, text);
    return text;
}

/* ---- tests ---- */

static const struct {
    const char *text;
    bool times_nodes, above; /* the bound is a share of the nodes; holds above it, or at it */
    double bound;            /* NaN: the claim's value */
} tests[] = {
    [CLAIM_NUMBER] = {.text = NULL},
    [CLAIM_BELOW] = {"below 1", .bound = 1},
    [CLAIM_ABOVE] = {"above 1", .above = true, .bound = 1},
    [CLAIM_LINEAR] = {"at least 0.9 of the nodes", true, true, 0.9},
    [CLAIM_FLAT] = {"less than half of the nodes", .times_nodes = true, .bound = 0.5},
    [CLAIM_LEAST] = {"at least the paper's number", .above = true, .bound = NAN},
    [CLAIM_UNEVEN] = {"above 1.5", .above = true, .bound = 1.5},
    [CLAIM_EVEN] = {"below 1.1", .bound = 1.1},
    [CLAIM_HIGH] = {"above 0.5", .above = true, .bound = 0.5},
    [CLAIM_LOW] = {"below 0.1", .bound = 0.1},
    [CLAIM_NONE] = {"below 0.001", .bound = 0.001},
};

const char *claim_test_text(enum claim_test test)
{
    return tests[test].text;
}

bool claim_holds(const struct claim *claim, double ours)
{
    double bound = isnan(tests[claim->test].bound) ? claim->value : tests[claim->test].bound;
    if (tests[claim->test].times_nodes)
        bound *= claim->nodes;
    if (claim->test == CLAIM_ABOVE)
        return ours > bound;
    return tests[claim->test].above ? ours >= bound : ours < bound;
}

double claim_difference(const struct claim *claim, double ours)
{
    return claim->test == CLAIM_LEAST ? NAN : ours / claim->value - 1;
}

bool claim_is_main(const struct claim *claim)
{
    static const char ids[] = "P001 P006 P008 P044 P045 P057 P061";
    return strstr(ids, claim->id) != NULL;
}

/* ---- running ---- */

static tri_status run_case(const struct claim *claim, const struct claim_case *one, double gbit,
                           const struct claim_tools *tools, struct study_result *result,
                           tri_error *err)
{
    const struct claim_paper *paper = claim_paper_of(claim);
    double ratio = (one->top_1 ? 0.02 : 1) / (one->every > 0 ? one->every : 1);
    struct study study = {
        .profile = tools->find(tools->ctx, one->model, err),
        .system = study_system_find(one->system),
        .nodes = claim->nodes,
        .bits_s = gbit * 1e9,
        .shared = paper->shared,
        .message_s = paper->message_s,
        .jitter = paper->jitter,
        .consistency = one->consistency,
        .codec = {.ratio = one->top_1 || one->every > 0 ? ratio : 0},
        .placement = placement_find(one->placement != NULL ? one->placement : paper->placement),
        .chunk_bytes = (uint64_t)2 << 20,
        .iterations = paper->iterations,
        .seed = 1,
        .stop = tools->stop,
        .stop_ctx = tools->ctx};
    return study.profile != NULL ? study_run(&study, tools->mem, result, err) : TRI_EINPUT;
}

/* Bytes of the busiest node over those of the mean; *mean is what the mean node moves. */
static double balance_of(const struct timed_result *timed, double *mean)
{
    double most = 0, sum = 0;
    for (uint32_t n = 0; n < timed->nodes; n++) {
        most = fmax(most, timed->sent[n] + timed->received[n]);
        sum += timed->sent[n] + timed->received[n];
    }
    *mean = sum / timed->nodes;
    return most / *mean;
}

static tri_status run_timed(const struct claim *claim, const struct claim_case *one, double gbit,
                            const struct claim_tools *tools, double *number, tri_error *err)
{
    struct study_result result;
    double mean = 0;
    tri_status status = run_case(claim, one, gbit, tools, &result, err);
    if (status != TRI_OK)
        return status;
    double balance = balance_of(&result.timed, &mean);
    *number = result.speedup * (claim->times > 0 ? claim->times : 1);
    if (claim->kind == CLAIM_BALANCE)
        *number = balance;
    if (claim->kind == CLAIM_USE)
        *number = mean / result.timed.iteration_s;
    study_free(&result, tools->mem);
    return TRI_OK;
}

/* The least of the rates that is enough, by bisection; NaN if none is. */
static tri_status run_rate(const struct claim *claim, const struct claim_case *one,
                           const struct claim_tools *tools, double *rate, tri_error *err)
{
    struct claim linear = *claim;
    unsigned below = 0, enough = 129;
    linear.kind = CLAIM_SPEEDUP;
    linear.test = CLAIM_LINEAR;
    while (enough - below > 1) {
        unsigned gbit = below + (enough - below) / 2;
        double speedup = 0;
        tri_status status = run_timed(&linear, one, gbit, tools, &speedup, err);
        if (status != TRI_OK)
            return status;
        if (claim_holds(&linear, speedup))
            enough = gbit;
        else
            below = gbit;
    }
    *rate = enough <= 128 ? (double)enough : NAN;
    return TRI_OK;
}

/* What a placement does; nothing has to be simulated for it. */
static tri_status run_plan(const struct claim *claim, const struct claim_case *one,
                           const struct claim_tools *tools, double *number, tri_error *err)
{
    size_t ps = 0;
    (void)scheme_find("ps", &ps);
    struct book book = {.profile = tools->find(tools->ctx, one->model, err),
                        .workers = claim->nodes,
                        .servers = claim->nodes,
                        .colocated = claim->nodes,
                        .batch = 1,
                        .bits_s = 1e9,
                        .flops_s = 1e12,
                        .schemes = UINT32_C(1) << ps,
                        .placement = placement_find(one->placement),
                        .chunk_bytes = (uint64_t)2 << 20};
    struct plan *plan = NULL;
    tri_status status =
        book.profile != NULL ? plan_make(&book, tools->mem, &plan, err) : TRI_EINPUT;
    if (status == TRI_OK)
        *number = claim->kind == CLAIM_LOAD ? plan->cv : (double)plan->pieces;
    plan_free(plan);
    return status;
}

static tri_status run_side(const struct claim *claim, const struct claim_case *one,
                           const struct claim_tools *tools, double *number, tri_error *err)
{
    if (claim->kind == CLAIM_RATE)
        return run_rate(claim, one, tools, number, err);
    if (claim->kind == CLAIM_LOAD || claim->kind == CLAIM_PIECES)
        return run_plan(claim, one, tools, number, err);
    return run_timed(claim, one, claim->gbit, tools, number, err);
}

tri_status claim_run(const struct claim *claim, const struct claim_tools *tools,
                     struct claim_result *result, tri_error *err)
{
    double against = 1;
    *result = (struct claim_result){.ours = NAN, .other = NAN};
    tri_status status = run_side(claim, &claim->ours, tools, &result->ours, err);
    if (status == TRI_OK && claim->over != NULL)
        status = run_side(claim, &claim->against, tools, &against, err);
    if (status == TRI_OK && claim->other.model != NULL)
        status = run_side(claim, &claim->other, tools, &result->other, err);
    result->ours /= against;
    result->other /= against;
    return status;
}
