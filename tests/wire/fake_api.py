# SPDX-License-Identifier: Apache-2.0
"""An API server as far as a node driver needs one: objects, their versions, watches, conflicts."""
import copy
import http.server
import json
import re
import socket
import threading
import urllib.parse
import uuid

PATH = re.compile(r"/(?:api|apis/(?:resource|events)\.k8s\.io)/v1(?:/namespaces/(?P<namespace>[^/]+))?"
                  r"/(?P<resource>nodes|pods|events|resourceslices|resourceclaims|deviceclasses)(?:/(?P<name>[^/]+))?")


class Refused(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.code, self.reason = code, reason


class Api:
    """`listen` makes the server's socket each time that the server comes (back)."""

    def __init__(self, listen):
        self.listen = listen
        self.lock = threading.Condition()  # guards all below
        self.version = 1000
        self.objects = {}  # (resource, namespace, name): object
        self.events = []  # (resource, type, object), what watches are told
        self.requests = []  # "METHOD path"
        self.surprises = []  # requests that no driver has to make
        self.drops_skip = self.drops_taints = False  # as a server does whose gate is off
        self.answers = {}  # path: (status, bytes) instead of the object
        self.silent = set()  # paths that get no answer while they are in it
        self.pages = {}  # path: what happens to its next pages: None, a status, or a change of the document
        self.rest = {}  # token of a list that isn't read to its end: (what was asked, objects)
        self.server = None

    # ---- the cluster's side

    def put(self, resource, o):
        """Makes the object, or replaces one of the same name and keeps what the server sets."""
        with self.lock:
            o = copy.deepcopy(o)
            meta = o["metadata"]
            key = resource, meta.get("namespace"), meta["name"]
            old = self.objects.get(key)
            meta.setdefault("uid", old["metadata"]["uid"] if old else str(uuid.uuid4()))
            self._store(key, "MODIFIED" if old else "ADDED", o)
            return copy.deepcopy(o)

    def delete(self, resource, name, namespace=None):
        with self.lock:
            self._store((resource, namespace, name), "DELETED",
                        self.objects[resource, namespace, name])

    def list(self, resource):
        with self.lock:
            return [copy.deepcopy(o) for (of, *_), o in sorted(self.objects.items(), key=str) if of == resource]

    def count(self, pattern):
        """How many requests there were that match."""
        with self.lock:
            return sum(bool(re.search(pattern, request)) for request in self.requests)

    def speak(self, path):
        with self.lock:
            self.silent.discard(path)
            self.lock.notify_all()

    def _store(self, key, kind, o):
        self.version += 1
        o["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = o
        self.events.append((key[0], kind, copy.deepcopy(o)))
        self.lock.notify_all()

    # ---- coming and going

    def start(self):
        server = Server(("", 0), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = self.listen()
        server.api = self
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.server = server

    def stop(self):
        """As a machine that is switched off: connections end, new ones are refused."""
        if self.server:
            server, self.server = self.server, None
            server.closing = True
            server.shutdown()
            server.server_close()
            with self.lock:
                self.lock.notify_all()
            for connection in list(server.connections):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # ended by itself

    # ---- requests

    def page(self, path, match, query):
        """A list, or a part of it; the caller has the lock. What goes on is a list as it was at its start."""
        fault = (self.pages.get(path) or [None]).pop(0)
        if isinstance(fault, int):
            raise Refused(fault, {410: "Expired", 403: "Forbidden"}.get(fault, "InternalError"), f"page says {fault}")
        asked = {name: query.get(name, "") for name in ("fieldSelector", "limit")}
        if query.get("continue"):
            selectors, items = self.rest[query["continue"]]
            assert selectors == asked["fieldSelector"], "a list goes on as another"
        else:
            items = [o for o in self.list(match["resource"]) if selected(o, asked["fieldSelector"])
                     and match["namespace"] in (None, o["metadata"].get("namespace"))]
        metadata = {"resourceVersion": str(self.version)}
        limit = int(asked["limit"] or 0)
        if limit and len(items) > limit:
            metadata |= {"continue": str(uuid.uuid4()), "remainingItemCount": len(items) - limit}
            self.rest[metadata["continue"]] = asked["fieldSelector"], items[limit:]
            items = items[:limit]
        document = {"metadata": metadata, "items": items}
        return fault(document) if fault else document

    def write(self, method, key, body):
        """POST, PUT and DELETE; the caller has the lock."""
        old = self.objects.get(key)
        if method == "POST":
            key = key[0], key[1], body["metadata"]["name"]
            if key in self.objects:
                raise Refused(409, "AlreadyExists", f"{key[0]} \"{key[2]}\" already exists")
            body["metadata"]["uid"] = str(uuid.uuid4())
        elif old is None:
            raise Refused(404, "NotFound", f"{key[0]} \"{key[2]}\" not found")
        else:
            wanted = body.get("preconditions", {}) if method == "DELETE" else body["metadata"]
            for name in ("uid", "resourceVersion"):
                if wanted.get(name, old["metadata"][name]) != old["metadata"][name]:
                    raise Refused(409, "Conflict", f"{name} is another")
        if method == "DELETE":
            self._store(key, "DELETED", old)
            return old
        if self.drops_skip:
            body.get("spec", {}).pop("skipNodeOperations", None)
        if self.drops_taints:
            for device in body.get("spec", {}).get("devices", []):
                device.pop("taints", None)
        self._store(key, "ADDED" if method == "POST" else "MODIFIED", body)
        return body


def selected(o, selector):
    """A fieldSelector of the form a.b=c,d.e=f."""
    for term in filter(None, selector.split(",")):
        path, wanted = term.split("=")
        value = o
        for part in path.split("."):
            value = value.get(part, {})
        if value != wanted:
            return False
    return True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.connections, self.closing, self.api = set(), False, None

    def handle_error(self, *_):
        """A client that went away is no error of this server."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def setup(self):
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self):
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, *_):
        """Requests are kept, not printed."""

    def serve(self):
        api, url = self.server.api, urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        match = PATH.fullmatch(url.path)
        with api.lock:
            api.requests.append(f"{self.command} {url.path}{'?watch' if 'watch' in query else ''}")
            while url.path in api.silent and not self.server.closing:
                api.lock.wait()
            if url.path in api.answers:
                self.answer(*api.answers[url.path])
                return
            if not match or self.command not in ("GET", "POST", "PUT", "DELETE"):
                api.surprises.append(api.requests[-1])
                self.refuse(Refused(404, "NotFound", "no such path"))
                return
            key = match["resource"], match["namespace"], match["name"]
            try:
                if self.command != "GET":
                    self.answer(200, json.dumps(api.write(self.command, key, body)).encode())
                elif key[2]:
                    if key not in api.objects:
                        raise Refused(404, "NotFound", f"{key[0]} \"{key[2]}\" not found")
                    self.answer(200, json.dumps(api.objects[key]).encode())
                elif "watch" in query:
                    self.watch(key[0], query)
                else:
                    self.answer(200, json.dumps(api.page(url.path, match, query)).encode())
            except Refused as refused:
                self.refuse(refused)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = serve  # pylint: disable=invalid-name

    def refuse(self, why):
        self.answer(why.code, json.dumps({"kind": "Status", "status": "Failure", "code": why.code,
                                          "reason": why.reason, "message": str(why)}).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, resource, query):
        """With the lock, which is free while nothing happens."""
        api, since, seen = self.server.api, int(query["resourceVersion"]), 0
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        while not self.server.closing:
            for of, kind, o in api.events[seen:]:
                if of == resource and int(o["metadata"]["resourceVersion"]) > since and \
                        selected(o, query.get("fieldSelector", "")):
                    line = json.dumps({"type": kind, "object": o}).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            seen = len(api.events)
            api.lock.wait()
