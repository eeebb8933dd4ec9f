/* SPDX-License-Identifier: Apache-2.0 */
/* What each fuzz_NAME.c defines; called by libFuzzer, or by fuzz_main.c with the stored inputs. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
