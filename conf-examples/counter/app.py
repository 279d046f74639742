#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A counter in files, with no lock of its own. Standard library only.

POST /billing/add?account=A, /free/add?account=A   reads a number, waits, writes it plus one
POST /count?key=K      has a section do the same, and answers its result
POST /section          the section
GET  /balance?account=A

Environment: PORT (9000), DURABLE_API (127.0.0.1:8080), FOLDER (counters).
"""
import hashlib
import http.client
import json
import os
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

API = os.environ.get('DURABLE_API', '127.0.0.1:8080')
FOLDER = os.environ.get('FOLDER', 'counters')


def path_of(name):
    return os.path.join(FOLDER, hashlib.sha256(name.encode()).hexdigest())


def read(name):
    try:
        with open(path_of(name)) as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def add_one(name):
    """What nobody may do at the same time as another: read, wait for some other service, write."""
    number = read(name)
    time.sleep(0.03)
    temporary = f'{path_of(name)}.{time.monotonic_ns()}'
    with open(temporary, 'w') as file:
        file.write(str(number + 1))
    os.replace(temporary, path_of(name))
    return number + 1


def run_section(token, operation, params):
    """Waits for its turn in the object's line, and answers what the section did."""
    connection = http.client.HTTPConnection(API, timeout=90)
    connection.request('POST', '/durable/exclusive/' + urllib.parse.quote(operation, safe=''), json.dumps(params),
                       {'Durable-Event': token, 'Content-Type': 'application/json'})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    if response.status != 200:
        raise RuntimeError(f'{answer["code"]}: {answer["message"]}')
    return answer


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        account = dict(urllib.parse.parse_qsl(url.query)).get('account', '')
        self.answer(200, read(account)) if url.path == '/balance' else self.answer(404, 'not found')

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path in ('/billing/add', '/free/add'):
            self.answer(200, add_one(query.get('account', '')))
        elif url.path == '/count':
            self.answer(200, run_section(self.headers['Durable-Event'], 'count', {'name': query.get('key', '')})['number'])
        elif self.headers.get('Durable-Event-Kind') == 'durable-block' and self.headers['Durable-Operation'] == 'count':
            self.answer(200, {'number': add_one(json.loads(body)['name'])})
        else:
            self.answer(404, 'not found')

    def answer(self, status, value):
        text = json.dumps(value).encode() + b'\n'
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *ignored):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 512


if __name__ == '__main__':
    os.makedirs(FOLDER, exist_ok=True)
    Server(('127.0.0.1', int(os.environ.get('PORT', 9000))), Handler).serve_forever()
