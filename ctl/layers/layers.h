/* `compare --layers`: in which layer listeners spend their CPU time, from samples of the threads
 * whose CPU time is charged to them.  Main thread. */
#pragma once
#include <stdbool.h>

#include "measure.h"
#include "reason.h"

struct layers;

/* Tries what is needed: 0, or -errno with the reason, which says what to do. */
int layers_open(struct layers **ret, struct reason *reason);
void layers_close(struct layers *l); /* NULL: nothing to do */

/* Each third round is visited without samples, so that the rounds tell what sampling costs. */
bool layers_is_sampled(unsigned round);

/* Of one interval, in this order.  `l` may be NULL, and nothing is done then.
 * layers_see(): adds the threads of a GetStats document that are not known yet, of all its
 * listeners; the first call starts sampling: 0, or -errno with the reason.
 * layers_read(): takes the samples until the time of the last document of layers_see() from the
 * kernel, and forgets those of threads that are not known.  layers_read_all(): also later ones; to
 * be called when no document has come for half a second.
 * layers_commit(): those since the last call count; layers_drop(): they do not.
 * layers_end(): sets the rows of m from `first` on, and ends sampling. */
int layers_see(struct layers *l, const json_t *document, struct reason *reason);
void layers_read(struct layers *l);
void layers_read_all(struct layers *l);
void layers_commit(struct layers *l);
void layers_drop(struct layers *l);
void layers_end(struct layers *l, struct measures *m, unsigned first);
void layers_cancel(struct layers *l); /* ends sampling, without rows */
