/* Against the examples of FIPS 180-4, and lengths around a block's end. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/sha256.h"

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
