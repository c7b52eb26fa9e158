/* Large layers that all learners have in common, in two sets: one is read while the next is made.
 * What a set lacks still, each learner has on a pile of its own. Anybody may die at any step.
 * verify/README.md says what is modelled; comments "sets.pml: ADOPT" in src/local/ mark each step:
 * BEGIN, MAKE, SPACE, LOOK, ADOPT, TAKE, COMMIT, READ, PUBLISH, SETTLE, REST, COPY, JOIN, LEAVE,
 * BURY, DIE.
 *
 * -DN=n  learners       -DS=n  slots of each      -DG=n -DG0=n -DG1=n -DG2=n  gradients of each
 * -DT=n  a pile of so many is made into a set     -DK=n  copies that somebody takes (a snapshot)
 * -DD=n  deaths         -DMORTAL=mask  of whom; N is who copies
 * -DSTAY=mask  who stays for the result           -DCOMES  the seat of a dead one is taken again
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
#ifndef T
#define T 1
#endif
#ifndef D
#define D 0
#endif
#ifndef MORTAL
#define MORTAL 15
#endif
#ifndef K
#define K 0
#endif
#ifndef STAY
#define STAY 7
#endif
#define COUNT(i) ((i) == 0 -> G0 : ((i) == 1 -> G1 : G2))
#define STAYS(i) ((STAY >> (i)) & 1)

#define FIRST_BASE N /* a row of taken[], a value of base: what the region was filled with */
#define COPIER N     /* a sleeper, an owner of locks */
#define ORPHANED (N + 2)

#define SPACE(i) (i)
#define NEWS N        /* a set may have no readers any more */
#define WORK (N + 1)  /* who rests may go on */
#define RESTS (N + 2) /* or rests */

#define TAKEN 1
#define DEAD 2
#define LEFT 3

byte state[N] = TAKEN;  /* of seats */
bool reads[N] = true;   /* its row of taken[] counts */
bool whole[N] = true;   /* it may be copied; no longer when buried */
bool done[N], given_up[N];
byte head[N];           /* published */
#ifdef COMES
byte taken[(N + 1) * N]; /* of each reader, and of the first base: how many of each writer */
byte base = FIRST_BASE; /* whose row, and copy, who comes begins with if nobody is there */
byte lost;              /* what nobody has any more, though it counts */
#else
byte taken[N * N];
#define lost 0
#endif

#ifdef NUMBERED_FROM_ZERO /* mutant: "reads the set before" is then the same word as "reads none" */
#define FIRST_SET 0
#else
#define FIRST_SET 1
#endif
byte set = FIRST_SET;   /* the current one; number s lies in buffer s % 2 */
byte counts[2 * N];     /* of each buffer: how many of each writer are in it */
byte used[N];           /* 0: reads none; 1 + the number of the set that it has pinned */
bool draining;          /* somebody waits for a set to have no readers */
byte maker;             /* a lock: 0, or its owner + 1; robust */

byte copying;           /* another: who copies, or leaves */
byte wisher;            /* who has written down that it copies, + 1 */
byte ticket;            /* under that lock */
byte hold, held;        /* words: whose copy is wanted, and the how manieth time; who rests for that */

byte on[N + 1];         /* what one sleeps on, + 1; or took a key of */
bool dead[N + 1];
byte deaths;

byte half[4];           /* what is really in each half of each buffer: a bit per writer and number */
byte writing;           /* the buffer that is half written, + 1 */
bool filling[N];        /* it has begun with the slot of its next one */
byte pile[N];           /* a learner's own: what it has taken, and its set lacks */

/* Names for what is asserted. */
bool apart = true, exactly_once = true, right_view = true, right_gradient = true, exact = true;
bool fits = true, has_all = true;

#define BIT(w, n) (1 << ((w) * G + (n)))
#define FIRST(w, n) (((1 << (n)) - 1) << ((w) * G))
#define MORE(a, b) ((a) > (b) -> (a) : (b))
#define SIZE(x) (((x) & 1) + (((x) >> 1) & 1) + (((x) >> 2) & 1) + (((x) >> 3) & 1) + \
                 (((x) >> 4) & 1) + (((x) >> 5) & 1) + (((x) >> 6) & 1) + (((x) >> 7) & 1))
#define BUFFER(s) ((s) & 1)
#define IN(b, w) counts[(b) * N + (w)]
#define OF(r, w) taken[(r) * N + (w)]
#define AT_LEAST(b, r, w) FIRST(w, MORE(IN(b, w), OF(r, w)))
#if N == 3
#define ROW(r) ((FIRST(0, OF(r, 0)) | FIRST(1, OF(r, 1)) | FIRST(2, OF(r, 2))) & ~lost)
#define CONTENT(b) ((FIRST(0, IN(b, 0)) | FIRST(1, IN(b, 1)) | FIRST(2, IN(b, 2))) & ~lost)
#define VIEW(b, r) ((AT_LEAST(b, r, 0) | AT_LEAST(b, r, 1) | AT_LEAST(b, r, 2)) & ~lost)
#define PUBLISHED ((FIRST(0, head[0]) | FIRST(1, head[1]) | FIRST(2, head[2])) & ~lost)
#define ALL(what) (what(0) && what(1) && what(2))
#define ALL2(what, x) (what(0, x) && what(1, x) && what(2, x))
#else
#define ROW(r) ((FIRST(0, OF(r, 0)) | FIRST(1, OF(r, 1))) & ~lost)
#define CONTENT(b) ((FIRST(0, IN(b, 0)) | FIRST(1, IN(b, 1))) & ~lost)
#define VIEW(b, r) ((AT_LEAST(b, r, 0) | AT_LEAST(b, r, 1)) & ~lost)
#define PUBLISHED ((FIRST(0, head[0]) | FIRST(1, head[1])) & ~lost)
#define ALL(what) (what(0) && what(1))
#define ALL2(what, x) (what(0, x) && what(1, x))
#endif

/* ---- waiting ---- */

/* An event count, as in replicas.pml: on[] from the key on, taken back by whoever wakes. */
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
    :: atomic { ready -> on[who] = 0 }
    :: else -> on[who] == 0
    fi
}

#define LIVES(i) (state[i] == TAKEN && !dead[i])
#define DEAD_READER(i) (dead[i] && state[i] == TAKEN)
#define NOT_DEAD_READER(i) (!DEAD_READER(i))
#define ANY_DEAD (!ALL(NOT_DEAD_READER))

/* First nobody may take its copy any more, then what it has pinned may be overwritten. */
inline bury()
{
#ifdef PINNED_BY_THE_DEAD /* mutant */
    skip
#else
#ifndef COPIED_WHEN_DEAD /* mutant */
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
#ifndef COPIED_WHEN_DEAD
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

/* ---- sets ---- */

/* Who no longer reads a set wakes whoever waits for that. Either it sees the flag, or who has set it
 * sees that nobody reads. */
inline unpin(r)
{
#ifndef UNPINNED_LATE /* mutant */
    atomic { used[r] = 0; s = 0 };                          /* BEGIN: unpin */
#endif
#ifndef UNPINNED_UNWOKEN /* mutant */
    if
    :: atomic { draining -> wake(NEWS) }                    /* BEGIN: wake */
    :: else
    fi
#endif
#ifdef UNPINNED_LATE
    ;
    atomic { used[r] = 0; s = 0 }
#endif
}

/* Between the look at the number and the pin two more sets may be made. Until it has looked again it
 * has pinned nothing that it may read; but who wants that set gone may have seen it, and sleep. */
inline adopt(r)
{
    do
    :: true ->
        s = set;                                            /* ADOPT: look */
        used[r] = s + 1;                                    /* ADOPT: pin */
#ifdef ADOPTED_UNCHECKED /* mutant */
        break
#else
        if
        :: set == s -> break                                /* ADOPT: check */
#ifdef ADOPTED_UNWOKEN /* mutant */
        :: else
#else
        :: else -> unpin(r)
#endif
        fi
#endif
    od
}

#define LOCK_FREE(lock) (lock == 0 || lock == ORPHANED)

#ifdef RESTING_OVERLOOKED /* mutant */
#define READS_OLD(q, old) (state[q] == TAKEN && used[q] == (old) + 1 && (hold & 3) != (q) + 1)
#else
#define READS_OLD(q, old) (state[q] == TAKEN && used[q] == (old) + 1)
#endif
#define NOT_OLD(q, old) (!READS_OLD(q, old))
#define IS_DRAINED ALL2(NOT_OLD, set - 1)

inline drain(r)
{
#if !defined(UNFLAGGED) && !defined(FLAGGED_LATE) /* mutants: never, and after the last look */
    draining = true;                                        /* MAKE: flag */
#endif
    do
    :: true ->
#if N > 2 /* one after the other: who was seen not to read the old set can pin it only in vain */
        drained = NOT_OLD(0, set - 1);                      /* MAKE: look */
        atomic { drained = drained && NOT_OLD(1, set - 1) };
        atomic { drained = drained && NOT_OLD(2, set - 1) };
        if
        :: atomic { drained -> drained = false; break }
#else
        if
        :: IS_DRAINED -> break
#endif
        :: else
        fi;
#ifdef FLAGGED_LATE
        on[r] = NEWS + 1;
        if
        :: atomic { IS_DRAINED -> on[r] = 0 }
        :: else -> draining = true; on[r] == 0
        fi;
#else
        sleep_on(r, NEWS, IS_DRAINED);
#endif
        if
        :: ANY_DEAD -> bury()
        :: else
        fi
    od;
    draining = false
}

#ifdef COUNTS_OF_MAKER /* mutant */
#define NEW_COUNT(r, w) OF(r, w)
#else
#define NEW_COUNT(r, w) MORE(IN(BUFFER(set), w), OF(r, w))
#endif

inline write_half(r, h)
{
    d_step {
        writing = BUFFER(set + 1) + 1;
        exactly_once = (half[BUFFER(set) * 2 + h] & pile[r]) == 0;
        assert(exactly_once);
        half[BUFFER(set + 1) * 2 + h] = half[BUFFER(set) * 2 + h] | pile[r]
    }
}

inline write_counts(r, to)
{
    d_step {
        for (k : 0 .. N - 1) { IN(to, k) = NEW_COUNT(r, k) }
        k = 0
    }
}

/* Under the lock: so the current set stays so, and may be read without a pin. Who dies has written
 * where nobody reads: the next one writes it again. */
inline make(r, needed)
{
#ifndef MADE_UNDROPPED /* mutant */
    pile[r] = pile[r] & ~CONTENT(BUFFER(set));              /* MAKE: drop */
#endif
    if
    :: needed ->
#ifdef COUNTED_EARLY /* mutant */
        write_counts(r, BUFFER(set + 1));
#endif
#ifndef READERS_NOT_AWAITED /* mutant */
        drain(r);
#endif
        write_half(r, 0);                                   /* MAKE: write */
#ifndef COMMITTED_HALF /* mutant */
        write_half(r, 1);
#endif
#ifndef COUNTED_LATER /* mutant */
        write_counts(r, BUFFER(set + 1));                   /* MAKE: counts */
#endif
        atomic { set++; writing = 0; pile[r] = 0 }          /* MAKE: commit */
#ifdef COMMITTED_HALF
        ;
        half[BUFFER(set) * 2 + 1] = half[BUFFER(set) * 2]
#endif
#ifdef COUNTED_LATER
        ;
        d_step {
            for (k : 0 .. N - 1) { IN(BUFFER(set), k) = MORE(IN(BUFFER(set - 1), k), OF(r, k)) }
            k = 0
        }
#endif
    :: else
    fi
}

inline take_lock(r, lock)
{
    atomic { LOCK_FREE(lock) -> lock = (r) + 1 }
}

#define IS_FULL(r) (SIZE(pile[r]) >= T)

inline make_if_full(r)
{
    if
    :: IS_FULL(r) ->
#ifndef MADE_UNLOCKED /* mutant */
        take_lock(r, maker);                                /* MAKE: lock */
#endif
        make(r, IS_FULL(r));
        maker = 0                                           /* MAKE: unlock */
    :: else
    fi
}

/* ---- gradients ---- */

#define HAS_ALL_OF(w, r) (OF(r, w) == head[w])
#define HAS_NEWS(r) (!ALL2(HAS_ALL_OF, r))
#define HAS_ROOM(q, w) (state[q] != TAKEN || !reads[q] || head[w] - OF(q, w) < S)
#define HAS_SPACE(w) (ALL2(HAS_ROOM, w))

/* One after the other: of three learners two may have looked so that neither has all that the other
 * has. (Of two, one count is the own: that is one step.) */
inline look(r)
{
#if N > 2
    upto[0] = head[0];
    upto[1] = head[1];
    upto[2] = head[2]                                       /* LOOK */
#else
    d_step { for (k : 0 .. N - 1) { upto[k] = head[k] } k = 0 } /* LOOK */
#endif
}

/* What the pinned set has already goes past the pile. Who has pinned none piles up everything. */
#ifdef SKIPPED_NOTHING /* mutant */
#define SKIPS(w, n) false
#else
#define SKIPS(w, n) (s > 0 && (n) < IN(BUFFER(s), w))
#endif
#ifdef PILE_KEPT /* mutant */
#define DROP(r) skip
#else
#define DROP(r) pile[r] = pile[r] & ~(s > 0 -> CONTENT(BUFFER(s)) : 0)
#endif

/* Nobody else sees what is piled up before it counts, so both are one step; what it reads, slots and
 * the counts of its set, must stand still until then. */
inline take(r)
{
    d_step {
        DROP(r);                                            /* ADOPT: drop */
        for (k : 0 .. N - 1) {
            for (n : OF(r, k) .. upto[k] - 1) {             /* TAKE */
                if
                :: SKIPS(k, n)
                :: else ->
                    right_gradient = head[k] + filling[k] - n <= S;
                    assert(right_gradient);
                    exactly_once = (pile[r] & BIT(k, n)) == 0;
                    assert(exactly_once);
                    pile[r] = pile[r] | BIT(k, n)
                fi
            }
            if
            :: upto[k] > OF(r, k) && on[k] == SPACE(k) + 1 -> on[k] = 0
            :: else
            fi;
            OF(r, k) = MORE(OF(r, k), upto[k]);             /* COMMIT */
            upto[k] = 0
        }
        k = 0;
        n = 0;
        fits = SIZE(pile[r]) <= T - 1 + N * S;
        assert(fits)
    }
}

#define OVERSLEEPS(i) (on[i] == NEWS + 1 && IS_DRAINED)
#define SLEEPS_NOT_TOO_LONG(i) (!OVERSLEEPS(i))
#define NOBODY_OVERSLEEPS (deaths > 0 || ALL(SLEEPS_NOT_TOO_LONG))
#define IS_RIGHT(r, x) (((x) | pile[r]) == VIEW(BUFFER(s), r))

/* Forward and back, from ADOPT on. Nothing of that may have changed at the end of it, which is all
 * that is looked at. The program takes its time: as long as somebody sleeps whom nothing holds up. */
inline read_and_publish(r)
{
    d_step {                                                /* READ */
        NOBODY_OVERSLEEPS ->
        apart = writing != BUFFER(s) + 1 && set - s <= 1;
        assert(apart);
        exactly_once = (half[BUFFER(s) * 2] & pile[r]) == 0 && (half[BUFFER(s) * 2 + 1] & pile[r]) == 0;
        assert(exactly_once);
        right_view = IS_RIGHT(r, half[BUFFER(s) * 2]) && IS_RIGHT(r, half[BUFFER(s) * 2 + 1]);
        assert(right_view);
        filling[r] = false;
        head[r]++;                                          /* PUBLISH */
        for (k : 0 .. N - 1) {
            if
            :: done[k] && on[k] == SPACE(k) + 1 -> on[k] = 0
            :: else
            fi
        }
        k = 0
    }
}

/* ---- an exact copy ---- */

#define WORD(target) (ticket * 4 + (target) + 1)
#define WANTED(i) ((hold & 3) == (i) + 1)
#define WISHER_IS_DEAD (wisher == 0 || dead[wisher - 1])

#ifdef SETTLED_UNPINNED /* mutant */
#define PINNED(r) BUFFER(set)
#else
#define PINNED(r) BUFFER(used[r] - 1)
#endif
#define LACKS(b, r) (CONTENT(b) != ROW(r))

/* Nobody else makes a set meanwhile, and a set has nothing in it that is not published. So what was
 * looked at under the lock is all that the current one has, or more. */
inline settle(r)
{
    unpin(r);
#ifdef SETTLED_UNLOCKED /* mutant: looks before it has the lock */
    look(r);
    take(r);
    take_lock(r, maker);
#else
    take_lock(r, maker);                                    /* SETTLE: lock */
    look(r);
    take(r);                                                /* SETTLE: take */
#endif
#ifdef SETTLED_IF_FULL /* mutant */
    make(r, IS_FULL(r));
#else
    make(r, LACKS(BUFFER(set), r));                         /* SETTLE: make */
#endif
#ifdef PINNED_UNLOCKED /* mutant */
    maker = 0;
    used[r] = set + 1
#else
#ifndef SETTLED_UNPINNED
    used[r] = set + 1;                                      /* SETTLE: pin */
#endif
    maker = 0
#endif
}

/* As in replicas.pml: the wish of a dead one is taken off, that very one. */
inline rest(r)
{
#if K > 0 || defined(COMES)
    if
    :: atomic { WANTED(r) -> mine = hold };
#ifdef RESTED_UNSETTLED /* mutant */
        unpin(r);
        adopt(r);
#else
        settle(r);
#endif
        held = mine;                                        /* REST */
        wake(RESTS);
        do
        :: hold == mine ->
            sleep_on(r, WORK, hold != mine);
            if
            :: WISHER_IS_DEAD -> atomic { hold = (hold == mine -> 0 : hold) }
            :: else
            fi
        :: atomic { hold != mine -> mine = 0; break }
        od;
        unpin(r)
    :: else
    fi
#else
    skip
#endif
}

#define IS_SOURCE(i, by) ((i) != (by) && LIVES(i) && whole[i] && reads[i])
#define NO_SOURCE(i, by) (!IS_SOURCE(i, by))
#define IS_GONE (!LIVES(source) || !whole[source])
#define IS_HELD (held == hold)

#ifdef COMES
#define BASE base
#else
#define BASE FIRST_BASE
#endif

/* Under the lock: chooses a source and waits until it rests; or the base. */
inline hold_source(by)
{
    atomic { LOCK_FREE(copying) -> copying = (by) + 1; wisher = (by) + 1 };
    do
    :: atomic { ALL2(NO_SOURCE, by) -> source = BASE }; break
    :: else ->
        if
        :: atomic { IS_SOURCE(0, by) -> source = 0 }
        :: atomic { IS_SOURCE(1, by) -> source = 1 }
#if N == 3
        :: atomic { IS_SOURCE(2, by) -> source = 2 }
#endif
        :: atomic { ALL2(NO_SOURCE, by) -> source = BASE; break }
        fi;
        atomic { ticket++; hold = WORD(source) };
        wake_both(SPACE(source), WORK);
        do
        :: atomic { IS_HELD -> rests = true; break }
        :: atomic { !IS_HELD && IS_GONE -> break }          /* another one */
        :: else -> sleep_on(by, RESTS, IS_HELD || IS_GONE)
        od;
        if
        :: atomic { rests -> rests = false; break }
        :: else
        fi
    od
}

/* What is in `held` says nothing any more: the next ticket is another. */
inline let_go()
{
    hold = 0;
    wake(WORK);
    atomic { source = 0; wisher = 0; held = 0; copying = 0 }
}

/* ---- learners ---- */

#ifdef COMES
/* As in replicas.pml: who died may have been filling the slot after its last one. Of what cannot be
 * read any more only that is lost which no set has. */
#define IS_FAR(w) (head[w] - OF(base, w) >= S)

inline skip_far()
{
    for (k : 0 .. N - 1) {
        if
        :: IS_FAR(k) ->
            lost = lost | (FIRST(k, head[k]) & ~FIRST(k, MORE(OF(base, k), IN(BUFFER(set), k))));
            OF(base, k) = head[k]
        :: else
        fi
    }
    k = 0
}

/* Its row says what its own layers have. The current set has all of that, or more: the source has
 * settled, and who left had, too. So it begins with an empty pile. */
inline join(r)
{
    d_step {                                                /* JOIN: sit down */
        reads[r] = false; whole[r] = false; done[r] = false;
#ifndef PIN_INHERITED /* mutant */
        used[r] = 0;
#endif
        state[r] = TAKEN
    };
    do
    :: true ->
        hold_source(r);
        if
        :: source == base -> d_step { skip_far() }
        :: else
        fi;
        d_step { for (k : 0 .. N - 1) { OF(r, k) = OF(source, k) } k = 0 }; /* JOIN: row */
        reads[r] = true;
        if
        :: source != base && !whole[source] -> reads[r] = false; let_go()
        :: else -> break
        fi
    od;
    whole[r] = true;
    let_go()
}
#endif

/* Who waits goes on taking, with no set pinned. */
inline await_space(r)
{
    do
    :: atomic { HAS_SPACE(r) -> filling[r] = true; break }  /* SPACE */
    :: else ->
        rest(r);
        look(r);
        take(r);
        make_if_full(r);
        sleep_on(r, SPACE(r), HAS_SPACE(r) || HAS_NEWS(r) || WANTED(r));
        if
        :: ANY_DEAD -> bury()
        :: else
        fi
    od
}

inline iterate(r)
{
#ifndef AWAITED_PINNED /* mutant: unpins only when it has room */
    unpin(r);
#endif
    make_if_full(r);
    rest(r);
    await_space(r);
#ifdef AWAITED_PINNED
    unpin(r);
#endif
    look(r);
    adopt(r);
    take(r);
#ifdef UNPINNED_EARLY /* mutant */
    atomic { used[r] = 0; wake(NEWS) };
#endif
    read_and_publish(r)
}

#define IS_OVER(i) (state[i] == LEFT || (LIVES(i) && done[i]) || (!LIVES(i) && given_up[i]))
#define IS_OVER_BUT(i, r) ((i) == (r) || IS_OVER(i))

/* Who is done publishes nothing more: so first that, then what is published. */
inline stay(r)
{
    do
    :: true ->
        over = ALL2(IS_OVER_BUT, r);
        rest(r);
        if
        :: HAS_NEWS(r) ->
            look(r);
            take(r);
            make_if_full(r)
        :: else ->
            if
            :: over -> break
            :: else -> sleep_on(r, SPACE(r), HAS_NEWS(r) || ALL2(IS_OVER_BUT, r) || WANTED(r))
            fi;
            if
            :: ANY_DEAD -> bury()
            :: else
            fi
        fi;
        over = false
    od;
    adopt(r);
    atomic {
        over = false;
        pile[r] = pile[r] & ~CONTENT(BUFFER(s));
        has_all = (half[BUFFER(s) * 2] | pile[r]) == PUBLISHED &&
                  (half[BUFFER(s) * 2 + 1] | pile[r]) == PUBLISHED;
        assert(has_all)
    }
}

/* In turns with who copies: nobody waits for that with a set pinned, for its owner may wait for who
 * makes a set, and that one for a set to be given up. */
inline leave(r)
{
    atomic { done[r] = true; wake_writers() };
#ifndef LEFT_PINNED /* mutant */
    unpin(r);
#endif
#ifndef LEFT_FULL /* mutant */
    make_if_full(r);
#endif
    if
    :: STAYS(r) -> stay(r); unpin(r)
    :: else
    fi;
#if K > 0 || defined(COMES)
    do                                                      /* LEAVE: in turns */
    :: take_lock(r, copying); break
    :: !LOCK_FREE(copying) && WANTED(r) -> rest(r)
    :: !LOCK_FREE(copying) && HAS_NEWS(r) ->
        look(r);
        take(r);
        make_if_full(r)
    od;
#endif
    whole[r] = false;
    settle(r);
    atomic {
        exact = half[PINNED(r) * 2] == ROW(r) && half[PINNED(r) * 2 + 1] == ROW(r);
        assert(exact)
    };
#ifdef COMES
    base = r;                                               /* LEAVE: base */
#endif
    unpin(r);
#if K > 0 || defined(COMES)
    copying = 0;
#endif
    atomic { state[r] = LEFT; wake_writers(); wake_both(WORK, RESTS) } /* LEAVE */
}

proctype learner(byte i)
{
    byte k, n, upto[N], s, source, mine;
    bool over, rests, drained;
    do
    :: true ->
        {
#ifdef COMES
            if
            :: whole[i]
            :: else -> join(i)
            fi;
#endif
            do
            :: head[i] < COUNT(i) -> iterate(i)
            :: else -> break
            od;
            leave(i);
            break
        } unless {
            dead[i] -> d_step {                             /* DIE: what is its own */
                for (k : 0 .. N - 1) { upto[k] = 0 }
                k = 0; n = 0; s = 0; source = 0; mine = 0; over = false; rests = false; drained = false;
                pile[i] = 0;
                on[i] = 0
            }
        };
        if
        :: !dead[i]
        :: dead[i] ->
#ifdef COMES
            if
            :: state[i] == TAKEN -> bury()
            :: true
            fi;
            if
            :: atomic { true -> whole[i] = false; state[i] = DEAD; dead[i] = false; /* it comes again */
                    wisher = (wisher == i + 1 -> 0 : wisher) };
                wake_writers()
            :: given_up[i] = true;
                wake_writers();
                break
            fi
#else
            given_up[i] = true;
            wake_writers();
            break
#endif
        fi
    od
}

#define IS_ENDED(i) (state[i] == LEFT || given_up[i])

#if K > 0
/* ---- who copies ---- */

/* The set of a dead one is not its own: when that one is buried it may be overwritten. So what was
 * copied counts only if the source was not buried until then. */
active proctype copier()
{
    byte k, source, shots, row, b;
    bool rests, right;
    do
    :: shots < K && !ALL(IS_ENDED) ->
        {
            hold_source(COPIER);
            if
#ifdef COPY_CHECKED_FIRST /* mutant: as is enough for a copy that is its learner's own */
            :: source != BASE && whole[source] ->
#else
            :: source != BASE ->
#endif
                atomic { row = ROW(source); b = PINNED(source) };
                atomic { right = half[b * 2] == row };      /* COPY */
                atomic { right = right && half[b * 2 + 1] == row && ROW(source) == row };
                if
#if !defined(COPY_UNCHECKED) && !defined(COPY_CHECKED_FIRST) /* mutants */
                :: !whole[source]                           /* COPY: thrown away */
#endif
                :: else -> exact = right; assert(exact)
                fi
            :: else
            fi;
            atomic { row = 0; b = 0; right = false };
            let_go();
            shots++
        } unless {
            dead[COPIER] -> break
        }
    :: break
    od;
    atomic { k = 0; source = 0; shots = 0; row = 0; b = 0; right = false; rests = false; on[COPIER] = 0 }
}
#endif

/* ---- time and death ---- */

#if D > 0
/* As in replicas.pml: waits are timed, but time passes only when nothing else moves and somebody has
 * died, and so often at most. */
active proctype clock()
{
    byte k, budget = 3 * D;
end:
    do
    :: atomic { timeout && deaths > 0 && budget > 0 ->
            budget--;
            for (k : 0 .. N) { on[k] = 0 }
            k = 0
        }
    od
}

#ifdef MAKER_DIES_LOCKED /* mutant */
#define ORPHAN(lock, i) lock
#else
#define ORPHAN(lock, i) (lock == (i) + 1 -> ORPHANED : lock)
#endif
#define CAN_DIE(i) (deaths < D && ((MORTAL >> (i)) & 1) && !dead[i] && !given_up[i] && state[i] != LEFT)
#define DIES(i) dead[i] = true; deaths++; maker = ORPHAN(maker, i); \
    copying = (copying == (i) + 1 -> ORPHANED : copying)

active proctype fate()
{
end:
    do
    :: atomic { CAN_DIE(0) -> DIES(0) }                     /* DIE */
    :: atomic { CAN_DIE(1) -> DIES(1) }
#if N == 3
    :: atomic { CAN_DIE(2) -> DIES(2) }
#endif
#if K > 0
    :: atomic { deaths < D && ((MORTAL >> COPIER) & 1) && !dead[COPIER] -> DIES(COPIER) }
#endif
    od
}
#endif

#define HAS_PUBLISHED(i) (given_up[i] || head[i] == COUNT(i))
#define NO_LIVING_END(i) (state[i] != LEFT || !STAYS(i))

init
{
    atomic {
        run learner(0);
        run learner(1);
#if N == 3
        run learner(2)
#endif
    };
    d_step {
        ALL(IS_ENDED);
        has_all = ALL(HAS_PUBLISHED);
        assert(has_all);
        has_all = half[BUFFER(set) * 2] == CONTENT(BUFFER(set)) &&
                  half[BUFFER(set) * 2 + 1] == CONTENT(BUFFER(set));
        assert(has_all);
        has_all = ALL(NO_LIVING_END) || CONTENT(BUFFER(set)) == PUBLISHED;
        assert(has_all)
    }
}
