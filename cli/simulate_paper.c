/* The numbers that the papers print, in a picture of the same case. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/names.h"
#include "cli/simulate_plot.h"
#include "sim/claims.h"

size_t plot_paper_most(void)
{
    size_t count = 0;
    while (claim_at(count) != NULL)
        count++;
    return count;
}

/* A speed-up that stands in the paper as a number, not only as "almost linear". */
static bool is_printed(const struct claim *claim)
{
    return claim->kind == CLAIM_SPEEDUP && claim->over == NULL && claim->times == 0 &&
           claim->test == CLAIM_NUMBER && isfinite(claim->value) &&
           isdigit((unsigned char)claim->paper[0]);
}

static bool is_of(const struct claim *claim, const struct sweep_variant *variant)
{
    const struct claim_case *ours = &claim->ours;
    const char *consistency = ours->consistency != NULL ? ours->consistency : "bsp";
    double ratio = ours->top_1 ? 0.02 : 0;
    return names_equal(ours->system, variant->system->name) && variant_own_rule(variant) &&
           (ours->placement == NULL || names_equal(ours->placement, variant->placement->name)) &&
           strcmp(consistency, variant->consistency) == 0 && fabs(ratio - variant->ratio) < 1e-9;
}

static bool same_rate(double bits_s, const struct claim *claim)
{
    return fabs(bits_s - claim->gbit * 1e9) < 1;
}

/* The case of a claim in the sweep's lists. */
static bool find_case(const struct sweep *sweep, const struct claim *claim, size_t *node,
                      size_t *rate)
{
    for (*node = 0; *node < sweep->node_count && sweep->nodes[*node] != claim->nodes;)
        ++*node;
    for (*rate = 0; *rate < sweep->rate_count && !same_rate(sweep->rates[*rate], claim);)
        ++*rate;
    return *node < sweep->node_count && *rate < sweep->rate_count;
}

static bool is_drawn(const struct plot *plot, const struct chart_series *point)
{
    for (size_t i = plot->lines; i < plot->series_count; i++) {
        const struct chart_series *other = &plot->series[i];
        if (other->style == point->style && other->x[0] == point->x[0] &&
            other->y[0] == point->y[0])
            return true;
    }
    return false;
}

static void add_point(struct plot *plot, const struct claim *claim, size_t variant, size_t rate)
{
    size_t line = plot->kind == PLOT_NODES ? rate * plot->sweep->variant_count + variant : variant;
    double *at = plot->paper + 2 * (plot->series_count - plot->lines);
    at[0] = plot->kind == PLOT_RATES ? claim->gbit : claim->nodes;
    at[1] = claim->value;
    struct chart_series point = plot->series[line];
    point.name = NULL;
    point.x = at;
    point.y = at + 1;
    point.count = 1;
    point.points_only = true;
    point.on = line + 1;
    if (!is_drawn(plot, &point))
        plot->series[plot->series_count++] = point;
}

void plot_paper(struct plot *plot)
{
    const struct sweep *sweep = plot->sweep;
    const struct claim *claim;
    size_t node, rate;
    if (sweep->study.batch != sweep->study.profile->default_batch)
        return;
    for (size_t i = 0; (claim = claim_at(i)) != NULL; i++) {
        if (!is_printed(claim) || !find_case(sweep, claim, &node, &rate) ||
            !names_equal(claim->ours.model, sweep->study.profile->name))
            continue;
        for (size_t v = 0; v < sweep->variant_count; v++)
            if (is_of(claim, &sweep->variants[v])) {
                add_point(plot, claim, v, rate);
                break;
            }
    }
    if (plot->series_count > plot->lines)
        plot->series[plot->series_count++] =
            (struct chart_series){.name = "paper", .points_only = true, .neutral = true};
}
