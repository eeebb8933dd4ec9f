/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds the stored inputs to a fuzz target: a test of what was found before, with any compiler. */
#include "base/file.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

static int feed(int dirfd, const char *name)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *text = NULL;
    size_t len = 0;

    if (file_read(dirfd, name, 1 << 24, &text, &len, &e) < 0) {
        fprintf(stderr, "%s\n", err_text(&e));
        return -1;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)text, len);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);

        if (!d) {
            perror(argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(d));) {
            if (entry->d_name[0] == '.')
                continue;
            if (feed(dirfd(d), entry->d_name) < 0)
                return 1;
            n++;
        }
        closedir(d);
    }
    printf("%u inputs\n", n);
    return n ? 0 : 1; /* nothing fed is nothing tested */
}
