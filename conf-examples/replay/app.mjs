// SPDX-License-Identifier: BSD-2-Clause
// An event log over a file with live readers, by the replay recipe. Node, no packages.
//
// GET /events   an event stream: what is stored after Last-Event-ID, then what is published.
// POST /events  stores the body and publishes its number.
//
// Environment: PORT (9000), DURABLE_API (127.0.0.1:8080), STORE (events.jsonl).
import fs from 'node:fs';
import http from 'node:http';

const [apiHost, apiPort] = (process.env.DURABLE_API ?? '127.0.0.1:8080').split(':');
const agent = new http.Agent({ keepAlive: true });
const channel = 'events';

// One host call of the event that `token` stands for.
async function call(token, method, path, body) {
    const response = await new Promise((resolve, reject) => {
        http.request({ host: apiHost, port: apiPort, agent, method, path: '/durable/' + path,
            headers: { 'Durable-Event': token, 'Content-Length': Buffer.byteLength(body ?? '') } }, resolve)
            .on('error', reject).end(body);
    });
    const text = await read(response);
    const answer = text === '' ? {} : JSON.parse(text);
    if (response.statusCode >= 400) throw new Error(`${method} ${path}: ${answer.code}: ${answer.message}`);
    return answer;
}

async function read(stream) {
    const parts = [];
    for await (const part of stream) parts.push(part);
    return Buffer.concat(parts).toString();
}

// The log: a line of JSON for each event, its number being that of the line.
class Store {
    constructor(path) {
        this.file = fs.openSync(path, 'a+');
        this.texts = fs.readFileSync(path, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line));
    }

    append(text) {
        fs.writeSync(this.file, JSON.stringify(text) + '\n');
        fs.fsyncSync(this.file);
        return this.texts.push(text);
    }

    after(lastId) {
        return this.texts.slice(lastId).map((text, i) => [lastId + 1 + i, text]);
    }
}
const store = new Store(process.env.STORE ?? 'events.jsonl');

function frame(number, text) {
    return `id: ${number}\n` + text.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`).join('') + '\n';
}

// One client's stream.
class Reader {
    constructor(token, lastId) {
        this.token = token;
        this.lastId = lastId;
    }

    // False once the client has gone.
    async write(text) {
        return (await call(this.token, 'POST', `streams/${this.stream}/text`, text)).result === 0;
    }

    async forwardStored() {
        for (const [number, text] of store.after(this.lastId)) {
            if (!await this.write(frame(number, text))) return false;
            this.lastId = number;
        }
        return true;
    }

    async run() {
        this.stream = (await call(this.token, 'POST', 'stream')).stream;
        for (;;) {
            // First the subscription, then the log: what is published in between is in both.
            const handle = (await call(this.token, 'POST', `channels/${channel}/subscriptions`)).subscription;
            if (!await this.forwardStored()) return;
            // Too slow, and the subscription is over: once more, from what it has. Anything else is the end.
            if (await this.follow(handle) !== 'backlog') return;
        }
    }

    // Forwards what is published, until the subscription or the client is gone; says why.
    async follow(handle) {
        for (;;) {
            const message = await call(this.token, 'GET', `subscriptions/${handle}/message?timeout=20000`);
            if (message.status === 2) return message.code;
            if (message.status === 0 && Number(message.text) <= this.lastId) continue;  // it came out of the log
            const isAlive = message.status === 1 ? await this.write(': ping\n\n') : await this.forwardStored();
            if (!isAlive) return 'gone';
        }
    }
}

// Numbers are published in their order, so that a reader's last one tells all it has.
let published = Promise.resolve();

function append(token, text) {
    const done = published.then(async () => {
        const id = store.append(text);
        const { delivered } = await call(token, 'POST', `channels/${channel}/messages`, String(id));
        return { id, delivered };
    });
    published = done.catch(() => {});
    return done;
}

const server = http.createServer(async (request, response) => {
    const token = request.headers['durable-event'];
    try {
        if (request.method === 'POST') {
            const answer = await append(token, await read(request));
            response.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer) + '\n');
        } else {
            await new Reader(token, Number(request.headers['last-event-id']) || 0).run();
            response.writeHead(204).end();  // the client has its stream; this goes to nobody
        }
    } catch (error) {
        console.error(error.message);
        response.writeHead(500).end();
    }
});
server.requestTimeout = 0;
server.listen(Number(process.env.PORT ?? 9000), '127.0.0.1');
