/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resourceslices collection of an API server, over HTTP on the loopback: list, watch, get,
 * create, update, delete, with resource versions, preconditions and the validation that matters
 * here, and with the faults that tests want. It runs on the test's loop, in its thread.
 */
#pragma once

#include "base/loop.h"
#include "driver/slices.h"

struct fake_slices;

enum fake_fault {
    FAULT_NONE,
    FAULT_500,      /* doesn't act */
    FAULT_429,      /* doesn't act; Retry-After: 3 */
    FAULT_422,      /* doesn't act */
    FAULT_LOST,     /* acts, and closes the connection without an answer */
    FAULT_CONFLICT, /* 409 of an optimistic lock, without reason */
};

struct fake_counts {
    unsigned lists, watches, gets, posts, puts, deletes; /* requests, refused ones too */
    unsigned done;                                       /* writes that had an effect */
};

struct fake_slices *fake_slices_new(struct loop *l);
void fake_slices_free(struct fake_slices *f);
unsigned fake_slices_port(const struct fake_slices *f);

/* Serves what is there without waiting; the test calls it in turn with loop_once(). */
void fake_slices_turn(struct fake_slices *f);

struct fake_counts *fake_slices_counts(struct fake_slices *f);
unsigned fake_slices_writes(struct fake_slices *f); /* posts, puts and deletes */

/* What is there, borrowed. NULL if there is none of that name. */
const json_vec *fake_slices_all(struct fake_slices *f);
json_t *fake_slices_get(struct fake_slices *f, const char *name);

/* The first thing that was wrong with the pool after a client's write, or NULL. */
const char *fake_slices_fault(const struct fake_slices *f);

/* The next `n` writes fail. */
void fake_slices_fail(struct fake_slices *f, enum fake_fault fault, unsigned n);

/* Lists are answered with 500 until this is undone. */
void fake_slices_fail_lists(struct fake_slices *f, bool fail);

/* DRAOptionalNodeOperations off: skipNodeOperations is cleared, unless the old object has it. */
void fake_slices_drop_lists(struct fake_slices *f, bool drop);
/* The server of a cluster without the gate DRADeviceTaints. */
void fake_slices_drop_taints(struct fake_slices *f);

/* Called after each write of a client, before the answer: somebody who doesn't agree. */
void fake_slices_on_write(struct fake_slices *f, void (*fn)(const char *name, void *data),
                          void *data);

/* What others do: makes `o` (taken) the slice of that name, or deletes it if `o` is NULL. */
void fake_slices_edit(struct fake_slices *f, const char *name, json_t *o);
void fake_slices_delete_all(struct fake_slices *f);

/* Events are kept back from the watches until this is undone. */
void fake_slices_hold_events(struct fake_slices *f, bool hold);

/* Every connection is closed without an answer. */
void fake_slices_down(struct fake_slices *f, bool down);

/* Ends the watches, and forgets the history, so that they must list again. */
void fake_slices_compact(struct fake_slices *f);
