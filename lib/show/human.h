/* Numbers as people read them.  Results are short texts returned by value:
 * printf("%s", human_count(n).text). */
#pragma once
#include <stdint.h>

struct human {
	char text[32];
};

struct human human_count(uint64_t n);     /* 1,234,567 */
struct human human_short(uint64_t n);     /* 1,234; from 100,000 on 123k, 1.23M, 4.56G */
struct human human_number(double n);      /* three digits that matter: 1.23 12.3 123 1,234 */
struct human human_bytes(uint64_t bytes); /* 17 B, 1.20 MB; decimal, as networks count */
struct human human_time(uint64_t ns);     /* 350us 1.20s 3m12s 4h05m 12d3h */
struct human human_us(uint64_t ns);       /* microseconds without the unit, as human_number */
struct human human_percent(double share); /* a share of 1 in percent, without the sign: 98, 3.4 */
