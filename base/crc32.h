/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* CRC-32 as zlib and Ethernet have it (polynomial 0xEDB88320, reflected). */
uint32_t crc32(const void *data, size_t len);
