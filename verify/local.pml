/* The shared-memory parameter server: queues, hand-over, lock, and deaths at any step.
 * verify/README.md says what is modelled; src/local marks each step ("local.pml: publish").
 *
 * -DG=n -DG1=n gradients of each learner       -DD=n  learners that may die
 * -DHANDS      learner 0 has a push thread     -DLOCKED  readers and the writer keep apart
 * -DSERVER_DIES=n  times; another one takes up  -DDIRECT  no server, learners step by themselves
 * -DPULLS      learner 0 has a pull thread, and only reads what changes G1 times
 * -DSYNC       rounds of one gradient of each
 * -DPAIRS      a second gradient comes along where the first passes */
#ifndef G
#define G 3
#endif
#ifndef G1
#define G1 G
#endif
#ifndef D
#define D 1
#endif
#ifndef SERVER_DIES
#define SERVER_DIES 0
#endif
#define L 2 /* learners */
#define COUNT(i) ((i) == 0 -> G : G1)
#ifndef S
#define S 2 /* slots of each */
#endif

/* Who sleeps, and on what. */
#define PUSHER L
#define SERVER (L + 1)
#define PULLER (L + 2)
#define SLEEPERS (L + 3)
#define WORK 0
#define SPACE(i) (1 + (i))
#define HAND (1 + L)
#define LOCK (2 + L)
#define PULL (3 + L)
#define NEWS (4 + L)
#define EVENTS (5 + L)

byte word[EVENTS];     /* event counts: the lowest bit says that somebody may sleep */
byte asleep[SLEEPERS]; /* 0: awake; else the event + 1 */
bool dead[L], buried[L], left[L];
byte deaths;

byte head[L], tail[L], begun[L]; /* queues: commits are stores of head and tail */
byte slot[L * S];                /* the number of the gradient + 1; 0: half full */
byte effect[L * G];              /* how often a gradient is in the weights; PAIRS: in which halves */
bool torn[L * G];
byte mark; /* what the server is in the middle of: 0, or the learner * G + number + 1 */
#ifdef PAIRS
byte marks[2]; /* likewise, by turns */
#define ALL_IN 3
#else
#define ALL_IN 1
#endif
bool server_dead;
byte server_deaths;

bool reading[L], writing; /* flags of the lock */
byte inside_read, inside_write;
byte mutex; /* robust: 0, or its owner + 1 */
bool orphaned; /* its owner was a server that is dead */

bool handed, leaving; /* the hand-over of learner 0 */
byte buffer[2], fill;

#ifdef PULLS
byte weights, changes;     /* what has been stepped, and how often it was said */
bool brought, fresh;       /* the hand-over of the pull thread, and what it says */
byte front, copying;       /* the copy that is read; the one that is written, + 1 */
byte content[2], label[2]; /* of the copies: what is in them, and what they are known by */
#endif
#ifdef SYNC
byte round, clocks[L * S], seq[L]; /* rounds done; of each slot; the tails after the round */
#endif

/* Names for what is asserted. */
bool applied_once, right_gradient, apart, counts_agree;
bool stands_still, skipped_current, one_each;

#ifdef WAKE_FORGOTTEN /* mutant: who publishes does not wake the server */
#define AFTER_PUBLISH skip
#else
#define AFTER_PUBLISH wake(WORK)
#endif

/* Two steps, between which one may die: the word changes, then sleepers are woken. */
inline wake(event)
{
    d_step {
        need = word[event] & 1;
        word[event] = (word[event] + need) & 7 /* no key is older than three wake-ups */
    };
    if
    :: atomic { need ->
            need = 0;
            for (k : 0 .. SLEEPERS - 1) {
                if
                :: asleep[k] == event + 1 -> asleep[k] = 0
                :: else
                fi
            }
            k = 0
        }
    :: else
    fi
}

/* A key, another look, and sleep unless something was woken since. (The look before the key, which
 * only saves time, is one step with it.) */
#define TAKE_KEY(e) word[e] = word[e] | 1; key = word[e]
inline sleep_on(sleeper, on, unless_ready)
{
    if
#ifndef NO_SECOND_LOOK /* mutant */
    :: unless_ready -> skip
#endif
    :: else ->
        d_step {
            if
#ifdef KEY_IGNORED /* mutant: sleeps whatever came after the key */
            :: true -> asleep[sleeper] = on + 1
#else
            :: word[on] == key -> asleep[sleeper] = on + 1
            :: else
#endif
            fi;
            key = 0
        };
        asleep[sleeper] == 0
    fi;
}

inline wait_until(waiter, what, goal)
{
    do
    :: goal -> break
    :: atomic { !(goal) -> TAKE_KEY(what) }; sleep_on(waiter, what, goal)
    od
}

/* ---- the lock ---- */

#define NOBODY_READS (!reading[0] && !reading[1])
#define OWNER_DEAD (orphaned || (mutex > 0 && mutex <= L && dead[mutex - 1]))
#define NOBODY_WRITES (inside_write == 0 || (inside_write <= L && dead[inside_write - 1]))
#define NONE_INSIDE_READS ((inside_read & ~((dead[0] -> 1 : 0) | (dead[1] -> 2 : 0))) == 0)

inline lock_read(r)
{
    do
    :: true ->
#ifdef LOOKS_BEFORE_FLAG /* mutant: a reader looks first and raises its flag then */
        !writing; reading[r] = true;
        break
#else
        reading[r] = true;                       /* read flag */
        if
        :: !writing -> break
        :: else ->
            reading[r] = false;
            wake(LOCK);
            d_step { TAKE_KEY(LOCK) };
            sleep_on(r, LOCK, !writing);
            d_step {                             /* take up */
                if
                :: writing && OWNER_DEAD -> mutex = 0; orphaned = false; writing = false
                :: else
                fi
            }
        fi
#endif
    od
}

inline lock_write(w)
{
    atomic { mutex == 0 || OWNER_DEAD -> mutex = w + 1; orphaned = false }; /* take up */
    writing = true;                                         /* write flag */
    do
    :: NOBODY_READS -> break
    :: atomic { !NOBODY_READS -> TAKE_KEY(LOCK) };
        sleep_on(w, LOCK, NOBODY_READS);
#ifndef READER_UNBURIED /* mutant: the flag of a dead reader stands */
        d_step {                                            /* bury reader */
            for (k : 0 .. L - 1) {
                if
                :: dead[k] -> reading[k] = false
                :: else
                fi
            }
            k = 0
        }
#endif
    od
}

inline unlock_write()
{
    writing = false;                                        /* write done */
    wake(LOCK);
    mutex = 0
}

/* Reads the weights. A dead reader is not inside any more. */
inline pull(r1)
{
    lock_read(r1);
    atomic { apart = NOBODY_WRITES; assert(apart); inside_read = inside_read | (1 << r1) };
    atomic { apart = NOBODY_WRITES; assert(apart); inside_read = inside_read & ~(1 << r1) };
    reading[r1] = false;                                     /* read done */
    wake(LOCK)
}

/* ---- learners ---- */

#ifdef SPACE_MISCOUNTED /* mutant: one slot too many */
#define HAS_SPACE(i) (head[i] - tail[i] <= S)
#else
#define HAS_SPACE(i) (head[i] - tail[i] < S)
#endif

inline push(by, q, value)
{
    wait_until(by, SPACE(q), HAS_SPACE(q));
#ifdef PUBLISHED_EARLY /* mutant: before it is full */
    atomic { begun[q]++; slot[q * S + head[q] % S] = 0 };
    head[q]++;
    slot[q * S + (head[q] - 1) % S] = value;
#else
    atomic { begun[q]++; slot[q * S + head[q] % S] = 0 };   /* begin */
#ifdef SYNC
    atomic { slot[q * S + head[q] % S] = value; clocks[q * S + head[q] % S] = round };
#else
    slot[q * S + head[q] % S] = value;                      /* fill */
#endif
    head[q]++;                                              /* publish */
#endif
    AFTER_PUBLISH                                           /* wake server */
}

/* Direct mode: the learner is the writer. */
inline step_directly(d)
{
    lock_write(d);
    begun[d]++;
    atomic { apart = NONE_INSIDE_READS && NOBODY_WRITES; assert(apart); inside_write = d + 1 };
    atomic { apart = inside_write == d + 1; assert(apart); inside_write = 0; effect[d * G + head[d]]++ };
    head[d]++;
    unlock_write()
}

#ifdef HANDS
/* Learner 0 fills one buffer while its push thread moves the other. */
inline hand_over(value)
{
    buffer[fill] = value;
    wait_until(0, HAND, !handed);
    fill = 1 - fill;
    handed = true;                                            /* hand over */
    wake(HAND)
}

proctype pusher()
{
    byte key, need, k;
    {
        do
        :: true ->
            wait_until(PUSHER, HAND, handed || leaving);
            if
            :: handed ->
#ifdef HANDED_BACK_EARLY /* mutant: the buffer is given back before it is moved */
                handed = false;
                wake(HAND);
                push(PUSHER, 0, buffer[1 - fill])
#else
                push(PUSHER, 0, buffer[1 - fill]);
                handed = false;                               /* hand over */
#ifndef HAND_UNWOKEN /* mutant */
                wake(HAND)
#endif
#endif
            :: else -> break
            fi
        od
    } unless { dead[0] -> d_step { key = 0; need = 0; k = 0; asleep[PUSHER] = 0 } }
}
#endif

#ifdef PULLS
#define REUSE 2
/* Brings the copy behind the front one up to date, whenever it is told to. */
proctype puller()
{
    byte key, need, k;
    bool current;
    {
        do
        :: true ->
            wait_until(PULLER, PULL, !brought || leaving);
            if
            :: leaving -> break
            :: else ->
                atomic {                                    /* skip */
                    current = changes == label[front];
                    skipped_current = !current || content[front] >= changes;
                    assert(skipped_current)
                };
                if
                :: current -> fresh = false
                :: else ->
#ifdef LABELLED_LATE /* mutant: what came while it was copied counts as copied */
                    copying = 2 - front;
                    content[1 - front] = weights;
                    atomic { copying = 0; label[1 - front] = changes };
#else
#ifdef COPIED_TO_FRONT /* mutant */
                    atomic { copying = 1 + front; label[front] = changes };
                    atomic { content[front] = weights; copying = 0 };
#else
                    atomic { copying = 2 - front; label[1 - front] = changes }; /* copy */
                    atomic { content[1 - front] = weights; copying = 0 };
#endif
#endif
                    fresh = true
                fi;
                brought = true;                             /* hand over */
#ifndef PULL_UNWOKEN /* mutant */
                wake(PULL)
#endif
            fi
        od
    } unless { dead[0] -> d_step { key = 0; need = 0; k = 0; current = 0; asleep[PULLER] = 0 } }
}

/* The server, as far as a reader knows of it. */
proctype stepper()
{
    do
    :: weights < G1 ->
        weights++;                                          /* step */
        changes++
    :: else -> break
    od
}

/* An iteration begins: on what was brought, or on the same copy again. */
inline take_copy()
{
    if
    :: !brought && used + 1 < REUSE -> used++
    :: else ->
        wait_until(0, PULL, brought);
        atomic { front = (fresh -> 1 - front : front); used = 0 };
        brought = false;                                    /* hand over */
        wake(PULL)
    fi;
    atomic { stands_still = copying != 1 + front; assert(stands_still) };
    atomic { stands_still = copying != 1 + front; assert(stands_still) }
}
#endif

proctype learner(byte i)
{
    byte key, need, k, g;
#ifdef PULLS
    byte used;
#endif
#ifdef SYNC
    byte wanted;
#endif
    {
        do
        :: g < COUNT(i) ->
#ifdef PULLS
            take_copy();
#endif
#ifdef SYNC
#ifndef ROUND_NOT_AWAITED /* mutant */
            wait_until(i, NEWS, round >= wanted);           /* round key */
#endif
            wanted = round + 1;
#endif
#ifdef LOCKED
            pull(i);
#endif
#ifdef DIRECT
            step_directly(i);
#else
#ifdef HANDS
            if
            :: i == 0 -> hand_over(g + 1)
            :: else -> push(i, i, g + 1)
            fi;
#else
#ifndef PULLS
            push(i, i, g + 1);
#endif
#endif
#endif
            g++
        :: else -> break
        od;
#ifdef HANDS
        if
        :: i == 0 -> wait_until(0, HAND, !handed); leaving = true; wake(HAND)
        :: else
        fi;
#endif
#ifdef PULLS
        leaving = true;
        wake(PULL);
#endif
        left[i] = true;                                     /* leave */
        wake(WORK)
    } unless {
        dead[i] -> d_step {
#ifdef PULLS
            used = 0;
#endif
#ifdef SYNC
            wanted = 0;
#endif
            key = 0; need = 0; k = 0; g = 0; asleep[i] = 0
        }
    }
}

/* ---- the server ---- */

#define WAITING(i) (head[i] != tail[i])
#define GONE(i) (left[i] || buried[i])
#define OVER (GONE(0) && GONE(1) && !WAITING(0) && !WAITING(1))

#ifdef WRONG_INDEX /* mutant */
#define FRONT(i) slot[(i) * S + (tail[i] + 1) % S]
#else
#define FRONT(i) slot[(i) * S + tail[i] % S]
#endif

/* With several update threads a learner that waits for space is woken in the middle of the next
 * step, or before the server sleeps. Another thread of the server may do it, a moment after the
 * server has left it to that: as if the server slept a moment later. */
inline wake_due()
{
    if
    :: due > 0 ->
#ifndef SPACE_UNWOKEN /* mutant */
        wake(SPACE(due - 1));                               /* wake learner */
#endif
        due = 0
    :: else
    fi
}

#ifndef PAIRS
inline apply(a)
{
#ifdef LOCKED
    lock_write(SERVER);
#endif
#ifndef UNMARKED /* mutant: nobody knows of a torn gradient */
    mark = a * G + tail[a] + 1;                             /* mark */
#endif
    atomic {                                                /* step: its beginning and its end */
        apart = NONE_INSIDE_READS;
        assert(apart);
        inside_write = SERVER + 1;
        right_gradient = FRONT(a) == tail[a] + 1;
        assert(right_gradient)
    };
    wake_due();
#ifdef COMMITTED_EARLY /* mutant: the slot is free before it was read */
    tail[a]++;
    atomic {
        inside_write = 0;
        right_gradient = slot[a * S + (tail[a] - 1) % S] == tail[a];
        assert(right_gradient);
        effect[a * G + tail[a] - 1]++
    };
#else
    atomic {
        inside_write = 0;
        right_gradient = FRONT(a) == tail[a] + 1;
        assert(right_gradient);
        effect[a * G + tail[a]]++;
        applied_once = effect[a * G + tail[a]] == 1 && !torn[a * G + tail[a]];
        assert(applied_once)
    };
    tail[a]++;                                              /* commit */
#endif
    mark = 0;                                               /* unmark */
#ifdef LOCKED
    unlock_write();
#endif
    due = a + 1;
    if
    :: skip                                                 /* several threads */
    :: wake_due()                                           /* one */
    fi
}
#endif

#ifdef SYNC
#define OFFERED(i) (WAITING(i) && clocks[(i) * S + tail[i] % S] <= round)
#define READY ((OFFERED(0) || GONE(0)) && (OFFERED(1) || GONE(1)) && (OFFERED(0) || OFFERED(1)))
#define IN(i) (seq[i] > tail[i])
#define ALL(condition, i) (!IN(i) || (condition))

inline finish(f)
{
    if
    :: IN(f) ->
        atomic { torn[f * G + tail[f]] = was_torn; tail[f]++ };
        wake(SPACE(f))
    :: else
    fi
}

#define IS_RIGHT(i) ALL(FRONT(i) == tail[i] + 1, i)
#define IS_ONE(i) (dead[i] || left[i] || (IN(i) && clocks[(i) * S + tail[i] % S] == round))
#define NOT_TWICE(i) ALL(effect[(i) * G + tail[i]] == 1 && !torn[(i) * G + tail[i]], i)

/* One gradient of every learner that lives. */
inline apply_round()
{
    atomic { seq[0] = tail[0] + (OFFERED(0) -> 1 : 0) };
    atomic { seq[1] = tail[1] + (OFFERED(1) -> 1 : 0) };
#ifndef ROUND_UNMARKED /* mutant: nobody knows of a round that was begun */
    mark = round + 1;                                       /* mark */
#endif
    atomic {
        right_gradient = IS_RIGHT(0) && IS_RIGHT(1);
        assert(right_gradient);
        one_each = IS_ONE(0) && IS_ONE(1);
        assert(one_each)
    };
    atomic {
        right_gradient = IS_RIGHT(0) && IS_RIGHT(1);
        assert(right_gradient);
        effect[tail[0]] = effect[tail[0]] + (IN(0) -> 1 : 0);
        effect[G + tail[1]] = effect[G + tail[1]] + (IN(1) -> 1 : 0);
        applied_once = NOT_TWICE(0) && NOT_TWICE(1);
        assert(applied_once)
    };
    round++;                                                /* commit round */
    was_torn = false;
    finish(0);
    finish(1);
    mark = 0;                                               /* unmark */
#ifndef ROUND_UNWOKEN /* mutant */
    wake(NEWS)
#endif
}

/* Done, and its slots are given back; or torn. */
inline recover()
{
    if
    :: mark > 0 ->
        was_torn = round == mark - 1;
        finish(0);
        finish(1);
        round = mark;
        mark = 0
    :: else
    fi;
    wake(SPACE(0));
    wake(SPACE(1));
    wake(NEWS)
}

inline serve()
{
    do
    :: OVER -> break
    :: else ->
        if
        :: READY -> apply_round()
        :: atomic { !READY -> TAKE_KEY(WORK) };
            sleep_on(SERVER, WORK, READY || OVER);
            d_step {                                        /* bury */
                for (k : 0 .. L - 1) {
                    if
                    :: dead[k] && !left[k] -> buried[k] = true
                    :: else
                    fi
                }
                k = 0
            }
        fi
    od
}
#else
#ifdef PAIRS
#define BEGUN(i) ((flight > 0 && (flight - 1) / G == (i) -> 1 : 0) + (second > 0 && (second - 1) / G == (i) -> 1 : 0))
#define MORE(i) (head[i] - tail[i] > BEGUN(i))
#define HAS_SLOT(f) (slot[((f) - 1) / G * S + ((f) - 1) % G % S] == ((f) - 1) % G + 1)
#define BOTH_HAVE (HAS_SLOT(flight) && (second == 0 || HAS_SLOT(second)))
#define IS_NEW(f, half) ((effect[(f) - 1] & (1 << half)) == 0 && !torn[(f) - 1])

/* Who is there comes along, from the next half on. */
inline look_for_second()
{
    if
    :: second == 0 && (MORE(0) || MORE(1)) ->
        d_step {
            next = (MORE(next) -> next : 1 - next);
            second = next * G + tail[next] + BEGUN(next) + 1;
            next = 1 - next
        };
#ifdef PAIR_ONE_MARK /* mutant: the second writes over the first */
        marks[last] = second
#else
        marks[1 - last] = second                            /* mark */
#endif
    :: else
    fi
}

/* Half of the blocks, if the first has not passed them. */
#ifdef PAIR_AGAIN /* mutant: it goes over all of them again */
#define HAS_PASSED(half) false
#else
#ifdef PAIR_MISSED /* mutant: it never goes over those it has missed */
#define HAS_PASSED(half) (effect[flight - 1] > 0)
#else
#define HAS_PASSED(half) ((effect[flight - 1] & (1 << half)) != 0)
#endif
#endif
inline pass(half)
{
    if
    :: HAS_PASSED(half)
    :: else ->
        atomic { right_gradient = BOTH_HAVE; assert(right_gradient) }; /* pass: its beginning and its end */
        wake_due();
        atomic {
            right_gradient = BOTH_HAVE;
            assert(right_gradient);
            applied_once = IS_NEW(flight, half) && (second == 0 || IS_NEW(second, half));
            assert(applied_once);
            effect[flight - 1] = effect[flight - 1] | (1 << half);
            if
            :: second > 0 -> effect[second - 1] = effect[second - 1] | (1 << half)
            :: else
            fi
        }
    fi
}

/* The first goes over what it has not passed, and is done. */
inline end_first()
{
    look_for_second();
    pass(0);
    look_for_second();                                      /* along */
#ifdef PAIR_FREED_EARLY /* mutant: with half of it still to be read */
    tail[(flight - 1) / G]++;
    wake(SPACE((flight - 1) / G));
    pass(1);
#else
    pass(1);
    tail[(flight - 1) / G]++;                               /* commit */
#endif
    marks[last] = 0;                                        /* unmark */
#ifndef DUE_PUSHED_OUT /* mutant: who waits for the next step, which there was no need for, is forgotten */
    wake_due();
#endif
    d_step { due = (flight - 1) / G + 1; flight = second; second = 0; last = 1 - last };
    if
    :: skip                                                 /* several threads */
    :: wake_due()                                           /* one */
    fi
}

inline apply(a)
{
    d_step { flight = (a) * G + tail[a] + 1; last = 0 };
    marks[0] = flight;                                      /* mark */
    next = 1 - (a);
    end_first()
}

/* Marks of one seat in their order, or the later does not meet its tail. */
inline recover()
{
    d_step {
#ifdef PAIR_LATER_FIRST /* mutant */
        k = (marks[0] <= marks[1] -> 1 : 0);
#else
        k = (marks[0] <= marks[1] -> 0 : 1);
#endif
        need = 0;
        do
        :: need < 2 ->
            if
            :: marks[k] > 0 && tail[(marks[k] - 1) / G] == (marks[k] - 1) % G ->
                torn[marks[k] - 1] = true;
                tail[(marks[k] - 1) / G]++                  /* torn */
            :: else
            fi;
            k = 1 - k;
            need++
        :: else -> break
        od;
        marks[0] = 0;
        marks[1] = 0;
        need = 0;
        k = 0
    };
    wake(SPACE(0));
    wake(SPACE(1))
}
#else
/* The next server: what the dead one was in the middle of is not applied again. */
inline recover()
{
    d_step {
        inside_write = 0;
        if
        :: mark > 0 && tail[(mark - 1) / G] == (mark - 1) % G ->
            torn[mark - 1] = true;
            tail[(mark - 1) / G]++                          /* torn */
        :: else
        fi;
        mark = 0
    };
    wake(SPACE(0));
    wake(SPACE(1))
}
#endif

inline serve()
{
    do
    :: OVER -> break
    :: else ->
        if
#ifdef PAIRS
#ifndef PAIR_WAITS /* mutant: for a second one that does not come */
        :: flight > 0 -> end_first()
#else
        :: flight > 0 && (MORE(0) || MORE(1)) -> end_first()
        :: atomic { !MORE(0) && !MORE(1) && flight > 0 -> TAKE_KEY(WORK) };
            sleep_on(SERVER, WORK, MORE(0) || MORE(1))
#endif
        :: flight == 0 && MORE(next) -> apply(next)
        :: flight == 0 && !MORE(next) && MORE(1 - next) -> apply(1 - next)
#else
        :: atomic { !WAITING(next) && WAITING(1 - next) -> next = 1 - next }
        :: WAITING(next) -> apply(next); next = 1 - next
#endif
        :: !WAITING(0) && !WAITING(1) && due > 0 ->
#ifndef DUE_FORGOTTEN /* mutant: who is to be woken by the next step is not, if there is none */
            wake_due()
#else
            due = 0
#endif
        :: atomic { !WAITING(0) && !WAITING(1) && due == 0 -> TAKE_KEY(WORK) };
            sleep_on(SERVER, WORK, WAITING(0) || WAITING(1) || OVER);
            d_step {                                        /* bury */
                for (k : 0 .. L - 1) {
                    if
                    :: dead[k] && !left[k] -> buried[k] = true; reading[k] = false
                    :: else
                    fi
                }
                k = 0
            }
        fi
    od
}

#endif

/* What must hold at the end. Torn ones may be in or not; none is in twice. */
inline check()
{
    d_step {
        for (k : 0 .. L - 1) {
            counts_agree = tail[k] == head[k] && begun[k] - head[k] <= (dead[k] -> 1 : 0) && (dead[k] || head[k] == COUNT(k));
            assert(counts_agree);
            for (key : 0 .. G - 1) {
                applied_once = key >= head[k] || torn[k * G + key] || effect[k * G + key] == ALL_IN;
                assert(applied_once);
                applied_once = key < head[k] || effect[k * G + key] == 0;
                assert(applied_once)
            }
        }
    }
}

proctype server()
{
    byte key, need, k, next, due;
#ifdef SYNC
    bool was_torn;
#endif
#ifdef PAIRS
    byte flight, second, last; /* begun; come along; the mark of the first */
#endif
    do
    :: true ->
        {
#if SERVER_DIES
            recover();
#endif
            serve();
            break
        } unless {
            server_dead -> d_step {
#ifdef PAIRS
                flight = 0; second = 0; last = 0;
#endif
                server_dead = false; asleep[SERVER] = 0; key = 0; need = 0; k = 0; due = 0
            }
        }
    od;
    check()
}

/* ---- time and death ---- */

/* Waits are timed, but time only matters where somebody died with a wake-up due: as long as all
 * live, wake-ups must do. When nothing moves, all slices run out. The budget makes a job that would
 * look again and again, and get nowhere, an invalid end state. */
active proctype clock()
{
    byte k, budget = 3 * (D + SERVER_DIES);
end:
    do
#ifndef UNTIMED /* mutant: waits without a time */
    :: atomic { timeout && deaths + server_deaths > 0 && budget > 0 ->
            budget--;
            for (k : 0 .. SLEEPERS - 1) { asleep[k] = 0 }
            k = 0
        }
#else
    :: false
#endif
    od
}

active proctype fate()
{
end:
    do
#if D > 0
    :: atomic { deaths < D && !dead[0] && !left[0] -> dead[0] = true; deaths++ }
#if D > 1 /* else they are alike */
    :: atomic { deaths < D && !dead[1] && !left[1] -> dead[1] = true; deaths++ }
#endif
#endif
#if SERVER_DIES
    :: atomic { server_deaths < SERVER_DIES && !server_dead -> 
            server_dead = true;
            server_deaths++;
            if
            :: mutex == SERVER + 1 -> orphaned = true
            :: else
            fi
        }
#endif
    :: false
    od
}

init
{
    atomic {
        run learner(0);
#if G1 > 0 && !defined(PULLS)
        run learner(1);
#else
        left[1] = true;
#endif
#ifdef HANDS
        run pusher();
#endif
#ifdef PULLS
        run puller();
        run stepper()
#endif
#if !defined(DIRECT) && !defined(PULLS)
        run server()
#endif
    }
}
