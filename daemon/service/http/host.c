/* The syntax of a Host field's value, as a table of states.  See http/proto.h. */
#include "proto.h"

/* Kinds of bytes; OTHER: a byte that occurs nowhere. */
enum kind { OTHER, NAME, LETTER_HEX, DIGIT, COLON, PERCENT, OPEN, CLOSE, WHITE, KINDS };

static const uint8_t kinds[256] = {
	['\t'] = WHITE,
	[' '] = WHITE,
	['!'] = NAME,
	['$'] = NAME,
	['%'] = PERCENT,
	['&' ... '.'] = NAME,
	['0' ... '9'] = DIGIT,
	[':'] = COLON,
	[';'] = NAME,
	['='] = NAME,
	['['] = OPEN,
	[']'] = CLOSE,
	['_'] = NAME,
	['~'] = NAME,
	['A' ... 'F'] = LETTER_HEX,
	['a' ... 'f'] = LETTER_HEX,
	['G' ... 'Z'] = NAME,
	['g' ... 'z'] = NAME,
};

enum state {
	REFUSED,
	START = HTTP_HOST_START,
	IN_NAME,
	ESCAPE,  /* behind a percent sign, */
	ESCAPED, /* and behind the first of two digits */
	LITERAL, /* an address in brackets */
	LITERAL_END,
	PORT,
	SPACE, /* behind the value */
	STATES
};

static const uint8_t following[STATES][KINDS] = {
	[START] = { [NAME] = IN_NAME,
		    [LETTER_HEX] = IN_NAME,
		    [DIGIT] = IN_NAME,
		    [PERCENT] = ESCAPE,
		    [OPEN] = LITERAL,
		    [WHITE] = START },
	[IN_NAME] = { [NAME] = IN_NAME,
		      [LETTER_HEX] = IN_NAME,
		      [DIGIT] = IN_NAME,
		      [COLON] = PORT,
		      [PERCENT] = ESCAPE,
		      [WHITE] = SPACE },
	[ESCAPE] = { [LETTER_HEX] = ESCAPED, [DIGIT] = ESCAPED },
	[ESCAPED] = { [LETTER_HEX] = IN_NAME, [DIGIT] = IN_NAME },
	[LITERAL] = { [NAME] = LITERAL,
		      [LETTER_HEX] = LITERAL,
		      [DIGIT] = LITERAL,
		      [COLON] = LITERAL,
		      [CLOSE] = LITERAL_END },
	[LITERAL_END] = { [COLON] = PORT, [WHITE] = SPACE },
	[PORT] = { [DIGIT] = PORT, [WHITE] = SPACE },
	[SPACE] = { [WHITE] = SPACE },
};

uint8_t http_host_scan(uint8_t state, const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		state = following[state][kinds[data[i]]];
	return state;
}

bool http_host_ends(uint8_t state)
{
	return state == START || state == IN_NAME || state == LITERAL_END || state == PORT ||
	       state == SPACE;
}
