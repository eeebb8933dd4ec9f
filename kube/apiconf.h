/* SPDX-License-Identifier: Apache-2.0 */
/* Where the API server is and how to prove who we are: from a kubeconfig or as a pod. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/* Where the kubelet puts a pod's token and CA. */
#define APICONF_POD_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* A credential. The kubelet and others replace the file; `text` is what it last held. */
struct apiconf_part {
    char *file; /* NULL: given as data, never changes */
    char *text; /* NULL: not configured */
};

struct apiconf {
    char *server; /* "https://host:port", no slash at the end */
    struct apiconf_part ca, cert, key, token;
};

/*
 * The current context of the kubeconfig at `path`: server, CA, client certificate or token, each as
 * data or file (relative to the kubeconfig). What can't be honoured (exec, proxy-url ...) is
 * refused, not ignored. The server must be https, or http on the loopback. Blocks on reading files.
 * -EINVAL naming the file and field; the errno of a file that can't be read.
 */
int apiconf_kubeconfig(const char *path, struct apiconf *ret, struct err *e);

/* The service account in `dir` and the server that the kubelet put into our environment. */
int apiconf_pod(const char *dir, struct apiconf *ret, struct err *e);

/*
 * Reads the files again and says whether anything differs. What can't be read or is empty at the
 * moment stays as it was. The files are small and local.
 */
bool apiconf_refresh(struct apiconf *c);

void apiconf_done(struct apiconf *c);
