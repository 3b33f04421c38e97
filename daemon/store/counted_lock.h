/* A mutual exclusion and a place to sleep that tell the system calls which they made: those of
 * pthread_mutex_t and pthread_cond_t cannot be counted from outside, and may be a fifth of all that
 * a pool makes.  futex(2): the kernel is called only to sleep, and where somebody may sleep.
 *
 * Three states as in U. Drepper, "Futexes Are Tricky": the unlock of a lock that nobody waits for
 * is no system call. */
#pragma once
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOCK_FREE, LOCK_HELD, LOCK_CONTENDED /* somebody may sleep */ };

struct counted_lock {
	_Atomic uint32_t state;
};

static inline void futex_sleep(_Atomic uint32_t *word, uint32_t while_value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word, unsigned threads)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* Takes the lock, and returns the system calls made for that. */
static inline unsigned counted_lock(struct counted_lock *l)
{
	uint32_t state = LOCK_FREE;
	unsigned calls = 0;

	if (atomic_compare_exchange_strong(&l->state, &state, LOCK_HELD))
		return 0;
	for (; atomic_exchange(&l->state, LOCK_CONTENDED) != LOCK_FREE; calls++)
		futex_sleep(&l->state, LOCK_CONTENDED);
	return calls;
}

static inline unsigned counted_unlock(struct counted_lock *l)
{
	if (atomic_exchange(&l->state, LOCK_FREE) != LOCK_CONTENDED)
		return 0;
	futex_wake(&l->state, 1);
	return 1;
}

/* Where threads sleep until they are woken.  Changes only while the lock is held. */
struct counted_sleep {
	_Atomic uint32_t wakes;
	unsigned sleepers; /* protected by the lock */
};

/* Unlocks, sleeps until counted_wake() or a moment more, and locks again. */
static inline unsigned counted_sleep(struct counted_sleep *s, struct counted_lock *l)
{
	uint32_t wakes = atomic_load(&s->wakes);
	unsigned calls;

	s->sleepers++;
	calls = counted_unlock(l) + 1;
	futex_sleep(&s->wakes, wakes);
	calls += counted_lock(l);
	s->sleepers--;
	return calls;
}

/* Unlocks, and wakes at most so many threads by one system call.  Those that have not yet fallen
 * asleep find that `wakes` has changed. */
static inline unsigned counted_unlock_and_wake(struct counted_sleep *s, struct counted_lock *l,
					       unsigned threads)
{
	unsigned calls, wake = threads < s->sleepers ? threads : s->sleepers;

	if (wake > 0)
		atomic_fetch_add(&s->wakes, 1);
	calls = counted_unlock(l);
	if (wake == 0)
		return calls;
	futex_wake(&s->wakes, wake);
	return calls + 1;
}
