/* Lists of numbers in order, and their medians.  Pure. */
#pragma once
#include <stddef.h>

/* Puts numbers in order, the smallest first. */
void numbers_sort(double *numbers, size_t count);
/* The median of sorted numbers; NaN: there are none. */
double numbers_middle(const double *sorted, size_t count);
/* Sorts the numbers, and returns their median; NaN: there are none. */
double numbers_median(double *numbers, size_t count);
