/* base/snmp.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "snmp.h"

static void both_forms_are_added_up(void **state)
{
	struct snmp_counters sum = { 0 };

	(void)state;
	snmp_add(&sum, "Tcp: RtoAlgorithm InErrors OutSegs RetransSegs\nTcp: 1 77 5000 6\n"
		       "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors "
		       "InCsumErrors IgnoredMulti\nUdp: 9 1 20 9 300 4000 50000 9\n"
		       "UdpLite: InDatagrams NoPorts\nUdpLite: 8 8\n"
		       "Icmp: InErrors InDestUnreachs\nIcmp: 8 30\n");
	snmp_add(&sum, "Ip6InReceives\t9\nUdp6NoPorts                       \t600000\n"
		       "Udp6RcvbufErrors\t7\nUdpLite6NoPorts\t8\nIcmp6InDestUnreachs 2\n");
	assert_int_equal(sum.unreachable, 32);
	assert_int_equal(sum.no_port, 600001);
	assert_int_equal(sum.receive_errors, 20);
	assert_int_equal(sum.receive_buffer, 307);
	assert_int_equal(sum.send_buffer, 4000);
	assert_int_equal(sum.checksum, 50000);
	assert_int_equal(sum.segments_sent, 5000);
	assert_int_equal(sum.segments_retransmitted, 6);
}

static void truncated_lines_and_words_add_nothing(void **state)
{
	static const char *const texts[] = { "",
					     "Udp:",
					     "6",
					     "6\n6 ",
					     "Udp: NoPorts\nUdpLite: 1\n",
					     "Udp: NoPorts",
					     "Udp: NoPorts\nUdp:",
					     "Udp: NoPorts\nUdp: x\n",
					     "Udp6NoPorts",
					     "Udp6",
					     "Udp6\n" };
	struct snmp_counters sum = { 0 };

	(void)state;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		snmp_add(&sum, texts[i]);
	assert_int_equal(sum.no_port, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_forms_are_added_up),
		cmocka_unit_test(truncated_lines_and_words_add_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
