#include "tests/support/rights.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rights_needed(const char *right)
{
	const char *source = getenv("BERTH_SRC_DIR");
	char command[4096], reason[1024] = "";
	snprintf(command, sizeof(command), "exec python3 '%s/tests/support/rights.py' '%s'",
		source ? source : ".", right);
	FILE *answer = popen(command, "re");
	cr_assert_not_null(answer);
	(void)!fgets(reason, sizeof(reason), answer);
	int status = pclose(answer);
	reason[strcspn(reason, "\n")] = '\0';
	if (*reason) {
		cr_skip_test("%s", reason);
	}
	cr_assert_eq(status, 0, "%s ends with %d", command, status);
}
