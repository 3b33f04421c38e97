/* See numbers.h. */
#include "numbers.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void numbers_sort(double *numbers, size_t count)
{
	qsort(numbers, count, sizeof(*numbers), compare);
}

double numbers_middle(const double *sorted, size_t count)
{
	return count ? sorted[(count - 1) / 2] / 2 + sorted[count / 2] / 2 : NAN;
}

double numbers_median(double *numbers, size_t count)
{
	numbers_sort(numbers, count);
	return numbers_middle(numbers, count);
}
