/* Bytes: buffers and hashes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"
#include "lib/base/sha256.h"
TestSuite(buffer);

Test(buffer, keeps_what_is_appended_in_order_and_terminated)
{
	struct buffer buffer;
	buffer_init(&buffer, 100);
	cr_assert_eq(buffer_append(&buffer, "a\0b", 3), 0);
	cr_assert_eq(buffer_append_text(&buffer, "cd"), 0);
	cr_assert_eq(buffer_printf(&buffer, "%d-%s", 42, "x"), 0);
	cr_assert_eq(buffer_printf(&buffer, "%s", ""), 0);
	cr_assert_eq(buffer.len, 9);
	cr_assert_arr_eq(buffer.data, "a\0bcd42-x\0", 10);
	buffer_finish(&buffer);
}

Test(buffer, grows_beyond_its_first_allocation)
{
	struct buffer buffer;
	buffer_init(&buffer, 100000);
	for (int i = 0; i < 10000; i++) {
		cr_assert_eq(buffer_printf(&buffer, "%04d,", i), 0);
	}
	cr_assert_eq(buffer.len, 50000);
	cr_assert_str_eq(buffer_text(&buffer) + 49990, "9998,9999,");
	buffer_finish(&buffer);
}

Test(buffer, holds_exactly_its_maximum)
{
	struct buffer buffer;
	buffer_init(&buffer, 4);
	cr_assert_eq(buffer_append(&buffer, "abcd", 4), 0);
	cr_assert_eq(buffer.size, 4);
	char *whole = buffer_take(&buffer, NULL);
	cr_assert_str_eq(whole, "abcd");
	free(whole);
	cr_assert_eq(buffer_append(&buffer, "abcde", 5), -1);
	buffer_finish(&buffer);
}

Test(buffer, refuses_everything_after_a_failure_and_keeps_what_it_has)
{
	struct buffer buffer;
	buffer_init(&buffer, 4);
	cr_assert_eq(buffer_append_text(&buffer, "abc"), 0);
	cr_assert_eq(buffer_printf(&buffer, "%s", "too long"), -1);
	cr_assert_eq(buffer_append_text(&buffer, "d"), -1);
	cr_assert_null(buffer_reserve(&buffer, 0));
	cr_assert(buffer.failed);
	cr_assert_str_eq(buffer_text(&buffer), "abc");
	cr_assert_null(buffer_take(&buffer, NULL));
	buffer_clear(&buffer);
	cr_assert_str_eq(buffer_text(&buffer), "");
	cr_assert_eq(buffer_append_text(&buffer, "d"), 0);
	cr_assert_str_eq(buffer_text(&buffer), "d");
	buffer_finish(&buffer);
}

Test(buffer, consumes_from_the_front)
{
	struct buffer buffer;
	buffer_init(&buffer, 10);
	buffer_consume(&buffer, 0);
	cr_assert_eq(buffer_append_text(&buffer, "abcdef"), 0);
	buffer_consume(&buffer, 1);
	cr_assert_str_eq(buffer_text(&buffer), "bcdef");
	buffer_consume(&buffer, 3);
	cr_assert_str_eq(buffer_text(&buffer), "ef");
	buffer_consume(&buffer, 2);
	cr_assert_eq(buffer.len, 0);
	buffer_finish(&buffer);
}

Test(buffer, hands_over_its_memory)
{
	struct buffer buffer;
	buffer_init(&buffer, 10);
	cr_assert_eq(buffer_append_text(&buffer, "abc"), 0);
	size_t len = 0;
	char *data = buffer_take(&buffer, &len);
	cr_assert_str_eq(data, "abc");
	cr_assert_eq(len, 3);
	cr_assert_str_eq(buffer_text(&buffer), "");
	free(data);
	data = buffer_take(&buffer, &len);
	cr_assert_str_eq(data, "", "an empty buffer gives an empty string");
	cr_assert_eq(len, 0);
	free(data);
	buffer_finish(&buffer);
}

/* ---- sha256 ---- */

static void expect(const char *data, size_t len, const char *hash)
{
	char found[SHA256_HEX_SIZE];
	char *exact = malloc(len + 1); /* with nothing that could be read behind it */
	memcpy(exact + 1, data, len);
	sha256_hex(found, exact + 1, len);
	cr_expect_str_eq(found, hash, "%zu", len);
	free(exact);
}

Test(sha256, is_the_hash_of_the_standard)
{
	char many[1000];
	memset(many, 'a', sizeof(many));
	const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	expect("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	expect(two, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	expect(many, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
	expect(many, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
	expect(many, 1000, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}
