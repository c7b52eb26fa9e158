/* From lists of systems, rules, placements, consistencies and codecs to the variants of a sweep. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/simulate.h"
#include "cli/simulate_list.h"
#include "mod/consistency.h"

enum { PARTS_MOST = 8 };

/* What a system is to be run with; every combination is a variant. */
struct parts {
    enum study_rule rules[PARTS_MOST];
    const tri_placement_ops *placements[PARTS_MOST];
    char consistencies[PARTS_MOST][VARIANT_PART];
    char codecs[PARTS_MOST][VARIANT_PART];
    double ratios[PARTS_MOST]; /* of the codecs */
    size_t rule_count, placement_count, consistency_count, codec_count;
};

/* ---- the parts ---- */

static const char *const rule_names[] = {
    [STUDY_RULE_OWN] = "own", [STUDY_RULE_BYTES] = "bytes", [STUDY_RULE_TIME] = "time", NULL};

static const char *rule_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return rule_names[i];
}

static tri_status add_rule(void *into, const char *part, const struct list *list, tri_error *err)
{
    struct parts *parts = into;
    size_t i = 0;
    while (rule_names[i] != NULL && !names_equal(rule_names[i], part))
        i++;
    if (rule_names[i] == NULL)
        return list_unknown(list->option, part, rule_candidate, err);
    if (parts->rule_count == PARTS_MOST)
        return list_too_many(list, PARTS_MOST, err);
    parts->rules[parts->rule_count++] = (enum study_rule)i;
    return TRI_OK;
}

static const char *placement_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return placement_at(i) != NULL ? placement_at(i)->name : NULL;
}

static tri_status add_placement(void *into, const char *part, const struct list *list,
                                tri_error *err)
{
    struct parts *parts = into;
    const tri_placement_ops *placement = placement_find(part);
    if (placement == NULL)
        return list_unknown(list->option, part, placement_candidate, err);
    if (parts->placement_count == PARTS_MOST)
        return list_too_many(list, PARTS_MOST, err);
    parts->placements[parts->placement_count++] = placement;
    return TRI_OK;
}

static tri_status add_consistency(void *into, const char *part, const struct list *list,
                                  tri_error *err)
{
    struct parts *parts = into;
    const tri_consistency_ops *ops;
    uint32_t bound;
    tri_status status = consistency_read(part, &ops, &bound, err);
    if (status != TRI_OK)
        return status;
    if (strlen(part) >= VARIANT_PART)
        return list_refuse(list->option, part, list->next, err);
    if (parts->consistency_count == PARTS_MOST)
        return list_too_many(list, PARTS_MOST, err);
    (void)snprintf(parts->consistencies[parts->consistency_count++], VARIANT_PART, "%s", part);
    return TRI_OK;
}

static const char *codec_candidate(const void *ctx, size_t i)
{
    static const char *const codecs[] = {"none", "topk:SHARE", "onebit", NULL};
    (void)ctx;
    return codecs[i];
}

/* topk sends a value and its index for each that it keeps, onebit a bit for 32. */
static tri_status read_codec(const char *text, double *ratio, tri_error *err)
{
    double share = 0;
    *ratio = 0;
    if (names_equal(text, "none"))
        return TRI_OK;
    if (names_equal(text, "onebit")) {
        *ratio = 1.0 / 32;
        return TRI_OK;
    }
    if (strncmp(text, "topk", 4) != 0 || (text[4] != ':' && text[4] != '\0'))
        return list_unknown("codec", text, codec_candidate, err);
    if (text[4] == '\0' || strlen(text) >= VARIANT_PART || !units_number(text + 5, &share) ||
        !(share > 0) || share > 1)
        return list_refuse(
            "codec", text,
            "give the share of the values that are sent, above 0, at most 1: topk:0.01", err);
    *ratio = 2 * share;
    return TRI_OK;
}

static tri_status add_codec(void *into, const char *part, const struct list *list, tri_error *err)
{
    struct parts *parts = into;
    double ratio;
    tri_status status = read_codec(part, &ratio, err);
    if (status != TRI_OK)
        return status;
    if (parts->codec_count == PARTS_MOST)
        return list_too_many(list, PARTS_MOST, err);
    (void)snprintf(parts->codecs[parts->codec_count], VARIANT_PART, "%s", part);
    parts->ratios[parts->codec_count++] = ratio;
    return TRI_OK;
}

static const struct list rules_list = {"rule", "give names separated by commas, such as bytes,time",
                                       add_rule};
static const struct list placements_list = {
    "placement", "give names separated by commas, such as hash,lpt", add_placement};
static const struct list consistencies_list = {
    "consistency", "give names separated by commas, such as bsp,ssp:5", add_consistency};
static const struct list codecs_list = {
    "codec", "give names separated by commas, such as none,topk:0.01", add_codec};

/* ---- variants ---- */

static bool has_choice(const struct study_system *system)
{
    return strstr(system->schemes, "sfb") != NULL;
}

static enum study_rule own_rule(const struct study_system *system)
{
    return system->rule_time ? STUDY_RULE_TIME : STUDY_RULE_BYTES;
}

const char *variant_rule(const struct sweep_variant *variant)
{
    return variant->rule == STUDY_RULE_OWN ? NULL : rule_names[variant->rule];
}

bool variant_own_rule(const struct sweep_variant *variant)
{
    return variant->rule == STUDY_RULE_OWN || variant->rule == own_rule(variant->system);
}

bool variant_coded(const struct sweep_variant *variant)
{
    return variant->ratio > 0 || variant->system->onebit;
}

static bool same_variant(const struct sweep_variant *a, const struct sweep_variant *b)
{
    return a->system == b->system && a->rule == b->rule && a->placement == b->placement &&
           strcmp(a->consistency, b->consistency) == 0 && strcmp(a->codec, b->codec) == 0;
}

/* What a system does not look at is the same for all its variants. */
static void make_plain(struct sweep_variant *variant)
{
    const struct study_system *system = variant->system;
    if (!has_choice(system))
        variant->rule = STUDY_RULE_OWN;
    else if (variant->rule == STUDY_RULE_OWN)
        variant->rule = own_rule(system);
    if (system->placement != NULL)
        variant->placement = placement_find(system->placement);
    if (system->alone) {
        variant->placement = placement_find("hash");
        variant->ratio = 0;
        (void)snprintf(variant->consistency, VARIANT_PART, "bsp");
        (void)snprintf(variant->codec, VARIANT_PART, "none");
    }
}

static tri_status add_variant(struct sweep *sweep, struct sweep_variant variant, tri_error *err)
{
    make_plain(&variant);
    for (size_t i = 0; i < sweep->variant_count; i++) {
        if (same_variant(&sweep->variants[i], &variant))
            return TRI_OK;
        variant.nth += sweep->variants[i].system == variant.system;
    }
    if (sweep->variant_count == SWEEP_VARIANTS) {
        fail(err, TRI_EINPUT, "there are more than %d variants of systems to simulate",
             SWEEP_VARIANTS);
        fail_why(err, "every --system is run with every --rule, --placement, --consistency and "
                      "--codec");
        fail_next(err, "list fewer, or name the wanted ones: --system wfbp,wfbp+ssp:5+topk:0.01");
        return TRI_EINPUT;
    }
    sweep->variants[sweep->variant_count++] = variant;
    return TRI_OK;
}

/* Every combination, the last list fastest. */
static tri_status add_variants(struct sweep *sweep, const struct study_system *system,
                               const struct parts *parts, tri_error *err)
{
    size_t total =
        parts->rule_count * parts->placement_count * parts->consistency_count * parts->codec_count;
    tri_status status = TRI_OK;
    for (size_t i = 0; i < total && status == TRI_OK; i++) {
        size_t codec = i % parts->codec_count, left = i / parts->codec_count;
        size_t consistency = left % parts->consistency_count;
        left /= parts->consistency_count;
        struct sweep_variant variant = {
            .system = system,
            .rule = parts->rules[left / parts->placement_count],
            .placement = parts->placements[left % parts->placement_count],
            .ratio = parts->ratios[codec],
        };
        memcpy(variant.consistency, parts->consistencies[consistency], VARIANT_PART);
        memcpy(variant.codec, parts->codecs[codec], VARIANT_PART);
        status = add_variant(sweep, variant, err);
    }
    return status;
}

/* ---- systems ---- */

/* One item of --system while it is read: "wfbp+ssp:5+topk:0.01". */
struct item {
    struct sweep *sweep;
    const struct parts *all;                  /* what the other options say */
    struct parts parts;                       /* with what the item says itself */
    bool named;                               /* its system is known */
    const struct study_system *system;        /* NULL: all */
    bool rule, placement, consistency, codec; /* it says so itself */
};

static const char *system_or_all(const void *ctx, size_t i)
{
    (void)ctx;
    if (i == 0)
        return "all";
    return study_system_at(i - 1) != NULL ? study_system_at(i - 1)->name : NULL;
}

/* A part replaces the list of its kind, once. */
static tri_status replace_list(struct item *item, bool *said, size_t *count, const char *part,
                               const struct list *list, tri_error *err)
{
    if (*said) {
        fail(err, TRI_EINPUT, "option '--system' gives one system two parts for --%s, '%.60s' last",
             list->option, part);
        fail_next(err, "take one away, or list two systems: wfbp+ssp:5,wfbp+asp");
        return TRI_EINPUT;
    }
    *said = true;
    *count = 0;
    return list->add(&item->parts, part, list, err);
}

static tri_status replace_rule(struct item *item, const char *part, tri_error *err)
{
    if (item->system != NULL && !has_choice(item->system)) {
        fail(err, TRI_EINPUT, "option '--system' gives %s the rule '%.60s', but it chooses nothing",
             item->system->name, part);
        fail_next(err, "give rules to poseidon or trident: poseidon+time");
        return TRI_EINPUT;
    }
    return replace_list(item, &item->rule, &item->parts.rule_count, part, &rules_list, err);
}

/* Consistencies and codecs are told apart by how they begin, so that "topk:2" is refused as a
 * codec. */
static tri_status replace_part(struct item *item, const char *part, tri_error *err)
{
    struct parts *parts = &item->parts;
    for (size_t i = 0; rule_names[i] != NULL; i++)
        if (names_equal(rule_names[i], part))
            return replace_rule(item, part, err);
    if (placement_find(part) != NULL)
        return replace_list(item, &item->placement, &parts->placement_count, part, &placements_list,
                            err);
    if (names_equal(part, "none") || names_equal(part, "onebit") || strncmp(part, "topk", 4) == 0)
        return replace_list(item, &item->codec, &parts->codec_count, part, &codecs_list, err);
    char name[LIST_PART];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(part, ":"), part);
    if (consistency_find(name) != NULL)
        return replace_list(item, &item->consistency, &parts->consistency_count, part,
                            &consistencies_list, err);
    fail(err, TRI_EINPUT, "option '--system' does not know the part '%.60s'", part);
    fail_next(err, "after a + give a rule, placement, consistency or codec: wfbp+lpt+ssp:5");
    return TRI_EINPUT;
}

static tri_status add_word(void *into, const char *part, const struct list *list, tri_error *err)
{
    struct item *item = into;
    if (item->named)
        return replace_part(item, part, err);
    item->named = true;
    item->system = study_system_find(part);
    if (item->system == NULL && !names_equal(part, "all"))
        return list_unknown(list->option, part, system_or_all, err);
    return TRI_OK;
}

static const struct list words_list = {
    "system", "give a system and its parts: wfbp+ssp:5+topk:0.01", add_word};

static tri_status add_system(void *into, const char *part, const struct list *list, tri_error *err)
{
    (void)list;
    struct item *item = into;
    item->parts = *item->all;
    item->named = item->rule = item->placement = item->consistency = item->codec = false;
    tri_status status = list_each(&words_list, part, '+', item, err);
    if (status != TRI_OK || item->system != NULL)
        return status == TRI_OK ? add_variants(item->sweep, item->system, &item->parts, err)
                                : status;
    for (size_t i = 0; study_system_at(i) != NULL && status == TRI_OK; i++)
        status = add_variants(item->sweep, study_system_at(i), &item->parts, err);
    return status;
}

static const struct list systems_list = {
    "system", "give all, or names separated by commas: ps,trident", add_system};

/* ---- names ---- */

/* The parts that tell variants apart. */
struct differs {
    bool rule, placement, consistency, codec;
};

/* A system's own rule or placement goes without saying where all its variants have it. */
static struct differs differs_of(const struct sweep *sweep, const struct sweep_variant *one)
{
    struct differs differs = {.rule = !variant_own_rule(one)};
    for (size_t i = 0; i < sweep->variant_count; i++) {
        const struct sweep_variant *other = &sweep->variants[i];
        if (other->system->alone || one->system->alone)
            continue;
        differs.rule |= other->system == one->system && other->rule != one->rule;
        differs.placement |= other->system->placement == NULL && one->system->placement == NULL &&
                             other->placement != one->placement;
        differs.consistency |= strcmp(other->consistency, one->consistency) != 0;
        differs.codec |= strcmp(other->codec, one->codec) != 0;
    }
    return differs;
}

/* bsp and no codec go without saying. */
static void name_variant(const struct sweep *sweep, struct sweep_variant *variant)
{
    struct differs differs = differs_of(sweep, variant);
    const char *rule = differs.rule ? variant_rule(variant) : NULL;
    const char *placement = differs.placement ? variant->placement->name : NULL;
    const char *consistency = differs.consistency && strcmp(variant->consistency, "bsp") != 0
                                  ? variant->consistency
                                  : NULL;
    const char *codec = differs.codec && variant->ratio > 0 ? variant->codec : NULL;
    const char *const words[] = {rule, placement, consistency, codec};
    size_t len = strlen(variant->system->name);
    (void)snprintf(variant->name, sizeof variant->name, "%s", variant->system->name);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i] != NULL && len < sizeof variant->name) {
            (void)snprintf(variant->name + len, sizeof variant->name - len, " %s", words[i]);
            len += 1 + strlen(words[i]);
        }
}

tri_status variants_read(const struct simulate_settings *settings, struct sweep *sweep,
                         tri_error *err)
{
    struct parts parts = {0};
    struct item item = {.sweep = sweep, .all = &parts};
    tri_status status = list_each(&rules_list, settings->rule, ',', &parts, err);
    if (status == TRI_OK)
        status = list_each(&placements_list, settings->placement, ',', &parts, err);
    if (status == TRI_OK)
        status = list_each(&consistencies_list, settings->consistency, ',', &parts, err);
    if (status == TRI_OK)
        status = list_each(&codecs_list, settings->codec, ',', &parts, err);
    if (status == TRI_OK)
        status = list_each(&systems_list, settings->system, ',', &item, err);
    for (size_t i = 0; i < sweep->variant_count && status == TRI_OK; i++)
        name_variant(sweep, &sweep->variants[i]);
    return status;
}
