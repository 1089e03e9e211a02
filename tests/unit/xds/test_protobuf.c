/* The wire format: writing, reading, and bytes that it does not allow. */
#include <criterion/criterion.h>
#include <string.h>

#include "xds/protobuf.h"

TestSuite(protobuf, .timeout = 60);

static struct buffer out;

static void begin(void)
{
	buffer_init(&out, 1 << 20);
}

static void end(void)
{
	buffer_finish(&out);
}

/* The example of the format's documentation: field 1 is 150. */
Test(protobuf, a_number_takes_seven_bits_a_byte, .init = begin, .fini = end)
{
	protobuf_number(&out, 1, 150);
	cr_assert_eq(out.len, 3);
	cr_assert_arr_eq(out.data, "\x08\x96\x01", 3);
}

Test(protobuf, a_message_inside_has_its_length_in_front, .init = begin, .fini = end)
{
	char text[301];
	memset(text, 'x', 300);
	text[300] = '\0';
	size_t inner = protobuf_begin(&out, 3);
	protobuf_text(&out, 1, text);
	protobuf_end(&out, inner);
	/* 300 bytes of text and 3 before them */
	cr_assert_eq(out.len, 3 + 303);
	cr_assert_arr_eq(out.data, "\x1a\xaf\x02\x0a\xac\x02x", 7);
}

Test(protobuf, an_empty_message_is_its_key_and_a_zero, .init = begin, .fini = end)
{
	protobuf_end(&out, protobuf_begin(&out, 3));
	cr_assert_eq(out.len, 2);
	cr_assert_arr_eq(out.data, "\x1a\x00", 2);
}

Test(protobuf, reads_what_it_writes, .init = begin, .fini = end)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	protobuf_number(&out, 2, UINT64_MAX);
	protobuf_text(&out, 500, "text");
	protobuf_reader_init(&reader, out.data, out.len);
	cr_assert(protobuf_next(&reader, &field));
	cr_assert(!field.is_bytes && field.number == 2 && field.value == UINT64_MAX);
	cr_assert(protobuf_next(&reader, &field));
	cr_assert(field.is_bytes && field.number == 500 && field.len == 4);
	cr_assert_arr_eq(field.data, "text", 4);
	cr_assert_not(protobuf_next(&reader, &field));
	cr_assert_not(reader.bad);
}

/* Fixed numbers are read over: no message of ours has one, but a newer client's may. */
Test(protobuf, skips_fixed_numbers)
{
	static const char message[] = "\x0d"
				      "abcd"
				      "\x11"
				      "abcdefgh"
				      "\x18\x05";
	struct protobuf_reader reader;
	struct protobuf_field field;
	int count = 0;
	protobuf_reader_init(&reader, message, sizeof(message) - 1);
	while (protobuf_next(&reader, &field)) {
		count++;
	}
	cr_assert(!reader.bad && count == 3 && field.number == 3 && field.value == 5);
}

static bool is_bad(const char *bytes, size_t len)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	protobuf_reader_init(&reader, bytes, len);
	while (protobuf_next(&reader, &field)) {
	}
	return reader.bad;
}

Test(protobuf, refuses_what_is_no_message)
{
	cr_assert(is_bad("\x0a", 1), "a length is missing");
	cr_assert(is_bad("\x0a\x05"
			 "abc",
			  5),
		"a text is cut");
	cr_assert(is_bad("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11), "a length of 2^64-1");
	cr_assert(is_bad("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12), "11 bytes");
	cr_assert(is_bad("\x08", 1), "a number is missing");
	cr_assert(is_bad("\x09"
			 "abc",
			  4),
		"a fixed number is cut");
	cr_assert(is_bad("\x0b\x0c", 2), "a group");
	cr_assert(is_bad("\x00\x00", 2), "field 0");
	cr_assert(is_bad("\x80\x80\x80\x80\x80\x80\x80\x80\x10\x00", 10), "a field beyond 2^29");
	cr_assert_not(is_bad("", 0));
}
