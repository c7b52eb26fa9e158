/* Shared memory without a server: every learner applies all gradients to a copy of its own, and may
 * die at any step. verify/README.md says what is modelled; comments "replicas.pml: COMMIT" in
 * src/local/ (replica.c, snapshot.c, seats.c, share.c, learner.c) mark each step.
 *
 * -DN=n  seats          -DS=n  slots of each      -DG=n -DG0=n -DG1=n -DG2=n  gradients of each
 * -DD=n  deaths         -DMORTAL=mask  of whom    -DK=n  snapshots
 * -DR=n  so often somebody leaves and comes again -DOPEN  who leaves may have looked
 * -DSTAY=mask  who stays for the result           -DPAUSES  between two iterations, for long
 * -DALONG=mask  who may make steps along with the backward pass, its own before it is published
 * -DGIVE_UP  no restarts                          -DSCENE  all sit already, but the first
 * -DIMPATIENT  waits end at any time: a standstill is not found then */
#ifndef N
#define N 2
#endif
#ifndef S
#define S 2
#endif
#ifndef G
#define G 2 /* the most: bits of a writer in a set */
#endif
#ifndef G0
#define G0 G
#endif
#ifndef G1
#define G1 G
#endif
#ifndef G2
#define G2 G
#endif
#ifndef D
#define D 0
#endif
#ifndef MORTAL
#define MORTAL 7
#endif
#ifndef K
#define K 0
#endif
#ifndef R
#define R 0
#endif
#ifndef STAY
#define STAY 7
#endif
#define COUNT(i) ((i) == 0 -> G0 : ((i) == 1 -> G1 : G2))
#define STAYS(i) ((STAY >> (i)) & 1)
#define GOES_ALONG(i) ((ALONG >> (i)) & 1)

#define FIRST_BASE N /* a copy, a row of taken[], a value of base: what the region was filled with */
#define WATCHDOG N   /* a sleeper, an owner of the lock, a copier */
#define ORPHANED (N + 2)

#define SPACE(i) (i)
#define NEWS N
#define WORK (N + 1)

#define FREE 0
#define TAKEN 1
#define DEAD 2
#define LEFT 3

byte state[N];          /* of seats */
bool reads[N];          /* its counts count */
bool whole[N];          /* the copy may be copied; no longer when buried */
bool quiet[N];          /* the copy is what its counts say, and stays so until this is 0 */
bool done[N], given_up[N];
byte head[N];           /* published */
byte slot[N * S];       /* the number of the gradient + 1; 0: half full */
byte taken[(N + 1) * N]; /* of each copy: how many of each writer */
byte base = FIRST_BASE; /* whose copy who comes begins with if nobody is there */
byte joined;            /* joins so far: a look at all readers was whole if it stands still */

byte lock;              /* of copying: 0, or its owner + 1; robust */
byte copier;            /* who has written down that it copies, + 1 */
byte ticket;            /* under the lock */
byte hold, held;        /* words: whose copy is wanted, and the how manieth time; who rests for that */

byte on[N + 1];         /* what one sleeps on, + 1; or took a key of */
bool dead[N];
byte deaths;
#if R > 0
bool coming[N];         /* it has left, or is about to, and comes again */
byte again;
#define IS_COMING(i) coming[i]
#else
#define IS_COMING(i) false
#endif

byte content[N + 1];    /* what is really in each copy: a bit per writer and number */
byte saved, lost;       /* the last snapshot; what was thrown away, or was out of reach */

/* Names for what is asserted. */
bool right_gradient = true, exactly_once = true, consistent = true, has_all = true;

#define BIT(w, n) (1 << ((w) * G + (n)))
#define FIRST(w, n) (((1 << (n)) - 1) << ((w) * G))
#if N == 3
#define VECTOR(c) (FIRST(0, taken[(c) * N]) | FIRST(1, taken[(c) * N + 1]) | FIRST(2, taken[(c) * N + 2]))
#define PUBLISHED (FIRST(0, head[0]) | FIRST(1, head[1]) | FIRST(2, head[2]))
#define ALL(what) (what(0) && what(1) && what(2))
#define ALL2(what, x) (what(0, x) && what(1, x) && what(2, x))
#else
#define VECTOR(c) (FIRST(0, taken[(c) * N]) | FIRST(1, taken[(c) * N + 1]))
#define PUBLISHED (FIRST(0, head[0]) | FIRST(1, head[1]))
#define ALL(what) (what(0) && what(1))
#define ALL2(what, x) (what(0, x) && what(1, x))
#endif
/* Nothing is in it that was never published, either: the number may be another gradient's yet. */
#define IS_EXACT(c) (content[c] == (VECTOR(c) & PUBLISHED & ~lost))

/* ---- waiting ---- */

/* An event count: a sleeper takes a key, looks again, and sleeps unless it was woken since. That is
 * one word here: on[] from the key on, taken back by whoever wakes. */
inline wake_both(event, other)
{
    d_step {
        for (k : 0 .. N) {
            if
            :: on[k] == (event) + 1 || on[k] == (other) + 1 -> on[k] = 0
            :: else
            fi
        }
        k = 0
    }
}

inline wake(one)
{
    wake_both(one, one)
}

inline wake_writers()
{
    d_step {
        for (k : 0 .. N) {
            if
            :: on[k] > 0 && on[k] <= N -> on[k] = 0
            :: else
            fi
        }
        k = 0
    }
}

inline sleep_on(who, event, ready)
{
    on[who] = (event) + 1;
    if
#ifdef IMPATIENT
    :: on[who] = 0
#endif
#ifndef LOOKED_ONCE /* mutant */
    :: atomic { ready -> on[who] = 0 }
    :: else -> on[who] == 0
#else
    :: on[who] == 0
#endif
    fi
}

#define LIVES(i) (state[i] == TAKEN && !dead[i])
#define DEAD_READER(i) (dead[i] && state[i] == TAKEN)
#if N == 3
#define ANY_DEAD (DEAD_READER(0) || DEAD_READER(1) || DEAD_READER(2))
#else
#define ANY_DEAD (DEAD_READER(0) || DEAD_READER(1))
#endif

/* Under the lock of the seats. First no source any more, then no reader. */
inline bury()
{
#ifdef DEAD_UNBURIED /* mutant */
    skip
#else
#ifndef WHOLE_WHEN_DEAD /* mutant */
    d_step {
        for (k : 0 .. N - 1) {
            if
            :: DEAD_READER(k) -> whole[k] = false           /* BURY */
            :: else
            fi
        }
        k = 0
    };
#endif
    d_step {
        for (k : 0 .. N - 1) {
            if
#ifndef WHOLE_WHEN_DEAD
            :: DEAD_READER(k) && !whole[k] -> state[k] = DEAD /* BURY: dead */
#else
            :: DEAD_READER(k) -> state[k] = DEAD
#endif
            :: else
            fi
        }
        k = 0
    };
    wake_writers()
#endif
}

/* ---- holding somebody's copy ---- */

#define LOCK_FREE (lock == 0 || lock == ORPHANED)

#ifdef TICKETLESS /* mutant */
#define WORD(target) ((target) + 1)
#else
#define WORD(target) (ticket * 4 + (target) + 1)
#endif
#define WANTED(i) ((hold & 3) == (i) + 1)
#define COPIER_IS_DEAD (copier == 0 || (copier <= N && dead[copier - 1]))

/* The wish of a dead one is taken off: that very one. The next may be there already. */
inline rest(r)
{
    mine = hold;
    if
    :: (mine & 3) == r + 1 ->
        held = mine;                                        /* REST */
        wake(NEWS);
        do
        :: hold == mine ->
            sleep_on(r, WORK, hold != mine);
            if
            :: COPIER_IS_DEAD ->
#ifdef TAKEN_OFF_BLINDLY /* mutant */
                if
                :: hold == mine -> hold = 0
                :: else
                fi
#else
                atomic { hold = (hold == mine -> 0 : hold) } /* TAKE OFF */
#endif
            :: else
            fi
        :: else -> break
        od
    :: else
    fi;
    mine = 0
}

/* Before the copy changes. Either this one sees the wish, or who has it sees that this one is not
 * quiet, and waits. */
inline begin_change(r)
{
#ifdef HOLD_LOOKED_AT_FIRST /* mutant */
    do
    :: WANTED(r) -> rest(r)
    :: else -> break
    od;
    quiet[r] = false
#else
#ifndef QUIET_KEPT /* mutant */
    quiet[r] = false;                                       /* unquiet */
#endif
#ifndef NOT_RESTING /* mutant: goes on */
    do
    :: WANTED(r) ->
        quiet[r] = true;
        wake(NEWS);
        rest(r);
#ifndef QUIET_KEPT
        quiet[r] = false
#endif
    :: else -> break
    od
#endif
#endif
}

inline end_change(r)
{
#ifdef NEVER_QUIET /* mutant: is so only while it rests */
    skip
#else
    quiet[r] = true;                                        /* quiet */
    if
    :: WANTED(r) -> wake(NEWS)
    :: else
    fi
#endif
}

#define IS_SOURCE(i, by) ((i) != (by) && LIVES(i) && whole[i])
#define NO_SOURCE(i, by) (!IS_SOURCE(i, by))
#define IS_GONE (!LIVES(source) || !whole[source])
#ifdef ALONG_DEAD_COPIED /* mutant: it changes no more */
#define IS_HELD (held == hold || quiet[source] || dead[source])
#else
#define IS_HELD (held == hold || quiet[source])
#endif

/* Under the lock: chooses a source and waits until it rests; or the base. */
inline hold_source(by)
{
    atomic { LOCK_FREE -> lock = (by) + 1; copier = (by) + 1 };
    do
#ifdef BASE_PREFERRED /* mutant */
    :: atomic { source = base }; break
#endif
    :: atomic { ALL2(NO_SOURCE, by) -> source = base }; break
    :: else ->
        if
        :: atomic { IS_SOURCE(0, by) -> source = 0 }
        :: atomic { IS_SOURCE(1, by) -> source = 1 }
#if N == 3
        :: atomic { IS_SOURCE(2, by) -> source = 2 }
#endif
        :: atomic { ALL2(NO_SOURCE, by) -> source = base; break }
        fi;
        atomic { ticket++; hold = WORD(source) };           /* HOLD */
        wake_both(SPACE(source), WORK);
        do
        :: atomic { IS_HELD -> rests = true; break }
        :: atomic { !IS_HELD && IS_GONE -> break }          /* another one */
        :: else -> sleep_on(by, NEWS, IS_HELD || IS_GONE)
        od;
        if
        :: atomic { rests -> rests = false; break }
        :: else
        fi
    od
}

inline let_go()
{
    hold = 0;                                               /* LET GO */
    wake(WORK);
    atomic { source = 0; copier = 0; lock = 0 }
}

/* ---- learners ---- */

inline copy_row(to, from)
{
    for (k : 0 .. N - 1) { taken[(to) * N + k] = taken[(from) * N + k] }
    k = 0
}

/* Who died may have been filling the slot after its last one. */
#ifdef REACH_INCLUSIVE /* mutant */
#define IS_FAR(w) (head[w] - taken[base * N + (w)] > S)
#else
#define IS_FAR(w) (head[w] - taken[base * N + (w)] >= S)
#endif

/* What is out of reach is skipped, in the base's row, too. */
inline skip_far(r)
{
    for (k : 0 .. N - 1) {
        if
        :: IS_FAR(k) ->
            has_all = ALL2(NO_SOURCE, r); /* nobody who lives has it */
            assert(has_all);
            lost = lost | (FIRST(k, head[k]) & ~FIRST(k, taken[base * N + k]));
            taken[base * N + k] = head[k]
        :: else
        fi
    }
    k = 0
}

/* The memory of the base is about to be somebody's who lives. */
inline move_base(r)
{
#ifdef BASE_MOVED_EARLY /* mutant */
    base = FIRST_BASE;
#endif
    content[FIRST_BASE] = content[r];
    d_step { copy_row(FIRST_BASE, r) };
    atomic { base = FIRST_BASE; source = (source == r -> FIRST_BASE : source) } /* base moves */
}

inline join(r)
{
    d_step {                                                /* sit down */
        reads[r] = false; whole[r] = false; quiet[r] = false; done[r] = false;
#if R > 0
        coming[r] = false;
#endif
        state[r] = TAKEN
    };
    do
    :: true ->
        hold_source(r);
#ifdef RETAKEN_OVERWRITTEN /* mutant */
        if
        :: source == r -> move_base(r)
        :: else
        fi;
#elif defined(BASE_LIVES) /* mutant: whose copy changes is the base */
        if
        :: source != base && r == base -> base = FIRST_BASE
        :: else
        fi;
#elif defined(BASE_DROPPED) /* mutant */
        if
        :: source != base && r == base -> base = FIRST_BASE
        :: else
        fi;
#else
        if
        :: r == base -> move_base(r)
        :: else
        fi;
#endif
        if
        :: source == base -> d_step { skip_far(r) }         /* base */
        :: else
        fi;
#ifndef COUNTED_LATE /* mutant: as a reader only after the source was let go */
        d_step { copy_row(r, source) };                     /* row */
        reads[r] = true;                                    /* counted */
#if N > 2 && !defined(SAID_LATE)
        joined++;                                           /* said */
#endif
#endif
        if                                                  /* check */
#ifndef SOURCE_UNCHECKED /* mutant */
        :: source != base && !whole[source] ->              /* it may have been counted no more: again */
            reads[r] = false;
            let_go()
#endif
        :: else -> break
        fi
    od;
#ifdef SAID_LATE /* mutant: after the check */
    joined++;
#endif
#ifdef COUNTED_LATE
    atomic { copy_row(r, source); content[r] = content[source] };
    let_go();
    reads[r] = true;
    quiet[r] = true;
    whole[r] = true
#else
    atomic {                                                /* copy */
        content[r] = content[source];
        consistent = IS_EXACT(r);
        assert(consistent)
    };
    quiet[r] = true;
    whole[r] = true;                                        /* complete */
#ifdef BASE_DROPPED
    if
    :: base == r -> base = FIRST_BASE
    :: else
    fi;
#endif
    let_go()
#endif
}

#ifdef READER_IGNORED /* mutant: looks at one reader too few */
#define HAS_ROOM(q, w) (state[q] != TAKEN || !reads[q] || (q) == (w + 1) % N || head[w] - taken[(q) * N + (w)] < S)
#else
#define HAS_ROOM(q, w) (state[q] != TAKEN || !reads[q] || head[w] - taken[(q) * N + (w)] < S)
#endif
#define HAS_SPACE(w) (ALL2(HAS_ROOM, w))

/* One reader after the other. Who joins meanwhile and was not seen has what its source had when it
 * was held: less, maybe, than was seen of that one after it was let go. */
inline look_for_space(r)
{
    atomic { saw = joined; room = HAS_ROOM(0, r) };
    atomic { room = room && HAS_ROOM(1, r) };
    atomic { room = room && HAS_ROOM(2, r) };
#ifndef LOOK_NOT_WHOLE /* mutant */
    atomic { room = room && joined == saw };
#endif
    saw = 0
}

#define HAS_ALL_OF(w, r) (taken[(r) * N + (w)] == head[w])
#define HAS_NEWS(r) (!ALL2(HAS_ALL_OF, r))
#ifdef WRONG_SLOT /* mutant */
#define SLOT(w, n) slot[(w) * S + ((n) + 1) % S]
#else
#define SLOT(w, n) slot[(w) * S + (n) % S]
#endif

#ifdef OWN_LEFT_OUT /* mutant */
#define PUT(r, w, n) content[r] = content[r] | ((w) == (r) -> 0 : BIT(w, n))
#elif defined(ALONG_OWN_LEFT_OUT) /* mutant: counted only */
#define PUT(r, w, n) content[r] = content[r] | ((w) == (r) && along -> 0 : BIT(w, n))
#else
#define PUT(r, w, n) content[r] = content[r] | BIT(w, n)
#endif

#ifdef COMMIT_LOST /* mutant: one count stays as it was */
#define COMMIT(r, w) taken[(r) * N + (w)] = ((w) == 0 -> taken[(r) * N] : upto[w])
#elif defined(ALONG_OWN_AGAIN) /* mutant: put in, not counted */
#define COMMIT(r, w) taken[(r) * N + (w)] = ((w) == (r) && along -> upto[w] - 1 : upto[w])
#else
#define COMMIT(r, w) taken[(r) * N + (w)] = upto[w]
#endif

#ifdef COMMIT_UNWOKEN /* mutant */
#define WAKES(k) false
#else
#define WAKES(k) (on[k] == SPACE(k) + 1)
#endif

/* Each writer looks at its own count only, and who copies waits until all are written: one step,
 * with the wakes. */
inline commit(r)
{
    d_step {                                                /* COMMIT */
        for (k : 0 .. N - 1) {
            if
            :: upto[k] > taken[r * N + k] && WAKES(k) -> on[k] = 0
            :: else
            fi;
            COMMIT(r, k)
        }
        k = 0
    }
}

#ifdef COMMITTED_FIRST
#define SINCE(r, w) since[w]
#else
#define SINCE(r, w) taken[(r) * N + (w)]
#endif

#ifdef ALONG
/* The learner's own that it is about to publish: the part that is stepped now is in the slot. */
#define HOLDS(r, w, n) (SLOT(w, n) == ((w) == (r) && (n) == head[w] -> 0 : (n) + 1))
#else
#define HOLDS(r, w, n) (SLOT(w, n) == (n) + 1)
#endif

/* Reading takes a while, all through which a slot must stand still: so it is one step, the last
 * before COMMIT. */
inline apply(r)
{
    d_step {                                                /* APPLY */
        for (k : 0 .. N - 1) {
            for (n : SINCE(r, k) .. upto[k] - 1) {
                right_gradient = HOLDS(r, k, n);
                assert(right_gradient);
                exactly_once = (content[r] & BIT(k, n)) == 0;
                assert(exactly_once);
                PUT(r, k, n)
            }
        }
        k = 0;
        n = 0
    }
}

#ifdef ALONG
#define NOT_STEPPED stepped = false
/* One layer is modelled, and any: it may be stepped before others are, or after them. If before, it
 * is at once: a slot that is wrong later is so for the others still. */
inline apply_early(r, may)
{
    if
    :: may && GOES_ALONG(r) && open -> apply(r); stepped = true
    :: stepped = false
    fi
}

inline apply_rest(r)
{
    if
    :: !stepped -> apply(r)
    :: else
    fi
}
#else
#define NOT_STEPPED
#define apply_early(r, may) skip
#define apply_rest(r) apply(r)
#endif

inline look_and(r, may)
{
    begin_change(r);
    atomic {                                                /* LOOK */
        open = HAS_NEWS(r);
        for (k : 0 .. N - 1) { upto[k] = (open -> head[k] : 0) }
        k = 0;
        apply_early(r, may)
    };
    if
    :: !open -> end_change(r)
    :: else
    fi
}

inline look(r)
{
    look_and(r, false)
}

inline take(r)
{
    if
    :: open ->
#ifdef COMMITTED_FIRST /* mutant: the slots are free before they were read */
        d_step { for (k : 0 .. N - 1) { since[k] = taken[r * N + k] } k = 0 };
        commit(r);
        apply(r);
        d_step { for (k : 0 .. N - 1) { since[k] = 0 } k = 0 };
#else
        apply_rest(r);
#ifdef QUIET_EARLY /* mutant */
        end_change(r);
#endif
        commit(r);
#endif
        d_step { for (k : 0 .. N - 1) { upto[k] = 0 } k = 0; open = false; NOT_STEPPED };
        end_change(r)
    :: else
    fi
}

inline await_space(r)
{
    do
    :: true ->
#if N > 2
        look_for_space(r);                                  /* SPACE */
        if
        :: room -> break
        :: else
        fi;
#else
        if /* of two, the other one only: who joins meanwhile does it from this one */
        :: HAS_SPACE(r) -> break
        :: else
        fi;
#endif
#ifndef NOT_CONSUMING /* mutant */
        look(r);
        take(r);
        sleep_on(r, SPACE(r), HAS_SPACE(r) || HAS_NEWS(r));
#else
        sleep_on(r, SPACE(r), HAS_SPACE(r));
#endif
        if
        :: ANY_DEAD -> bury()
        :: else
        fi
    od;
    room = false
}

#ifdef ALONG
/* Between FILL and PUBLISH. What it looks at has its own gradient in it, as if that were published
 * already; nothing of it may count before. */
inline go_along(r)
{
#ifndef ALONG_NOT_TAKEN /* mutant */
    take(r);                                                /* ALONG: take */
#endif
#ifndef ALONG_KEPT_QUIET /* mutant */
    if
    :: quiet[r] -> begin_change(r)                          /* ALONG: unquiet */
    :: else
    fi;
#endif
    atomic {                                                /* ALONG: look */
        for (k : 0 .. N - 1) { upto[k] = head[k] + (k == r -> 1 : 0) }
        k = 0;
        open = true;
        along = true;
        apply_early(r, true)                                /* ALONG: step */
    }
}
#endif

/* Before an iteration. Who went along in the last one has looked there. */
inline refresh(r)
{
#ifdef ALONG
#ifndef ALONG_LOOKED_AGAIN /* mutant */
    take(r);                                                /* ALONG: commit, if it is not yet */
#endif
#ifdef ALONG_NO_ROOM /* mutant */
    if
    :: along
    :: else -> await_space(r)
    fi;
#else
    await_space(r);
#endif
    if
    :: along ->
        along = false;
        begin_change(r);
        end_change(r)
    :: else ->
        look_and(r, true)
    fi
#else
    await_space(r);
    look(r)
#endif
}

/* Who waits for the result is woken; who waits for space takes what there is when it is. */
inline publish(r)
{
#if defined(ALONG) && !defined(ALONG_COMMITTED_FIRST) /* mutant */
    if
    :: !along -> take(r)
    :: else
    fi;
#else
    take(r);
#endif
#ifdef PUBLISHED_UNFILLED /* mutant */
    head[r]++;
    slot[r * S + (head[r] - 1) % S] = head[r];
#else
    atomic { slot[r * S + head[r] % S] = head[r] + 1; head[r]++ }; /* PUBLISH; ALONG: publish */
#endif
    d_step {
        for (k : 0 .. N - 1) {
            if
            :: done[k] && on[k] == SPACE(k) + 1 -> on[k] = 0
            :: else
            fi
        }
        k = 0
    }
}

/* Something else between two iterations. It may last until whoever wants the copy has had it. */
inline pause(r)
{
#ifndef ALONG_PAUSED /* mutant */
    take(r);
#endif
    !WANTED(r) || COPIER_IS_DEAD                            /* pause */
}

#define IS_OVER(i) (state[i] == LEFT || (LIVES(i) && done[i]) || (!LIVES(i) && given_up[i]))
#define IS_OVER_BUT(i, r) ((i) == (r) || IS_OVER(i))

/* Who is done publishes nothing more: so first that, then what is published. Who has left may come
 * again, and do. */
inline stay(r)
{
#ifdef ALONG
    take(r);
#endif
    do
    :: true ->
#if R > 0
        atomic { over = ALL2(IS_OVER_BUT, r); want = (over -> PUBLISHED : 0) };
#else
        over = ALL2(IS_OVER_BUT, r);
#endif
        if
        :: HAS_NEWS(r) ->
            look(r);
            take(r)
        :: else ->
            if
            :: over -> break
            :: else -> sleep_on(r, SPACE(r), HAS_NEWS(r) || ALL2(IS_OVER_BUT, r))
            fi
        fi;
        over = false
    od;
    over = false;
#if R > 0
    atomic { has_all = (want & ~lost & ~content[r]) == 0; assert(has_all); want = 0 }
#else
    atomic { has_all = content[r] == (PUBLISHED & ~lost); assert(has_all) }
#endif
}

inline leave(r)
{
    done[r] = true;                                         /* DONE */
    wake_writers();
    if
    :: STAYS(r) -> stay(r)
    :: else
    fi;
    do                                                      /* LEAVE: in turns */
    :: atomic { LOCK_FREE -> lock = r + 1 }; break
#ifndef LEAVER_NOT_TAKING /* mutant */
    :: !LOCK_FREE && (open || HAS_NEWS(r)) ->
        take(r);
        look(r);
        take(r)
#endif
    od;
    whole[r] = false;                                       /* LEAVE: not whole */
#ifdef BASE_NAMED_EARLY /* mutant */
    base = r;
#endif
    take(r);
#ifndef LEFT_BEHIND /* mutant: not what others published */
    look(r);
    take(r);
#endif
    base = r;                                               /* LEAVE: base */
#ifdef ALONG
    atomic { lock = 0; along = false };
#else
    lock = 0;
#endif
    state[r] = LEFT;                                        /* LEAVE: left */
    atomic { wake_writers(); wake_both(WORK, NEWS) }
}

proctype learner(byte i)
{
    byte k, n, upto[N], source, mine, saw;
#ifdef COMMITTED_FIRST
    byte since[N];
#endif
#if R > 0
    byte want;
#endif
    bool room, over, open, rests;
#ifdef ALONG
    bool along;   /* the last look counted its own; in the next iteration it looks no more */
    bool stepped; /* the copy has what was looked at */
#endif
    do
    :: true ->
        {
#ifdef SCENE
            if
            :: state[i] == TAKEN
            :: else -> join(i)
            fi;
#else
            join(i);
#endif
            do
            :: head[i] < COUNT(i) ->
                refresh(i);
                slot[i * S + head[i] % S] = 0;              /* FILL */
#ifdef ALONG
                if
                :: GOES_ALONG(i) -> go_along(i)
                :: true
                fi;
#endif
#ifdef ALONG_DROPPED /* mutant */
                if
                :: along
                :: publish(i)
                fi;
#else
                publish(i);
#endif
#ifdef ALONG
#ifdef ALONG_QUIET_EARLY /* mutant */
                end_change(i);
#endif
                if
                :: along -> take(i)                         /* ALONG: commit */
                :: true
                fi;
#endif
#ifdef PAUSES
                pause(i)
#endif
#if R > 0
            :: atomic { again < R -> again++; coming[i] = true; break }
#endif
            :: head[i] == COUNT(i) -> break
            od;
#ifdef OPEN
            if
#ifdef ALONG
            :: take(i); look_and(i, true)
#else
            :: look(i)
#endif
            :: true
            fi;
#endif
            leave(i);
#if R > 0
            if
            :: coming[i]
            :: else -> break
            fi
#else
            break
#endif
        } unless {
            dead[i] -> d_step {
                for (k : 0 .. N - 1) { upto[k] = 0 }
                k = 0; n = 0; source = 0; mine = 0; saw = 0; room = false; over = false; open = false;
                rests = false;
#ifdef ALONG
                along = false; stepped = false;
#endif
#if R > 0
                coming[i] = false; want = 0;
#endif
                on[i] = 0
            }
        };
        if                                                  /* what the watchdog does about it */
        :: !dead[i]
        :: dead[i] ->
            if
            :: state[i] == TAKEN -> bury()
            :: true
            fi;
            if
#ifndef GIVE_UP
            :: atomic { true -> whole[i] = false; state[i] = DEAD; dead[i] = false; /* starts it again */
                    copier = (copier == i + 1 -> 0 : copier) };
                wake_writers()
#endif
            :: given_up[i] = true;                          /* gives it up */
                wake_writers();
                break
            fi
        fi
    od
}

/* ---- the watchdog ---- */

#define IS_ENDED(i) ((state[i] == LEFT && !IS_COMING(i)) || given_up[i])

#if K > 0
proctype watchdog()
{
    byte k, source, shots;
    bool rests;
    do
    :: shots < K && !ALL(IS_ENDED) ->
        hold_source(WATCHDOG);
        atomic {                                            /* SNAPSHOT */
            consistent = IS_EXACT(source);
            assert(consistent);
            saved = content[source]
        };
        let_go();
        shots++
    :: break
    od;
    shots = 0
}
#endif

#if D > 0
#define SITS_NOT(i) (state[i] != TAKEN && state[i] != LEFT)

/* Nobody is there: all starts from the last snapshot, or from the base. */
active proctype restorer()
{
    byte k;
end:
    do
    :: d_step { deaths > 0 && ALL(SITS_NOT) && copier != WATCHDOG + 1 -> /* RESTORE */
            base = FIRST_BASE;
            content[FIRST_BASE] = saved;
            lost = PUBLISHED & ~saved;
            for (k : 0 .. N - 1) { taken[FIRST_BASE * N + k] = head[k] }
            k = 0
        }
    od
}

/* ---- time and death ---- */

/* Waits are timed, but time only matters where somebody died: as long as all live, wake-ups must do.
 * When nothing moves, all slices run out. The budget makes a job that would look again and again,
 * and get nowhere, an invalid end state. */
active proctype clock()
{
    byte k, budget = 3 * D;
end:
    do
#ifndef WAITS_UNTIMED /* mutant */
    :: atomic { timeout && deaths > 0 && budget > 0 ->
            budget--;
            for (k : 0 .. N) { on[k] = 0 }
            k = 0
        }
#else
    :: false
#endif
    od
}

#define CAN_DIE(i) (deaths < D && ((MORTAL >> (i)) & 1) && !dead[i] && !given_up[i] && state[i] != LEFT)
#define DIE(i) dead[i] = true; deaths++; lock = (lock == (i) + 1 -> ORPHANED : lock)

active proctype fate()
{
end:
    do
    :: atomic { CAN_DIE(0) -> DIE(0) }
    :: atomic { CAN_DIE(1) -> DIE(1) }
#if N == 3
    :: atomic { CAN_DIE(2) -> DIE(2) }
#endif
    od
}
#endif

#define HAS_PUBLISHED(i) (given_up[i] || head[i] == COUNT(i))
#define HAS_STAYED(i) (state[i] == LEFT && STAYS(i))
#if N == 3
#define ANY_STAYED (HAS_STAYED(0) || HAS_STAYED(1) || HAS_STAYED(2))
#else
#define ANY_STAYED (HAS_STAYED(0) || HAS_STAYED(1))
#endif

init
{
    atomic {
#ifdef SCENE
        state[1] = TAKEN; reads[1] = true; whole[1] = true; quiet[1] = true;
        state[N - 1] = TAKEN; reads[N - 1] = true; whole[N - 1] = true; quiet[N - 1] = true;
#endif
        run learner(0);
        run learner(1);
#if N == 3
        run learner(2);
#endif
#if K > 0
        run watchdog()
#endif
    };
    d_step {
        ALL(IS_ENDED) && LOCK_FREE;
        has_all = ALL(HAS_PUBLISHED);
        assert(has_all);
        has_all = (D > 0 && (R > 0 || !ANY_STAYED)) || content[base] == (PUBLISHED & ~lost);
        assert(has_all);
        has_all = D > 0 || lost == 0;
        assert(has_all)
    }
}
