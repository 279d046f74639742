#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An event log over SQLite with live readers, by the replay recipe. Standard library only.

GET /events   an event stream: what is stored after Last-Event-ID, then what is published.
POST /events  stores the body and publishes its number.

Environment: PORT (9000), DURABLE_API (127.0.0.1:8080), STORE (events.sqlite).
"""
import http.client
import json
import os
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

API = os.environ.get('DURABLE_API', '127.0.0.1:8080')
STORE = os.environ.get('STORE', 'events.sqlite')
CHANNEL = 'events'


class Event:
    """The host calls of one event, which is one request of a client. Not for two threads."""

    def __init__(self, token):
        self.token = token
        self.connection = http.client.HTTPConnection(API, timeout=60)

    def call(self, method, path, body=None):
        self.connection.request(method, '/durable/' + path, body, {'Durable-Event': self.token})
        response = self.connection.getresponse()
        text = response.read()
        answer = json.loads(text) if text else {}
        if response.status >= 400:
            raise RuntimeError(f'{method} {path}: {answer["code"]}: {answer["message"]}')
        return answer


class Store:
    def __init__(self):
        self.lock = threading.Lock()
        with self.open() as db:
            db.execute('CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL)')

    def open(self):
        return sqlite3.connect(STORE)

    def append(self, text):
        with self.open() as db:
            return db.execute('INSERT INTO events (text) VALUES (?)', (text,)).lastrowid

    def after(self, last_id):
        with self.open() as db:
            return db.execute('SELECT id, text FROM events WHERE id > ? ORDER BY id', (last_id,)).fetchall()


def frame(number, text):
    return f'id: {number}\n' + ''.join(f'data: {line}\n' for line in text.splitlines() or ['']) + '\n'


class Reader:
    """One client's stream."""

    def __init__(self, event, store, last_id):
        self.event, self.store, self.last_id = event, store, last_id
        self.stream = event.call('POST', 'stream')['stream']

    def write(self, text):
        """False once the client has gone."""
        return self.event.call('POST', f'streams/{self.stream}/text', text.encode())['result'] == 0

    def forward_stored(self):
        for number, text in self.store.after(self.last_id):
            if not self.write(frame(number, text)):
                return False
            self.last_id = number
        return True

    def run(self):
        while True:
            # First the subscription, then the log: what is published in between is in both.
            handle = self.event.call('POST', f'channels/{CHANNEL}/subscriptions')['subscription']
            if not self.forward_stored():
                return
            message = self.follow(handle)
            if message is None or message['code'] != 'backlog':
                return  # the client has gone, or the channel was closed
            # It was too slow, and its subscription is over: once more, from what it has.

    def follow(self, handle):
        """Forwards what is published; the message that ended the subscription, or None."""
        while True:
            message = self.event.call('GET', f'subscriptions/{handle}/message?timeout=20000')
            if message['status'] == 2:
                return message
            if message['status'] == 1:
                alive = self.write(': ping\n\n')
            elif int(message['text']) <= self.last_id:
                continue  # it came out of the log already
            else:
                alive = self.forward_stored()
            if not alive:
                return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    store = Store()

    def do_GET(self):
        event = Event(self.headers['Durable-Event'])
        last_id = self.headers.get('Last-Event-ID', '0')
        reader = Reader(event, self.store, int(last_id) if last_id.isdecimal() else 0)
        try:
            reader.run()
        finally:
            # The client has its stream; this answer goes to nobody.
            self.answer(204, None)

    def do_POST(self):
        event = Event(self.headers['Durable-Event'])
        text = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
        # Numbers are published in their order, so that a reader's last one tells all it has.
        with self.store.lock:
            number = self.store.append(text)
            delivered = event.call('POST', f'channels/{CHANNEL}/messages', str(number))['delivered']
        self.answer(201, {'id': number, 'delivered': delivered})

    def answer(self, status, document):
        body = b'' if document is None else json.dumps(document).encode() + b'\n'
        self.send_response(status)
        if body:
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


if __name__ == '__main__':
    Server(('127.0.0.1', int(os.environ.get('PORT', 9000))), Handler).serve_forever()
