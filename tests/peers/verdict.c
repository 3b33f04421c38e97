/* What nbctl's judging says of ratios, for claims.py: the same code decides both.
 *
 *   verdict COMPARISONS RATIO...
 *
 * The ratios are of one listener's figure to another's, a round each.  Prints the estimate and the
 * interval's ends as ratios; `nan` where there are too few rounds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "verdict.h"

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)argc - 2 : 0;
	double *first = calloc(rounds + 1, sizeof(*first));
	double *row = calloc(rounds + 1, sizeof(*row));
	struct verdict v;

	if (!first || !row || rounds == 0)
		return 2;
	for (unsigned i = 0; i < rounds; i++) {
		first[i] = 1;
		row[i] = strtod(argv[i + 2], NULL);
	}
	v = verdict_of(first, row, rounds, (unsigned)atoi(argv[1]), 0.05);
	if (v.is == VERDICT_TOO_FEW_ROUNDS)
		printf("%.9f nan nan\n", 1 + v.change);
	else
		printf("%.9f %.9f %.9f\n", 1 + v.change, 1 + v.low, 1 + v.high);
	free(first);
	free(row);
	return 0;
}
