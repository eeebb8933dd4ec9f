/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

/* Before a gRPC message: not compressed, and its length. */
#define PREFIX_SIZE 5

static size_t collect(char *bytes, size_t size, size_t n, void *data)
{
    strbuf_add(data, bytes, size * n);
    return size * n;
}

static struct curl_blob blob(const char *text)
{
    return (struct curl_blob){.data = (void *)(uintptr_t)text, .len = strlen(text)};
}

void client_set_up(const struct client *c, CURL *curl, const char *path)
{
    _cleanup_free_ char *url = xasprintf("%s%s", c->conf.server, path);
    struct curl_blob ca = blob(c->conf.ca.text ? c->conf.ca.text : "");

    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, c->headers);
    if (ca.len)
        curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &ca);
    if (c->conf.cert.text && c->conf.key.text) {
        struct curl_blob cert = blob(c->conf.cert.text), key = blob(c->conf.key.text);

        curl_easy_setopt(curl, CURLOPT_SSLCERT_BLOB, &cert);
        curl_easy_setopt(curl, CURLOPT_SSLKEY_BLOB, &key);
    }
}

int client_open(const char *kubeconfig, struct client *ret, struct err *e)
{
    struct client c = {0};
    int r = apiconf_kubeconfig(kubeconfig, &c.conf, e);

    if (r < 0)
        return r;
    c.headers = curl_slist_append(NULL, "Content-Type: application/json");
    c.headers = curl_slist_append(c.headers, "Accept: application/json");
    c.curl = curl_easy_init();
    *ret = c;
    return 0;
}

void client_done(struct client *c)
{
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    apiconf_done(&c->conf);
    *c = (struct client){0};
}

int client_send(struct client *c, const char *method, const char *path, const char *body,
                json_t **ret, struct err *e)
{
    _cleanup_(strbuf_done) struct strbuf answer = {0};
    long status = 0;

    curl_easy_reset(c->curl); /* keeps the connection */
    client_set_up(c, c->curl, path);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
    if (body)
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &answer);
    CURLcode code = curl_easy_perform(c->curl);
    if (code != CURLE_OK)
        return err_set(e, ERR_TRANSIENT, -EIO, "%s %s: %s", method, path, curl_easy_strerror(code));
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status / 100 != 2)
        return err_set(e, ERR_PERMANENT, -EREMOTEIO, "%s %s: %ld %s", method, path, status,
                       answer.s ? answer.s : "");
    if (!ret)
        return 0;
    return json_parse(answer.s ? answer.s : "", answer.len, ret, e);
}

static size_t take_header(char *bytes, size_t size, size_t n, void *data)
{
    static const char name[] = "grpc-status:";
    struct rpc *r = data;
    size_t len = size * n, skip = sizeof(name) - 1;

    if (len > skip && strncasecmp(bytes, name, skip) == 0) {
        _cleanup_free_ char *value = xstrndup(bytes + skip, len - skip);

        snprintf(r->status, sizeof(r->status), "%s", str_chomp(value + strspn(value, " ")));
    }
    return len;
}

int rpc_open(const char *socket, struct rpc *ret, struct err *e)
{
    struct rpc r = {.curl = curl_easy_init()};

    if (!(curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_HTTP2)) {
        curl_easy_cleanup(r.curl);
        return err_set(e, ERR_PERMANENT, -EOPNOTSUPP, "this libcurl has no HTTP/2");
    }
    r.headers = curl_slist_append(NULL, "Content-Type: application/grpc");
    r.headers = curl_slist_append(r.headers, "TE: trailers");
    curl_easy_setopt(r.curl, CURLOPT_UNIX_SOCKET_PATH, socket);
    curl_easy_setopt(r.curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
    curl_easy_setopt(r.curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(r.curl, CURLOPT_HTTPHEADER, r.headers);
    curl_easy_setopt(r.curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(r.curl, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(r.curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(r.curl, CURLOPT_WRITEFUNCTION, collect);
    *ret = r;
    return 0;
}

void rpc_done(struct rpc *r)
{
    curl_easy_cleanup(r->curl);
    curl_slist_free_all(r->headers);
    *r = (struct rpc){0};
}

int rpc_call(struct rpc *r, const char *method, const void *message, size_t len, struct strbuf *ret,
             struct err *e)
{
    _cleanup_free_ char *url = xasprintf("http://localhost%s", method);
    _cleanup_(strbuf_done) struct strbuf request = {0}, answer = {0};
    uint32_t size = htonl((uint32_t)len);

    strbuf_putc(&request, 0);
    strbuf_add(&request, &size, sizeof(size));
    strbuf_add(&request, message, len);
    r->status[0] = '\0';
    curl_easy_setopt(r->curl, CURLOPT_URL, url);
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDSIZE, (long)request.len);
    curl_easy_setopt(r->curl, CURLOPT_POSTFIELDS, request.s);
    curl_easy_setopt(r->curl, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, &answer);
    CURLcode code = curl_easy_perform(r->curl);
    if (code != CURLE_OK)
        return err_set(e, ERR_TRANSIENT, -EIO, "%s: %s", method, curl_easy_strerror(code));
    if (!streq(r->status, "0") || answer.len < PREFIX_SIZE)
        return err_set(e, ERR_PERMANENT, -EREMOTEIO, "%s: gRPC status \"%s\", %zu bytes", method,
                       r->status, answer.len);
    strbuf_add(ret, answer.s + PREFIX_SIZE, answer.len - PREFIX_SIZE);
    return 0;
}
