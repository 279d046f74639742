#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Long jobs that report their progress as an event stream. Standard library only.

GET /job?steps=N    does N steps of work and streams `progress` events, then `done`. A client that
                    leaves cancels its job. &fail=K: step K fails, and the stream is cut off.
GET /jobs           what became of the jobs, as JSON.

Environment: PORT (9000), DURABLE_API (127.0.0.1:8080), STEP (0.1: seconds of work a step takes).
"""
import http.client
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

API = os.environ.get('DURABLE_API', '127.0.0.1:8080')
STEP = float(os.environ.get('STEP', '0.1'))
jobs = []
jobs_lock = threading.Lock()


class Stream:
    """The event stream that answers one request: its host calls over one connection."""

    def __init__(self, token):
        self.token = token
        self.connection = http.client.HTTPConnection(API, timeout=600)
        self.handle = self.call('POST', 'stream', json.dumps({'headers': [['X-Accel-Buffering', 'no']]}))['stream']

    def call(self, method, path, body=None):
        self.connection.request(method, '/durable/' + path, body, {'Durable-Event': self.token})
        response = self.connection.getresponse()
        text = response.read()
        answer = json.loads(text) if text else {}
        if response.status >= 400:
            raise RuntimeError(f'{method} {path}: {answer["code"]}: {answer["message"]}')
        return answer

    def send(self, event, **data):
        """False once the client has gone. A client that reads slowly makes this wait."""
        text = f'event: {event}\ndata: {json.dumps(data)}\n\n'
        return self.call('POST', f'streams/{self.handle}/text', text.encode())['result'] == 0

    def is_watched(self):
        """For work that has nothing to say: asks without waiting."""
        return not self.call('GET', f'streams/{self.handle}')['disconnected']

    def end(self):
        self.call('POST', f'streams/{self.handle}/end')

    def abort(self, reason):
        self.call('POST', f'streams/{self.handle}/abort', reason.encode())


def run_job(stream, steps, fails_at):
    for step in range(1, steps + 1):
        if step == fails_at:
            raise RuntimeError(f'step {step} has failed')
        time.sleep(STEP / 2)
        if not stream.is_watched():
            return f'cancelled in step {step}'
        time.sleep(STEP / 2)
        if not stream.send('progress', step=step, of=steps):
            return f'cancelled after step {step}'
    stream.send('done', steps=steps)
    return 'done'


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def answer(self, status, body=b''):
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urlsplit(self.path)
        arguments = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == '/jobs':
            with jobs_lock:
                return self.answer(200, json.dumps(jobs).encode())
        if url.path != '/job':
            return self.answer(404, b'{}')
        steps = min(int(arguments.get('steps', '50')), 10000)
        stream = Stream(self.headers['Durable-Event'])
        try:
            outcome = run_job(stream, steps, int(arguments.get('fail', '0')))
            stream.end()
        except RuntimeError as error:
            outcome = str(error)
            stream.abort(outcome)
        # The client's leaving has not cut anything off: this is where a job tidies up.
        with jobs_lock:
            jobs.append({'steps': steps, 'outcome': outcome})
            del jobs[:-100]
        # The client has its answer, the stream. This one ends the event and reaches nobody.
        self.answer(200)


if __name__ == '__main__':
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(('127.0.0.1', int(os.environ.get('PORT', '9000'))), Handler).serve_forever()
