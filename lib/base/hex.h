/*
 * Hexadecimal digits, in either case and in every locale.
 */
#ifndef LIB_BASE_HEX_H
#define LIB_BASE_HEX_H

/* 0 to 15, or -1 for any other character. */
static inline int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9') {
		return digit - '0';
	}
	char lower = (char)(digit | 0x20);
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The byte that two digits mean, or -1. Reads the second digit only after a good first one. */
static inline int hex_byte(const char *digits)
{
	int high = hex_digit(digits[0]);
	int low = high < 0 ? -1 : hex_digit(digits[1]);
	return low < 0 ? -1 : high * 16 + low;
}

#endif
