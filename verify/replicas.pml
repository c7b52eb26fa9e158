/* Shared memory without a server: every learner applies all gradients to a copy of its own, and may
 * die at any step. verify/README.md says what is modelled; src/local/replica.c marks each step
 * ("replicas.pml: COMMIT").
 *
 * -DN=n  seats          -DS=n  slots of each      -DG=n -DG0=n -DG1=n -DG2=n  gradients of each
 * -DD=n  deaths         -DMORTAL=mask  of whom    -DK=n  snapshots
 * -DSTAY=mask  who stays for the result           -DSEATED  a seat is TAKEN before the copy is made
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
#ifndef STAY
#define STAY 7
#endif
#define COUNT(i) ((i) == 0 -> G0 : ((i) == 1 -> G1 : G2))
#define STAYS(i) ((STAY >> (i)) & 1)

#define BASE N     /* an index of copies */
#define WATCHDOG N /* a sleeper and an owner of the lock */
#define ORPHANED (N + 2)

#define SPACE(i) (i)
#define NEWS N
#define HELD (N + 1)

#define FREE 0
#define TAKEN 1
#define DEAD 2
#define LEFT 3

byte state[N];          /* of seats */
bool complete[N];       /* the copy may be copied; no longer when buried */
bool done[N], given_up[N];
byte head[N];           /* published */
byte slot[N * S];       /* the number of the gradient + 1; 0: half full */
byte taken[(N + 1) * N]; /* of each copy: how many of each writer */
bool torn;              /* BASE is being written */
byte joined;            /* joins so far: a look at all readers was whole if it stands still */

byte lock;              /* of copying: 0, or its owner + 1; robust */
byte hold, ticket;      /* one word: whose copy is wanted, + 1, and the how manieth time */
byte held[N];           /* the last ticket for which this one rests */

byte on[N + 1];         /* what one sleeps on, + 1; or took a key of */
bool dead[N];
byte deaths;

byte content[N + 1];    /* what is really in each copy: a bit per writer and number */
byte saved, lost;       /* the last snapshot; what a restore threw away */

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
#define IS_EXACT(c) (content[c] == (VECTOR(c) & ~lost))

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

/* Under the lock of the seats: one step. First no source any more, then no reader. */
inline bury()
{
#ifdef DEAD_UNBURIED /* mutant */
    skip
#else
    d_step {
        for (k : 0 .. N - 1) {
            if
            :: dead[k] && state[k] == TAKEN -> complete[k] = false; state[k] = DEAD /* BURY */
            :: else
            fi
        }
        k = 0
    };
    wake_writers()
#endif
}

#define DEAD_READER(i) (dead[i] && state[i] == TAKEN)
#if N == 3
#define ANY_DEAD (DEAD_READER(0) || DEAD_READER(1) || DEAD_READER(2))
#else
#define ANY_DEAD (DEAD_READER(0) || DEAD_READER(1))
#endif

/* ---- holding somebody's copy ---- */

#define LOCK_FREE (lock == 0 || lock == ORPHANED)

/* Who takes the lock after a dead one lets go whom that one held. */
inline take_up()
{
    if
    :: hold > 0 ->
        atomic { source = hold - 1; hold = 0 };
        atomic { wake(SPACE(source)); source = 0 }
    :: else
    fi
}

#define WANTED(i) (hold == (i) + 1)

/* A place where the copy is exactly taken[]. The ticket tells this hold from the last one, which
 * this one may not have seen the end of. Only who has the lock writes `hold`: it may be somebody
 * else's by now. */
inline rest(r)
{
    do
    :: atomic { WANTED(r) -> mine = ticket };
#ifdef HELD_FLAG /* mutant: one flag for all, taken down by who rested */
        held[0] = 1;
        wake(HELD);
        sleep_on(r, SPACE(r), !WANTED(r));
        held[0] = 0;
#else
        held[r] = mine;                                     /* REST */
        wake(HELD);
#ifdef NOT_RESTING /* mutant: goes on */
        atomic { mine = 0; break };
#endif
        sleep_on(r, SPACE(r), !(WANTED(r) && ticket == mine));
#endif
        if
        :: WANTED(r) && ticket == mine && LOCK_FREE ->
#ifdef TAKEN_OFF_UNLOCKED /* mutant */
            hold = 0
#else
            if
            :: atomic { LOCK_FREE -> lock = r + 1 };        /* TAKE UP: the holder is dead */
                hold = 0;
                lock = 0
            :: else
            fi
#endif
        :: else
        fi
    :: atomic { !WANTED(r) -> mine = 0; break }
    od
}

#define IS_SOURCE(i) (state[i] == TAKEN && complete[i] && !dead[i])
#define NO_SOURCE(i) (!IS_SOURCE(i))

/* BASE is all right if all that it lacks is still in the rings. Who died may have been filling the
 * slot after its last one. */
#ifdef REACH_INCLUSIVE /* mutant */
#define IN_REACH(w) (head[w] - taken[BASE * N + (w)] <= S)
#else
#define IN_REACH(w) (head[w] - taken[BASE * N + (w)] < S)
#endif
#ifdef BASE_UNMARKED /* mutant */
#define USABLE ALL(IN_REACH)
#else
#define USABLE (!torn && ALL(IN_REACH))
#endif

#define IS_GONE (dead[source] || !complete[source])
#ifdef HELD_FLAG
#define IS_HELD (held[0] == 1)
#else
#define IS_HELD (held[source] == ticket)
#endif

/* Chooses a source and has it rest; or BASE. Under the lock. */
inline hold_source(by)
{
    do
#ifdef BASE_PREFERRED /* mutant */
    :: atomic { USABLE -> source = BASE }; break
#endif
    :: atomic { ALL(NO_SOURCE) -> source = BASE }; break
    :: else ->
        if
        :: atomic { IS_SOURCE(0) -> source = 0 }
        :: atomic { IS_SOURCE(1) -> source = 1 }
#if N == 3
        :: atomic { IS_SOURCE(2) -> source = 2 }
#endif
        :: atomic { ALL(NO_SOURCE) -> source = BASE }
        fi;
        if
        :: source == BASE -> break
        :: else
        fi;
        atomic { ticket++; hold = source + 1 };             /* HOLD */
        wake_both(SPACE(source), NEWS);
        do
        :: IS_HELD || IS_GONE -> break
        :: else -> sleep_on(by, HELD, IS_HELD || IS_GONE)
        od;
        if
        :: IS_GONE && !IS_HELD -> hold = 0                  /* another one */
        :: else -> break
        fi
    od
}

inline let_go()
{
    if
    :: source < N ->
        hold = 0;                                           /* LET GO */
        wake(SPACE(source))
    :: else
    fi
}

/* ---- learners ---- */

inline copy_vector(to, from)
{
    for (k : 0 .. N - 1) { taken[(to) * N + k] = taken[(from) * N + k] }
    k = 0
}

inline lock_up(by)
{
    atomic { LOCK_FREE -> lock = (by) + 1 };
    take_up()
}

inline join(r)
{
#ifdef SEATED
    state[r] = TAKEN;
#endif
    lock_up(r);
    do
    :: true ->
        hold_source(r);
        if
        :: source == BASE && !USABLE ->                     /* until the watchdog RESTORES */
            lock = 0;
            USABLE || !ALL(NO_SOURCE);
            lock_up(r)
        :: else ->
            d_step {                                        /* JOIN: copy */
                content[r] = content[source];
                copy_vector(r, source);
                consistent = IS_EXACT(r);
                assert(consistent)
            };
#ifdef COUNTED_LATE /* mutant: as a reader only after the source was let go */
            let_go();
            source = BASE;
#endif
            state[r] = TAKEN;                               /* JOIN: counted */
#if N > 2 && !defined(SAID_LATE)
            joined++;                                       /* JOIN: said */
#endif
            if                                              /* JOIN: check */
#ifndef SOURCE_UNCHECKED /* mutant */
            :: source < N && !complete[source] -> hold = 0  /* it was not counted any more: again */
#endif
            :: else -> break
            fi
        fi
    od;
#ifdef SAID_LATE /* mutant: after the check */
    joined++;
#endif
    complete[r] = true;                                     /* JOIN: complete */
    let_go();
    source = 0;
    lock = 0
}

#ifdef READER_IGNORED /* mutant: looks at one reader too few */
#define HAS_ROOM(q, w) (state[q] != TAKEN || (q) == (w + 1) % N || head[w] - taken[(q) * N + (w)] < S)
#else
#define HAS_ROOM(q, w) (state[q] != TAKEN || head[w] - taken[(q) * N + (w)] < S)
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
#else
#define PUT(r, w, n) content[r] = content[r] | BIT(w, n)
#endif

#ifdef COMMIT_LOST /* mutant: one count stays as it was */
#define COMMIT(r, w) taken[(r) * N + (w)] = ((w) == 0 -> taken[(r) * N] : upto[w])
#else
#define COMMIT(r, w) taken[(r) * N + (w)] = upto[w]
#endif

/* Reading takes a while, all through which a slot must stand still: so it is one step that may come
 * at any time before COMMIT. Each writer looks at its own count only, so that is one step, too. */
inline look(r)
{
    for (k : 0 .. N - 1) { upto[k] = head[k] }              /* LOOK */
    k = 0
}

inline apply(r)
{
    for (k : 0 .. N - 1) {
        for (n : since[k] .. upto[k] - 1) {
            right_gradient = SLOT(k, n) == n + 1;
            assert(right_gradient);
            exactly_once = (content[r] & BIT(k, n)) == 0;
            assert(exactly_once);
            PUT(r, k, n)
        }
        since[k] = 0
    }
    k = 0;
    n = 0
}

inline catch_up(r)
{
    if
    :: HAS_NEWS(r) ->
#ifdef COMMITTED_FIRST /* mutant: the slots are free before they were read */
        d_step {
            look(r);
            for (k : 0 .. N - 1) { since[k] = taken[r * N + k]; taken[r * N + k] = upto[k] }
            k = 0
        };
        wake_writers();
        d_step { apply(r); upto[0] = 0; upto[1] = 0; upto[N - 1] = 0 }
#else
        d_step {                                            /* LOOK, APPLY */
            look(r);
            for (k : 0 .. N - 1) { since[k] = taken[r * N + k] }
            k = 0;
            apply(r)
        };
        d_step {                                            /* COMMIT */
            for (k : 0 .. N - 1) { COMMIT(r, k); upto[k] = 0 }
            k = 0
        };
#ifndef COMMIT_UNWOKEN /* mutant */
        wake_writers()                                      /* WAKE */
#endif
#endif
    :: else
    fi
}

/* Wakes are one step for all writers: one that is woken later is one that comes later. */
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
        if /* of two, the other one only: it cannot join while this one looks */
        :: HAS_SPACE(r) -> break
        :: else
        fi;
#endif
        rest(r);
#ifndef NOT_CONSUMING /* mutant */
        catch_up(r);
#endif
        sleep_on(r, SPACE(r), HAS_SPACE(r) || WANTED(r));
        if
        :: ANY_DEAD -> bury()
        :: else
        fi
    od;
    room = false
}

inline publish(r)
{
#ifdef PUBLISHED_UNFILLED /* mutant */
    slot[r * S + head[r] % S] = 0;
    head[r]++;
    slot[r * S + (head[r] - 1) % S] = head[r];
#else
    slot[r * S + head[r] % S] = 0;                          /* FILL */
    atomic { slot[r * S + head[r] % S] = head[r] + 1; head[r]++ }; /* PUBLISH */
#endif
    wake(NEWS)
}

#define IS_OVER(i) (done[i] || given_up[i])
#define IS_OVER_BUT(i, r) ((i) == (r) || IS_OVER(i))

/* Who is done publishes nothing more: so first that, then what is published. */
inline stay(r)
{
    do
    :: true ->
        rest(r);
        over = ALL2(IS_OVER_BUT, r);
        if
        :: HAS_NEWS(r) -> catch_up(r)
        :: else ->
            if
            :: over -> break
            :: else -> sleep_on(r, NEWS, HAS_NEWS(r) || ALL2(IS_OVER_BUT, r) || WANTED(r))
            fi
        fi;
        over = false
    od;
    over = false;
    atomic { has_all = content[r] == (PUBLISHED & ~lost); assert(has_all) }
}

#if N == 3
#define SUM(c) (taken[(c) * N] + taken[(c) * N + 1] + taken[(c) * N + 2])
#else
#define SUM(c) (taken[(c) * N] + taken[(c) * N + 1])
#endif

inline leave(r)
{
    done[r] = true;                                         /* DONE */
    wake(NEWS);
    if
    :: STAYS(r) -> stay(r)
#ifdef LEFT_BEHIND /* mutant: does not even take its own */
    :: else
#else
    :: else -> catch_up(r)
#endif
    fi;
    do                                                      /* LEAVE: rests while it waits for the lock */
    :: atomic { LOCK_FREE -> lock = r + 1 }; break
#ifndef LEAVER_NOT_RESTING /* mutant */
    :: WANTED(r) -> rest(r)
#endif
    od;
    take_up();
    if
    :: torn || SUM(r) > SUM(BASE) ->
        torn = true;                                        /* LEAVE: mark */
        content[BASE] = content[r];
        d_step { copy_vector(BASE, r) };
        torn = false                                        /* LEAVE: unmark */
    :: else
    fi;
    state[r] = LEFT;                                        /* LEAVE: left */
    wake_writers();
    lock = 0
}

proctype learner(byte i)
{
    byte k, n, upto[N], since[N], source, mine, saw;
    bool room, over;
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
                rest(i);
                await_space(i);
                catch_up(i);
                publish(i)
            :: else -> break
            od;
            leave(i);
            break
        } unless {
            dead[i] -> d_step {
                for (k : 0 .. N - 1) { upto[k] = 0; since[k] = 0 }
                k = 0; n = 0; source = 0; mine = 0; saw = 0; room = false; over = false;
                on[i] = 0
            }
        };
        if                                                  /* what the watchdog does about it */
        :: state[i] == LEFT -> break
        :: state[i] == TAKEN -> bury()
        :: state[i] != LEFT
        fi;
        if
#ifndef GIVE_UP
        :: atomic { state[i] != LEFT -> complete[i] = false; state[i] = DEAD; dead[i] = false }; /* starts it again */
            wake_writers()
#endif
        :: atomic { state[i] != LEFT -> given_up[i] = true }; /* gives it up */
            wake(NEWS);
            break
        fi
    od
}

/* ---- the watchdog ---- */

#define IS_ENDED(i) (state[i] == LEFT || given_up[i])

#if K > 0
proctype watchdog()
{
    byte k, source, shots;
    do
    :: shots < K && !ALL(IS_ENDED) ->
        lock_up(WATCHDOG);
        hold_source(WATCHDOG);
        atomic {                                            /* SNAPSHOT */
            if
            :: source < N || !torn ->
                consistent = IS_EXACT(source);
                assert(consistent);
                saved = content[source]
            :: else
            fi
        };
        let_go();
        source = 0;
        lock = 0;
        shots++
    :: break
    od;
    shots = 0
}
#endif

#define COMES(i) (!dead[i] && state[i] != LEFT && !complete[i])
#if N == 3
#define SOMEBODY_COMES (COMES(0) || COMES(1) || COMES(2))
#else
#define SOMEBODY_COMES (COMES(0) || COMES(1))
#endif

#if D > 0
/* Nobody who lives has a whole copy, and BASE will not do: all starts from the last snapshot. */
active proctype restorer()
{
    byte k;
end:
    do
    :: d_step { LOCK_FREE && ALL(NO_SOURCE) && !USABLE && SOMEBODY_COMES -> /* RESTORE */
            lock = 0;
            hold = 0;
            torn = false;
            content[BASE] = saved;
            lost = PUBLISHED & ~saved;
            for (k : 0 .. N - 1) { taken[BASE * N + k] = head[k] }
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

#define CAN_DIE(i) (deaths < D && ((MORTAL >> (i)) & 1) && !dead[i] && !given_up[i] && (state[i] != LEFT || lock == (i) + 1))
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
        state[1] = TAKEN; complete[1] = true;
        state[N - 1] = TAKEN; complete[N - 1] = true;
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
    ALL(IS_ENDED) && LOCK_FREE;
    d_step {
        has_all = ALL(HAS_PUBLISHED);
        assert(has_all);
        has_all = (D > 0 && !ANY_STAYED) || (!torn && content[BASE] == (PUBLISHED & ~lost));
        assert(has_all)
    }
}
