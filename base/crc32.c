/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32.h"

/* Bit by bit, without a table: files of a few kilobytes, a few times per claim. */
uint32_t crc32(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint32_t crc = 0xFFFFFFFFu;

    while (len--) {
        crc ^= *p++;
        for (int i = 0; i < 8; i++)
            crc = (crc >> 1) ^ (0xEDB88320u & -(crc & 1));
    }
    return ~crc;
}
