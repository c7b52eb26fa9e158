/* The view change of the scheme sfb under bsp: what happens to the factors of a
 * worker that leaves. verify/README.md says what is modelled and what is not;
 * tools/verify runs every configuration and every mutant.
 *
 * Ranks are symmetric, so the ranks that leave are always the highest, the first
 * to leave being W - 1. Links hold no state: what worker r sends on a layer is a
 * fixed sequence, so a link is the number of updates that have come out of it, or
 * with OVERTAKING, where links keep no order, which of them have.
 * An update can come as soon as it is computed, each peer on its own. One that
 * never comes was lost, or was never sent: nobody can tell the difference. */

#ifndef W
#define W 3 /* workers, 3 to 5 */
#endif
#ifndef L
#define L 2 /* layers, 1 or 2 */
#endif
#ifndef T
#define T 3 /* clocks */
#endif
#ifndef D
#define D 1 /* how many workers may leave, 1 to 3; L * T * D <= 8 */
#endif

#define ALL ((1 << W) - 1)
#define BIT(r) (1 << (r))
#define PAIRS (L * T)
#define PAIR(l, t) ((t) * L + (l))
#define LAYER(p) ((p) % L)
#define CLOCK(p) ((p) / L)
#define MARK(p, d) (1 << ((p) * D + W - 1 - (d))) /* pair p of departed rank d; older clocks first */

/* What a worker knows. */
byte next[W * L];       /* the clock it applies next */
byte got[W * W * L];    /* how many updates came from each peer; OVERTAKING: which, a bit per clock */
byte have[W * PAIRS];   /* whose factors it holds; its own are not listed */
byte set[W * PAIRS];    /* with whose factors it applied the pair; 0: not yet */
byte seen[W];           /* the last VIEW that came */
byte resumed[W];        /* the last DECISION that came; frozen while it is behind seen */
#define NEXT(w, l) next[(w) * L + (l)]
#define GOT(w, r, l) got[((w) * W + (r)) * L + (l)]
#define HAVE(w, p) have[(w) * PAIRS + (p)]
#define SET(w, p) set[(w) * PAIRS + (p)]

/* What is on its way: reports, orders in a DECISION, relays. VIEW and DECISION
 * come to a worker in the order they were sent; view and decided[] say which were. */
byte report[W];
byte order[(D + 1) * W * W];
byte relay[W * W];
#define ORDER(v, from, to) order[((v) * W + (from)) * W + (to)]
#define RELAY(from, to) relay[(from) * W + (to)]

/* What the coordinator knows. */
byte view;
byte departed; /* how many have left */
byte gone[D + 1];
bool decided[D + 1];
byte counted[(D + 1) * PAIRS];
#define COUNTED(v, p) counted[(v) * PAIRS + (p)]

/* The properties; pan names the one that fails. The fifth, that every survivor
 * finishes all clocks, is the absence of invalid end states. */
bool same_set = true;          /* all survivors apply a pair with the same ranks */
bool taken_once = true;        /* no update is taken into a pair twice, or after it was applied */
bool kept_while_needed = true; /* a relayer has what a receiver lacks */
bool shared_base = true;       /* a counted update was computed from parameters the survivors have */

byte silent; /* ranks that do nothing more: nobody listens to them, or all is done */
bool started;
byte a, b, c, e, f, g, cut = T; /* scratch; set back after every step, so no state differs by them */

#define LIVE(w) (ALL & ~gone[seen[w]]) /* as worker w knows */
#define IS_GONE(w) (gone[view] & BIT(w))

/* SCENE: two cases too big to search whole start where it becomes interesting.
 * L == 1: what rank W - 1 sends reaches nobody but rank W - 2; they leave together, and
 * a third rank leaves after the decision.
 * L == 2: layer 0 of clock 0 is applied everywhere, layer 1 ends with clock 0, and rank
 * W - 1 gets that one through to nobody but rank W - 2, which leaves after the decision.
 * OVERTAKING, which has more to choose from: all else of clock 0 is there, too. */
#ifdef SCENE
#if L == 1
#define LOST(w, r, l) (r == W - 1 && w != W - 2)
#define MAY_LEAVE(n) (n == 2 || (n == 3 && decided[1]))
#define CLOCKS(l) T
#else
#define LOST(w, r, l) (r == W - 1 && l == 1 && w != W - 2)
#define MAY_LEAVE(n) (n == 1 || decided[1])
#define CLOCKS(l) ((l) == 0 -> T : 1)
#endif
#else
#define LOST(w, r, l) false
#define MAY_LEAVE(n) true
#define CLOCKS(l) T
#endif

/* When worker r can have computed its update for (l, t). BARRIER: a forward pass reads
 * every layer, so all of clock t - 1 is in. Otherwise the layers run on their own: only
 * (l, t - 1) must be in, and clock t - 1 of the other layer computed. */
#ifdef SENT_EARLY /* mutant: an update leaves before the one before it is installed */
#define INSTALLED(r, l, t) (NEXT(r, l) + 1 >= (t))
#else
#define INSTALLED(r, l, t) (NEXT(r, l) >= (t))
#endif
#if L == 1
#define COMPUTED(r, l, t) INSTALLED(r, l, t)
#elif defined(BARRIER)
#define COMPUTED(r, l, t) (INSTALLED(r, 0, t) && INSTALLED(r, 1, t))
#else
#define COMPUTED(r, l, t) (INSTALLED(r, l, t) && (NEXT(r, 1 - (l)) + 1 >= (t) || NEXT(r, 1 - (l)) == CLOCKS(1 - (l))))
#endif

/* Order on the link to one peer. OVERTAKING: none, an update comes when it is computed;
 * APPLY_ORDER makes up for it. Otherwise those of a layer come in turn, and nothing of clock
 * t + 1 overtakes clock t. The mutant lacks the latter and APPLY_ORDER. */
#ifdef OVERTAKEN
#define APPLIED_OUT_OF_ORDER
#endif
#if defined(OVERTAKING)
#define IN_ORDER(w, r, l, t) (!(GOT(w, r, l) & BIT(t)))
#elif L == 1 || defined(OVERTAKEN) /* mutant: it does */
#define IN_ORDER(w, r, l, t) true
#else
#define IN_ORDER(w, r, l, t) (GOT(w, r, 1 - (l)) >= (t) || GOT(w, r, 1 - (l)) == CLOCKS(1 - (l)))
#endif

/* After VIEW nothing of a departed rank is taken. In the case that shows it (one layer, one
 * clock, two deaths) "a decision stands" (below) is enough instead, so the mutant lacks both. */
#ifdef DROP_NOTHING_AFTER_VIEW /* mutant: late data of an evicted rank is taken */
#define DECISION_FORGOTTEN
#define LISTENS(w, r) true
#else
#define LISTENS(w, r) (LIVE(w) & BIT(r))
#endif

#define CAN_RECEIVE(w, r, l, t)                                                                \
    (w != r && !LOST(w, r, l) && LISTENS(w, r) && !(silent & (BIT(w) | BIT(r))) &&             \
     (t) < CLOCKS(l) && COMPUTED(r, l, t) && IN_ORDER(w, r, l, t))

/* Two generations: (l, t) goes when (l, t + 1) is in from every live rank, itself
 * included, or any (l, t + 2) has come. At once, because that is the worst case. */
inline free_old(w, l)
{
    for (e : 0 .. T - 2) {
        if
        :: NEXT(w, l) > e && HAVE(w, PAIR(l, e)) ->
            if
#ifdef ONE_GENERATION /* mutant: factors go as soon as they are applied */
            :: true -> HAVE(w, PAIR(l, e)) = 0
#endif
            :: COMPUTED(w, l, e + 1) && (LIVE(w) & ~(HAVE(w, PAIR(l, e + 1)) | BIT(w))) == 0 ->
                HAVE(w, PAIR(l, e)) = 0
            :: e + 2 < T && HAVE(w, PAIR(l, (e + 2) % T)) -> HAVE(w, PAIR(l, e)) = 0
            :: else
            fi
        :: else
        fi
    }
    e = 0
}

inline take(w, p, r)
{
    taken_once = !(HAVE(w, p) & BIT(r)) && SET(w, p) == 0;
    assert(taken_once);
    HAVE(w, p) = HAVE(w, p) | BIT(r)
}

inline receive(w, r, l, t)
{
    a = t;
    printf("worker %d receives (layer %d, clock %d) of %d\n", w, l, a, r);
#ifdef OVERTAKING
    GOT(w, r, l) = GOT(w, r, l) | BIT(a);
#else
    GOT(w, r, l) = a + 1;
#endif
    if
#ifdef REFUSED_FOR_VIEW /* mutant: data from a sender in an older view is refused */
    :: seen[r] < seen[w] -> skip
#endif
#ifndef SECOND_COPY_KEPT /* mutant: a second copy is kept if its place is free */
    :: SET(w, PAIR(l, a)) || (HAVE(w, PAIR(l, a)) & BIT(r)) -> skip
#endif
    :: else -> take(w, PAIR(l, a), r)
    fi;
    free_old(w, l);
    a = 0
}

/* Relays of one sender come in the order of their clocks, but anywhere between its own
 * updates, and a sender's death may lose any of them: the rule needs no more. */
inline receive_relay(w, r)
{
    a = 0;
    do
    :: RELAY(r, w) & (1 << a) -> break
    :: else -> a++
    od;
    RELAY(r, w) = RELAY(r, w) & ~(1 << a);
    b = a / D;
    c = W - 1 - a % D;
    printf("worker %d receives from %d the relayed (layer %d, clock %d) of %d\n", w, r, LAYER(b), CLOCK(b), c);
    if
#ifdef EARLY_RELAY_DROPPED /* mutant: a relay that comes before DECISION is dropped */
    :: seen[w] != resumed[w] -> skip
#endif
#ifndef SECOND_COPY_KEPT /* the same mutant */
    :: SET(w, b) -> skip
#endif
    :: HAVE(w, b) & BIT(c) -> skip
    :: else -> take(w, b, c); free_old(w, LAYER(b))
    fi;
    a = 0; b = 0; c = 0
}

#ifdef FREEZE_FORGOTTEN /* mutant: a worker goes on applying between VIEW and DECISION */
#define FROZEN(w) false
#else
#define FROZEN(w) (seen[w] != resumed[w])
#endif

/* A worker applies all of clock t before any of clock t + 1, also where the layers
 * run on their own: else it may apply an update of clock t + 1 whose sender leaves,
 * and find that what this update was computed from, in another layer, is lost. */
#if L == 1 || defined(APPLIED_OUT_OF_ORDER) /* mutant: each layer as soon as it can */
#define APPLY_ORDER(w, l) true
#else
#define APPLY_ORDER(w, l) (NEXT(w, 1 - (l)) >= NEXT(w, l) || NEXT(w, 1 - (l)) == CLOCKS(1 - (l)))
#endif

#define NEED(w, p) (LIVE(w) | COUNTED(resumed[w], p))
#define MISSING(w, p) (NEED(w, p) & ~(HAVE(w, p) | BIT(w)))
#define CAN_APPLY(w, l)                                                                        \
    (NEXT(w, l) < CLOCKS(l) && !(silent & BIT(w)) && !FROZEN(w) && APPLY_ORDER(w, l) &&        \
     COMPUTED(w, l, NEXT(w, l)) && MISSING(w, PAIR(l, NEXT(w, l))) == 0)

inline apply(w, l)
{
    a = PAIR(l, NEXT(w, l));
    SET(w, a) = NEED(w, a);
#ifdef APPLY_EXTRA /* mutant: with whatever is held, not with exactly the counted ranks */
    SET(w, a) = SET(w, a) | HAVE(w, a);
#endif
    printf("worker %d applies (layer %d, clock %d) with ranks 0x%x\n", w, l, CLOCK(a), SET(w, a));
    NEXT(w, l) = NEXT(w, l) + 1;
    for (b : 0 .. W - 1) {
        same_set = IS_GONE(w) || IS_GONE(b) || SET(b, a) == 0 || SET(b, a) == SET(w, a);
        assert(same_set)
    }
    for (b : 0 .. L - 1) { free_old(w, b) }
    a = 0; b = 0
}

/* Once every live worker has seen the view, nobody hears the departed any more: what
 * they do from here on changes nothing, so they stop and their state is wiped. What
 * they applied before the last clock is kept: shared_base asks for it. */
inline silence_departed()
{
#ifndef DROP_NOTHING_AFTER_VIEW
    b = 1;
    for (a : 0 .. W - 1) {
        if
        :: !IS_GONE(a) && seen[a] < view -> b = 0
        :: else
        fi
    }
    if
    :: b ->
        silent = gone[view];
        for (a : W - D .. W - 1) {
            if
            :: IS_GONE(a) ->
                seen[a] = 0; resumed[a] = 0; report[a] = 0;
                for (b : 0 .. L - 1) { NEXT(a, b) = 0 }
                for (b : 0 .. PAIRS - 1) { HAVE(a, b) = 0 }
                for (b : PAIRS - L .. PAIRS - 1) { SET(a, b) = 0 }
                for (b : 0 .. W - 1) {
                    RELAY(a, b) = 0; RELAY(b, a) = 0;
                    for (c : 0 .. L - 1) { GOT(a, b, c) = 0 }
                }
            :: else
            fi
        }
    :: else
    fi;
#endif
    a = 0; b = 0; c = 0
}

/* The connection to the coordinator is in order: a DECISION before the next VIEW. */
#define DECISION_COMES(w) (!(silent & BIT(w)) && resumed[w] < seen[w] && decided[seen[w]])
#define VIEW_COMES(w)                                                                          \
    (!(silent & BIT(w)) && seen[w] < view && !DECISION_COMES(w) && !(gone[seen[w] + 1] & BIT(w)))

inline take_view(w)
{
    seen[w]++;
    printf("worker %d sees VIEW %d (departed 0x%x)\n", w, seen[w], gone[seen[w]]);
    for (b : W - D .. W - 1) {
        if
        :: gone[seen[w]] & BIT(b) ->
            RELAY(b, w) = 0;
#ifndef DROP_NOTHING_AFTER_VIEW
            for (c : 0 .. L - 1) { GOT(w, b, c) = 0 } /* means nothing from here on */
#endif
        :: else
        fi
    }
    for (b : 0 .. L - 1) { free_old(w, b) }
    report[w] = 0;
    for (b : 0 .. PAIRS - 1) {
        for (c : W - D .. W - 1) {
            if
#ifdef ONLY_OPEN_REPORTED /* mutant: neither applied pairs nor those ahead */
            :: CLOCK(b) != NEXT(w, LAYER(b)) -> skip
#endif
            :: (gone[seen[w]] & HAVE(w, b)) & BIT(c) -> report[w] = report[w] | MARK(b, c)
            :: else
            fi
        }
    }
    b = 0; c = 0;
    silence_departed()
}

inline take_decision(w)
{
    resumed[w] = seen[w];
    printf("worker %d sees DECISION %d\n", w, seen[w]);
    for (a : 0 .. W - 1) {
        for (b : 0 .. PAIRS - 1) {
            for (c : W - D .. W - 1) {
                if
                :: !(ORDER(seen[w], w, a) & MARK(b, c)) -> skip
#ifdef RELAY_FORGOTTEN /* mutant */
                :: ORDER(seen[w], w, a) & MARK(b, c) -> skip
#endif
                :: else ->
                    if
                    :: HAVE(w, b) & BIT(c) -> RELAY(w, a) = RELAY(w, a) | MARK(b, c)
                    :: else -> /* freed: skipped */
                        kept_while_needed = IS_GONE(a) || SET(a, b) || (HAVE(a, b) & BIT(c));
                        assert(kept_while_needed)
                    fi
                fi
            }
        }
        ORDER(seen[w], w, a) = 0
    }
    a = 0; b = 0; c = 0
}

#define COMES(r, l, t) d_step { CAN_RECEIVE(_pid, r, l, t) -> receive(_pid, r, l, t) }
#ifndef OVERTAKING
#define RECEIVE(r, l) COMES(r, l, GOT(_pid, r, l))
#elif T == 2
#define RECEIVE(r, l) COMES(r, l, 0) :: COMES(r, l, 1)
#else
#define RECEIVE(r, l) COMES(r, l, 0) :: COMES(r, l, 1) :: COMES(r, l, 2)
#endif
#define RECEIVE_RELAY(r) d_step { RELAY(r, _pid) && !(silent & BIT(_pid)) -> receive_relay(_pid, r) }
#define APPLY(l) d_step { CAN_APPLY(_pid, l) -> apply(_pid, l) }

active [W] proctype worker() /* _pid is the rank */
{
#ifdef SCENE
    started;
#endif
    /* A worker may rest here for ever. The coordinator may not, so a state in which
     * nothing moves before all is done is an invalid end state. */
end:
    do
    :: RECEIVE(0, 0)
    :: RECEIVE(1, 0)
    :: RECEIVE(2, 0)
    :: RECEIVE_RELAY(0)
    :: RECEIVE_RELAY(1)
    :: RECEIVE_RELAY(2)
    :: APPLY(0)
#if W > 3
    :: RECEIVE(3, 0)
    :: RECEIVE_RELAY(3)
#endif
#if W > 4
    :: RECEIVE(4, 0)
    :: RECEIVE_RELAY(4)
#endif
#if L > 1
    :: RECEIVE(0, 1)
    :: RECEIVE(1, 1)
    :: RECEIVE(2, 1)
    :: APPLY(1)
#if W > 3
    :: RECEIVE(3, 1)
#endif
#endif
    :: d_step { VIEW_COMES(_pid) -> take_view(_pid) }
    :: d_step { DECISION_COMES(_pid) -> take_decision(_pid) }
    od
}

/* Death and eviction are one step. A dead worker is an evicted one that does nothing
 * more, which is one of the things an evicted one can do. */
inline new_view(n)
{
    view++;
    departed = n;
    gone[view] = ALL & ~(ALL >> n);
    printf("coordinator sends VIEW %d (departed 0x%x)\n", view, gone[view])
}

#ifdef OLD_REPORTS_COUNTED /* mutant: a report of an older view is as good */
#define REPORTED(w) (IS_GONE(w) || resumed[w] < seen[w])
#else
#define REPORTED(w) (IS_GONE(w) || seen[w] == view)
#endif
#define DONE(w) (IS_GONE(w) || (NEXT(w, 0) == CLOCKS(0) && NEXT(w, L - 1) == CLOCKS(L - 1)))

#if W == 3
#define EVERY(x) (x(0) && x(1) && x(2))
#elif W == 4
#define EVERY(x) (x(0) && x(1) && x(2) && x(3))
#else
#define EVERY(x) (x(0) && x(1) && x(2) && x(3) && x(4))
#endif

#ifdef DECIDED_EARLY /* mutant: the first report is enough */
#define ENOUGH_REPORTS (seen[0] == view)
#else
#define ENOUGH_REPORTS EVERY(REPORTED)
#endif

/* A pair that every survivor has applied is settled: it may be freed everywhere, so that
 * nobody holds the departed rank that all have counted in it. */
#ifdef CUT_BY_CLOCK /* mutant: it is settled when the whole clock is */
#define UNAPPLIED(w, p) (NEXT(w, 0) <= CLOCK(p) || NEXT(w, L - 1) <= CLOCK(p))
#else
#define UNAPPLIED(w, p) (NEXT(w, LAYER(p)) <= CLOCK(p))
#endif

/* A worker that reported is frozen, so its next clock is the one it reported. */
inline count()
{
    g = view - 1; /* the last view that was decided */
    do
    :: g > 0 && !decided[g] -> g--
    :: else -> break
    od;
    for (b : 0 .. PAIRS - 1) {
        /* f: who may count. A decision stands: whom the last one left out stays out, even
         * if a survivor still holds him, because another may have applied without him. */
        f = (gone[view] & ~gone[g]) | COUNTED(g, b);
#ifdef DECISION_FORGOTTEN /* mutant: every view is decided anew */
        f = gone[view];
#endif
        e = 0; /* has a survivor yet to apply the pair? */
        for (a : 0 .. W - 1) {
            if
            :: !IS_GONE(a) ->
                for (c : W - D .. W - 1) {
                    if
                    :: report[a] & MARK(b, c) -> COUNTED(view, b) = COUNTED(view, b) | (f & BIT(c))
                    :: else
                    fi
                }
                if
                :: UNAPPLIED(a, b) -> e = 1
                :: else
                fi
            :: else
            fi
        }
        if
        :: e && COUNTED(view, b) != f && CLOCK(b) < cut -> cut = CLOCK(b)
        :: else
        fi
    }
#ifndef NO_CUT /* mutant */
    for (b : 0 .. PAIRS - 1) {
        if
        :: CLOCK(b) > cut -> COUNTED(view, b) = 0
        :: else
        fi
    }
#endif
}

/* Any holder may be the relayer. */
inline give_orders()
{
    for (b : 0 .. PAIRS - 1) {
        for (c : W - D .. W - 1) {
            if
            :: COUNTED(view, b) & BIT(c) ->
                e = W;
                for (a : 0 .. W - 1) {
                    if
                    :: !IS_GONE(a) && (report[a] & MARK(b, c)) -> e = a
                    :: e < W && (report[a] & MARK(b, c)) -> skip
                    :: else
                    fi
                }
                for (a : 0 .. W - 1) {
                    if
                    :: !IS_GONE(a) && !(report[a] & MARK(b, c)) && NEXT(a, LAYER(b)) <= CLOCK(b) ->
                        ORDER(view, e, a) = ORDER(view, e, a) | MARK(b, c)
                    :: else
                    fi
                }
            :: else
            fi
        }
    }
}

inline decide()
{
    count();
    give_orders();
    decided[view] = true;
    for (b : 0 .. PAIRS - 1) {
        printf("DECISION %d: of the departed, 0x%x count in (layer %d, clock %d)\n", view, COUNTED(view, b),
            LAYER(b), CLOCK(b))
    }
    for (a : 0 .. W - 1) { report[a] = 0 }
    for (a : 0 .. PAIRS - 1) { COUNTED(g, a) = 0 } /* every live worker is past it */
    a = 0; b = 0; c = 0; e = 0; f = 0; g = 0; cut = T
}

/* If the survivors count an update of clock t, they share everything of older clocks
 * that its rank had applied. (What it applied after computing the update is asked for,
 * too: more than needed, simpler, and true.) */
inline check_base()
{
    for (a : W - D .. W - 1) {
        for (b : 0 .. PAIRS - 1) {
            for (c : 0 .. PAIRS - 1) {
                shared_base = !IS_GONE(a) || !(SET(0, b) & BIT(a)) || CLOCK(c) >= CLOCK(b) || SET(a, c) == 0 ||
                              SET(a, c) == SET(0, c);
                assert(shared_base)
            }
        }
    }
    a = 0; b = 0; c = 0
}

inline set_scene()
{
#if L == 2
    for (a : 0 .. W - 1) {
        NEXT(a, 0) = 1;
        HAVE(a, 0) = ALL & ~BIT(a);
        SET(a, 0) = ALL;
        for (b : 0 .. W - 1) {
            GOT(a, b, 0) = 1;
#ifdef OVERTAKING
            if
            :: a != b && !LOST(a, b, 1) -> GOT(a, b, 1) = 1; HAVE(a, 1) = HAVE(a, 1) | BIT(b)
            :: else
            fi
#endif
        }
    }
    a = 0; b = 0;
#endif
    started = true
}

active proctype coordinator()
{
#ifdef SCENE
    d_step { set_scene() };
#endif
    do
    :: d_step { departed < 1 && MAY_LEAVE(1) -> new_view(1) }
#if D > 1
    :: d_step { departed < 2 && MAY_LEAVE(2) -> new_view(2) }
#endif
#if D > 2
    :: d_step { departed < 3 && MAY_LEAVE(3) -> new_view(3) }
#endif
    :: atomic { view > 0 && !decided[view] && ENOUGH_REPORTS -> decide() }
    :: d_step { EVERY(DONE) -> check_base(); silent = ALL }; break
    od
}
